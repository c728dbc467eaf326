import assert from "node:assert/strict";
import { test } from "node:test";
import { withoutOthers } from "../../web/js/charts/others.js";
import { COUNTERS, counterFigure } from "../../web/js/charts/small.js";
import { ASKED, byDevice, knownParts, partName, stepsFigure, totals } from "../../web/js/charts/steps.js";
import { palette, series } from "./shapes.js";

const base = { epochs: [], findings: [], range: { start: 1400, end: 1700 }, width: 1000 };
/** @param {import("../../web/js/types.js").Series|undefined} s */
const ms = (s) => s?.mean.map((v) => (v === null ? null : Math.round(v * 1000)));
/** @param {Record<string, import("../../web/js/types.js").Series>} data */
const sums = (data) => totals(knownParts(data), data).map((v) => (v === null ? null : Math.round(v * 1000)));

const step = {
  data_wait_s: series([0.01, 0.01, 0.01]),
  forward_s: series([0.02, 0.02, 0.02]),
  backward_s: series([0.08, 0.03, null]),
  other_s: series([0.01, 0.01, 0.05]),
};
const iteration_s = series([0.12, 0.07, 0.08]);

test("the wait for others is taken out of backward, then of other phases; a step keeps its length", () => {
  const found = withoutOthers({ ...step, iteration_s, others_wait_s: series([0.06, 0.04, 0.07]) });
  assert.deepEqual(
    [ms(found.backward_s), ms(found.forward_s), ms(found.other_s)],
    [
      [20, 0, null],
      [20, 10, 0],
      [10, 10, 0],
    ],
  );
  assert.deepEqual(ms(found.others_wait_s), [60, 40, 70]);
  assert.deepEqual(sums(found), sums(step), "as high as without it");
  assert.equal(knownParts(found).map(partName).at(-1), "waiting for other ranks");
  const { data } = stepsFigure({ ...base, data: found }, palette);
  const bar = data.at(-1);
  assert.deepEqual(
    [bar.name, bar.fillpattern.shape, bar.y.slice(1, -1)],
    ["waiting for other ranks", "/", [60, 40, 70]],
  );
  assert.ok(
    data.slice(0, -1).every((d) => d.fillpattern === undefined),
    "only what a rank does not do itself is hatched",
  );
});

test("the usual cost of an exchange is no wait, and without waits nothing changes", () => {
  assert.deepEqual(
    Object.keys(withoutOthers({ ...step, iteration_s, others_wait_s: series([0.001, 0.001, 0.001]) })),
    [...Object.keys(step), "iteration_s"],
  );
  assert.deepEqual(
    withoutOthers({ ...step, iteration_s, others_wait_s: series([null, null, null]) }).backward_s,
    step.backward_s,
  );
  assert.equal(withoutOthers(step), step);
});

test("a bucket without a sample keeps the previous wait, and one without a step has none", () => {
  const found = withoutOthers({
    ...step,
    iteration_s: series([0.12, 0.07, null]),
    others_wait_s: series([0.02, null, null]),
  });
  assert.deepEqual(ms(found.others_wait_s), [20, 20, null]);
});

test("without model and optimizer the wait leaves the step, with GPU phases their backward", () => {
  const plain = withoutOthers({
    data_wait_s: series([0.01]),
    other_s: series([0.1]),
    iteration_s: series([0.11]),
    others_wait_s: series([0.06]),
  });
  assert.deepEqual(knownParts(plain).map(partName), ["data wait", "step", "waiting for other ranks"]);
  assert.deepEqual(ms(plain.other_s), [40]);
  const loop = {
    wait_s: series([0.01]),
    data_wait_s: series([0.01]),
    forward_s: series([0.002]),
    backward_s: series([0.003]),
    other_s: series([0.095]),
    iteration_s: series([0.11]),
  };
  const timed = withoutOthers(
    byDevice({
      ...loop,
      gpu_forward_s: series([0.03]),
      gpu_backward_s: series([0.06]),
      others_wait_s: series([0.04]),
    }),
  );
  assert.deepEqual(
    [ms(timed.backward_s), ms(timed.forward_s), ms(timed.other_s), ms(timed.others_wait_s)],
    [[20], [30], [10], [40]],
  );
  assert.deepEqual(sums(timed), [110]);
  assert.ok(ASKED.includes("others_wait_s") && ASKED.length <= 16, "the server answers so many at once");
});

test("small charts have axes", () => {
  const disk = COUNTERS.find((c) => c.metric === "host_disk_read_bytes_per_s");
  assert.ok(disk !== undefined);
  const { layout } = counterFigure({ series: series([2e8, 3e8]), counter: disk, range: base.range }, palette);
  assert.deepEqual(layout.yaxis.ticktext, ["0\u202fB/s", "400\u202fMiB/s"]);
  assert.ok(layout.yaxis.showticklabels !== false && layout.xaxis.showticklabels !== false);
  assert.ok(layout.margin.l > 40 && layout.margin.b > 12);
});
