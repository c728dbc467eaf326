// When a change is drawn: the reader's actions at once, arriving data once a second.

/** @typedef {import("./store.js").State} State */

/** Time between two drawings while the reader acts, and for 1.5 s afterwards, while the answers arrive. */
export const ACTED_EVERY_MS = 250;
const ACTED_FOR_MS = 1500;
/** Time between two drawings of arriving data. Nobody reads faster, and each drawing costs. */
export const DATA_EVERY_MS = 1000;

/**
 * Buckets of a chart on a page of this width. Bars of six pixels are distinct, and cost half as much as bars
 * of three.
 * @param {number} width - px
 */
export const pointsFor = (width) => Math.max(160, Math.min(320, Math.round((width - 160) / 6)));

/** Parts of the state that change while the reader only looks. @type {ReadonlySet<string>} */
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

/**
 * Whether the reader changed something, or some data arrived for the first time.
 * @param {State} before @param {State} after
 */
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

/** Chooses the time between two drawings. */
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
