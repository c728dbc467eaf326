// The share of time in which the GPU was idle because a batch was missing.

import { percent } from "../format.js";
import { say } from "../texts.js";
import { fade, marks, niceTop, timeLayout, valueAxis } from "./axis.js";
import { area, outline } from "./outline.js";
import { isEmpty } from "./steps.js";

/** @typedef {import("../types.js").Series} Series */

export const ASKED = ["gpu_starved_ratio", "gpu_starved_s"];

/** The verdict reports shares from this one on. A line marks it, and the axis always includes it. */
export const SPEAKS_RATIO = 0.1;

/**
 * A bar per bucket for the share of starved time. Its label adds the starved time per step.
 * @param {{data: Record<string, Series>, epochs: import("./axis.js").EpochMark[],
 *   findings: import("../types.js").Finding[], range: import("../store.js").Range, width: number}} input
 * @param {import("../theme.js").Palette} palette @returns {import("./axis.js").Figure}
 */
export function starvationFigure(input, palette) {
  const { gpu_starved_ratio: share, gpu_starved_s: each } = input.data;
  const layout = timeLayout(palette, 130, input.range, input.width);
  const top = Math.min(1, niceTop(Math.max(2 * SPEAKS_RATIO, ...(share?.mean ?? []).map((v) => v ?? 0))));
  layout.yaxis = valueAxis(palette, {
    range: [0, top * 1.04],
    tickmode: "array",
    tickvals: [0, top / 2, top],
    ticktext: [0, top / 2, top].map((v) => percent(v)),
  });
  layout.shapes = [
    ...marks(input.findings, input.epochs, input.range, palette, input.width),
    {
      type: "line",
      xref: "paper",
      x0: 0,
      x1: 1,
      y0: SPEAKS_RATIO,
      y1: SPEAKS_RATIO,
      line: { color: fade(palette.text, 0.35), width: 1, dash: "dot" },
    },
  ];
  if (share === undefined || isEmpty(share)) return { data: [], layout };
  const perStep = valuesAt(each, share);
  const points = outline({
    t: share.t,
    widths: share.t.map(() => share.bucket_s),
    filled: share.mean.map((v) => v !== null),
  });
  const text = share.mean.map((v, i) =>
    say("chart-starved-read", { starved_ratio: v, per_step_s: perStep[i] }),
  );
  return {
    data: [
      {
        ...area(points, share.mean, palette.wait, { template: "%{text}", text }),
        name: say("chart-starved"),
      },
    ],
    layout,
  };
}

/**
 * The means of a series in the buckets of another; null where the series has no value.
 * @param {Series|undefined} series @param {Series} like @returns {(number|null)[]}
 */
function valuesAt(series, like) {
  if (series === undefined) return like.t.map(() => null);
  const at = new Map(series.t.map((t, i) => [t, series.mean[i] ?? null]));
  return like.t.map((t) => at.get(t) ?? null);
}
