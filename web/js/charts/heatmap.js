// Rank or host × time: where and when a metric is worst.

import { MANY_RANKS } from "../ranks.js";
import { say } from "../texts.js";
import { MARGIN, NARROW, marks, niceTop, timeLayout, toAxis, valueAxis } from "./axis.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {{metric: string, unit: string, form: string, percent?: boolean, low?: boolean}} HeatMetric -
 *   `form`: Plotly's format of a value; `low`: low values are bad, as in the server's `LOW_IS_BAD`
 */

/** The metrics of the heat map. @type {HeatMetric[]} */
export const HEAT_METRICS = [
  { metric: "data_wait_ratio", unit: "%", form: ".0f", percent: true },
  { metric: "gpu_starved_ratio", unit: "%", form: ".0f", percent: true },
  { metric: "gpu_utilization_ratio", unit: "%", form: ".0f", percent: true, low: true },
  { metric: "gpu_temperature_c", unit: "°C", form: ".0f" },
  { metric: "steps_per_s", unit: "", form: ".3~s", low: true },
  { metric: "iteration_s", unit: "s", form: ".3~s" },
  { metric: "fetch_s", unit: "s", form: ".3~s" },
  { metric: "ready_batches", unit: "", form: ".2~f", low: true },
  { metric: "host_cpu_ratio", unit: "%", form: ".0f", percent: true },
  { metric: "worker_rss_bytes", unit: "B", form: ".3~s" },
];

/** Most rows of the heat map. Sorting or typing brings further rows into it. */
export const MOST_ROWS = 64;

/** @param {State} state @returns {HeatMetric} */
export function shownMetric(state) {
  const chosen = HEAT_METRICS.find((m) => m.metric === state.choices["heat.metric"]);
  return chosen ?? /** @type {HeatMetric} */ (HEAT_METRICS[0]);
}

/** The rows to request; with many ranks by default a row per host, worst on top. @param {State} state */
export function heatmapQuery(state) {
  const many = (state.summary?.rank_count ?? 0) > MANY_RANKS;
  const hosts = state.summary?.host_count ?? 0;
  return {
    metric: shownMetric(state).metric,
    by: state.choices["heat.by"] ?? (many && hosts > 1 ? "host" : "rank"),
    order: state.choices["heat.order"] ?? (many ? "worst" : "rank"),
    find: state.choices["heat.find"] ?? "",
    limit: MOST_ROWS,
  };
}

/** @param {State} state */
export const asksOfHeatmap = (state) => (state.summary === null ? null : JSON.stringify(heatmapQuery(state)));

/** Height of the chart: few rows are tall enough to click, many share a fixed height. @param {number} rows */
export function heatmapHeight(rows) {
  const height = rows === 1 ? 22 : Math.min(360, Math.max(rows * 22, Math.min(rows * 8, 240)));
  return height + MARGIN.t + MARGIN.b;
}

/**
 * @param {{data: import("../types.js").Heatmap, metric?: HeatMetric, by?: string,
 *   epochs: import("./axis.js").EpochMark[], findings: import("../types.js").Finding[],
 *   range: import("../store.js").Range, width: number}} input
 * @param {import("../theme.js").Palette} palette @returns {import("./axis.js").Figure}
 */
export function heatmapFigure(input, palette) {
  const { ranks, hosts, t, values, bucket_s } = input.data;
  const metric = input.metric ?? /** @type {HeatMetric} */ (HEAT_METRICS[0]);
  const hostNames = input.by === "host" ? ranks.map((_, i) => hosts?.[i] ?? "") : null;
  const layout = timeLayout(palette, heatmapHeight(ranks.length), input.range, input.width);
  layout.hovermode = "closest";
  layout.xaxis.showgrid = false;
  const every = Math.ceil(ranks.length / 16);
  const short = input.width < NARROW;
  layout.yaxis = valueAxis(palette, {
    range: [ranks.length - 0.5, -0.5], // the first row on top
    tickmode: "array",
    tickvals: ranks.map((_, i) => i).filter((i) => i % every === 0),
    ticktext: ranks
      .map((rank, i) =>
        hostNames !== null
          ? shortened(hostNames[i] ?? "", short ? 6 : 9)
          : short
            ? `r${rank}`
            : say("rank-number", { rank }),
      )
      .filter((_, i) => i % every === 0),
    showgrid: false,
  });
  // The picture covers the tint of bands, so that only the bars at their top are drawn.
  layout.shapes = marks(input.findings, input.epochs, input.range, palette, input.width).filter(
    (s) => s.type === "line" || s.ysizemode === "pixel",
  );
  const scale = metric.percent ? 100 : 1;
  const z = values.map((row) => row.map((v) => (v === null ? null : v * scale)));
  const heat = metric.low ? [...palette.heat].reverse() : palette.heat;
  const last = heat.length - 1;
  const unit = metric.percent ? " %" : metric.unit;
  const value = `${say("heat-metric", { metric: metric.metric })} %{z:${metric.form}}${unit}`;
  const data = [
    {
      type: "heatmap",
      x: t.map((s) => toAxis(s + bucket_s / 2)),
      y: ranks.map((_, i) => i),
      z,
      customdata: ranks,
      text: z.map((row, i) =>
        new Array(row.length).fill(
          hostNames === null
            ? say("rank-number", { rank: ranks[i] })
            : say("heat-host-worst", { host: hostNames[i], rank: ranks[i] }),
        ),
      ),
      zmin: 0,
      zmax: metric.percent ? 100 : topOf(z),
      colorscale: heat.map((color, i) => [i / last, color]),
      showscale: false,
      hoverongaps: false,
      ygap: ranks.length <= 24 ? 2 : 0,
      hovertemplate: `%{text} · %{x|%H:%M:%S}<br>${value}<extra></extra>`,
    },
  ];
  return { data, layout };
}

/** The end of the colour scale: a round number above all values. @param {(number|null)[][]} z */
export function topOf(z) {
  let top = 0;
  for (const row of z) for (const v of row) if (v !== null && v > top) top = v;
  return niceTop(top);
}

/**
 * A host name short enough for its place. The domain is dropped first, then the beginning: hosts differ at
 * the end.
 * @param {string} name @param {number} most
 */
export function shortened(name, most) {
  const first = name.split(".")[0] ?? "";
  const host = /^\d*$/.test(first) ? name : first; // an IP address has no domain
  return host.length > most ? `…${host.slice(1 - most)}` : host;
}
