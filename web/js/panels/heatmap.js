// The card of the heat map, and what a reader can choose of it.

import { HEAT_METRICS, heatmapHeight, heatmapQuery, shownMetric, topOf } from "../charts/heatmap.js";
import { h } from "../dom.js";
import { count, number } from "../format.js";
import { card, plot } from "./frame.js";
import { empty } from "./parts.js";
import { findBox } from "./ranks.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Summary} Summary
 * @typedef {import("../types.js").Heatmap} Heatmap
 * @typedef {import("../charts/heatmap.js").HeatMetric} HeatMetric
 * @typedef {import("../main.js").Actions} Actions
 */

/** Ranks from which rows are grouped, ordered and searched; fewer are seen at once. */
const SEVERAL = 9;

/** @param {State} state @param {Summary} s @param {Actions} act */
export function heatmapCard(state, s, act) {
  /** @type {Heatmap|null} */
  const data = state.cards.heatmap?.data ?? null;
  const asked = heatmapQuery(state);
  const metric = shownMetric(state);
  const rows = data?.ranks.length ?? Math.min(asked.limit, s.rank_count);
  const height = `${heatmapHeight(Math.max(1, rows))}px`;
  return card(state, {
    id: "heatmap",
    title: asked.metric === "data_wait_ratio" ? "Who waits, and when" : `${metric.name}, by ${asked.by} and time`,
    about: s.rank_count > 1 ? aboutRows(metric, asked.by, data) : "share of time in data wait",
    extra: h(
      "div",
      { class: "controls" },
      s.rank_count > 1 && choice("heat.metric", "What is drawn", metric.metric, HEAT_METRICS.map((m) => [m.metric, m.name]), act),
      s.rank_count >= SEVERAL && s.host_count > 1 && choice("heat.by", "Rows", asked.by, [["rank", "by rank"], ["host", "by host"]], act),
      s.rank_count >= SEVERAL && choice("heat.order", "Order of the rows", asked.order, [["worst", "worst first"], ["rank", "by number"]], act),
      s.rank_count >= SEVERAL && findBox("heat.find", "Find a rank or host", state, (find) => act.choose({ "heat.find": find })),
      colours(metric, data),
    ),
    height,
    body: plot("heatmap", height, `Heat map of ${metric.name} by ${asked.by} and time`),
    empty: nothing(state, data),
  });
}

/** @param {HeatMetric} metric @param {string} by @param {Heatmap|null} data */
function aboutRows(metric, by, data) {
  const what = metric.metric === "data_wait_ratio" ? "share of time in data wait" : (metric.percent ? "share of time or capacity" : metric.unit === "" ? "its value" : `in ${metric.unit}`);
  const rows = by === "host" ? `a row per host: the ${metric.low ? "least" : "greatest"} of its ranks` : "by rank";
  const all = data?.of ?? 0;
  const drawn = data !== null && all > data.ranks.length ? `; ${count(data.ranks.length)} of ${count(all)} rows` : "";
  return `${what}, ${rows}${drawn}; click a row to open ${by === "host" ? "its worst rank" : "the rank"}`;
}

/** @param {State} state @param {Heatmap|null} data */
function nothing(state, data) {
  const find = state.choices["heat.find"] ?? "";
  if (data === null) return null;
  if (data.ranks.length === 0 && find !== "") return empty("No row matches", `No rank or host of this run is “${find}”.`);
  if (data.t.length === 0) return empty("Nothing in this range", "Choose a longer range, or All.");
  if (data.values.every((row) => row.every((v) => v === null))) return empty("Not known in this range", "This system does not report it, or not for these ranks.");
  return null;
}

/** What the colours mean, from the best to the worst. @param {HeatMetric} metric @param {Heatmap|null} data */
function colours(metric, data) {
  const top = metric.percent ? "100\u202f%" : data === null ? "" : `${number(topOf(data.values))}\u202f${metric.unit}`;
  const [best, worst] = metric.low ? [top, "0"] : ["0", metric.metric === "data_wait_ratio" ? `${top} wait` : top];
  return h("div", { class: "scale", "aria-hidden": "true" }, h("span", {}, best), h("i", {}), h("span", {}, worst));
}

/** @param {string} name @param {string} label @param {string} value @param {string[][]} options - value and text @param {Actions} act */
function choice(name, label, value, options, act) {
  return h(
    "div",
    { class: "select", key: name },
    h(
      "select",
      { value, name, "aria-label": label, onchange: (/** @type {any} */ e) => act.choose({ [name]: e.target.value }) },
      options.map(([each, text]) => h("option", { key: each, value: each, selected: each === value }, text ?? "")),
    ),
  );
}
