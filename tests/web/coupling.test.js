import assert from "node:assert/strict";
import { test } from "node:test";
import { textOf } from "../../web/js/dom.js";
import { barsOf, couplingCard, isStanding, rankNames } from "../../web/js/panels/coupling.js";
import { initialState, parseRoute } from "../../web/js/store.js";
import { sayIn } from "./catalogues.js";
import { inOrder, summary } from "./shapes.js";

/** @typedef {import("../../web/js/types.js").Coupling} Coupling */

const act = /** @type {any} */ ({});
/** @param {any} data @param {number} [world] */
const state = (data, world = 2) => ({
  ...initialState(),
  route: parseRoute("#/runs/r"),
  summary: summary({ world_size: world }),
  link: /** @type {const} */ ("live"),
  clock: 1600,
  ticked_at: 1600,
  cards: data === null ? {} : { coupling: { data, range: null, error: null, loaded_at: 1600 } },
});
/** @param {any} data @param {number} [world] */
const text = (data, world) => textOf(couplingCard(state(data, world), act)).replace(/\u202f|\u00a0/g, " ");
/** @param {number} rank @param {number} data_s @param {number} others_s */
const share = (rank, data_s, others_s) => ({
  rank,
  iteration_s: 0.1,
  data_s,
  own_s: 0.1 - data_s - others_s,
  others_s,
  caused_s: 0,
});
/** @param {Partial<Coupling>} more @returns {Coupling} */
const coupling = (more) => ({
  state: "even",
  reason: "",
  source: "measured",
  iterations: 100,
  waiting: [],
  waited_for: [],
  wait_s: null,
  cause: null,
  where: null,
  ranks: [share(0, 0, 0), share(1, 0, 0)],
  places: [],
  given_up_in_s: null,
  timeout_s: null,
  ...more,
});

test("a run of one rank has no such card, and the card waits for its answer", () => {
  assert.equal(couplingCard(state(null, 1), act), null);
  assert.doesNotMatch(text(null), /rank 0/);
});

test("who waits, how long, and for whom", () => {
  const late = {
    state: /** @type {const} */ ("waiting"),
    waiting: [0],
    waited_for: [1],
    wait_s: 0.07,
    cause: /** @type {const} */ ("data"),
    where: "backward",
    ranks: [share(0, 0, 0.07), share(1, 0.07, 0)],
  };
  const shown = text(coupling(late));
  assert.match(
    shown,
    inOrder(
      /Rank 0 +waits in backward +70 ms +of 100 ms +Rank 1 +waits 70 ms for its data.*/s,
      /rank 1 +data wait 70 ms +rank 0 +waits 70 ms/,
    ),
  );
  assert.match(text(coupling({ ...late, cause: "work" })), /Rank 1 +needs 30 ms for its own work/);
  assert.match(
    text(coupling({ state: "turns", wait_s: 0.012 })),
    /wait 12 ms of each iteration for others, now for one and now for another/,
  );
  assert.match(text(coupling({})), /No rank waits for another for long/);
  assert.match(
    text(coupling({ state: "apart", source: null, reason: "the ranks are not in step: an iteration" })),
    /The ranks are not in step.*cannot be told/,
  );
  assert.match(
    text(coupling({ state: "unknown", ranks: [], reason: "both ranks did fewer than 8 steps recently" })),
    /Not known yet +Both ranks did fewer/,
  );
});

test("many ranks: the outliers, the two that wait most, and all others as one", () => {
  const ranks = Array.from({ length: 256 }, (_, rank) =>
    share(rank, rank === 37 ? 0.05 : 0, rank === 37 ? 0 : rank === 5 ? 0.06 : 0.05),
  );
  const bars = barsOf(
    coupling({
      state: "waiting",
      waited_for: [37],
      waiting: ranks.map((r) => r.rank).filter((r) => r !== 37),
      ranks,
    }),
  );
  assert.deepEqual(bars.map((b) => b.name), ["rank 37", "rank 5", "rank 0", "253 others"]);
  assert.equal(rankNames([0, 1, 2, 3, 4, 5]), "ranks 0, 1, 2 and 3 more");
});

test("ranks are listed in both languages", () => {
  assert.deepEqual([[1], [0, 2], [0, 1, 2, 3]].map(rankNames), [
    "rank 1",
    "ranks 0 and 2",
    "ranks 0, 1, 2 and 3",
  ]);
  sayIn("zh");
  assert.deepEqual([[1], [0, 2], [0, 1, 2, 3, 4, 5]].map(rankNames), [
    "rank 1",
    "rank 0 和 2",
    "rank 0、1、2 和另外 3 个",
  ]);
  sayIn("en");
});

test("while they stand: places, outlier first, and the time that is left", () => {
  const place = {
    state: /** @type {const} */ ("stands"),
    collective: null,
    at: null,
    for_s: 34,
    stack: null,
  };
  const data = coupling({
    state: "standing",
    waiting: [0, 2],
    waited_for: [1],
    wait_s: 34,
    given_up_in_s: 1766,
    timeout_s: 1800,
    places: [
      { ...place, ranks: [1], stands: "prep.py:9 in tokenize" },
      { ...place, ranks: [0, 2], collective: "barrier", stands: "barrier", at: "train.py:3 in main" },
    ],
  });
  assert.equal(isStanding(state(data)), true);
  const shown = text(data, 3);
  assert.match(
    shown,
    inOrder(
      /Ranks 0 and 2 +stand in barrier +34 s +so far +Rank 1 +prep\.py:9 in tokenize.*/s,
      /given up in +29 min +\(timeout 30 min\).*rank 1 +prep\.py:9.*/,
      /rank 0 +rank 2 +barrier +train\.py:3 in main/,
    ),
  );
  const both = data.places.map((p) => ({ ...p, collective: "backward" }));
  assert.match(text({ ...data, places: both, waited_for: [] }, 3), /Each waits for the others/);
});
