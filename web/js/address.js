// The part of the address after the "?": time range, rank and alert, or the filter of the list of runs. A
// link restores them. The path names the page (store.js). Pure.

import { SORTS, STATES, wholeList } from "./listing.js";
import { shownRange } from "./store.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {import("./store.js").View} View
 */

const LONGEST_S = 400 * 86400;
const LATEST = 4e9; // the server accepts no later time

/**
 * What an address asks for. Values that the address does not name are left out.
 * @param {string} hash @returns {{seen: Partial<State>, alert: string|null}}
 */
export function parseSeen(hash) {
  const query = new URLSearchParams(hash.split("?")[1] ?? "");
  /** @type {Partial<State>} */
  const seen = {};
  const view = viewOf(query);
  if (view !== null) Object.assign(seen, { view, view_asked: true });
  const rank = query.get("rank") ?? "";
  if (/^\d{1,6}$/.test(rank)) Object.assign(seen, { rank: Number(rank), rank_asked: true });
  if (["q", "state", "sort"].some((name) => query.has(name))) seen.listing = listingOf(query);
  return { seen, alert: query.get("alert") };
}

/** @param {URLSearchParams} query @returns {View|null} */
function viewOf(query) {
  if (query.get("range") === "all") return { kind: "all" };
  const [start, end, span_s] = ["from", "to", "last"].map((name) => Number(query.get(name) ?? NaN));
  if (start !== undefined && end !== undefined && start >= 0 && end <= LATEST && end - start >= 1)
    return { kind: "fixed", start, end };
  if (span_s !== undefined && span_s >= 10 && span_s <= LONGEST_S) return { kind: "last", span_s };
  return null;
}

/** @param {URLSearchParams} query */
function listingOf(query) {
  const states = (query.get("state") ?? "").split(",");
  const sort = query.get("sort") ?? "";
  return {
    query: (query.get("q") ?? "").slice(0, 200),
    states: STATES.filter((state) => states.includes(state)),
    sort: sort in SORTS ? sort : wholeList().sort,
  };
}

/** The query that restores the current view; "" for the default view. @param {State} state */
export function seenQuery(state) {
  const { route, listing, view } = state;
  /** @type {Record<string, string>} */
  const query = {};
  if (route.page === "runs") {
    if (listing.query !== "") query.q = listing.query;
    if (listing.states.length > 0) query.state = listing.states.join(",");
    if (listing.sort !== wholeList().sort) query.sort = listing.sort;
  } else if (route.run !== null) {
    if (view.kind === "fixed") Object.assign(query, fixed(view));
    else if (!isUsual(state))
      Object.assign(query, view.kind === "all" ? { range: "all" } : { last: String(view.span_s) });
    if (route.page === "run" && state.rank_asked && state.rank !== null) query.rank = String(state.rank);
    Object.assign(query, alertOf(state));
  }
  return String(new URLSearchParams(query));
}

/**
 * The address with its time range as two fixed moments: "the last five minutes" would be other minutes for
 * the person who opens the link.
 * @param {State} state @param {string} hash
 */
export function frozenHash(state, hash) {
  const range = shownRange(state);
  if (range === null) return hash;
  /** @type {Record<string, string>} */
  const query = { ...fixed(range), ...alertOf(state) };
  if (state.route.page === "run" && state.rank !== null) query.rank = String(state.rank);
  return `${hash.split("?")[0]}?${new URLSearchParams(query)}`;
}

/** @param {{start: number, end: number}} range */
const fixed = ({ start, end }) => ({
  from: String(Math.round(start * 1000) / 1000),
  to: String(Math.round(end * 1000) / 1000),
});

/** The unfolded alert, unless the path names it. @param {State} state @returns {Record<string, string>} */
function alertOf(state) {
  const unfolded = state.findings.find((f) => state.open[f.id]);
  return unfolded === undefined || unfolded.id === state.route.finding ? {} : { alert: unfolded.id };
}

/** @param {State} state */
function isUsual(state) {
  const over = state.summary !== null && state.summary.state !== "live" && state.summary.state !== "hung";
  return over
    ? state.view.kind === "all"
    : state.summary === null
      ? !state.view_asked
      : state.view.kind === "last" && state.view.span_s === 300;
}
