// Small charts on the shared time axis: one metric each, with its range.

import { bytes, percent, number } from "../format.js";
import { say } from "../texts.js";
import { fade, niceTop, timeLayout, toAxis, valueAxis } from "./axis.js";
import { bridged, ground, line } from "./gpu.js";

/**
 * @typedef {import("../types.js").Series} Series
 * @typedef {{metric: string, unit: "ratio"|"bytes"|"bytes_per_s"|"hertz"|"celsius"|"count", message: string,
 *   about_message: string}} Counter - `message`: id of its name; `about_message`: id of its description
 */

/** @type {Counter[]} */
export const COUNTERS = [
  {
    metric: "host_cpu_ratio",
    unit: "ratio",
    message: "counter-host-cpu",
    about_message: "counter-host-cpu-about",
  },
  {
    metric: "process_cpu_ratio",
    unit: "ratio",
    message: "counter-process-cpu",
    about_message: "counter-process-cpu-about",
  },
  {
    metric: "worker_cpu_ratio",
    unit: "ratio",
    message: "counter-worker-cpu",
    about_message: "counter-worker-cpu-about",
  },
  {
    metric: "host_throttled_ratio",
    unit: "ratio",
    message: "counter-host-throttled",
    about_message: "counter-host-throttled-about",
  },
  {
    metric: "host_psi_cpu_ratio",
    unit: "ratio",
    message: "counter-host-psi-cpu",
    about_message: "counter-host-psi-cpu-about",
  },
  {
    metric: "host_psi_io_ratio",
    unit: "ratio",
    message: "counter-host-psi-io",
    about_message: "counter-host-psi-io-about",
  },
  {
    metric: "host_psi_memory_ratio",
    unit: "ratio",
    message: "counter-host-psi-memory",
    about_message: "counter-host-psi-memory-about",
  },
  {
    metric: "host_shm_used_ratio",
    unit: "ratio",
    message: "counter-host-shm-used",
    about_message: "counter-host-shm-used-about",
  },
  {
    metric: "host_disk_read_bytes_per_s",
    unit: "bytes_per_s",
    message: "counter-host-disk-read",
    about_message: "counter-host-disk-read-about",
  },
  {
    metric: "host_memory_available_bytes",
    unit: "bytes",
    message: "counter-host-memory-available",
    about_message: "counter-host-memory-available-about",
  },
  {
    metric: "worker_rss_bytes",
    unit: "bytes",
    message: "counter-worker-rss",
    about_message: "counter-worker-rss-about",
  },
  {
    metric: "process_rss_bytes",
    unit: "bytes",
    message: "counter-process-rss",
    about_message: "counter-process-rss-about",
  },
];

/** Metrics of the GPU that the rank computes on. @type {Counter[]} */
export const GPU_COUNTERS = [
  {
    metric: "gpu_memory_ratio",
    unit: "ratio",
    message: "counter-gpu-memory",
    about_message: "counter-gpu-memory-about",
  },
  {
    metric: "gpu_process_memory_bytes",
    unit: "bytes",
    message: "counter-gpu-process-memory",
    about_message: "counter-gpu-process-memory-about",
  },
  {
    metric: "gpu_process_sm_ratio",
    unit: "ratio",
    message: "counter-gpu-process-sm",
    about_message: "counter-gpu-process-sm-about",
  },
  {
    metric: "gpu_sm_clock_hz",
    unit: "hertz",
    message: "counter-gpu-sm-clock",
    about_message: "counter-gpu-sm-clock-about",
  },
  {
    metric: "gpu_temperature_c",
    unit: "celsius",
    message: "counter-gpu-temperature",
    about_message: "counter-gpu-temperature-about",
  },
  {
    metric: "gpu_pcie_rx_bytes_per_s",
    unit: "bytes_per_s",
    message: "counter-gpu-pcie-rx",
    about_message: "counter-gpu-pcie-rx-about",
  },
  {
    metric: "gpu_pcie_tx_bytes_per_s",
    unit: "bytes_per_s",
    message: "counter-gpu-pcie-tx",
    about_message: "counter-gpu-pcie-tx-about",
  },
  {
    metric: "gpu_throttled_ratio",
    unit: "ratio",
    message: "counter-gpu-throttled",
    about_message: "counter-gpu-throttled-about",
  },
];

/** @param {number|null|undefined} v @param {Counter["unit"]} unit */
export function inUnit(v, unit) {
  if (unit === "ratio") return percent(v);
  if (unit === "bytes") return bytes(v);
  if (v === null || v === undefined) return "–";
  if (unit === "hertz") return `${number(Math.round(v / 1e6))}\u202fMHz`;
  if (unit === "celsius") return `${Math.round(v)}\u202f°C`;
  return unit === "bytes_per_s" ? `${bytes(v)}/s` : number(v);
}

