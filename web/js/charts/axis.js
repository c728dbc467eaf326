// Shared by all charts on the time axis: margins, range, bands of alerts, marks of epochs.

import { aheadMs } from "../zone.js";

/**
 * @typedef {import("../theme.js").Palette} Palette
 * @typedef {import("../store.js").Range} Range
 * @typedef {import("../types.js").Finding} Finding
 * @typedef {{began_at: number, name: string}} EpochMark
 * @typedef {{data: any[], layout: any}} Figure
 */

/** Margins above and below a plot. */
export const MARGIN = { t: 10, b: 24 };

/** Narrower charts shorten their labels. */
export const NARROW = 560;

/** Side margins, equal on every chart: one moment has the same x on all of them. @param {number} width */
export function sides(width) {
  return width < NARROW ? { l: 52, r: 42 } : { l: 64, r: 56 };
}

const MOST_BANDS = 40;
const MARK_PX = 8; // marks closer than this hide the data
const NAME_PX = 64;
const LETTER_PX = 6;

/** UTC seconds → the axis. Plotly draws dates as UTC; the page's zone may differ. @param {number} t */
export function toAxis(t) {
  return t * 1000 + aheadMs(t * 1000);
}

/** Plotly's x ("2026-01-01 12:00:00.5" or milliseconds) → UTC seconds. @param {string|number} value */
export function fromAxis(value) {
  const ms = typeof value === "number" ? value : Date.parse(`${value.replace(" ", "T")}Z`);
  return (ms - aheadMs(ms)) / 1000;
}

/**
 * @param {Palette} palette @param {number} height @param {Range} range @param {number} width @returns {any}
 */
export function timeLayout(palette, height, range, width) {
  return {
    height,
    margin: { ...MARGIN, ...sides(width) },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: FONT, size: 11, color: palette.muted },
    showlegend: false,
    dragmode: "zoom",
    hovermode: "x unified",
    hoverlabel: {
      bgcolor: palette.panel,
      bordercolor: palette.grid,
      font: { family: FONT, size: 12, color: palette.text },
      align: "left",
    },
    xaxis: {
      type: "date",
      range: [toAxis(range.start), toAxis(range.end)],
      gridcolor: palette.grid,
      griddash: "dot",
      zeroline: false,
      showline: false,
      ticks: "outside",
      ticklen: 4,
      tickcolor: "rgba(0,0,0,0)",
      nticks: width < NARROW ? 4 : 8,
      tickformat:
        range.end - range.start > 86_400
          ? "%b %d %H:%M"
          : range.end - range.start > 3_600
            ? "%H:%M"
            : "%H:%M:%S",
      hoverformat: "%H:%M:%S",
      showspikes: false, // plotly.js draws the line under the pointer through all charts
      fixedrange: false,
    },
  };
}

export const FONT =
  '"Inter", "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif';

/** @param {Palette} palette @param {Record<string, any>} [more] @returns {any} */
export function valueAxis(palette, more = {}) {
  return {
    gridcolor: palette.grid,
    zeroline: false,
    showline: false,
    ticks: "outside",
    ticklen: 6,
    tickcolor: "rgba(0,0,0,0)", // room between label and plot
    tickmode: "auto",
    fixedrange: true,
    rangemode: "tozero",
    nticks: 5,
    automargin: false,
    ...more,
  };
}

