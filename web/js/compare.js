// Two runs beside each other: the server's comparison, and the series for the charts.

import { call, runPath, withQuery } from "./api.js";
import { failure } from "./stream.js";

/**
 * @typedef {import("./types.js").Comparison} Comparison
 * @typedef {import("./types.js").Series} Series
 * @typedef {{pair: [string, string], data: Comparison|null,
 *   courses: [Record<string, Series>, Record<string, Series>]|null, error: string|null,
 *   link: "live"|"unauthorized"}} Compared
 */

/** The metrics of the charts. */
export const COURSES = ["steps_per_s", "data_wait_ratio"];
const POINTS = 240;

/** @param {[string, string]} pair @returns {Promise<Compared>} */
export async function loadComparison(pair) {
  const [a, b] = pair;
  try {
    const [data, ...courses] = await Promise.all([
      call(withQuery("/compare", { a, b })),
      courseOf(a),
      courseOf(b),
    ]);
    return { pair, data, courses: /** @type {Compared["courses"]} */ (courses), error: null, link: "live" };
  } catch (error) {
    const link = failure(error);
    return {
      pair,
      data: null,
      courses: null,
      error: error instanceof Error ? error.message : String(error),
      link: link === "unauthorized" ? link : "live",
    };
  }
}

/** @param {string} run @returns {Promise<Record<string, Series>>} */
async function courseOf(run) {
  /** @type {Series[]} */
  const series = await call(withQuery(`${runPath(run)}/series`, { metric: COURSES, points: POINTS }));
  return Object.fromEntries(series.map((entry) => [entry.metric, entry]));
}

/** Whether one of the two runs still reports. @param {Compared|null} compared */
export const goesOn = (compared) =>
  compared?.data !== null &&
  [compared?.data?.a, compared?.data?.b].some((run) => run?.state === "live" || run?.state === "hung");
