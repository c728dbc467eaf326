// The reasons for a reduced GPU clock, over time: a band per reason, as high as its share of the time.

import { percent } from "../format.js";
import { say } from "../texts.js";
import { NARROW, bands, epochMarks, timeLayout, valueAxis } from "./axis.js";
import { area, outline } from "./outline.js";
import { isEmpty } from "./steps.js";

/**
 * @typedef {import("../types.js").Series} Series
 * @typedef {import("../theme.js").Palette} Palette
 * @typedef {{metric: string, reason: string, color: keyof Palette, shape: string}} Reason - `reason`: the
 *   API's name
 */

/** The last reason is a limit that somebody set, no fault. Shapes tell them apart. @type {Reason[]} */
export const REASONS = [
  { metric: "gpu_slowed_hardware_ratio", reason: "hardware slowdown", color: "critical", shape: "" },
  {
    metric: "gpu_slowed_hardware_thermal_ratio",
    reason: "hardware thermal slowdown",
    color: "wait",
    shape: "x",
  },
  {
    metric: "gpu_slowed_software_thermal_ratio",
    reason: "software thermal slowdown",
    color: "power",
    shape: "/",
  },
  {
    metric: "gpu_slowed_hardware_power_brake_ratio",
    reason: "hardware power brake",
    color: "h2d",
    shape: ".",
  },
  { metric: "gpu_slowed_power_cap_ratio", reason: "power cap", color: "others", shape: "-" },
];

export const ASKED = REASONS.map((r) => r.metric);

const ROW_PX = 30;

/** The reasons that occurred. @param {Record<string, Series>} data @returns {Reason[]} */
export function heldBy(data) {
  return REASONS.filter((r) => data[r.metric]?.max.some((v) => (v ?? 0) > 0));
}

/** Whether the driver reports reasons. @param {Record<string, Series>|null} data */
export function isTold(data) {
  return data !== null && REASONS.some((r) => !isEmpty(data[r.metric]));
}

/** @param {number} reasons */
export function slowedHeight(reasons) {
  return Math.max(1, reasons) * ROW_PX + 34;
}

/**
 * @param {{data: Record<string, Series>, epochs: import("./axis.js").EpochMark[],
 *   findings: import("../types.js").Finding[], range: import("../store.js").Range, width: number}} input
 * @param {Palette} palette @returns {import("./axis.js").Figure}
 */
export function slowedFigure(input, palette) {
  const reasons = heldBy(input.data);
  const layout = timeLayout(palette, slowedHeight(reasons.length), input.range, input.width);
  layout.shapes = [
    ...bands(input.findings, input.range, palette),
    ...epochMarks(input.epochs, input.range, palette, input.width),
  ];
  layout.yaxis = valueAxis(palette, {
    range: [reasons.length, 0], rangemode: "normal", tickmode: "array", showgrid: false,
    tickvals: reasons.map((_, i) => i + 0.5), ticktext: reasons.map((r) => shortName(r, input.width)),
  });
  const data = reasons.flatMap((r, row) => {
    const series = /** @type {Series} */ (input.data[r.metric]);
    const floor = row + 0.92;
    const points = outline({
      t: series.t,
      widths: series.t.map(() => series.bucket_s),
      filled: series.mean.map((v) => v !== null),
    });
    const tops = series.mean.map((v) => (v === null ? null : floor - 0.84 * v));
    const band = area(points, tops, /** @type {string} */ (palette[r.color]), {
      shape: r.shape,
      template: "%{text}",
      text: series.mean.map((v) => percent(v)),
      floor,
    });
    const ground = {
      type: "scatter",
      mode: "lines",
      x: band.x,
      y: points.map(() => floor),
      line: { width: 0 },
      hoverinfo: "skip",
      name: "",
    };
    return [ground, { ...band, name: slowedBy(r.reason), fill: "tonexty" }];
  });
  return { data, layout };
}

/** A reason as a variant of a message, which has no spaces. @param {string} reason */
const variant = (reason) => reason.replaceAll(" ", "-");

/** A reason for a reduced clock in words. @param {string} reason - as the API names it */
export const slowedBy = (reason) => say("slowed-by", { reason: variant(reason), said: reason });

/** The name of a reason; in a narrow chart only its last word. @param {Reason} held @param {number} width */
function shortName(held, width) {
  const name = say("slowed-by-short", { reason: variant(held.reason) });
  return width < NARROW ? name.split(" ").at(-1) : name;
}
