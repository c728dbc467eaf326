import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ago,
  bytes,
  clock,
  clockBare,
  count,
  duration,
  evidence,
  listed,
  number,
  percent,
} from "../../web/js/format.js";
import { scope } from "../../web/js/panels/alerts.js";

import { fromAxis, toAxis } from "../../web/js/charts/axis.js";
import { drawIn } from "../../web/js/reader.js";
import { useUtc } from "../../web/js/zone.js";

/** Ordinary spaces instead of thin ones, which are hard to read in tests. @param {string} s */
const plain = (s) => s.replace(/\u202f|\u00a0/g, " ");

test("unknown is a dash, never a zero", () => {
  for (const f of [percent, number, count, duration, ago, bytes]) {
    assert.equal(f(null), "–");
    assert.equal(f(undefined), "–");
    assert.equal(f(Number.NaN), "–");
  }
  assert.equal(evidence({ label: "x", value: null, unit: "s" }), "–");
  assert.equal(clock(null, 0), "–");
});

test("zero is a number", () => {
  assert.equal(plain(percent(0)), "0 %");
  assert.equal(number(0), "0");
  assert.equal(plain(duration(0)), "0 s");
  assert.equal(plain(bytes(0)), "0 B");
});

test("percent keeps a digit where it matters", () => {
  assert.equal(plain(percent(0.541)), "54 %");
  assert.equal(plain(percent(0.034)), "3.4 %");
  assert.equal(plain(percent(0.0996)), "10 %");
  assert.equal(plain(percent(1)), "100 %");
});

test("durations choose their unit and never print 1000 ms or 60 s as something odd", () => {
  const cases = [
    [1.4e-5, "14 µs"],
    [0.0009996, "1.0 ms"],
    [0.0041, "4.1 ms"],
    [0.00996, "10 ms"],
    [0.0452, "45 ms"],
    [0.9996, "1.0 s"],
    [1.44, "1.4 s"],
    [9.96, "10 s"],
    [71.2, "71 s"],
    [119.6, "2 min"],
    [600, "10 min"],
    [3 * 3600 + 300, "3 h 05 min"],
    [80 * 3600, "3 days"],
    [-2, "-2.0 s"],
  ];
  for (const [s, text] of cases) assert.equal(plain(duration(/** @type {number} */ (s))), text);
});

test("numbers", () => {
  assert.deepEqual([9.734, 97.34, 973.4, 12345, 0.5, 0.00123].map(number), [
    "9.73",
    "97.3",
    "973",
    "12,345",
    "0.50",
    "0.0012",
  ]);
  assert.equal(count(18204), "18,204");
  assert.equal(plain(bytes(3.1e8)), "296 MiB");
  assert.equal(plain(bytes(1023.6 * 1024)), "1.0 MiB");
});

test("ages are coarse", () => {
  assert.deepEqual([1, 13, 61, 7200, 200000].map((s) => plain(ago(s))), [
    "just now",
    "10 s ago",
    "1 min ago",
    "2 h ago",
    "2 days ago",
  ]);
});

test("clock names the day only when it is another", () => {
  const t = new Date(2026, 0, 15, 14, 3, 22).getTime() / 1000;
  assert.equal(clockBare(t, t + 60), "14:03:22");
  assert.match(clockBare(t, t + 3 * 86400), /15.*14:03$/);
  assert.equal(clockBare(null, 0), "–");
});

test("a time says its zone: the reader's own, or UTC", () => {
  const t = Date.UTC(2026, 0, 15, 14, 3, 22) / 1000;
  assert.match(plain(clock(t, t)), /^\d\d:\d\d:22 \S+/);
  useUtc(true);
  assert.equal(plain(clock(t, t + 60)), "14:03:22 UTC");
  assert.match(plain(clock(t, t + 3 * 86400)), /15.*, 14:03 UTC$/);
  assert.equal(toAxis(t), t * 1000);
  assert.equal(fromAxis(toAxis(t)), t);
  useUtc(false);
});

test("evidence in its unit", () => {
  const shown = [
    ["ratio", 0.541],
    ["s", 0.126],
    ["bytes", 2048],
    ["per_s", 9.7],
    ["index", 18432],
    ["count", 2],
    ["text", "S (sleeping)"],
  ];
  assert.deepEqual(
    shown.map(([unit, value]) =>
      plain(evidence({ label: "", unit: /** @type {string} */ (unit), value: /** @type {any} */ (value) })),
    ),
    ["54 %", "126 ms", "2.0 KiB", "9.70/s", "18432", "2", "S (sleeping)"],
  );
});

test("lists", () => {
  assert.deepEqual(["a", "a b", "a b c d", "a b c d e"].map((words) => listed(words.split(" "))), [
    "a",
    "a and b",
    "a, b, c and d",
    "a, b, c and 2 more",
  ]);
  assert.equal(listed(["a", "b", "c", "d"], 2), "a, b and 2 more");
  assert.equal(listed(["a", "b"], 2, 1024), "a, b and 1,022 more");
  assert.deepEqual(
    [
      ["a", "b"],
      ["a", "b", "c", "d", "e"],
    ].map((words) => listed(words, 3, undefined, "zh")),
    ["a 和 b", "a、b、c 和另外 2 个"],
  );
});

test("units and words of the page's language", () => {
  assert.deepEqual(
    [
      duration(0.0452, "zh"),
      duration(3 * 3600 + 300, "zh"),
      percent(0.541, "zh"),
      ago(1, "zh"),
      ago(90, "zh"),
    ].map(plain),
    ["45 毫秒", "3 小时 05 分", "54%", "刚刚", "1 分钟前"],
  );
  drawIn("zh");
  assert.deepEqual([duration(2), percent(1)].map(plain), ["2.0 秒", "100%"]);
  drawIn("en");
});

test("scope of a finding", () => {
  const f = /** @type {any} */ ({ rank: 1, worker: 2, sample_indices: [18432] });
  assert.deepEqual(scope(f), ["rank 1", "worker 2", "sample 18432"]);
  assert.deepEqual(scope({ ...f, rank: null, worker: -1, sample_indices: [] }), ["main process"]);
  assert.deepEqual(scope({ ...f, worker: null, sample_indices: [1, 2] }).map(plain), ["rank 1", "2 samples"]);
});
