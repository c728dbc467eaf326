import assert from "node:assert/strict";
import { test } from "node:test";
import {
  STALE_AFTER_S,
  Store,
  active,
  aged,
  heard,
  initialState,
  isGoing,
  knownUntil,
  navigated,
  parentHash,
  parseRoute,
  refreshAfter,
  routeHash,
  serverNow,
  shownRange,
  shownRank,
  sorted,
  stateNow,
  streamed,
  worstRank,
  zoomed,
} from "../../web/js/store.js";
import { finding, rank, summary } from "./shapes.js";

/** @param {any} [more] */
const message = (more = {}) => ({
  summary: summary(),
  findings: [finding()],
  findings_changed: true,
  newest_at: 1599,
  ...more,
});
const live = () => streamed({ ...initialState(), route: parseRoute("#/runs/r") }, message(), 5000);

test("routes go there and back, odd names too", () => {
  for (const route of [
    { page: "runs", run: null, rank: null, finding: null, attempt: null },
    { page: "run", run: "a b/c", rank: null, finding: null, attempt: null },
    { page: "run", run: "r", rank: null, finding: "f/1", attempt: null },
    { page: "run", run: "r", rank: null, finding: null, attempt: 2 },
    { page: "rank", run: "r", rank: 12, finding: null, attempt: null },
  ]) assert.deepEqual(parseRoute(routeHash(/** @type {any} */ (route))), route);
  assert.equal(parseRoute("#/runs/%E0%A4%A").run, "%E0%A4%A");
  assert.equal(parseRoute("#/nonsense").page, "runs");
  assert.equal(parseRoute("#/runs/r/ranks/x").page, "run");
  assert.equal(parentHash(parseRoute("#/runs/r/ranks/3")), "#/runs/r");
  assert.equal(parentHash(parseRoute("#/runs/r")), "#/");
});

test("a snapshot sets the scene: worst rank, server clock", () => {
  const s = live();
  assert.equal(s.link, "live");
  assert.equal(s.rank, 1);
  assert.equal(serverNow(s), 1600);
  assert.equal(s.newest_at, 1599);
  assert.equal(s.may_change, true);
  assert.equal(streamed(s, message({ may_change: false }), 1).may_change, false, "a viewer only reads");
});

test("the old summary of an ended run does not turn the clock back", () => {
  const s = streamed(initialState(), message({ summary: summary({ state: "finished", now: 1600 }) }), 5000);
  assert.equal(serverNow(s), 5000);
});

test("a tick without findings keeps them, one with findings replaces them", () => {
  const s = streamed(live(), message({ findings: null }), 5001);
  assert.equal(s.findings.length, 1);
  assert.equal(s.findings_version, 1);
  assert.equal(streamed(s, message({ findings: [] }), 5002).findings.length, 0);
});

test("the rank chosen by the reader stays, whoever is worst", () => {
  const s = streamed({ ...live(), rank: 0 }, message(), 5001);
  assert.equal(s.rank, 0);
});

test("paused: the picture stands still, alerts do not", () => {
  const s = streamed(
    { ...live(), paused: true },
    message({ summary: summary({ steps: 9999 }), findings: [] }),
    5001,
  );
  assert.equal(s.summary?.steps, 1200);
  assert.equal(s.findings.length, 0);
  assert.equal(s.ticked_at, 5001);
});

test("silence makes it stale, a tick makes it live again", () => {
  let s = aged(live(), 5000 + STALE_AFTER_S);
  assert.equal(s.link, "live");
  s = aged(s, 5001 + STALE_AFTER_S);
  assert.equal(s.link, "stale");
  assert.equal(streamed(s, message({ findings: null }), 5011).link, "live");
  assert.equal(aged({ ...s, link: "gone" }, 6000).link, "gone");
});

test("an ended run has nothing new and does not become stale while the server says that it is there", () => {
  let s = streamed(initialState(), message({ summary: summary({ state: "finished" }) }), 5000);
  for (let t = 5001; t < 5100; t += 1) {
    if (t % 5 === 0) s = heard(s, t);
    s = aged(s, t);
    assert.equal(s.link, "live");
  }
  const stale = aged(s, 5200);
  assert.equal(heard(stale, 5201).link, "live");
  assert.equal(heard({ ...s, link: "gone" }, 5201).link, "gone");
});

test("durations of a run that does not report stop counting", () => {
  assert.equal(isGoing(summary({ state: "hung" })), true);
  assert.equal(isGoing(null), false);
  assert.equal(knownUntil({ ...live(), clock: 5060 }), 1660);
  for (const state of /** @type {const} */ (["lost", "crashed", "finished"]))
    assert.equal(
      knownUntil({ ...live(), clock: 5060, summary: summary({ state, last_seen_at: 1600 }) }),
      1600,
    );
});

