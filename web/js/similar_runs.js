// Runs whose id or name is similar to one that does not exist.

/** @typedef {import("./types.js").RunRow} RunRow */

const MOST = 5;
/** Most wrong letters, as a share of the longer word. */
const WRONG_RATIO = 0.4;

/** Single-letter edits between two words (Levenshtein). @param {string} a @param {string} b */
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

/**
 * The distance of a run from the typed text: 0 if its id or name begins with the text, 1 if nothing agrees.
 * @param {string} typed @param {RunRow} run
 */
function farness(typed, run) {
  const wantedWord = typed.toLowerCase();
  return Math.min(
    ...[run.run_id, run.name].map((word) => {
      const runWord = word.toLowerCase();
      if (runWord.startsWith(wantedWord) || (runWord !== "" && wantedWord.startsWith(runWord))) return 0;
      return (
        distance(wantedWord.slice(0, 128), runWord.slice(0, 128)) /
        Math.max(wantedWord.length, runWord.length, 1)
      );
    }),
  );
}

/** Most similar first, then newest first. @param {string} typed @param {RunRow[]} runs @returns {RunRow[]} */
export function nearest(typed, runs) {
  return runs
    .map((run) => ({ run, far: farness(typed, run) }))
    .filter(({ far }) => far <= WRONG_RATIO)
    .sort((a, b) => a.far - b.far || b.run.started_at - a.run.started_at)
    .slice(0, MOST)
    .map(({ run }) => run);
}