/** A round top for a value axis, so that the axis does not change with every sample. @param {number} top */
export function niceTop(top) {
  if (!(top > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(top));
  return (/** @type {number} */ ([1, 2, 4, 5, 6, 8, 10].find((k) => k * unit >= top))) * unit;
}

/** @param {string} color - #rrggbb @param {number} alpha */
export function fade(color, alpha) {
  const n = Number.parseInt(color.trim().slice(1), 16);
  return `rgba(${n >> 16},${(n >> 8) & 255},${n & 255},${alpha})`;
}

/**
 * Alerts as bands and epochs as marks behind the data.
 * @param {Finding[]} findings @param {EpochMark[]} epochs @param {Range} range @param {Palette} palette
 * @param {number} width @returns {any[]}
 */
export function marks(findings, epochs, range, palette, width) {
  return [...bands(findings, range, palette), ...epochMarks(epochs, range, palette, width)];
}

/** @param {Finding[]} findings @param {Range} range @param {Palette} palette @returns {any[]} */
export function bands(findings, range, palette) {
  return visible(findings, range).flatMap((f) => {
    const color = f.severity === "critical" ? palette.critical : palette.warning;
    const x0 = toAxis(Math.max(f.began_at, range.start));
    const x1 = toAxis(Math.min(f.ended_at ?? range.end, range.end));
    const open = f.state === "firing";
    const base = { type: "rect", xref: "x", yref: "paper", x0, x1, line: { width: 0 }, layer: "below" };
    return [
      { ...base, y0: 0, y1: 1, fillcolor: fade(color, open ? 0.1 : 0.06) },
      // A bar of 3 px at the top: visible without the tint.
      { ...base, ysizemode: "pixel", yanchor: 1, y0: 0, y1: 3, fillcolor: fade(color, open ? 1 : 0.55) },
    ];
  });
}

/**
 * The name of each band, in its top left corner where it fits.
 * @param {Finding[]} findings @param {Range} range @param {Palette} palette @param {number} width
 * @returns {any[]}
 */
export function bandNames(findings, range, palette, width) {
  const { l, r } = sides(width);
  const perSecond = Math.max(1, width - l - r) / (range.end - range.start);
  let free = -Infinity; // no label covers another
  return visible(findings, range)
    .sort((a, b) => a.began_at - b.began_at)
    .flatMap((f) => {
      const from = Math.max(f.began_at, range.start);
      const room = (Math.min(f.ended_at ?? range.end, range.end) - Math.max(from, free)) * perSecond;
      const needs = f.code.length * LETTER_PX + 16;
      if (room < needs || from < free) return [];
      free = from + needs / perSecond;
      const color = f.severity === "critical" ? palette.critical : palette.warning;
      return [
        {
          ...label(f.code, toAxis(from), color),
          yanchor: "top",
          yshift: -3,
          xshift: 2,
          bgcolor: fade(palette.panel, 0.85),
          borderpad: 1,
        },
      ];
    });
}

/** @param {Finding[]} findings @param {Range} range */
function visible(findings, range) {
  return findings
    .filter((f) => f.severity !== "info" && f.began_at < range.end && (f.ended_at ?? range.end) > range.start)
    .slice(0, MOST_BANDS);
}

/** @param {string} text @param {number} x @param {string} color @returns {any} */
function label(text, x, color) {
  return {
    x,
    xref: "x",
    y: 1,
    yref: "paper",
    xanchor: "left",
    text,
    showarrow: false,
    font: { size: 10, color },
  };
}

/**
 * @param {EpochMark[]} epochs @param {Range} range @param {Palette} palette @param {number} width
 * @returns {any[]}
 */
export function epochMarks(epochs, range, palette, width) {
  return apart(epochs, range, width, MARK_PX).map((e) => ({
    type: "line",
    xref: "x",
    yref: "paper",
    x0: toAxis(e.began_at),
    x1: toAxis(e.began_at),
    y0: 0,
    y1: 1,
    layer: "above",
    line: { color: fade(palette.text, 0.38), width: 1, dash: "2px,3px" },
  }));
}

/**
 * The epochs that begin within the range, at least `px` apart.
 * @param {EpochMark[]} epochs @param {Range} range @param {number} width @param {number} px
 * @returns {EpochMark[]}
 */
function apart(epochs, range, width, px) {
  const { l, r } = sides(width);
  const gap_s = (px * (range.end - range.start)) / Math.max(1, width - l - r);
  let marked_at = -Infinity;
  return epochs.filter((e) => {
    if (e.began_at < range.start || e.began_at > range.end || e.began_at - marked_at < gap_s) return false;
    marked_at = e.began_at;
    return true;
  });
}

/**
 * Names of the epochs above the plot, as many as fit.
 * @param {EpochMark[]} epochs @param {Range} range @param {Palette} palette @param {number} width
 * @returns {any[]}
 */
export function epochNames(epochs, range, palette, width) {
  const longest = Math.max(0, ...epochs.map((e) => e.name.length));
  return apart(epochs, range, width, Math.max(NAME_PX, longest * LETTER_PX + 10)).map((e) => ({
    ...label(e.name, toAxis(e.began_at), palette.muted),
    yanchor: "bottom",
    yshift: 3,
    xshift: -2,
  }));
}
