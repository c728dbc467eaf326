// The list of runs, the address of a view, CSV, and the page of two runs.

import assert from "node:assert/strict";
import test from "node:test";

import { frozenHash, parseSeen, seenQuery } from "../../web/js/address.js";
import { goesOn } from "../../web/js/compare.js";
import { csvOf } from "../../web/js/csv.js";
import { textOf } from "../../web/js/dom.js";
import { shownRuns, stateCounts, wholeList } from "../../web/js/listing.js";
import { changeOf, comparePage, lineOf } from "../../web/js/panels/compare.js";
import { runsPage } from "../../web/js/panels/runs.js";
import { initialState, navigated, pairHash, parseRoute, streamed } from "../../web/js/store.js";
import { finding, series, summary } from "./shapes.js";

const act = /** @type {any} */ ({});
/**
 * @param {string} run_id @param {Partial<import("../../web/js/types.js").RunRow>} [more]
 * @returns {import("../../web/js/types.js").RunRow}
 */
const row = (run_id, more = {}) => ({
  run_id,
  name: "train.py",
  state: "finished",
  started_at: 100,
  last_seen_at: 200,
  world_size: 1,
  hosts: ["gpu01"],
  steps: 10,
  attempts: 1,
  verdict: "Fine",
  severity: "ok",
  script: "train.py",
  tags: [],
  note: "",
  pinned: false,
  ...more,
});
/**
 * @param {import("../../web/js/types.js").RunRow[]} runs
 * @param {Partial<import("../../web/js/listing.js").Listing>} listing
 */
const ids = (runs, listing) => shownRuns(runs, { ...wholeList(), ...listing }).map((run) => run.run_id);
/** @param {any} node */
const text = (node) => textOf(node).replace(/[\u202f\u00a0\s]+/g, " ");

const RUNS = [
  row("old", { started_at: 1, state: "hung", severity: "critical", steps: 99 }),
  row("mid", { started_at: 2, tags: ["Baseline"], note: "lr too high", name: "a name" }),
  row("new", { started_at: 3, state: "live", hosts: ["gpu07"], last_seen_at: 100 }),
];

test("a run must match every word, in any of its fields", () => {
  assert.deepEqual(ids(RUNS, { query: "#base" }), ["mid"]);
  assert.deepEqual(ids(RUNS, { query: "HIGH name" }), ["mid"]);
  assert.deepEqual(ids(RUNS, { query: "gpu07" }), ["new"]);
  assert.deepEqual(ids(RUNS, { query: "train.py" }), ["new", "mid", "old"]);
  assert.deepEqual(ids(RUNS, { query: "gpu07 high" }), []);
});

test("filtered by state, sorted, pinned first", () => {
  assert.deepEqual(ids(RUNS, { states: ["hung", "live"] }), ["new", "old"]);
  assert.deepEqual(ids(RUNS, { sort: "trouble" }), ["old", "new", "mid"]);
  assert.deepEqual(ids(RUNS, { sort: "steps" }), ["old", "new", "mid"]);
  assert.deepEqual(ids(RUNS, { sort: "nonsense" }), ["new", "mid", "old"]);
  assert.deepEqual(ids([...RUNS, row("kept", { started_at: 0, pinned: true })], { sort: "newest" }), [
    "kept",
    "new",
    "mid",
    "old",
  ]);
  assert.deepEqual(stateCounts(RUNS, "gpu01"), { hung: 1, finished: 1 });
});

test("an answer of an older server has no labels", () => {
  const { tags: _t, note: _n, pinned: _p, script: _s, ...old } = row("old");
  assert.deepEqual(ids([/** @type {any} */ (old)], { query: "train" }), ["old"]);
  assert.match(
    text(runsPage({ ...initialState(), runs: [/** @type {any} */ (old)] }, act)),
    /1 run, none going on.*train\.py/,
  );
});

