// Ranks: rows from the stream, and rows from answers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { asksOfHeatmap, heatmapFigure, heatmapQuery, shortened } from "../../web/js/charts/heatmap.js";
import { answered, heard, matches } from "../../web/js/ranks.js";
import { initialState, streamed } from "../../web/js/store.js";
import { palette, rank, summary } from "./shapes.js";

const standing = (/** @type {number} */ n, more = {}) => ({
  rank: n,
  host: "gpu01",
  pid: 4000 + n,
  state: "live",
  exit: null,
  watched: true,
  phases_missing: null,
  gpu: n,
  ...more,
});
const event = (/** @type {any} */ told, more = {}) => ({
  summary: told,
  findings: null,
  findings_changed: false,
  newest_at: 1599,
  ...more,
});

test("ticks of a few fields and ranks make the summary that is shown", () => {
  let state = streamed(
    initialState(),
    event({ ...summary(), ranks: [standing(0), standing(1)] }, { worst_rank: 1 }),
    0,
  );
  assert.equal(state.rank, 1); // the worst rank is known before any speed
  assert.equal(state.summary?.ranks[1]?.steps_per_s, null);
  state = answered(state, "ranks", {
    data: { total: 2, rows: [rank(1, 0.6)] },
    range: null,
    error: null,
    loaded_at: 0,
  });
  assert.equal(state.summary?.ranks[1]?.data_wait_ratio, 0.6);
  state = streamed(
    state,
    event({ steps: 1300, ranks: [standing(0, { state: "crashed", exit: "SIGKILL" })] }, { partial: true }),
    1,
  );
  assert.equal(state.summary?.steps, 1300);
  assert.equal(state.summary?.name, "train.py");
  assert.deepEqual(state.summary?.ranks.map((r) => [r.state, r.data_wait_ratio]), [
    ["crashed", null],
    ["live", 0.6],
  ]);
});

test("after a pause everything that arrived is shown", () => {
  let state = streamed(initialState(), event(summary()), 0);
  state = streamed({ ...state, paused: true }, event({ steps: 1300 }, { partial: true }), 1);
  assert.equal(state.summary?.steps, 1200);
  state = streamed({ ...state, paused: false }, event({ epochs: 4 }, { partial: true }), 2);
  assert.deepEqual([state.summary?.steps, state.summary?.epochs], [1300, 4]);
});

test("a whole summary replaces, another attempt forgets how fast ranks went", () => {
  const before = heard(null, { summary: summary() });
  const again = heard(before, { summary: { ...summary(), steps: 5, ranks: [standing(1)] } });
  assert.deepEqual(again.ranks.map((r) => [r.rank, r.data_wait_ratio]), [[1, 0.6]]);
  const anew = heard(before, { summary: { ...summary(), attempt: 2, ranks: [standing(1)] } });
  assert.equal(anew.ranks[0]?.data_wait_ratio, null);
});

test("an answer of another card leaves the summary as it is", () => {
  const state = streamed(initialState(), event(summary()), 0);
  const next = answered(state, "steps", { data: {}, range: null, error: null, loaded_at: 0 });
  assert.equal(next.summary, state.summary);
  assert.ok("steps" in next.cards);
});

test("a rank is found as the server finds it", () => {
  const row = { ...rank(12, 0.1), host: "GPU-04" };
  for (const find of ["", "12", "rank 12", "gpu", "gpu-04 live", "WAIT"]) assert.ok(matches(row, find), find);
  for (const find of ["1", "2", "gpu-05", "12 crashed"]) assert.ok(!matches(row, find), find);
});

test("many ranks are drawn by host, worst first; few as they are", () => {
  const of = (/** @type {number} */ n) => ({
    ...initialState(),
    summary: summary({ ranks: Array.from({ length: n }, (_, i) => ({ ...rank(i, 0), host: `h${i >> 3}` })) }),
  });
  const rows = (/** @type {any} */ state) => [heatmapQuery(state).by, heatmapQuery(state).order];
  assert.deepEqual(rows(of(64)), ["rank", "rank"]);
  assert.deepEqual(rows(of(1024)), ["host", "worst"]);
  assert.deepEqual(rows({ ...of(1024), choices: { "heat.by": "rank", "heat.order": "rank" } }), [
    "rank",
    "rank",
  ]);
  assert.notEqual(asksOfHeatmap(of(64)), asksOfHeatmap({ ...of(64), choices: { "heat.metric": "fetch_s" } }));
  assert.equal(asksOfHeatmap(initialState()), null);
});

test("where little is bad, little has the colour of the worst", () => {
  const data = {
    metric: "steps_per_s",
    bucket_s: 1,
    ranks: [517],
    hosts: ["host-064.cluster"],
    t: [1500],
    values: [[3]],
    of: 128,
  };
  const input = { data, by: "host", epochs: [], findings: [], range: { start: 1500, end: 1501 }, width: 900 };
  const low = /** @type {any} */ ({
    metric: "steps_per_s",
    name: "Steps per second",
    unit: "",
    form: ".3~s",
    low: true,
  });
  const figure = heatmapFigure({ ...input, metric: low }, palette);
  assert.equal(figure.data[0].colorscale[0][1], palette.heat.at(-1));
  assert.equal(figure.data[0].zmax, 4);
  assert.equal(figure.data[0].text[0][0], "host-064.cluster, worst: rank 517");
  assert.deepEqual(figure.layout.yaxis.ticktext, ["host-064"]);
  assert.deepEqual(["gpu-node-0123.cluster.example", "10.0.12.117", "a"].map((name) => shortened(name, 9)), [
    "…ode-0123",
    "…0.12.117",
    "a",
  ]);
});
