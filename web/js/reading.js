// The value of a series in its legend: under the pointer, or else the mean of the visible time.

import { clockBare } from "./format.js";
import { serverNow } from "./store.js";
import { say } from "./texts.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {import("./types.js").Series} Series
 */

/** @param {State} state @param {Series|undefined} series @returns {number|null} */
export function reading(state, series) {
  if (series === undefined) return null;
  if (state.pointed_at !== null) return series.mean[bucketAt(series, state.pointed_at)] ?? null;
  const knownMeans = /** @type {number[]} */ (series.mean.filter((v) => v !== null));
  return knownMeans.length === 0 ? null : knownMeans.reduce((sum, v) => sum + v, 0) / knownMeans.length;
}

/** @param {Series} series @param {number} t */
function bucketAt(series, t) {
  return Math.floor((t - (series.t[0] ?? 0)) / series.bucket_s + 1e-6);
}

/** What the values of a legend refer to. @param {State} state */
export function readingOf(state) {
  return state.pointed_at === null
    ? say("reading-of-means")
    : say("reading-at", { time: clockBare(state.pointed_at, serverNow(state)) });
}