test("the list says what it leaves out, and shows tags and note", () => {
  const state = { ...initialState(), runs: RUNS };
  assert.match(text(runsPage(state, act)), /Live 1 Hung 1 Finished 1.*#Baseline lr too high/);
  assert.match(
    text(runsPage({ ...state, listing: { ...wholeList(), query: "zz" } }, act)),
    /No run is like that 3 runs in all\. Show all/,
  );
  assert.match(text(runsPage({ ...state, picked: ["old"] }, act)), /pick another run to compare/);
  assert.match(text(runsPage({ ...state, picked: ["mid", "new"] }, act)), /Compare a name with train\.py/);
});

test("the dialog says why a run cannot be deleted", () => {
  const contents = {
    run_id: "mid",
    name: "a name",
    bytes: 2048,
    seconds: 60,
    steps: 10,
    attempts: 1,
    alerts: 2,
    reporting: true,
    may_change: true,
    may_delete: true,
  };
  const at = (/** @type {any} */ more, deleting = false) =>
    text(
      runsPage(
        {
          ...initialState(),
          runs: RUNS,
          editing: { run: "mid", contents: { ...contents, ...more }, deleting, error: "" },
        },
        act,
      ),
    );
  assert.match(at({}), /It is reporting; end its processes/);
  assert.match(at({ may_delete: false }), /Deleting takes the owner's token/);
  assert.match(at({ may_change: false }), /Changing this takes the owner's token/);
  assert.match(
    at({ reporting: false }, true),
    /2\.0 KiB of records over 60 s 10 steps 2 alerts its name, tags and note.*write its name: a name/,
  );
});

// ---- the address ------------------------------------------------------------------------------------------

test("routes do not see the query, and two runs have a page", () => {
  assert.deepEqual(parseRoute("#/runs/r/ranks/3?from=1&to=5"), parseRoute("#/runs/r/ranks/3"));
  assert.deepEqual(parseRoute(pairHash("a b", "c/d")).pair, ["a b", "c/d"]);
  assert.equal(parseRoute("#/compare/a").page, "runs");
});

test("the address restores the view, and the view writes the address", () => {
  for (const [hash, query] of [
    ["#/runs/r?from=1500&to=1560.5&rank=1", "from=1500&to=1560.5&rank=1"],
    ["#/runs/r?last=900", "last=900"],
    ["#/runs/r?range=all", "range=all"],
    ["#/?q=gpu+07&state=live%2Chung&sort=name", "q=gpu+07&state=live%2Chung&sort=name"],
    ["#/runs/r?from=5&to=5", ""],
    ["#/runs/r?from=x&to=1e99&rank=-1&last=1", ""],
    ["#/?state=happy&sort=up", ""],
    ["#/runs/r", ""],
  ]) {
    const { seen } = parseSeen(hash ?? "");
    const state = { ...navigated(initialState(), parseRoute(hash ?? "")), ...seen };
    assert.equal(seenQuery(state), query);
  }
});

test("an ended run opens in the range of the link, else as a whole", () => {
  const over = {
    summary: summary({ state: "finished" }),
    findings: [],
    findings_changed: true,
    newest_at: 1600,
  };
  const at = (/** @type {string} */ hash) =>
    streamed({ ...navigated(initialState(), parseRoute(hash)), ...parseSeen(hash).seen }, over, 0).view;
  assert.deepEqual(at("#/runs/r?from=1500&to=1560"), { kind: "fixed", start: 1500, end: 1560 });
  assert.deepEqual(at("#/runs/r?last=900"), { kind: "last", span_s: 900 });
  assert.deepEqual(at("#/runs/r"), { kind: "all" });
});

test("a link to a rank that is not there shows another", () => {
  const message = { summary: summary(), findings: [], findings_changed: true, newest_at: 1600 };
  const at = (/** @type {string} */ hash) =>
    streamed({ ...navigated(initialState(), parseRoute(hash)), ...parseSeen(hash).seen }, message, 0).rank;
  assert.deepEqual([at("#/runs/r?rank=0"), at("#/runs/r?rank=77"), at("#/runs/r")], [0, 1, 1]);
});

test("an unfolded alert is in the address, unless the path names it", () => {
  const state = {
    ...initialState(),
    route: parseRoute("#/runs/r"),
    summary: summary(),
    findings: [finding()],
    open: { f1: true },
  };
  assert.equal(seenQuery(state), "alert=f1");
  assert.equal(seenQuery({ ...state, route: parseRoute("#/runs/r/findings/f1") }), "");
  assert.equal(parseSeen("#/runs/r?alert=f1").alert, "f1");
});

test("a link to send does not move on", () => {
  const state = {
    ...initialState(),
    route: parseRoute("#/runs/r"),
    summary: summary(),
    newest_at: 1600,
    rank: 1,
  };
  assert.equal(frozenHash(state, "#/runs/r?last=300"), "#/runs/r?from=1300&to=1600&rank=1");
  assert.equal(frozenHash({ ...state, summary: null }, "#/runs/r"), "#/runs/r");
});

// ---- CSV --------------------------------------------------------------------------------------------------

test("a chart as a table", () => {
  assert.equal(
    csvOf(series([1, null], { metric: "wait_s" })),
    "time,unix_s,wait_s_mean,wait_s_min,wait_s_max\r\n" +
      "1970-01-01T00:25:00.000Z,1500,1,1,1\r\n" +
      "1970-01-01T00:25:01.000Z,1501,,,\r\n",
  );
  const several = csvOf({ a: series([1]), b: series([2, 3]) })?.split("\r\n");
  assert.equal(several?.[0], "time,unix_s,a_mean,a_min,a_max,b_mean,b_min,b_max");
  assert.equal(several?.[2], "1970-01-01T00:25:01.000Z,1501,,,,3,3,3");
  assert.equal(
    csvOf({ ranks: [0, 4], t: [10], values: [[0.5], [null]], metric: "m" }),
    "time,unix_s,rank_0,rank_4\r\n1970-01-01T00:00:10.000Z,10,0.5,\r\n",
  );
  assert.equal(
    csvOf({ fetches: { worker: [0, 1], began_at: [1, 2] }, workers: [], at: 3 }),
    "worker,began_at\r\n0,1\r\n1,2\r\n",
  );
  assert.equal(csvOf(null), null);
  assert.equal(csvOf({ nothing: 1 }), null);
});

test("no cell is a formula, and none breaks its row", () => {
  assert.equal(
    csvOf({ name: ["=1+1", 'a "b", c'], n: [-1, 2] }),
    "name,n\r\n'=1+1,-1\r\n\"a \"\"b\"\", c\",2\r\n",
  );
});

// ---- two runs ---------------------------------------------------------------------------------------------

/** @type {any} */
const run = {
  run_id: "a",
  name: "slow",
  state: "finished",
  started_at: 0,
  began_at: 6,
  seconds: 108,
  world_size: 1,
  steps: 1200,
};
/** @type {any} */
const speed = {
  measure: "steps_per_s",
  label: "Steps per second",
  unit: "per_s",
  a: { mean: 10, low: 9, high: 11, values: 50 },
  b: { mean: 16, low: 15, high: 17, values: 50 },
  change: 0.6,
  change_low: 0.55,
  change_high: 0.65,
  judgement: "better",
  said: "more than noise: better",
};
/** @type {any} */
const wait = {
  ...speed,
  measure: "data_wait_ratio",
  label: "Data wait",
  unit: "ratio",
  a: { mean: 0.5, low: null, high: null, values: 2 },
  b: null,
  change: -0.4,
  change_low: null,
  change_high: null,
  judgement: "unknown",
  said: "too little",
};
/** @type {any} */
const data = {
  a: run,
  b: { ...run, run_id: "b", name: "quick" },
  title: "B is 60 % faster",
  judgement: "better",
  notes: ["A note"],
  settings: [{ where: "train_loader", what: "num_workers", a: "2", b: null }],
  measures: [speed, wait],
};

test("the page of two runs", () => {
  const state = { ...initialState(), route: parseRoute("#/compare/a/b") };
  assert.match(
    text(
      comparePage({
        ...state,
        comparison: { pair: ["a", "b"], data: null, courses: null, error: "no such run" },
      }),
    ),
    /cannot be compared no such run All runs/,
  );
  const courses = /** @type {any} */ ([
    { steps_per_s: series([10, null, 9]) },
    { steps_per_s: series([16]) },
  ]);
  const shown = text(comparePage({ ...state, comparison: { pair: ["a", "b"], data, courses, error: null } }));
  assert.match(
    shown,
    /A slow Finished.*B quick Finished.*B is 60 % faster A note.*train_loader num_workers 2 –/,
  );
  assert.match(shown, /Steps per second 10\/s 16\/s \+60 % \+55 % to \+65 % more than noise: better/);
  assert.match(shown, /Data wait 50 % – −40\.0 points too little/);
  assert.doesNotMatch(
    text(comparePage({ ...state, comparison: { pair: ["b", "a"], data, courses, error: null } })),
    /quick/,
    "that of another pair is not shown",
  );
});

test("a line breaks where nothing is known", () => {
  assert.equal(lineOf([[0, 1], [1, null], [2, 0.5], [3, 0]], 3, 1), "M0.0 8.0M400.0 84.0L600.0 160.0");
  assert.equal(changeOf({ ...speed, change: null }), "–");
});

test("only a pair of which one runs is asked for again", () => {
  const of = (/** @type {any} */ state) =>
    goesOn({ pair: ["a", "b"], data: { ...data, b: { ...run, state } }, courses: null, error: null });
  assert.deepEqual([of("live"), of("hung"), of("finished"), goesOn(null)], [true, true, false, false]);
});
