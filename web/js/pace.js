// How soon a change is drawn: at once what the reader does, once a second what arrives by itself.

/** @typedef {import("./store.js").State} State */

/** Between two drawings while the reader does something, and for so long after it, as the answers come. */
export const ACTED_EVERY_MS = 250;
const ACTED_FOR_MS = 1500;
/** Between two drawings of what arrives by itself. Faster than this nobody reads, and each drawing costs. */
export const DATA_EVERY_MS = 1000;

/** Buckets of a chart on a page of this width: bars of six pixels, which are told apart and cost half of those of three. @param {number} width - px */
export const pointsFor = (width) => Math.max(160, Math.min(320, Math.round((width - 160) / 6)));

/** What moves on while the reader only looks. @type {ReadonlySet<string>} */
const MOVES = new Set([
  "summary",
  "heard",
  "findings",
  "findings_version",
  "cards",
  "clock",
  "offset",
  "ticked_at",
  "newest_at",
  "runs",
  "runs_error",
]);

/** Whether something changed that the reader did, or that is there for the first time. @param {State} before @param {State} after */
export function isUrgent(before, after) {
  for (const [name, value] of Object.entries(after))
    if (!MOVES.has(name) && value !== /** @type {any} */ (before)[name]) return true;
  if (
    (before.summary === null) !== (after.summary === null) ||
    (before.runs === null) !== (after.runs === null)
  )
    return true;
  return (
    after.cards !== before.cards && Object.keys(after.cards).some((id) => before.cards[id] === undefined)
  );
}

/** Says how long to wait between two drawings. */
export class Pace {
  constructor() {
    this.until = 0;
  }

  /** @param {State} before @param {State} after @param {number} now - ms @returns {number} ms */
  between(before, after, now) {
    if (isUrgent(before, after)) this.until = now + ACTED_FOR_MS;
    return now < this.until ? ACTED_EVERY_MS : DATA_EVERY_MS;
  }
}
