// GPU utilization, with power on a second axis; compute duty if there is no GPU. Gaps stay gaps.

import { percent } from "../format.js";
import { say } from "../texts.js";
import { fade, marks, niceTop, timeLayout, toAxis, valueAxis } from "./axis.js";
import { isEmpty } from "./steps.js";

/** @typedef {import("../types.js").Series} Series */

/**
 * @param {{data: Record<string, Series>, epochs: import("./axis.js").EpochMark[],
 *   findings: import("../types.js").Finding[], range: import("../store.js").Range, width: number}} input
 * @param {import("../theme.js").Palette} palette @returns {import("./axis.js").Figure}
 */
export function gpuFigure(input, palette) {
  const layout = timeLayout(palette, 170, input.range, input.width);
  layout.yaxis = valueAxis(palette, {
    range: [0, 104],
    tickmode: "array",
    tickvals: [0, 25, 50, 75, 100],
    ticktext: [percent(0), "", percent(0.5), "", percent(1)],
  });
  layout.shapes = marks(input.findings, input.epochs, input.range, palette, input.width);
  const main = isEmpty(input.data.gpu_utilization_ratio)
    ? input.data.compute_duty_ratio
    : input.data.gpu_utilization_ratio;
  /** @type {any[]} */
  const data = [];
  if (main !== undefined && !isEmpty(main)) {
    const gpu = main === input.data.gpu_utilization_ratio;
    data.push(ground(main, 100, fade(palette.gpu, 0.14), GPU_GAP_S));
    data.push({
      ...line(main, 100, GPU_GAP_S),
      name: say(gpu ? "chart-utilization" : "chart-compute-duty"),
      line: { color: palette.gpu, width: 1.5, shape: "hvh" },
      hovertemplate: say("chart-percent-read", { value: "%{y:.0f}" }),
    });
  }
  const power = input.data.gpu_power_w;
  if (power !== undefined && !isEmpty(power)) {
    const top = niceTop(Math.max(...power.mean.map((v) => v ?? 0)));
    layout.yaxis2 = valueAxis(palette, {
      overlaying: "y",
      side: "right",
      showgrid: false,
      range: [0, top * 1.04], // puts its ticks on the grid of the left axis
      tickmode: "array",
      tickvals: [0, top / 2, top],
      ticktext: [0, top / 2, top].map((v) => `${v} W`),
    });
    data.push({
      ...line(power, 1, GPU_GAP_S),
      name: say("chart-power"),
      yaxis: "y2",
      line: { color: palette.power, width: 1.5, dash: "4px,2px" }, // dashed: distinct without colour
      hovertemplate: "%{y:.0f} W",
    });
  }
  return { data, layout };
}

/**
 * The tint below a line. It falls to zero in gaps, because Plotly would fill across them.
 * @param {Series} series @param {number} scale @param {string} color @param {number} [gap_s] @returns {any}
 */
export function ground(series, scale, color, gap_s = GAP_S) {
  const flat = line(series, scale, gap_s);
  return {
    ...flat,
    y: flat.y.map((/** @type {number|null} */ v) => v ?? 0),
    line: { width: 0, shape: "hvh" },
    fill: "tozeroy",
    fillcolor: color,
    hoverinfo: "skip",
    name: "",
  };
}

/** Bucket means. @param {Series} series @param {number} scale @param {number} [gap_s] @returns {any} */
export function line(series, scale, gap_s = GAP_S) {
  const half = series.bucket_s / 2;
  const at = bridged(series, gap_s);
  return {
    type: "scatter",
    mode: "lines",
    x: at.map((i) => toAxis(/** @type {number} */ (series.t[i]) + half)),
    y: at.map((i) => {
      const v = series.mean[i] ?? null;
      return v === null ? null : v * scale;
    }),
    connectgaps: false,
  };
}

/** Longest silence that is no gap in series sampled once a second. Faster series show shorter gaps. */
const GAP_S = 2.5;
const GPU_GAP_S = 1;

/**
 * The buckets to draw. Empty buckets are drawn only where they make a gap.
 * @param {Series} series @param {number} [gap_s] @returns {number[]}
 */
export function bridged(series, gap_s = GAP_S) {
  /** @type {number[]} */
  const out = [];
  /** @type {number[]} */
  let empty = [];
  series.mean.forEach((v, i) => {
    if (v === null) {
      empty.push(i);
      return;
    }
    if (empty.length * series.bucket_s >= gap_s || out.length === 0) out.push(...empty);
    empty = [];
    out.push(i);
  });
  return [...out, ...empty];
}
