// Steps and samples per second over time. Below them the events: settings, checkpoints, evaluation, alerts.

import {
  MARGIN,
  NARROW,
  bandNames,
  epochNames,
  fade,
  marks,
  niceTop,
  timeLayout,
  toAxis,
  valueAxis,
} from "./axis.js";
import { number } from "../format.js";
import { say } from "../texts.js";
import { ground, line } from "./gpu.js";
import { isEmpty } from "./steps.js";

/**
 * @typedef {import("../types.js").Series} Series
 * @typedef {import("../types.js").Mark} Mark
 * @typedef {import("../theme.js").Palette} Palette
 * @typedef {{kind: Mark["kind"], symbol: string, color: keyof Palette}} Lane
 */

export const ASKED = ["steps_per_s", "samples_per_s"];

/** A lane and a shape for each kind of event, so that colour is not needed. @type {Lane[]} */
export const LANES = [
  { kind: "alert", symbol: "triangle-down", color: "critical" },
  { kind: "attempt", symbol: "star", color: "text" },
  { kind: "config", symbol: "triangle-up", color: "accent" },
  { kind: "checkpoint", symbol: "diamond", color: "h2d" },
  { kind: "evaluation", symbol: "square", color: "optimizer" },
];

const CURVES_PX = 130;
const LANE_PX = 18;
const TOP_PX = 22;
/** Room above the line of samples, as a factor. Samples are usually a multiple of the steps. */
const SAMPLES_ROOM = 1.6;

/** The lanes with an event in view. @param {Mark[]} events @param {import("../store.js").Range} range */
export function lanesOf(events, range) {
  return LANES.filter((lane) => inView(events, range).some((e) => e.kind === lane.kind));
}

/** @param {Mark[]} events @param {import("../store.js").Range} range */
function inView(events, range) {
  return events.filter((e) => e.began_at < range.end && (e.ended_at ?? e.began_at) >= range.start);
}

/** @param {number} lanes */
export function speedHeight(lanes) {
  return TOP_PX + CURVES_PX + lanes * LANE_PX + MARGIN.b;
}

/**
 * @param {{data: Record<string, Series>, events: Mark[], epochs: import("./axis.js").EpochMark[],
 *   findings: import("../types.js").Finding[], range: import("../store.js").Range, width: number}} input
 * @param {Palette} palette @returns {import("./axis.js").Figure}
 */
export function speedFigure(input, palette) {
  const lanes = lanesOf(input.events, input.range);
  const layout = timeLayout(palette, speedHeight(lanes.length), input.range, input.width);
  layout.margin.t = TOP_PX;
  const low = (lanes.length * LANE_PX) / (CURVES_PX + lanes.length * LANE_PX);
  layout.shapes = marks(input.findings, input.epochs, input.range, palette, input.width);
  layout.annotations = [
    ...epochNames(input.epochs, input.range, palette, input.width),
    ...bandNames(input.findings, input.range, palette, input.width),
  ];
  const { steps_per_s: steps, samples_per_s: samples } = input.data;
  /** @type {any[]} */
  const data = [];
  const top = niceTop(highest(steps));
  layout.yaxis = valueAxis(palette, {
    range: [0, top * 1.04],
    domain: [low, 1],
    tickmode: "array",
    tickvals: [0, top / 2, top],
    ticktext: [0, top / 2, top].map(number),
  });
  if (steps !== undefined && !isEmpty(steps)) {
    data.push(ground(steps, 1, fade(palette.line, 0.12)));
    data.push({
      ...line(steps, 1),
      name: say("chart-steps-per-s"),
      line: { color: palette.line, width: 1.5, shape: "hvh" },
      hovertemplate: say("chart-steps-per-s-read", { value: "%{y:.3~g}" }),
    });
  }
  if (samples !== undefined && !isEmpty(samples)) {
    const highestSamples = niceTop(SAMPLES_ROOM * highest(samples));
    layout.yaxis2 = valueAxis(palette, {
      overlaying: "y",
      side: "right",
      showgrid: false,
      range: [0, highestSamples * 1.04],
      tickmode: "array",
      tickvals: [0, highestSamples / 2, highestSamples],
      ticktext: [0, highestSamples / 2, highestSamples].map(number),
    });
    data.push({
      ...line(samples, 1),
      name: say("chart-samples-per-s"),
      yaxis: "y2",
      line: { color: palette.power, width: 1.5, dash: "4px,2px", shape: "hvh" },
      hovertemplate: say("chart-samples-per-s-read", { value: "%{y:.4~g}" }),
    });
  }
  if (lanes.length > 0) {
    layout.yaxis3 = valueAxis(palette, {
      range: [lanes.length - 0.5, -1],
      tickfont: { size: 10 },
      ticklen: 3,
      domain: [0, low],
      showgrid: false,
      tickmode: "array",
      tickvals: lanes.map((_, i) => i),
      ticktext: lanes.map(({ kind }) =>
        input.width < NARROW ? say("event-kind-short", { kind }) : say("event-kind", { kind }),
      ),
      rangemode: "normal",
    });
    layout.xaxis.anchor = "y3";
    lanes.forEach((lane, i) =>
      data.push(
        ...events(
          inView(input.events, input.range).filter((e) => e.kind === lane.kind),
          lane,
          i,
          input,
          palette,
        ),
      ),
    );
  }
  return { data, layout };
}

/** @param {Series|undefined} series */
function highest(series) {
  return Math.max(0, ...(series?.max ?? []).map((v) => v ?? 0));
}

/**
 * The events of a lane: a shape at each beginning, and a bar for the duration.
 * @param {Mark[]} list @param {Lane} lane @param {number} y
 * @param {{range: import("../store.js").Range}} input @param {Palette} palette @returns {any[]}
 */
function events(list, lane, y, input, palette) {
  const color = /** @type {string} */ (palette[lane.color]);
  const text = list.map((e) =>
    say("event-read", { kind: lane.kind, text: short(e.text), number: e.ranks.length, rank: e.ranks[0] }),
  );
  const open = (/** @type {Mark} */ e) =>
    e.kind === "alert" || e.kind === "evaluation" ? input.range.end : e.began_at;
  const base = { type: "scatter", yaxis: "y3", cliponaxis: true };
  return [
    {
      ...base,
      mode: "lines",
      name: "",
      hoverinfo: "skip",
      connectgaps: false,
      line: { color: fade(color, 0.45), width: 5, simplify: false },
      x: list.flatMap((e) => [
        toAxis(e.began_at),
        toAxis(Math.min(e.ended_at ?? open(e), input.range.end)),
        null,
      ]),
      y: list.flatMap(() => [y, y, null]),
    },
    {
      ...base,
      mode: "markers",
      name: say("event-kind", { kind: lane.kind }),
      marker: { symbol: lane.symbol, size: 8, color, line: { width: 0 } },
      x: list.map((e) => toAxis(e.began_at)),
      y: list.map(() => y),
      text,
      hovertemplate: "%{text}<extra></extra>",
    },
  ];
}

/** Escape a name for a label, in which Plotly would read tags and entities. @param {string} text */
function short(text) {
  const plain = text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  return text.length > 80 ? `${plain.slice(0, 79)}…` : plain;
}
