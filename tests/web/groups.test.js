// The ranks of a large run: groups, and ranks that the summary does not list.

import assert from "node:assert/strict";
import { test } from "node:test";

import { textOf } from "../../web/js/dom.js";
import { groupList, whatTheyDo } from "../../web/js/panels/groups.js";
import { rankChoice, ranksTable } from "../../web/js/panels/ranks.js";
import { asksForRows, hasRank, neighbourOf, pageAsked, pageShown, rowOf } from "../../web/js/ranks.js";
import { initialState } from "../../web/js/store.js";
import { inOrder, rank, summary } from "./shapes.js";

/** @typedef {import("../../web/js/types.js").RankGroup} RankGroup */

/** @param {Partial<RankGroup>} [more] @returns {RankGroup} */
function group(more = {}) {
  return {
    group: "live///",
    count: 2046,
    ranks: [0, 1, 2, 3],
    hosts: 256,
    state: "live",
    phase: null,
    phase_age_s: null,
    differs_in: null,
    higher: null,
    data_wait_ratio: 0.02,
    steps_per_s: 10,
    step_s: 0.1,
    gpu_utilization_ratio: null,
    ...more,
  };
}

const act = /** @type {any} */ ({});
/** @param {any} node */
const text = (node) => textOf(node).replace(/\u202f|\u00a0/g, " ");
const odd = group({
  group: "live//data_wait_ratio/more",
  count: 2,
  ranks: [517, 518],
  hosts: 1,
  differs_in: "data_wait_ratio",
  higher: true,
  data_wait_ratio: 0.62,
});
const large = summary({
  world_size: 2048,
  rank_count: 2048,
  host_count: 256,
  groups: [odd, group()],
  ranks: [rank(0, 0.02), rank(517, 0.62)],
});
/** @param {any} [more] @returns {import("../../web/js/store.js").State} */
const state = (more = {}) => ({
  ...initialState(),
  route: { page: "run", run: "r", rank: null, finding: null, attempt: null },
  summary: large,
  ...more,
});

test("what the ranks of a group do is said in a few words", () => {
  assert.equal(whatTheyDo(group(), true), "go on, as most do");
  assert.equal(whatTheyDo(group(), false), "go on alike");
  assert.equal(whatTheyDo(odd, false), "wait more for data than most");
  assert.equal(
    whatTheyDo(group({ differs_in: "gpu_utilization_ratio", higher: false }), false),
    "use their GPU less than most",
  );
  assert.equal(
    whatTheyDo(group({ phase: "backward", phase_age_s: 12 }), true).replace(/\u202f/g, " "),
    "stand in backward for 12 s",
  );
  assert.match(
    whatTheyDo(group({ phase: "wait", phase_age_s: 12, differs_in: "step_s", higher: true }), true),
    /^stand in wait for .*, and have longer steps than most$/,
  );
  assert.equal(whatTheyDo(group({ state: "crashed", phase: "wait" }), false), "have crashed");
});

test("groups stand above the table, and one is picked for it", () => {
  /** @type {any[]} */
  const chosen = [];
  const choosing = /** @type {any} */ ({ choose: (/** @type {any} */ c) => chosen.push(c) });
  const drawn = text(ranksTable(state(), act));
  assert.match(
    drawn,
    inOrder(
      /2 ranks.*517, 518.*1 host.*wait more for data than most.*62.*/s,
      /2,046 ranks.*0, 1, 2, ….*256 hosts.*go on, as most do/,
    ),
  );
  assert.match(drawn, /2 are looked at in detail/);
  const list = /** @type {any} */ (groupList(large, state(), choosing));
  const rows = list.children[0].children.at(-1).children;
  rows[0].props.onclick();
  assert.deepEqual(chosen, [{ "ranks.group": odd.group, "ranks.offset": "0" }]);
  const picked = state({ choices: { "ranks.group": odd.group } });
  assert.equal(pageAsked(picked).group, odd.group);
  assert.match(text(groupList(large, picked, choosing)), /Show the ranks of all groups/);
  assert.match(
    text(groupList({ ...large, rank_count: 2050 }, state(), choosing)),
    /2 ranks in further groups/,
  );
  assert.equal(groupList(summary(), state(), choosing), null);
});

test("a rank that the summary does not list is asked for", () => {
  assert.ok(hasRank(large, 2047));
  assert.ok(!hasRank(large, 2048));
  assert.ok(!hasRank(summary(), 7));
  assert.deepEqual(
    [
      neighbourOf(large, 517, 1),
      neighbourOf(large, 0, -1),
      neighbourOf(large, 2047, 1),
      neighbourOf(large, null, 1),
    ],
    [518, null, null, null],
  );
  assert.deepEqual(
    [neighbourOf(summary(), 0, 1), neighbourOf(summary(), 0, -1), neighbourOf(summary(), 9, 1)],
    [1, null, null],
  );
  const asked = state({
    cards: {
      rank_row: { data: { total: 1, rows: [rank(700, 0.3)] }, range: null, error: null, loaded_at: 0 },
    },
  });
  assert.equal(rowOf(asked, 700)?.data_wait_ratio, 0.3);
  assert.equal(rowOf(asked, 517)?.data_wait_ratio, 0.62);
  assert.equal(rowOf(asked, 701), null);
  const over = state({ summary: { ...large, state: "finished" } });
  assert.ok(asksForRows(over));
  assert.ok(!asksForRows(state({ summary: summary({ state: "finished" }) })));
  const answer = {
    data: { total: 2048, offset: 16, rows: [rank(99, 0.9)] },
    range: null,
    error: null,
    loaded_at: 0,
  };
  assert.equal(pageShown({ ...over, cards: { ranks: answer } }).total, 2048);
  /** @type {any[]} */
  const done = [];
  const acting = /** @type {any} */ ({
    rank: (/** @type {number} */ r) => done.push(r),
    tell: (/** @type {string} */ t) => done.push(t),
  });
  const control = /** @type {any} */ (rankChoice(state(), acting)).children[1];
  for (const typed of ["rank 2000", "2048", "-1", "1.5"])
    control.props.onchange({ target: { value: typed } });
  assert.deepEqual(done, [
    2000,
    ...["2048", "-1", "1.5"].map((typed) => `There is no rank ${typed} in this run`),
  ]);
});
