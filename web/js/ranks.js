// The ranks of a run: rows from the live stream, rows from answers, and the page of the table in view.

import { sorted } from "./store.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {import("./types.js").Summary} Summary
 * @typedef {import("./types.js").RankRow} RankRow
 */

/** Rows on one page of the table. */
export const PAGE_ROWS = 16;
/** With more ranks than this the heat map has a row per host, and readers type a rank's number. */
export const MANY_RANKS = 64;

/** Measurements of a rank before the first answer. */
const NOT_ASKED = {
  eval_batches: 0,
  step: null,
  epoch: null,
  batch: null,
  phase: null,
  phase_age_s: null,
  steps_per_s: null,
  data_wait_ratio: null,
  step_s: null,
  wait_s: null,
  ready_batches: null,
  gpu_utilization_ratio: null,
  seen_at: null,
  in_detail: true,
};

/**
 * The summary after a message of the stream. A partial message holds only changes. Rows of the stream lack
 * measurements, which stay as in the last answer.
 * @param {Summary|null} before @param {{summary: any, partial?: boolean}} message @returns {Summary}
 */
export function heard(before, message) {
  const { summary, partial } = message;
  if (before === null || (!partial && before.attempt !== summary.attempt))
    return { ...summary, ranks: summary.ranks.map((/** @type {any} */ r) => ({ ...NOT_ASKED, ...r })) };
  const rows = summary.ranks ?? [];
  if (partial) return { ...before, ...summary, ranks: merged(before.ranks, rows) };
  const rowsByRank = new Map(before.ranks.map((r) => [r.rank, r]));
  return {
    ...summary,
    ranks: rows.map((/** @type {any} */ r) => ({ ...NOT_ASKED, ...rowsByRank.get(r.rank), ...r })),
  };
}

/** The rows with their news. @param {RankRow[]} rows @param {any[]} news @returns {RankRow[]} */
function merged(rows, news) {
  if (news.length === 0) return rows;
  const newsByRank = new Map(news.map((r) => [r.rank, r]));
  return rows.map((r) => (newsByRank.has(r.rank) ? { ...r, ...newsByRank.get(r.rank) } : r));
}

/**
 * The state with the answer of a card. Rows of ranks also update the summary.
 * @param {State} state @param {string} id @param {import("./store.js").CardData} card @returns {State}
 */
export function answered(state, id, card) {
  const next = { ...state, cards: { ...state.cards, [id]: card } };
  const rows = id === "ranks" || id === "rank_row" ? (card.data?.rows ?? []) : [];
  const add = (/** @type {Summary|null} */ s) => (s === null ? null : { ...s, ranks: merged(s.ranks, rows) });
  return rows.length === 0 ? next : { ...next, summary: add(state.summary), heard: add(state.heard) };
}

/** Whether the server's numbers of the ranks still change. @param {State} state */
export function goesOn(state) {
  return state.route.attempt === null && (state.summary?.state === "live" || state.summary?.state === "hung");
}

/** Whether the summary lists only some of the ranks. @param {Summary} s */
export const isLarge = (s) => s.rank_count > s.ranks.length;

/** Whether to request rows: numbers still change, or the summary lacks some ranks. @param {State} state */
export function asksForRows(state) {
  return goesOn(state) || (state.summary !== null && (isLarge(state.summary) || chosenGroup(state) !== null));
}

/** The group of ranks that the table shows. @param {State} state @returns {string|null} */
export const chosenGroup = (state) => state.choices["ranks.group"] || null;

/** The summary of a large run does not list every rank. @param {Summary} s @param {number|null} rank */
export function hasRank(s, rank) {
  return (
    rank !== null &&
    (s.ranks.some((r) => r.rank === rank) ||
      (isLarge(s) && Number.isInteger(rank) && rank >= 0 && rank < s.world_size))
  );
}

/**
 * The row of a rank, from the summary or from an answer.
 * @param {State} state @param {number|null} rank @returns {RankRow|null}
 */
export function rowOf(state, rank) {
  /** @param {RankRow[]|undefined} rows */
  const of = (rows) => rows?.find((r) => r.rank === rank) ?? null;
  return of(state.summary?.ranks) ?? of(state.cards.rank_row?.data?.rows);
}

/**
 * The rank before (-1) or after (1) a rank.
 * @param {Summary} s @param {number|null} rank @param {number} by @returns {number|null}
 */
export function neighbourOf(s, rank, by) {
  if (isLarge(s)) return rank !== null && hasRank(s, rank + by) ? rank + by : null;
  const at = s.ranks.findIndex((r) => r.rank === rank);
  return at < 0 ? null : (s.ranks[at + by]?.rank ?? null);
}

/** What the table requests from the server. @param {State} state */
export function pageAsked(state) {
  return {
    sort: state.sort.by,
    down: state.sort.down,
    offset: Number(state.choices["ranks.offset"] ?? 0),
    limit: PAGE_ROWS,
    find: state.choices["ranks.find"] ?? "",
    group: chosenGroup(state),
    attempt: state.route.attempt,
  };
}

/**
 * The page of the table. The server sorts it; for a run that is over, this function does.
 * @param {State} state @returns {{total: number, offset: number, rows: RankRow[]}}
 */
export function pageShown(state) {
  const { offset, find } = pageAsked(state);
  const answer = asksForRows(state) ? (state.cards.ranks?.data ?? null) : null;
  if (answer !== null) return { total: answer.total, offset: answer.offset, rows: answer.rows };
  const matching = sorted((state.summary?.ranks ?? []).filter((r) => matches(r, find)), state.sort);
  // Until the server answers, the table shows the ranks that the summary lists.
  const all = state.summary !== null && isLarge(state.summary) && find === "";
  return {
    total: all ? (state.summary?.rank_count ?? 0) : matching.length,
    offset,
    rows: matching.slice(offset, offset + PAGE_ROWS),
  };
}

/** Every word must match the number, host, state or phase. @param {RankRow} row @param {string} find */
export function matches(row, find) {
  const texts = [row.host, row.state, row.phase ?? ""].map((t) => t.toLowerCase());
  return find
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "" && word !== "rank")
    .every((word) => (/^\d+$/.test(word) ? row.rank === Number(word) : texts.some((t) => t.includes(word))));
}
