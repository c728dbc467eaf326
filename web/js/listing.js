// Which runs the list shows, and in which order. Pure.

/**
 * @typedef {import("./types.js").RunRow} RunRow
 * @typedef {import("./types.js").RunStatus} RunStatus
 * @typedef {object} Listing
 * @property {string} query - each word must occur in name, id, hosts, tags, note or verdict
 * @property {RunStatus[]} states - states to show; empty: all
 * @property {keyof typeof SORTS} sort
 */

/** Rank of each state in the order "by state": the worst first. @type {Record<string, number>} */
const TROUBLE = { hung: 0, crashed: 1, lost: 2, live: 3, finished: 4 };

/** @type {Record<string, number>} */
const WEIGHT = { critical: 0, warning: 1, info: 2, ok: 3 };

/** The comparison of two runs for each order. @type {Record<string, (a: RunRow, b: RunRow) => number>} */
export const SORTS = {
  newest: (a, b) => b.started_at - a.started_at,
  seen: (a, b) => b.last_seen_at - a.last_seen_at,
  trouble: (a, b) =>
    (TROUBLE[a.state] ?? 9) - (TROUBLE[b.state] ?? 9) ||
    (WEIGHT[a.severity ?? ""] ?? 9) - (WEIGHT[b.severity ?? ""] ?? 9),
  name: (a, b) => a.name.localeCompare(b.name),
  steps: (a, b) => (b.steps ?? -1) - (a.steps ?? -1),
};

/** @type {RunStatus[]} */
export const STATES = ["live", "hung", "crashed", "lost", "finished"];

/** @returns {Listing} */
export const wholeList = () => ({ query: "", states: [], sort: "newest" });

/**
 * The runs that match the reader's filters, pinned ones first.
 * @param {RunRow[]} runs @param {Listing} listing
 */
export function shownRuns(runs, listing) {
  const compare = SORTS[listing.sort] ?? /** @type {(a: RunRow, b: RunRow) => number} */ (SORTS.newest);
  return runs
    .filter(
      (run) =>
        (listing.states.length === 0 || listing.states.includes(run.state)) && matches(run, listing.query),
    )
    .sort(
      (a, b) =>
        Number(b.pinned ?? false) - Number(a.pinned ?? false) || compare(a, b) || b.started_at - a.started_at,
    );
}

/** The number of matching runs in each state. @param {RunRow[]} runs @param {string} query */
export function stateCounts(runs, query) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const run of runs) if (matches(run, query)) counts[run.state] = (counts[run.state] ?? 0) + 1;
  return counts;
}

/** @param {RunRow} run @param {string} query */
function matches(run, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const text = [
    run.name,
    run.script ?? "",
    run.run_id,
    run.verdict ?? "",
    run.note ?? "",
    ...run.hosts,
    ...(run.tags ?? []).map((tag) => `#${tag}`),
  ].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}
