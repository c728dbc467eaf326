// The card of the heat map, with its controls.

import { HEAT_METRICS, heatmapHeight, heatmapQuery, shownMetric, topOf } from "../charts/heatmap.js";
import { h } from "../dom.js";
import { number, percent } from "../format.js";
import { say } from "../texts.js";
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

/** From this number of ranks on, rows can be grouped, ordered and searched. Fewer fit on the screen. */
const SEVERAL = 9;

/** @param {State} state @param {Summary} s @param {Actions} act */
export function heatmapCard(state, s, act) {
  /** @type {Heatmap|null} */
  const data = state.cards.heatmap?.data ?? null;
  const query = heatmapQuery(state);
  const metric = shownMetric(state);
  const rows = data?.ranks.length ?? Math.min(query.limit, s.rank_count);
  const height = `${heatmapHeight(Math.max(1, rows))}px`;
  return card(state, {
    id: "heatmap",
    title: say("heatmap-title", { metric: query.metric, by: query.by }),
    about: s.rank_count > 1 ? aboutRows(metric, query.by, data) : say("heatmap-one-rank"),
    extra: h(
      "div",
      { class: "controls" },
      s.rank_count > 1 &&
        choice(
          "heat.metric",
          say("heatmap-what-is-drawn"),
          metric.metric,
          HEAT_METRICS.map(({ metric }) => [metric, say("heat-metric", { metric })]),
          act,
        ),
      s.rank_count >= SEVERAL &&
        s.host_count > 1 &&
        choice(
          "heat.by",
          say("heatmap-rows"),
          query.by,
          ["rank", "host"].map((by) => [by, say("heatmap-rows-by", { by })]),
          act,
        ),
      s.rank_count >= SEVERAL &&
        choice(
          "heat.order",
          say("heatmap-order"),
          query.order,
          ["worst", "rank"].map((order) => [order, say("heatmap-order-by", { order })]),
          act,
        ),
      s.rank_count >= SEVERAL &&
        findBox("heat.find", say("heatmap-find"), state, (find) => act.choose({ "heat.find": find })),
      colours(metric, data),
    ),
    height,
    body: plot("heatmap", height, say("heatmap-label", { metric: metric.metric, by: query.by })),
    empty: nothing(state, data),
  });
}

/** @param {HeatMetric} metric @param {string} by @param {Heatmap|null} data */
function aboutRows(metric, by, data) {
  const value =
    metric.metric === "data_wait_ratio"
      ? "wait"
      : metric.percent
        ? "share"
        : metric.unit === ""
          ? "number"
          : "unit";
  const rows = data?.of ?? 0;
  const drawn = data !== null && rows > data.ranks.length ? data.ranks.length : null;
  return say("heatmap-about", { value, unit: metric.unit, by, low: metric.low ?? false, drawn, rows });
}

/** @param {State} state @param {Heatmap|null} data */
function nothing(state, data) {
  const find = state.choices["heat.find"] ?? "";
  if (data === null) return null;
  if (data.ranks.length === 0 && find !== "")
    return empty(say("heatmap-no-row"), say("heatmap-no-row-why", { find }));
  if (data.t.length === 0) return empty(say("heatmap-empty"), say("choose-longer-range"));
  if (data.values.every((row) => row.every((v) => v === null)))
    return empty(say("not-known-in-range"), say("heatmap-not-reported"));
  return null;
}

/** The legend of the colours, from best to worst. @param {HeatMetric} metric @param {Heatmap|null} data */
function colours(metric, data) {
  const top = metric.percent
    ? percent(1)
    : data === null
      ? ""
      : `${number(topOf(data.values))}\u202f${metric.unit}`;
  const [best, worst] = metric.low
    ? [top, "0"]
    : ["0", metric.metric === "data_wait_ratio" ? say("heatmap-all-wait", { wait_ratio: 1 }) : top];
  return h(
    "div",
    { class: "scale", "aria-hidden": "true" },
    h("span", {}, best),
    h("i", {}),
    h("span", {}, worst),
  );
}

/**
 * @param {string} name @param {string} label @param {string} value
 * @param {string[][]} options - value and text
 * @param {Actions} act
 */
function choice(name, label, value, options, act) {
  return h(
    "div",
    { class: "select", key: name },
    h(
      "select",
      {
        value,
        name,
        "aria-label": label,
        onchange: (/** @type {any} */ e) => act.choose({ [name]: e.target.value }),
      },
      options.map(([option, text]) =>
        h("option", { key: option, value: option, selected: option === value }, text ?? ""),
      ),
    ),
  );
}
