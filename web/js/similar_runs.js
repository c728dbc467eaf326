// Runs whose id or name comes near to one that does not exist.

/** @typedef {import("./types.js").RunRow} RunRow */

const MOST = 5;
/** Of the longer word, so many letters may be wrong. */
const WRONG_RATIO = 0.4;

/** Insertions, deletions and replacements that make one word the other (Levenshtein). @param {string} a @param {string} b */
export function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1)
      next.push(
        Math.min(
          (row[j] ?? 0) + 1,
          (next[j - 1] ?? 0) + 1,
          (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1),
        ),
      );
    row = next;
  }
  return row[b.length] ?? 0;
}

/** How far a run is from what was typed: 0 for the beginning of its id or name, 1 for nothing in common. @param {string} typed @param {RunRow} run */
function farness(typed, run) {
  const asked = typed.toLowerCase();
  return Math.min(
    ...[run.run_id, run.name].map((word) => {
      const known = word.toLowerCase();
      if (known.startsWith(asked) || (known !== "" && asked.startsWith(known))) return 0;
      return distance(asked.slice(0, 128), known.slice(0, 128)) / Math.max(asked.length, known.length, 1);
    }),
  );
}

/** The nearest first, newest first of those equally near. @param {string} typed @param {RunRow[]} runs @returns {RunRow[]} */
export function nearest(typed, runs) {
  return runs
    .map((run) => ({ run, far: farness(typed, run) }))
    .filter(({ far }) => far <= WRONG_RATIO)
    .sort((a, b) => a.far - b.far || b.run.started_at - a.run.started_at)
    .slice(0, MOST)
    .map(({ run }) => run);
}