/** Height of a small chart. */
export const SMALL_PX = 108;
/** Below this width three times do not fit under a small chart. */
const NARROW_PX = 240;

/** A top like 400 MiB, not 381. @param {number} highest @param {Counter["unit"]} unit */
function roundTop(highest, unit) {
  const unitSize =
    unit === "bytes" || unit === "bytes_per_s"
      ? 1024 ** Math.max(0, Math.floor(Math.log(Math.max(1, highest)) / Math.log(1024)))
      : 1;
  return niceTop(highest / unitSize) * unitSize;
}

/**
 * @param {{series: Series, counter: Counter, range: import("../store.js").Range, width: number}} input
 * @param {import("../theme.js").Palette} palette
 * @returns {import("./axis.js").Figure}
 */
export function counterFigure(input, palette) {
  const { series, counter } = input;
  const highest = Math.max(0, ...series.max.map((v) => v ?? 0));
  const top = counter.unit === "ratio" ? Math.max(1, niceTop(highest)) : roundTop(highest, counter.unit);
  const layout = timeLayout(palette, SMALL_PX, input.range, 0);
  layout.margin = { l: 64, r: 8, t: 6, b: 18 }; // also in charts.css
  layout.font.size = 10;
  layout.xaxis.nticks = input.width < NARROW_PX ? 2 : 3;
  layout.xaxis.tickangle = 0; // without this, times that do not fit are rotated and cut off by the margin
  layout.xaxis.showgrid = false;
  layout.yaxis = valueAxis(palette, {
    range: [0, top * 1.05],
    tickmode: "array",
    tickvals: [0, top],
    ticktext: [inUnit(0, counter.unit), inUnit(top, counter.unit)],
    ticklen: 4,
  });
  layout.hovermode = "x";
  const text = bridged(series).map((i) => inUnit(series.mean[i], counter.unit));
  return {
    data: [
      ground(series, 1, fade(palette.line, 0.12)),
      {
        ...line(series, 1),
        text,
        line: { color: palette.line, width: 1.5, shape: "hvh" },
        hovertemplate: "%{x|%H:%M:%S}<br>%{text}<extra></extra>",
      },
    ],
    layout,
  };
}

/**
 * The area between minimum and maximum: one polygon per stretch without a gap.
 * @param {Series} series @param {string} color @returns {any}
 */
function band(series, color) {
  /** @type {(number|null)[]} */
  const x = [];
  /** @type {(number|null)[]} */
  const y = [];
  /** @type {number[]} */
  let run = [];
  const close = () => {
    if (run.length > 1) {
      const back = [...run].reverse();
      const middle = (/** @type {number} */ i) =>
        toAxis(/** @type {number} */ (series.t[i]) + series.bucket_s / 2);
      x.push(...run.map(middle), ...back.map(middle), null);
      y.push(...run.map((i) => series.max[i] ?? null), ...back.map((i) => series.min[i] ?? null), null);
    }
    run = [];
  };
  for (const i of bridged(series)) series.mean[i] === null ? close() : run.push(i);
  close();
  return {
    type: "scatter",
    mode: "lines",
    x,
    y,
    line: { width: 0 },
    fill: "toself",
    fillcolor: color,
    hoverinfo: "skip",
    name: "",
  };
}

/**
 * Batches that are ready when the loop asks: mean, and their range as a band.
 * @param {{data: Record<string, Series>, epochs: import("./axis.js").EpochMark[],
 *   range: import("../store.js").Range, capacity: number|null, width: number}} input
 * @param {import("../theme.js").Palette} palette @returns {import("./axis.js").Figure}
 */
export function readyFigure(input, palette) {
  const layout = timeLayout(palette, 150, input.range, input.width);
  layout.yaxis = valueAxis(palette, { dtick: undefined, nticks: 4 });
  layout.shapes = [];
  /** @type {any[]} */
  const data = [];
  const ready = input.data.ready_batches;
  if (ready !== undefined) {
    data.push(band(ready, fade(palette.gpu, 0.16)), {
      ...line(ready, 1),
      name: say("chart-ready"),
      line: { color: palette.gpu, width: 1.5 },
      hovertemplate: say("chart-batches-read", { value: "%{y:.1f}" }),
    });
  }
  const cached = input.data.cached_batches;
  if (cached !== undefined && cached.mean.some((v) => (v ?? 0) > 0))
    data.push({
      ...line(cached, 1),
      name: say("chart-out-of-order"),
      line: { color: palette.h2d, width: 1.5, dash: "4px,2px" },
      hovertemplate: say("chart-batches-read", { value: "%{y:.1f}" }),
    });
  if (input.capacity !== null && input.capacity > 0)
    layout.shapes.push({
      type: "line", xref: "paper", x0: 0, x1: 1, y0: input.capacity, y1: input.capacity,
      line: { color: fade(palette.text, 0.35), width: 1, dash: "dot" },
    });
  return { data, layout };
}
