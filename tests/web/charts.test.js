import assert from "node:assert/strict";
import { test } from "node:test";
import {
  MARGIN,
  bandNames,
  bands,
  epochMarks,
  epochNames,
  fade,
  fromAxis,
  niceTop,
  sides,
  toAxis,
} from "../../web/js/charts/axis.js";
import { bridged, gpuFigure } from "../../web/js/charts/gpu.js";
import { headroomFigure } from "../../web/js/charts/headroom.js";
import { outline } from "../../web/js/charts/outline.js";
import { starvationFigure } from "../../web/js/charts/starvation.js";
import { heatmapFigure, heatmapHeight } from "../../web/js/charts/heatmap.js";
import { laneWorkers, lanesFigure, slowOnes } from "../../web/js/charts/lanes.js";
import { COUNTERS, counterFigure, readyFigure } from "../../web/js/charts/small.js";
import {
  ASKED,
  barWidths,
  byDevice,
  ceiling,
  isByDevice,
  isEmpty,
  isOnDevice,
  knownParts,
  partName,
  stepsFigure,
  totals,
} from "../../web/js/charts/steps.js";
import { figureOf } from "../../web/js/figures.js";
import { initialState, parseRoute } from "../../web/js/store.js";
import { bucketOf } from "../../web/js/refresh.js";
import { finding, palette, series, summary } from "./shapes.js";

const range = { start: 1400, end: 1700 };
const base = { epochs: [], findings: [], range, width: 1000 };
/** @param {number} n @returns {any} */
const epoch = (n, began_at = 1400 + n) => ({ began_at, name: `epoch ${n}` });

test("axis and back, in local time and across its change to summer", () => {
  for (const t of [1500, 1_767_225_600.25, Date.UTC(2026, 6, 1) / 1000]) {
    assert.ok(Math.abs(fromAxis(toAxis(t)) - t) < 1e-3);
    const text = new Date(toAxis(t)).toISOString().replace("T", " ").replace("Z", "");
    assert.ok(Math.abs(fromAxis(text) - t) < 1e-3, text);
  }
});

test("steps: one stacked area per known part, in milliseconds, and a bucket without steps is a hole", () => {
  const { data } = stepsFigure(
    {
      ...base,
      data: {
        data_wait_s: series([0.04, null]),
        forward_s: series([0.01, null]),
        other_s: series([null, null]),
      },
    },
    palette,
  );
  assert.deepEqual(data.map((d) => d.name), ["data wait", "forward"]);
  assert.deepEqual(data.map((d) => [d.y, d.stackgroup, d.line.shape]), [
    [[0, 40, 0], "step", "hvh"],
    [[0, 10, 0], "step", "hvh"],
  ]);
  assert.deepEqual(data[0].x, [1499.5, 1500.5, 1501.5].map(toAxis));
  assert.deepEqual(data[0].hovertemplate, ["", "%{y:.1f} ms", ""], "a hole has nothing to read");
});

test("steps longer than a bucket leave no holes, but a pause does", () => {
  const sparse = series([0.3, null, 0.3, null, null, null, null, 0.3], {
    bucket_s: 0.2,
    t: [0, 1, 2, 3, 4, 5, 6, 7].map((i) => i * 0.2),
  });
  const widths = barWidths(sparse, sparse.max);
  assert.deepEqual(
    [widths[0], widths[2], widths[7]].map((w) => Math.round((w ?? 0) * 10) / 10),
    [0.3, 0.3, 0.3],
  );
  assert.ok((widths[2] ?? 0) < 1);
});

test("the line around bars changes where they begin and end", () => {
  // The line changes half-way between two points: at the ends of the bars.
  /** @param {number[]} t @param {number[]} widths @param {boolean[]} filled */
  const changes = (t, widths, filled) => {
    const points = outline({ t, widths, filled });
    return points
      .slice(1)
      .flatMap((p, i) => (p.at === (points[i]?.at ?? -1) ? [] : [((points[i]?.t ?? 0) + p.t) / 2]));
  };
  assert.deepEqual(changes([0, 1, 2], [1, 1, 1], [true, true, true]), [0, 1, 2, 3]);
  assert.deepEqual(
    changes([0, 1, 2, 3, 4], [1, 1, 1, 1, 1], [true, false, true, false, false]),
    [0, 1, 2, 3],
    "a hole as wide as a bar",
  );
  assert.deepEqual(changes([0, 1, 9], [1, 1, 1], [true, false, true]), [0, 1, 9, 10], "a wide one");
  assert.deepEqual(outline({ t: [0, 1], widths: [1, 1], filled: [false, false] }), []);
});

