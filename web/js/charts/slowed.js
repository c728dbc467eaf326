// What holds a GPU's clock down, over time: a band per reason, as high as the share of time it held.

import { percent } from "../format.js";
import { NARROW, bands, epochMarks, timeLayout, toAxis, valueAxis } from "./axis.js";
import { isEmpty } from "./steps.js";

/**
 * @typedef {import("../types.js").Series} Series
 * @typedef {import("../theme.js").Palette} Palette
 * @typedef {{metric: string, name: string, short: string, color: keyof Palette, shape: string}} Reason
 */

/** The last is a limit that was set, and no fault. The shapes tell them apart without colour. @type {Reason[]} */
export const REASONS = [
  { metric: "gpu_slowed_hardware_ratio", name: "hardware slowdown", short: "hardware", color: "critical", shape: "" },
  { metric: "gpu_slowed_hardware_thermal_ratio", name: "hardware thermal slowdown", short: "hw heat", color: "wait", shape: "x" },
  { metric: "gpu_slowed_software_thermal_ratio", name: "software thermal slowdown", short: "heat", color: "power", shape: "/" },
  { metric: "gpu_slowed_hardware_power_brake_ratio", name: "hardware power brake", short: "brake", color: "h2d", shape: "." },
  { metric: "gpu_slowed_power_cap_ratio", name: "power cap", short: "cap", color: "other", shape: "-" },
];

export const ASKED = REASONS.map((r) => r.metric);

const ROW_PX = 30;

/** The reasons that held at all. @param {Record<string, Series>} data @returns {Reason[]} */
export function heldBy(data) {
  return REASONS.filter((r) => data[r.metric]?.max.some((v) => (v ?? 0) > 0));
}

/** Whether the driver tells of reasons. @param {Record<string, Series>|null} data */
export function isTold(data) {
  return data !== null && REASONS.some((r) => !isEmpty(data[r.metric]));
}

/** @param {number} reasons */
export function slowedHeight(reasons) {
  return Math.max(1, reasons) * ROW_PX + 34;
}

/**
 * @param {{data: Record<string, Series>, epochs: import("./axis.js").EpochMark[], findings: import("../types.js").Finding[],
 *   range: import("../store.js").Range, width: number}} input
 * @param {Palette} palette
 * @returns {import("./axis.js").Figure}
 */
export function slowedFigure(input, palette) {
  const reasons = heldBy(input.data);
  const layout = timeLayout(palette, slowedHeight(reasons.length), input.range, input.width);
  layout.shapes = [...bands(input.findings, input.range, palette), ...epochMarks(input.epochs, input.range, palette, input.width)];
  layout.barmode = "overlay";
  layout.bargap = 0;
  layout.yaxis = valueAxis(palette, {
    range: [reasons.length, 0], rangemode: "normal", tickmode: "array", showgrid: false,
    tickvals: reasons.map((_, i) => i + 0.5), ticktext: reasons.map((r) => (input.width < NARROW ? r.short.split(" ").at(-1) : r.short)),
  });
  const data = reasons.map((r, row) => {
    const series = /** @type {Series} */ (input.data[r.metric]);
    const color = /** @type {string} */ (palette[r.color]);
    return {
      type: "bar",
      name: r.name,
      x: series.t.map((t) => toAxis(t + series.bucket_s / 2)),
      base: series.mean.map((v) => row + 0.92 - 0.84 * (v ?? 0)),
      y: series.mean.map((v) => (v === null ? null : 0.84 * v)),
      width: series.bucket_s * 1000,
      text: series.mean.map((v) => percent(v)),
      textposition: "none",
      marker: r.shape === "" ? { color, line: { width: 0 } } : { color: "rgba(0,0,0,0)", pattern: { shape: r.shape, fgcolor: color, bgcolor: "rgba(0,0,0,0)", size: 6, solidity: 0.4 }, line: { width: 0 } },
      hovertemplate: "%{text}",
    };
  });
  return { data, layout };
}
