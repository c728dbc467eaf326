// The parts of a step: mean milliseconds per step, stacked, over time.

import { duration } from "../format.js";
import { say } from "../texts.js";
import { bandNames, epochNames, marks, niceTop, timeLayout, toAxis, valueAxis } from "./axis.js";
import { area, outline } from "./outline.js";

/**
 * @typedef {import("../types.js").Series} Series
 * @typedef {import("../theme.js").Palette} Palette
 * @typedef {{metric: string, color: keyof Palette, hatch?: boolean, whole?: boolean}} Part - `whole`: the
 *   step without its waits
 */

/** Bottom up, in the order of a step. @type {Part[]} */
export const PARTS = [
  { metric: "data_wait_s", color: "wait" },
  { metric: "hidden_s", color: "gpu", hatch: true },
  { metric: "h2d_s", color: "h2d" },
  { metric: "forward_s", color: "forward" },
  { metric: "backward_s", color: "backward" },
  { metric: "optimizer_s", color: "optimizer" },
  { metric: "other_s", color: "other" },
  { metric: "others_wait_s", color: "others", hatch: true },
];

const PHASES = ["h2d_s", "forward_s", "backward_s", "optimizer_s"];

/** The metrics of the chart: parts of a step, waits of the loop, whole iterations, and GPU time per phase. */
export const ASKED = [
  ...PARTS.map((p) => p.metric).filter((metric) => metric !== "hidden_s"),
  "wait_s",
  "iteration_s",
  ...PHASES.map((metric) => `gpu_${metric}`),
];

/** A smaller difference between the loop's wait and the data wait is no part of a step. */
const LEAST_HIDDEN_S = 1e-6;

/**
 * The parts of a step by the best clock. The loop's wait beyond the data wait is a part of its own: the GPU
 * still worked then. Buckets without a known data wait stay empty.
 * @param {Record<string, Series>} data @returns {Record<string, Series>}
 */
export function byDevice(data) {
  const { wait_s: loop, data_wait_s: lost } = data;
  if (loop === undefined || lost === undefined) return data;
  const hidden = lost.mean.map((v, i) => (v === null ? null : Math.max(0, (loop.mean[i] ?? v) - v)));
  const open = lost.mean.map((v, i) => v === null && (loop.mean[i] ?? null) !== null);
  const timed = isOnDevice(data);
  if (!timed && !open.some(Boolean) && hidden.every((v) => v === null || v < LEAST_HIDDEN_S)) return data;
  const seriesByMetric = Object.fromEntries(
    Object.entries(data).map(([metric, series]) => [
      metric,
      metric.startsWith("gpu_") ? series : without(series, open),
    ]),
  );
  const withHidden = {
    ...seriesByMetric,
    hidden_s: { ...lost, metric: "hidden_s", min: hidden, mean: hidden, max: hidden },
  };
  return timed ? phasesByDevice(withHidden) : withHidden;
}

/** @param {Series} series @param {boolean[]} open @returns {Series} */
function without(series, open) {
  /** @param {(number|null)[]} values */
  const kept = (values) => values.map((v, i) => (open[i] ? null : v));
  return { ...series, min: kept(series.min), mean: kept(series.mean), max: kept(series.max) };
}

/** Whether data wait or phases are timed by the GPU. @param {Record<string, Series>|null} data */
export function isByDevice(data) {
  return isOnDevice(data) || !isEmpty(data?.hidden_s);
}

/** Whether the GPU timed its phases. @param {Record<string, Series>|null} data */
export function isOnDevice(data) {
  return data !== null && PHASES.some((metric) => !isEmpty(data[`gpu_${metric}`]));
}

/**
 * The phases as timed by the GPU, instead of the launching calls. The GPU times few steps, so that a bucket
 * without one keeps the previous time. The rest of an iteration is "other": its length does not change.
 * @param {Record<string, Series>} data @returns {Record<string, Series>}
 */
