import assert from "node:assert/strict";
import { test } from "node:test";
import { textOf } from "../../web/js/dom.js";
import { epochNames } from "../../web/js/charts/axis.js";
import { epochsOf } from "../../web/js/figures.js";
import { boundariesCard, change } from "../../web/js/panels/boundaries.js";
import { initialState, parseRoute } from "../../web/js/store.js";
import { inOrder, palette, summary } from "./shapes.js";

const act = /** @type {any} */ ({ open: () => undefined });
/** @param {any} node */
const text = (node) => textOf(node).replace(/\u202f|\u00a0/g, " ");

/**
 * @param {number} epoch @param {Partial<import("../../web/js/types.js").EpochParts>} [more]
 * @returns {import("../../web/js/types.js").EpochParts}
 */
function parts(epoch, more = {}) {
  return {
    epoch,
    began_at: 1400 + 50 * epoch,
    start_s: 0.4,
    sampler_s: 0.01,
    first_batch_s: 1,
    steady_s: 40,
    teardown_s: 0.1,
    gap_s: 0.2,
    cost_s: 1.5,
    ended_at: 1445 + 50 * epoch,
    ended_by: "exhausted",
    batches: 100,
    iter_kind: "started",
    workers: 4,
    drained: 0,
    ...more,
  };
}

/**
 * @param {Partial<import("../../web/js/types.js").LoaderEpochs>} [more]
 * @returns {import("../../web/js/types.js").LoaderEpochs}
 */
function loader(more = {}) {
  return {
    rank: 0,
    loader: 0,
    name: "train_loader",
    role: "train",
    epochs: 2,
    cost_s: 3,
    usual_wait_s: 0.01,
    newest: [parts(0), parts(1)],
    ...more,
  };
}

/** @param {import("../../web/js/types.js").LoaderEpochs[]} data */
function state(data, more = {}) {
  const cards = { epochs: { data, range: { start: 0, end: 0 }, error: null, loaded_at: 0 } };
  return {
    ...initialState(),
    route: parseRoute("#/runs/r"),
    summary: summary(),
    rank: 0,
    link: /** @type {const} */ ("live"),
    clock: 1600,
    ticked_at: 1600,
    cards,
    ...more,
  };
}

test("each epoch's parts and change, newest first, with the cost of all boundaries", () => {
  const all = text(
    boundariesCard(
      state([loader({ newest: [parts(0), parts(1, { start_s: 1.6, sampler_s: 0.012 })] })]),
      act,
    ),
  );
  assert.match(
    all,
    /of rank 0 consisted of; start, sampler, first batch and teardown cost 3.0 s of 10 min \(0.5 %\)/,
  );
  assert.match(all, /train_loader.*2 epochs, cost 3.0 s/);
  assert.match(
    all,
    inOrder(
      /epoch 1 .* 1.6 s started 4 +· +\+1.2 s 12 ms 1.0 s 40 s 100 batches 100 ms 200 ms /,
      /epoch 0 .* 400 ms started 4/,
    ),
    "2 ms are no change",
  );
  assert.equal(change(0.1, 0.4), "−300\u202fms");
  assert.deepEqual([change(null, 1), change(1, null), change(1, 1.04)], ["", "", ""]);
});

test("a current epoch has no end, and an ended one says how it ended", () => {
  const going = parts(2, {
    steady_s: null,
    teardown_s: null,
    gap_s: null,
    ended_at: null,
    ended_by: null,
    batches: null,
  });
  const all = text(
    boundariesCard(
      state([
        loader({
          epochs: 3,
          newest: [parts(0, { ended_by: "break" }), parts(1, { iter_kind: "reset", drained: 3 }), going],
        }),
      ]),
      act,
    ),
  );
  assert.match(all, /epoch 2[^–]*goes on[^–]*–[^–]*–/);
  assert.match(all, /reset, 3 thrown away/);
  assert.match(all, /left early/);
});

test("many epochs are folded, loaders have their role, and a page without epochs says so", () => {
  const many = loader({ epochs: 400, newest: Array.from({ length: 300 }, (_, i) => parts(100 + i)) });
  const folded = text(
    boundariesCard(state([many, loader({ loader: 1, name: "val_loader", role: "eval" })]), act),
  );
  assert.match(folded, /400 epochs.*the newest 6 are shown.*Show the newest 300/);
  assert.match(folded, /val_loader evaluation/);
  const open = text(boundariesCard(state([many], { open: { "epochs/0/0": true } }), act));
  assert.equal(open.match(/started 4/g)?.length, 300);
  assert.match(text(boundariesCard(state([]), act)), /No epoch has begun/);
});

test("marks name the loader if there are several, else the epoch alone", () => {
  const one = loader();
  assert.deepEqual(
    epochsOf(state([one, loader({ loader: 1, name: "val_loader", role: "eval" })])).map((e) => e.name),
    ["epoch 0", "epoch 1"],
  );
  const two = epochsOf(
    state([one, loader({ loader: 1, name: "replay", newest: [parts(0, { began_at: 1425 })] })]),
  );
  assert.deepEqual(
    two.map((e) => e.name),
    ["train_loader · 0", "replay · 0", "train_loader · 1"],
    "in order of time",
  );
  const range = { start: 1390, end: 1690 };
  assert.deepEqual(
    epochNames(two, range, palette, 1000).map((a) => a.text),
    ["train_loader · 0", "train_loader · 1"],
    "no name upon another",
  );
});
