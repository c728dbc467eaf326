// How long the GPU could continue without another batch.

import { duration } from "../format.js";
import { say } from "../texts.js";
import { fade, marks, niceTop, timeLayout, valueAxis } from "./axis.js";
import { bridged, line } from "./gpu.js";
import { isEmpty } from "./steps.js";

/** @typedef {import("../types.js").Series} Series */

export const ASKED = ["slack_s", "cushion_s"];

/**
 * Stacked: the work queued on the GPU, and the steps of the ready batches.
 * @param {{data: Record<string, Series>, epochs: import("./axis.js").EpochMark[],
 *   findings: import("../types.js").Finding[], range: import("../store.js").Range, width: number}} input
 * @param {import("../theme.js").Palette} palette @returns {import("./axis.js").Figure}
 */
export function headroomFigure(input, palette) {
  const layout = timeLayout(palette, 150, input.range, input.width);
  layout.shapes = marks(input.findings, input.epochs, input.range, palette, input.width);
  const { slack_s: slack, cushion_s: cushion } = input.data;
  /** @type {any[]} */
  const data = [];
  const highest = Math.max(
    ...[slack, cushion].flatMap((series) => (series?.mean ?? []).map((v) => v ?? 0)),
    0,
  );
  const top = niceTop(Math.max(2 * highest, 1e-3));
  layout.yaxis = valueAxis(palette, {
    range: [0, top * 1.04],
    tickmode: "array",
    tickvals: [0, top / 2, top],
    ticktext: ["0", duration(top / 2), duration(top)],
  });
  if (slack !== undefined && !isEmpty(slack)) data.push(area(slack, say("chart-queued"), palette.gpu));
  if (cushion !== undefined && !isEmpty(cushion))
    data.push(area(cushion, say("chart-batches-ready"), palette.h2d));
  return { data, layout };
}

/** @param {Series} series @param {string} name @param {string} color @returns {any} */
function area(series, name, color) {
  const drawn = line(series, 1);
  return {
    ...drawn,
    y: drawn.y.map((/** @type {number|null} */ v) => v ?? 0),
    text: bridged(series).map((i) => duration(series.mean[i])),
    name,
    stackgroup: "ahead",
    line: { color, width: 1.5, shape: "hvh" },
    fillcolor: fade(color, 0.22),
    hovertemplate: "%{text}",
  };
}