function phasesByDevice(data) {
  const wait = /** @type {Series} */ (data.data_wait_s);
  const mean = totals(
    PARTS.filter((p) => data[p.metric] !== undefined && p.metric !== "others_wait_s"),
    data,
  );
  /** @type {Record<string, (number|null)[]>} */
  const timed = Object.fromEntries(PHASES.map((metric) => [metric, held(data[`gpu_${metric}`], wait)]));
  /** @type {Record<string, (number|null)[]>} */
  const spent = Object.fromEntries(PHASES.map((metric) => [metric, []]));
  const other_s = mean.map((whole, i) => {
    let left = whole === null ? 0 : Math.max(0, whole - (wait.mean[i] ?? 0));
    for (const metric of PHASES) {
      const v = timed[metric]?.[i] ?? null;
      spent[metric]?.push(whole === null || v === null ? null : Math.min(v, left));
      left -= Math.min(v ?? 0, left);
    }
    return whole === null ? null : left;
  });
  const { hidden_s: _, ...rest } = data;
  const phases = PHASES.filter((metric) => spent[metric]?.some((v) => v !== null)).map((metric) => {
    const values = spent[metric] ?? [];
    return [metric, { ...wait, metric, min: values, mean: values, max: values }];
  });
  const others = Object.fromEntries(Object.entries(rest).filter(([metric]) => !PHASES.includes(metric)));
  return {
    ...others,
    ...Object.fromEntries(phases),
    other_s: { ...wait, metric: "other_s", min: other_s, mean: other_s, max: other_s },
  };
}

/**
 * A series in the buckets of another. A bucket without a value keeps the previous one.
 * @param {Series|undefined} series @param {Series} like @returns {(number|null)[]}
 */
export function held(series, like) {
  if (series === undefined) return like.t.map(() => null);
  const began = series.t[0] ?? 0;
  /** @type {number|null} */
  let last = series.mean.find((v) => v !== null) ?? null;
  let at = 0;
  return like.t.map((t) => {
    const until = Math.floor((t - began) / series.bucket_s + 1e-6);
    for (; at <= until; at += 1) last = series.mean[at] ?? last;
    return last;
  });
}

/** @param {Series|undefined} series */
export function isEmpty(series) {
  return series === undefined || series.mean.every((v) => v === null);
}

/**
 * The parts that this run has. Without model and optimizer a step is one part, named as such.
 * @param {Record<string, Series>} data @returns {Part[]}
 */
export function knownParts(data) {
  const parts = PARTS.filter((p) => !isEmpty(data[p.metric]));
  const split = parts.some(
    (p) => !["data_wait_s", "hidden_s", "other_s", "others_wait_s"].includes(p.metric),
  );
  return split ? parts : parts.map((p) => (p.metric === "other_s" ? { ...p, whole: true } : p));
}

/** @param {Part} part */
export const partName = (part) => say("step-part", { part: part.whole ? "whole" : part.metric });

/**
 * @param {{data: Record<string, Series>, epochs: import("./axis.js").EpochMark[],
 *   findings: import("../types.js").Finding[], range: import("../store.js").Range, width: number}} input
 * @param {Palette} palette @returns {import("./axis.js").Figure}
 */