test("an expired silence is over, even if no detector judges the run any more", () => {
  const silenced = finding({ state: "silenced", silenced_until: 1700 });
  assert.equal(stateNow(silenced, 1699), "silenced");
  assert.equal(stateNow(silenced, 1701), "firing");
  assert.equal(stateNow(finding({ state: "acknowledged", silenced_until: 1 }), 1701), "acknowledged");
});

test("a run that has ended is shown whole; one that goes on, its last minutes", () => {
  const done = streamed(initialState(), message({ summary: summary({ state: "finished" }) }), 5000);
  assert.deepEqual(shownRange(done), { start: 1000, end: 1599 });
  const range = shownRange(live());
  assert.deepEqual(range, { start: 1299, end: 1599 });
});

test("a hang older than the view keeps the moment before it in the picture", () => {
  const s = streamed(
    initialState(),
    message({
      summary: summary({ state: "hung", now: 2600 }),
      findings: [finding({ code: "hung", began_at: 1500 })],
    }),
    5000,
  );
  const range = shownRange(s);
  assert.ok(range !== null && range.start < 1500 && range.end > 2590);
});

test("a young run fills the picture, but no less than a minute", () => {
  const s = (/** @type {number} */ started_at) =>
    shownRange(streamed(initialState(), message({ summary: summary({ started_at }) }), 5000));
  assert.deepEqual(s(1480), { start: 1480, end: 1599 });
  assert.deepEqual(s(1590), { start: 1539, end: 1599 });
});

test("nothing known, no range", () => {
  assert.equal(shownRange(initialState()), null);
});

test("zooming: either direction, but a click is no zoom", () => {
  assert.deepEqual(zoomed(20, 10), { kind: "fixed", start: 10, end: 20 });
  assert.equal(zoomed(10, 10.5), null);
});

test("going to another run forgets, going to its rank keeps the summary and drops the cards", () => {
  const s = { ...live(), cards: { steps: { data: 1, range: null, error: null, loaded_at: 0 } } };
  const down = navigated(s, parseRoute("#/runs/r/ranks/1"));
  assert.ok(down.summary !== null);
  assert.deepEqual(down.cards, {});
  assert.equal(shownRank(down), 1);
  const other = navigated(s, parseRoute("#/runs/q"));
  assert.equal(other.summary, null);
  assert.deepEqual(other.findings, []);
  assert.equal(navigated(s, parseRoute("#/runs/r/findings/f1")).cards, s.cards);
});

test("worst rank copes with unknown waits and no ranks", () => {
  assert.equal(worstRank(summary({ ranks: [rank(4, null), rank(5, null)] })), 4);
  assert.equal(worstRank(summary({ ranks: [rank(4, null), rank(5, 0)] })), 5);
  assert.equal(worstRank(summary({ ranks: [] })), null);
});

test("many ranks start sorted by wait", () => {
  const ranks = Array.from({ length: 20 }, (_, i) => rank(i, i / 20));
  assert.deepEqual(streamed(initialState(), message({ summary: summary({ ranks }) }), 1).sort, {
    by: "data_wait_ratio",
    down: true,
  });
});

test("unknown sorts last in both directions", () => {
  const rows = [rank(0, null), rank(1, 0.2), rank(2, 0.7)];
  assert.deepEqual(sorted(rows, { by: "data_wait_ratio", down: false }).map((r) => r.rank), [1, 2, 0]);
  assert.deepEqual(sorted(rows, { by: "data_wait_ratio", down: true }).map((r) => r.rank), [2, 1, 0]);
});

test("refresh: once a second at most, slower for wide buckets and slow servers, but never forgotten", () => {
  assert.equal(refreshAfter(0, 0.01), 1);
  assert.equal(refreshAfter(0.1, 0.01), 2);
  assert.equal(refreshAfter(10, 0.01), 10);
  assert.equal(refreshAfter(1, 0.8), 3.2);
  assert.equal(refreshAfter(3600, 0.1), 15);
});

test("active findings: worst first, no info, nothing resolved", () => {
  const list = [
    finding({ id: "a" }),
    finding({ id: "b", severity: "critical", began_at: 1 }),
    finding({ id: "c", severity: "info" }),
    finding({ id: "d", state: "resolved" }),
    finding({ id: "e", began_at: 1300 }),
  ];
  assert.deepEqual(active(list).map((f) => f.id), ["b", "e", "a"]);
});

test("store tells its listeners", () => {
  const store = new Store();
  let seen = 0;
  store.subscribe(() => (seen += 1));
  store.set({ paused: true });
  assert.equal(seen, 1);
  assert.equal(store.state.paused, true);
});