test("a few very long steps are cut off and labelled, a spread of ordinary ones is not", () => {
  const usual = Array.from({ length: 100 }, () => 0.1);
  assert.equal(ceiling([...usual, 0.45]), null);
  assert.equal(ceiling([...usual, 3.5]), 0.4);
  assert.equal(ceiling([0.1, 3]), null); // too few to know the usual length
  // The bucket holds a step of 11.4 s and a short one.
  const data = {
    data_wait_s: series([...usual, 5.7]),
    iteration_s: series([...usual, 5.75], { max: [...usual, 11.4] }),
  };
  const { layout } = stepsFigure({ ...base, data }, palette);
  assert.deepEqual(layout.yaxis.range, [0, 400]);
  assert.match(layout.annotations.at(-1).text, /↑ 11.s/);
  assert.ok(ASKED.includes("iteration_s") && ASKED.length <= 16, "the server answers so many at once");
});

test("sparse buckets are bridged, a silence is a gap", () => {
  assert.deepEqual(bridged(series([1, null, 2, null, null, null, 3, null])), [0, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(bridged(series([1, null, 2]), 1), [0, 1, 2]);
});

test("the loop's wait beyond the data wait is a part, and buckets without a data wait stay empty", () => {
  const data = {
    data_wait_s: series([0.15, 0.2, null, null]),
    wait_s: series([0.2, 0.2, 0.2, null]),
    other_s: series([0.01, 0.01, 0.01, null]),
  };
  const plain = {
    data_wait_s: series([0.2, 0.2]),
    wait_s: series([0.2, 0.2]),
    other_s: series([0.01, 0.01]),
  };
  assert.equal(byDevice(plain), plain);
  assert.ok(!isByDevice(plain));
  const found = byDevice(data);
  assert.deepEqual(found.data_wait_s?.mean, [0.15, 0.2, null, null]);
  assert.deepEqual(found.hidden_s?.mean.map((v) => (v === null ? null : Math.round(v * 100))), [
    5,
    0,
    null,
    null,
  ]);
  assert.deepEqual(
    totals(knownParts(found), found).map((v) => (v === null ? null : Math.round(v * 100))),
    [21, 21, null, null],
    "the GPU has not reached its events yet",
  );
  assert.deepEqual(knownParts(found).map(partName), ["data wait", "waiting while the GPU works", "step"]);
  assert.ok(isByDevice(found));
});

test("phases have the GPU's times, and an iteration keeps its length", () => {
  const loop = {
    wait_s: series([0.05, 0.05, 0.05]),
    data_wait_s: series([0.01, 0.01, 0.01]),
    h2d_s: series([0.001, 0.001, 0.001]),
    forward_s: series([0.002, 0.002, 0.002]),
    backward_s: series([0.003, 0.003, 0.003]),
    other_s: series([0.094, 0.094, 0.094]),
  };
  const device = { gpu_forward_s: series([0.03, null, 0.04]), gpu_backward_s: series([null, 0.06, 0.06]) };
  const found = byDevice({ ...loop, ...device });
  /** @param {string} metric */
  const ms = (metric) => found[metric]?.mean.map((v) => (v === null ? null : Math.round(v * 1000)));
  assert.deepEqual(
    [ms("data_wait_s"), ms("forward_s"), ms("backward_s"), ms("other_s")],
    [
      [10, 10, 10],
      [30, 30, 40],
      [60, 60, 60],
      [50, 50, 40],
    ],
  );
  // No copy was timed.
  assert.deepEqual(knownParts(found).map(partName), ["data wait", "forward", "backward", "other"]);
  assert.deepEqual(totals(knownParts(found), found).map((v) => Math.round((v ?? 0) * 1000)), [150, 150, 150]);
  assert.ok(isOnDevice({ ...loop, ...device }) && !isOnDevice(loop) && !isOnDevice(null));
  const short = byDevice({
    wait_s: series([0.05]),
    data_wait_s: series([0]),
    other_s: series([0.01]),
    gpu_forward_s: series([0.2]),
  });
  assert.deepEqual(
    totals(knownParts(short), short).map((v) => Math.round((v ?? 0) * 1000)),
    [60],
    "never more than an iteration",
  );
});

test("headroom is queued work and ready batches", () => {
  const data = { slack_s: series([0.1, 0.05]), cushion_s: series([0.2, 0]) };
  const figure = headroomFigure({ ...base, data }, palette);
  assert.deepEqual(figure.data.map((d) => d.name), ["queued on the GPU", "batches ready"]);
  assert.ok(figure.layout.yaxis.range[0] === 0 && figure.layout.yaxis.ticktext.includes("0"));
  const well = headroomFigure(
    { ...base, data: { slack_s: series([0.1]), cushion_s: series([null]) } },
    palette,
  );
  assert.deepEqual(well.data.map((d) => d.name), ["queued on the GPU"]);
});

test("GPU starvation is a chart of its own, in which one percent is seen and a calm GPU stays low", () => {
  const data = { gpu_starved_ratio: series([0.01, null, 0.6]), gpu_starved_s: series([0.001, null, 0.06]) };
  const [bars] = starvationFigure({ ...base, data }, palette).data;
  assert.deepEqual(bars.y, [0, 0.01, 0, 0.6, 0]);
  assert.match(bars.text[3], /^60\u202f%, 60\u202fms per step$/);
  const axis = (/** @type {any} */ ratio) =>
    starvationFigure(
      { ...base, data: { gpu_starved_ratio: series([ratio]) } },
      palette,
    ).layout.yaxis.range[1];
  assert.ok(axis(0.001) < 0.25 && axis(0.001) > 0.1 && axis(0.95) <= 1.04);
  assert.deepEqual(
    starvationFigure({ ...base, data: { gpu_starved_ratio: series([null]) } }, palette).data,
    [],
  );
});

test("without model and optimizer the rest of a step is called step", () => {
  assert.deepEqual(knownParts({ data_wait_s: series([1]), other_s: series([1]) }).map(partName), [
    "data wait",
    "step",
  ]);
  assert.deepEqual(knownParts({}), []);
  assert.ok(isEmpty(undefined) && isEmpty(series([null])) && !isEmpty(series([0])));
});

test("alerts are bands within the range; info and other times are not", () => {
  const list = [
    finding(),
    finding({ id: "i", severity: "info" }),
    finding({ id: "old", began_at: 100, ended_at: 1300, state: "resolved" }),
    finding({ id: "c", severity: "critical", began_at: 1000, ended_at: 1500, state: "resolved" }),
  ];
  const shapes = bands(list, range, palette);
  assert.equal(shapes.length, 4); // tint and bar of two alerts
  assert.equal(shapes[0].x1, toAxis(1700)); // open ones reach the edge
  assert.equal(shapes[2].x0, toAxis(1400));
  assert.match(shapes[2].fillcolor, /^rgba\(196,38,46/);
  // Names never overlap.
  assert.deepEqual(bandNames(list, range, palette, 1000).map((a) => a.text), ["input-bound"]);
  assert.deepEqual(bandNames([finding({ began_at: 1699 })], range, palette, 1000), []); // no room
});

test("epochs are thinned, never more marks than can be told apart", () => {
  const many = Array.from({ length: 290 }, (_, i) => epoch(i));
  assert.ok(epochMarks(many, range, palette, 1000).length <= 1000 / 8);
  const xs = epochNames(many, range, palette, 1000).map((a) => a.x);
  // Names keep their distance, in a cluster, too.
  assert.ok(xs.length > 5 && xs.every((x, i) => i === 0 || ((x - xs[i - 1]) / 300_000) * 880 >= 60));
  assert.deepEqual(epochMarks([epoch(0, 1)], range, palette, 1000), []);
});

test("GPU utilization with power; compute duty without a GPU; nothing without either", () => {
  const gpu = gpuFigure(
    {
      ...base,
      data: { gpu_utilization_ratio: series([0.5, null, 1]), gpu_power_w: series([300, null, 310]) },
    },
    palette,
  );
  const line = gpu.data.find((d) => d.name === "utilization");
  assert.deepEqual(line.y, [50, null, 100]);
  assert.equal(line.connectgaps, false);
  assert.equal(gpu.data.find((d) => d.name === "power").yaxis, "y2");
  assert.deepEqual(gpu.layout.yaxis2.tickvals, [0, 200, 400]);
  const duty = gpuFigure({ ...base, data: { compute_duty_ratio: series([0.5]) } }, palette);
  assert.ok(duty.data.some((d) => d.name === "compute duty"));
  assert.equal(duty.layout.yaxis2, undefined);
  assert.deepEqual(gpuFigure({ ...base, data: {} }, palette).data, []);
});

test("the heat map keeps unknown cells empty and fixes its scale", () => {
  const { data } = heatmapFigure(
    { ...base, data: { metric: "", bucket_s: 1, ranks: [3, 7], t: [1500], values: [[0.5], [null]] } },
    palette,
  );
  assert.deepEqual(data[0].z, [[50], [null]]);
  assert.deepEqual([data[0].zmin, data[0].zmax], [0, 100]);
  assert.deepEqual(data[0].customdata, [3, 7]);
  assert.ok(heatmapHeight(1) < 60 && heatmapHeight(256) <= 400);
});

const fetches = /** @type {any} */ ({
  loader: [0, 0, 0, 0],
  worker: [0, 1, 0, 1],
  began_at: [1500, 1500, 1501, 1501],
  fetch_s: [0.5, 0.5, 0.5, 3],
  collate_s: [0.1, null, 0.1, 0.1],
  cpu_s: [],
  samples: [],
  slow_index: [1, 2, 3, 18432],
  slow_s: [0.01, 0.01, 0.01, 2.5],
  bytes: [],
});

test("lanes: slow samples are found, the open fetch reaches to now", () => {
  assert.deepEqual(slowOnes(fetches), [false, false, false, true]);
  const stuck = /** @type {any} */ ({
    worker: 2,
    alive: true,
    phase: "fetch",
    phase_age_s: 12,
    sample_index: 5,
    sample_age_s: 11,
  });
  const main = /** @type {any} */ ({ worker: -1, alive: true, phase: "wait", phase_age_s: 12 });
  assert.deepEqual(laneWorkers(fetches, [main, stuck]), [0, 1, 2]);
  const { data, layout } = lanesFigure(
    { fetches, workers: [main, stuck], epochs: [], range, now: 1600, width: 1000 },
    palette,
  );
  const open = data.find((d) => d.name === "late fetch");
  assert.deepEqual([open.x[0], open.x[2]], [toAxis(1588), toAxis(1600)]);
  assert.match(open.text[0], /sample 5 for 11/);
  assert.deepEqual(layout.yaxis.ticktext, ["worker 0", "worker 1", "worker 2"]);
  assert.ok(data.find((d) => d.name === "slow sample").text[0].includes("18432"));
  assert.ok(data.find((d) => d.name === "collate"));
});

test("counters", () => {
  const c = /** @type {any} */ (COUNTERS.find((k) => k.unit === "bytes_per_s"));
  const { layout } = counterFigure({ series: series([3.1e6, null]), counter: c, range }, palette);
  assert.ok(layout.yaxis.range[1] > 3.1e6);
  assert.deepEqual([0.4, 3, 321, 1000].map(niceTop), [0.4, 4, 400, 1000]);
  assert.equal(niceTop(0), 1);
  const ready = readyFigure(
    { ...base, data: { ready_batches: series([1, 2]), cached_batches: series([0, 0]) }, capacity: 4 },
    palette,
  );
  assert.equal(ready.layout.shapes.length, 1);
  assert.ok(!ready.data.some((d) => d.name === "out of order"));
});

test("all charts of a page have the same sides", () => {
  const data = { data_wait_s: series([1]), gpu_utilization_ratio: series([1]), ready_batches: series([1]) };
  const heat = { metric: "", bucket_s: 1, ranks: [0], t: [], values: [[]] };
  const all = [
    stepsFigure({ ...base, data }, palette),
    gpuFigure({ ...base, data }, palette),
    heatmapFigure({ ...base, data: heat }, palette),
    lanesFigure({ fetches, workers: [], epochs: [], range, now: 1, width: 1000 }, palette),
    readyFigure({ ...base, data, capacity: null }, palette),
  ];
  for (const { layout } of all) {
    assert.deepEqual([layout.margin.l, layout.margin.r], [sides(1000).l, sides(1000).r]);
    assert.deepEqual(layout.xaxis.range, [toAxis(1400), toAxis(1700)]);
  }
  assert.ok(MARGIN.b > 0);
});

test("figureOf: nothing before data, the fixed view over the card's own range", () => {
  const state = { ...initialState(), route: parseRoute("#/runs/r"), summary: summary() };
  assert.equal(figureOf(state, "steps", palette, 900), null);
  const cards = { steps: { data: { data_wait_s: series([1]) }, range, error: null, loaded_at: 0 } };
  assert.deepEqual(figureOf({ ...state, cards }, "steps", palette, 900)?.layout.xaxis.range, [
    toAxis(1400),
    toAxis(1700),
  ]);
  const fixed = { ...state, cards, view: /** @type {const} */ ({ kind: "fixed", start: 1, end: 9 }) };
  assert.deepEqual(figureOf(fixed, "steps", palette, 900)?.layout.xaxis.range, [toAxis(1), toAxis(9)]);
  assert.equal(figureOf({ ...state, cards }, "nothing", palette, 900), null);
});

test("on a rank's page the bands of other ranks are left out", () => {
  const state = {
    ...initialState(),
    route: parseRoute("#/runs/r/ranks/0"),
    summary: summary(),
    findings: [finding({ rank: 1 })],
    cards: { steps: { data: { data_wait_s: series([1]) }, range, error: null, loaded_at: 0 } },
  };
  assert.equal(figureOf(state, "steps", palette, 900)?.layout.shapes.length, 0);
  assert.equal(
    figureOf({ ...state, findings: [finding({ rank: null })] }, "steps", palette, 900)?.layout.shapes.length,
    2,
  );
});

test("small things", () => {
  assert.equal(fade("#ff0080", 0.5), "rgba(255,0,128,0.5)");
  assert.equal(bucketOf({ wait_s: { bucket_s: 5 } }), 5);
  assert.equal(bucketOf({ bucket_s: 2 }), 2);
  assert.equal(bucketOf([]), 0);
});
