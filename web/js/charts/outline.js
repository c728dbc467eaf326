// Bars that touch, drawn as one line around them. A path costs a browser as little as a few rectangles; a bar
// chart would need one per bucket and part.

import { toAxis } from "./axis.js";

/** @typedef {import("../types.js").Series} Series */

/**
 * The points of a line that changes half-way between two points ("hvh"): the middle of each bar, and points
 * at 0 around a hole.
 * @param {{t: number[], widths: number[], filled: boolean[]}} bars - begin and width in s, and which buckets
 *   have a bar
 * @returns {{t: number, at: number}[]} time in s, and the bucket of the point; -1: nothing is drawn
 */
export function outline({ t, widths, filled }) {
  /** @type {{t: number, at: number}[]} */
  const points = [];
  let edge = -Infinity;
  let half = 0;
  for (const [i, begin] of t.entries()) {
    if (!filled[i]) continue;
    const next_half = (widths[i] ?? 0) / 2;
    if (points.length === 0) points.push({ t: begin - next_half, at: -1 });
    else if (begin - edge > Math.min(half, next_half) / 2) {
      const [leave, enter] = [edge + half, begin - next_half];
      points.push(
        ...(enter > leave ? [leave, enter] : [(edge + begin) / 2]).map((at_t) => ({ t: at_t, at: -1 })),
      );
    }
    points.push({ t: begin + next_half, at: i });
    edge = begin + 2 * next_half;
    half = next_half;
  }
  if (points.length > 0) points.push({ t: edge + half, at: -1 });
  return points;
}

/**
 * One part of the bars as a trace.
 * @param {{t: number, at: number}[]} points @param {(number|null)[]} values - by bucket
 * @param {string} color
 * @param {{shape?: string, template: string, text?: string[], floor?: number}} look - `shape`: pattern
 *   instead of the full colour; `floor`: its lower edge
 * @returns {any}
 */
export function area(points, values, color, { shape = "", template, text, floor = 0 }) {
  const heights = points.map((p) => (p.at < 0 ? null : (values[p.at] ?? null)));
  return {
    type: "scatter",
    mode: "lines",
    x: points.map((p) => toAxis(p.t)),
    y: heights.map((v) => v ?? floor),
    line: { shape: "hvh", width: 0, color },
    fill: "tozeroy",
    fillcolor: color,
    ...(shape === ""
      ? {}
      : { fillpattern: { shape, fgcolor: color, bgcolor: "rgba(0,0,0,0)", size: 6, solidity: 0.3 } }),
    ...(text === undefined ? {} : { text: points.map((p) => text[p.at] ?? "") }),
    hoverinfo: heights.map((v) => (v === null ? "skip" : "all")),
    hovertemplate: heights.map((v) => (v === null ? "" : template)),
  };
}
