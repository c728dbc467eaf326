// What a step consists of: mean milliseconds per step, stacked, over time.

import { bandNames, epochNames, marks, timeLayout, toAxis, valueAxis } from "./axis.js";

/**
 * @typedef {import("../types.js").Series} Series
 * @typedef {import("../types.js").Palette} Palette
 * @typedef {{metric: string, name: string, color: keyof Palette}} Part
 */

/** In the order of a step, bottom up. @type {Part[]} */
export const PARTS = [
  { metric: "wait_s", name: "data wait", color: "wait" },
  { metric: "h2d_s", name: "H2D copy", color: "h2d" },
  { metric: "forward_s", name: "forward", color: "forward" },
  { metric: "backward_s", name: "backward", color: "backward" },
  { metric: "optimizer_s", name: "optimizer", color: "optimizer" },
  { metric: "other_s", name: "other", color: "other" },
];

/** @param {Series|undefined} series */
export function isEmpty(series) {
  return series === undefined || series.mean.every((v) => v === null);
}

/** The parts this run knows. Without model and optimizer all of a step is one part, and is called so. @param {Record<string, Series>} data @returns {Part[]} */
export function knownParts(data) {
  const parts = PARTS.filter((p) => !isEmpty(data[p.metric]));
  const split = parts.some((p) => !["wait_s", "other_s"].includes(p.metric));
  return split ? parts : parts.map((p) => (p.metric === "other_s" ? { ...p, name: "step" } : p));
}

/**
 * @param {{data: Record<string, Series>, epochs: import("../types.js").Epoch[], findings: import("../types.js").Finding[],
 *   range: import("../types.js").Range, width: number}} input
 * @param {Palette} palette
 * @returns {import("./axis.js").Figure}
 */
export function stepsFigure(input, palette) {
  const layout = timeLayout(palette, 260, input.range, input.width);
  layout.margin.t = 22;
  layout.yaxis = valueAxis(palette, { ticksuffix: " ms", title: undefined });
  layout.barmode = "stack";
  layout.bargap = 0;
  layout.shapes = marks(input.findings, input.epochs, input.range, palette, input.width);
  layout.annotations = [
    ...epochNames(input.epochs, input.range, palette, input.width),
    ...bandNames(input.findings, input.range, palette, input.width),
  ];
  const data = knownParts(input.data).map((part) => {
    const series = /** @type {Series} */ (input.data[part.metric]);
    const half = series.bucket_s / 2;
    return {
      type: "bar",
      name: part.name,
      x: series.t.map((t) => toAxis(t + half)),
      y: series.mean.map((v) => (v === null ? null : v * 1000)),
      width: series.bucket_s * 1000,
      marker: { color: palette[part.color], line: { width: 0 } },
      hovertemplate: "%{y:.1f} ms",
    };
  });
  return { data, layout };
}