export function stepsFigure(input, palette) {
  const layout = timeLayout(palette, 260, input.range, input.width);
  layout.margin.t = 22;
  layout.yaxis = valueAxis(palette, { ticksuffix: " ms", title: undefined });
  layout.shapes = marks(input.findings, input.epochs, input.range, palette, input.width);
  layout.annotations = [
    ...epochNames(input.epochs, input.range, palette, input.width),
    ...bandNames(input.findings, input.range, palette, input.width),
  ];
  const parts = knownParts(input.data);
  const total = totals(parts, input.data);
  const first = input.data[parts[0]?.metric ?? ""];
  const longest = input.data.iteration_s?.max ?? total;
  const widths = first === undefined ? [] : barWidths(first, longest);
  const points =
    first === undefined ? [] : outline({ t: first.t, widths, filled: total.map((v) => v !== null) });
  const data = parts.map((part) => {
    const values = /** @type {Series} */ (input.data[part.metric]).mean.map((v) =>
      v === null ? null : v * 1000,
    );
    const color = /** @type {string} */ (palette[part.color]);
    return {
      ...area(points, values, color, {
        shape: part.hatch ? "/" : "",
        template: say("chart-ms-read", { value: "%{y:.1f}" }),
      }),
      name: partName(part),
      stackgroup: "step",
      fill: "tonexty",
    };
  });
  const top = ceiling(total);
  if (top !== null && first !== undefined) {
    layout.yaxis.range = [0, top * 1000];
    layout.annotations.push(...clipped(first, widths, total, longest, top, input, palette));
  }
  return { data, layout };
}

/**
 * Mean seconds of a whole step per bucket; null: the bucket has no step.
 * @param {Part[]} parts @param {Record<string, Series>} data @returns {(number|null)[]}
 */
export function totals(parts, data) {
  const length = Math.max(0, ...parts.map((p) => data[p.metric]?.mean.length ?? 0));
  return Array.from({ length }, (_, i) => {
    const values = parts.map((p) => data[p.metric]?.mean[i] ?? null);
    return values.every((v) => v === null)
      ? null
      : values.reduce((sum, v) => /** @type {number} */ (sum) + (v ?? 0), 0);
  });
}

/**
 * A bar is as wide as its bucket, or as its longest step if that is longer: a steady run has no holes.
 * @param {Series} series @param {(number|null)[]} longest - step that began in each bucket
 * @returns {number[]} seconds
 */
export function barWidths(series, longest) {
  const { t, bucket_s } = series;
  const widths = t.map(() => bucket_s);
  let next = Infinity;
  for (let i = t.length - 1; i >= 0; i -= 1) {
    const step = longest[i] ?? null;
    if (step === null) continue;
    const began = /** @type {number} */ (t[i]);
    widths[i] = Math.max(bucket_s, Math.min(step, next - began));
    next = began;
  }
  return widths;
}

/**
 * The end of the axis if a few long steps would flatten all others; null: the longest step.
 * @param {(number|null)[]} total @returns {number|null}
 */
export function ceiling(total) {
  const knownTotals = /** @type {number[]} */ (total.filter((v) => v !== null)).sort((a, b) => a - b);
  const usual = knownTotals[Math.floor(knownTotals.length * 0.75)] ?? 0;
  const longest = knownTotals[knownTotals.length - 1] ?? 0;
  return knownTotals.length >= 20 && usual > 0 && longest > 8 * usual ? niceTop(4 * usual) : null;
}

/**
 * Labels for bars that are cut off: the longest iteration of each.
 * @param {Series} series @param {number[]} widths @param {(number|null)[]} total
 * @param {(number|null)[]} longest @param {number} top
 * @param {{range: import("../store.js").Range, width: number}} input @param {Palette} palette
 * @returns {any[]}
 */
function clipped(series, widths, total, longest, top, input, palette) {
  const gap_s = (64 * (input.range.end - input.range.start)) / Math.max(1, input.width - 120);
  let labelled_at = -Infinity;
  return series.t.flatMap((t, i) => {
    if ((total[i] ?? 0) <= top || t - labelled_at < gap_s || t < input.range.start || t > input.range.end)
      return [];
    labelled_at = t;
    return [
      {
        x: toAxis(t + (widths[i] ?? 0) / 2),
        xref: "x",
        y: 1,
        yref: "paper",
        yanchor: "top",
        yshift: -18,
        showarrow: false,
        text: `↑ ${duration(Math.max(total[i] ?? 0, longest[i] ?? 0))}`,
        font: { size: 10, color: palette.text },
        bgcolor: palette.panel,
        borderpad: 1,
        opacity: 0.9,
      },
    ];
  });
}
