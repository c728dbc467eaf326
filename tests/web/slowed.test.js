import assert from "node:assert/strict";
import { test } from "node:test";
import { sourcesOf } from "../../web/js/cards.js";
import { ASKED, REASONS, heldBy, isTold, slowedFigure } from "../../web/js/charts/slowed.js";
import { textOf } from "../../web/js/dom.js";
import { slowedCard } from "../../web/js/panels/slowed.js";
import { initialState, parseRoute } from "../../web/js/store.js";
import { palette, series, summary } from "./shapes.js";

const range = { start: 1400, end: 1700 };
const base = { epochs: [], findings: [], range, width: 1000 };
/** @param {any} node */
const text = (node) => textOf(node).replace(/\u202f|\u00a0/g, " ");
const none = Object.fromEntries(ASKED.map((metric) => [metric, series([0, 0])]));
const hot = {
  ...none,
  gpu_slowed_software_thermal_ratio: series([0, 0.5]),
  gpu_slowed_power_cap_ratio: series([1, null]),
};

test("a row per reason that held, as high as its share of the time, each with a pattern of its own", () => {
  assert.deepEqual(heldBy(hot).map((r) => r.metric), [
    "gpu_slowed_software_thermal_ratio",
    "gpu_slowed_power_cap_ratio",
  ]);
  const { data, layout } = slowedFigure({ ...base, data: hot }, palette);
  assert.deepEqual(layout.yaxis.ticktext, ["heat", "cap"]);
  const heights = (/** @type {any} */ d) => d.y.map((/** @type {number} */ v) => Math.round(v * 100));
  assert.deepEqual(
    data.map(heights),
    [
      [92, 92, 92, 92],
      [92, 92, 50, 92],
      [192, 192, 192],
      [192, 108, 192],
    ],
    "each stands on the floor of its row",
  );
  assert.deepEqual(data.map((d) => d.fill), [undefined, "tonexty", undefined, "tonexty"]);
  assert.equal(new Set(REASONS.map((r) => r.shape)).size, REASONS.length);
});

test("no reason at all differs from no known reason", () => {
  const state = {
    ...initialState(),
    route: parseRoute("#/runs/r/ranks/0"),
    summary: summary(),
    link: /** @type {const} */ ("live"),
    clock: 1600,
  };
  const held = (/** @type {any} */ data) => ({
    ...state,
    cards: { slowed: { data, range, error: null, loaded_at: 0 } },
  });
  const unknown = Object.fromEntries(ASKED.map((metric) => [metric, series([null])]));
  assert.ok(isTold(none) && !isTold(unknown) && !isTold(null));
  assert.match(text(slowedCard(held(none))), /Nothing held its clock down/);
  assert.match(text(slowedCard(held(unknown))), /Not known in this range/);
  assert.match(
    text(slowedCard(held(hot))),
    /software thermal slowdown 25 %.*power cap 100 %.*means of the time in view/,
  );
  assert.equal(
    slowedCard({ ...held(hot), summary: { ...summary(), gpu_utilization_ratio: null, ranks: [] } }),
    null,
  );
});

test("on a rank's page the GPUs of its host are asked for", () => {
  /** @param {string} hash */
  const asks = (hash) => {
    const state = { ...initialState(), route: parseRoute(hash), summary: summary() };
    return sourcesOf(state).find((s) => s.id === "gpus")?.asks(state);
  };
  assert.deepEqual([asks("#/runs/r"), asks("#/runs/r/ranks/1")], ["null", "gpu01"]);
});
