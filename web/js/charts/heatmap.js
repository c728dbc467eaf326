// Rank × time: which ranks wait for data, and when.

import { MARGIN, NARROW, marks, timeLayout, toAxis, valueAxis } from "./axis.js";

/** Height of the chart: rows people can click while there are few, a fixed picture when there are many. @param {number} ranks */
export function heatmapHeight(ranks) {
  const rows = ranks === 1 ? 22 : Math.min(360, Math.max(ranks * 22, Math.min(ranks * 8, 240)));
  return rows + MARGIN.t + MARGIN.b;
}

/**
 * @param {{data: import("../types.js").Heatmap, epochs: import("./axis.js").EpochMark[],
 *   findings: import("../types.js").Finding[], range: import("../store.js").Range, width: number}} input
 * @param {import("../theme.js").Palette} palette
 * @returns {import("./axis.js").Figure}
 */
export function heatmapFigure(input, palette) {
  const { ranks, t, values, bucket_s } = input.data;
  const layout = timeLayout(palette, heatmapHeight(ranks.length), input.range, input.width);
  layout.hovermode = "closest";
  layout.xaxis.showgrid = false;
  const every = Math.ceil(ranks.length / 16);
  layout.yaxis = valueAxis(palette, {
    range: [ranks.length - 0.5, -0.5], // rank 0 on top
    tickmode: "array",
    tickvals: ranks.map((_, i) => i).filter((i) => i % every === 0),
    ticktext: ranks.filter((_, i) => i % every === 0).map((r) => (input.width < NARROW ? `r${r}` : `rank ${r}`)),
    showgrid: false,
  });
  // The picture covers the tint of bands: only their bars on top are drawn.
  layout.shapes = marks(input.findings, input.epochs, input.range, palette, input.width).filter((s) => s.type === "line" || s.ysizemode === "pixel");
  const last = palette.heat.length - 1;
  const data = [
    {
      type: "heatmap",
      x: t.map((s) => toAxis(s + bucket_s / 2)),
      y: ranks.map((_, i) => i),
      z: values.map((row) => row.map((v) => (v === null ? null : v * 100))),
      customdata: ranks,
      text: values.map((row, i) => row.map(() => `rank ${ranks[i]}`)),
      zmin: 0,
      zmax: 100,
      colorscale: palette.heat.map((color, i) => [i / last, color]),
      showscale: false,
      hoverongaps: false,
      ygap: ranks.length <= 24 ? 2 : 0,
      hovertemplate: "%{text} · %{x|%H:%M:%S}<br>data wait %{z:.0f} %<extra></extra>",
    },
  ];
  return { data, layout };
}
