// The page of two runs: one sentence, differing settings, measurements, and curves from each run's start.

import { h } from "../dom.js";
import { clock, duration, number, percent } from "../format.js";
import { pairHash, routeHash, serverNow } from "../store.js";
import { say } from "../texts.js";
import { empty, skeleton, stateBadge, withCommas } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Comparison} Comparison
 * @typedef {import("../types.js").ComparedRun} ComparedRun
 * @typedef {import("../types.js").Difference} Difference
 * @typedef {import("../types.js").Estimate} Estimate
 * @typedef {import("../types.js").Series} Series
 */

/** @type {Record<string, string>} */
const TONES = { better: "ok", worse: "critical", changed: "info", noise: "none", unknown: "none" };
const CHARTS = [
  { metric: "steps_per_s", text: (/** @type {number} */ v) => `${number(v)}/s` },
  { metric: "data_wait_ratio", text: percent },
];

/** @param {State} state */
export function comparePage(state) {
  const [a, b] = state.route.pair ?? ["", ""];
  const compared = state.comparison;
  const fits = compared !== null && compared.pair[0] === a && compared.pair[1] === b;
  return h(
    "div",
    { class: "page compare", key: `compare ${a} ${b}` },
    h(
      "div",
      { class: "page-head" },
      h("h1", {}, say("compare-title")),
      fits &&
        compared.data !== null &&
        h("a", { class: "button", href: pairHash(b, a) }, say("compare-swap")),
    ),
    !fits || (compared.data === null && compared.error === null)
      ? h("div", { class: "card" }, skeleton("260px"))
      : compared.data === null
        ? empty(
            say("compare-impossible"),
            compared.error,
            h("a", { class: "button primary", href: "#/" }, say("all-runs")),
          )
        : [
            h(
              "div",
              { class: "pair" },
              runCard("A", compared.data.a, state),
              runCard("B", compared.data.b, state),
            ),
            verdict(compared.data),
            settings(compared.data),
            measures(compared.data),
            compared.courses !== null && courses(compared.data, compared.courses),
          ],
  );
}

/** @param {string} which @param {ComparedRun} run @param {State} state */
function runCard(which, run, state) {
  const facts = [
    say("ranks-counted", { ranks: run.world_size }),
    run.steps === null ? "" : say("steps-counted", { steps: run.steps }),
    say("started-at", { when: clock(run.started_at, serverNow(state)) }),
    say("compared-for", { compared_s: run.seconds }),
  ];
  return h(
    "section",
    { class: "card paired", key: which, "aria-label": say("compared-run", { which }) },
    h(
      "header",
      { class: "card-head" },
      h("span", { class: `which which-${which}`, "aria-hidden": "true" }, which),
      h("h2", {}, h("a", { href: routeHash({ run: run.run_id }) }, run.name)),
      stateBadge(run.state),
    ),
    h("p", { class: "card-about" }, facts.filter(Boolean).join(" · ")),
    h("code", {}, run.run_id),
  );
}

/** @param {Comparison} c */
function verdict(c) {
  return h(
    "section",
    {
      class: `card compared tone-${TONES[c.judgement]}`,
      key: "verdict",
      "aria-label": say("compare-sentence"),
    },
    h("p", { class: "compared-title" }, c.title),
    c.notes.length > 0 && h("ul", { class: "compared-notes" }, c.notes.map((note) => h("li", {}, note))),
  );
}

/** @param {Comparison} c */
function settings(c) {
  return h(
    "section",
    { class: "card flush", key: "settings", "aria-label": say("settings-that-differ") },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, say("settings-that-differ")),
      c.settings.length === 0 && h("p", { class: "card-about" }, say("settings-none-differ")),
    ),
    c.settings.length > 0 &&
      h(
        "div",
        { class: "table-scroll" },
        h(
          "table",
          { class: "grid settings" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              [say("setting-of"), say("setting"), "A", "B"].map((t) => h("th", { scope: "col" }, t)),
            ),
          ),
          h(
            "tbody",
            {},
            c.settings.map((setting) =>
              h(
                "tr",
                { key: `${setting.where} ${setting.what}` },
                h("td", {}, say("setting-where", { where: setting.where })),
                h("td", {}, h("code", {}, setting.what)),
                h("td", { class: "wraps", "data-run": "A" }, setting.a ?? "–"),
                h("td", { class: "wraps", "data-run": "B" }, h("b", {}, setting.b ?? "–")),
              ),
            ),
          ),
        ),
      ),
  );
}

/** @param {Comparison} c */
function measures(c) {
  return h(
    "section",
    { class: "card flush", key: "measures", "aria-label": say("what-was-measured") },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, say("what-was-measured")),
      h("p", { class: "card-about" }, say("measured-about")),
    ),
    h(
      "div",
      { class: "table-scroll" },
      h(
        "table",
        { class: "grid measures" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            [say("measure"), "A", "B", say("measure-change"), "", ""].map((t, i) =>
              h("th", { scope: "col", class: i > 0 && i < 4 ? "num" : i === 4 ? "spread" : "" }, t),
            ),
          ),
        ),
        h("tbody", {}, c.measures.map(measure)),
      ),
    ),
  );
}

/** @param {Difference} d */
function measure(d) {
  return h(
    "tr",
    { key: d.measure },
    h("td", {}, d.label),
    h("td", { class: "num", "data-run": "A" }, valueOf(d, d.a)),
    h("td", { class: "num", "data-run": "B" }, h("b", {}, valueOf(d, d.b))),
    h("td", { class: "num" }, changeOf(d)),
    h("td", { class: "spread" }, intervalBar(d)),
    h("td", { class: `judged tone-${TONES[d.judgement]}` }, d.said),
  );
}

/** @param {Difference} d @param {Estimate|null} e */
function valueOf(d, e) {
  if (e === null) return "–";
  return d.unit === "ratio" ? percent(e.mean) : d.unit === "s" ? duration(e.mean) : `${number(e.mean)}/s`;
}

/** "+12 % (+8 % to +16 %)"; ratios change in points. @param {Difference} d */
export function changeOf(d) {
  if (d.change === null) return "–";
  const text = (/** @type {number} */ v) =>
    d.unit === "ratio"
      ? `${v < 0 ? "−" : "+"}${Math.abs(v * 100).toFixed(1)}`
      : `${v < 0 ? "−" : "+"}${percent(Math.abs(v))}`;
  const change = d.unit === "ratio" ? say("change-in-points", { points: text(d.change) }) : text(d.change);
  return d.change_low === null || d.change_high === null
    ? change
    : [
        change,
        " ",
        h("small", {}, say("change-interval", { low: text(d.change_low), high: text(d.change_high) })),
      ];
}

/**
 * The interval of a change. Zero is the middle, an end is ±100 %. The scale is a square root, so that a few
 * percent are visible.
 * @param {Difference} d
 */
function intervalBar(d) {
  if (d.change === null || d.change_low === null || d.change_high === null) return null;
  const at = (/** @type {number} */ v) => 60 + 56 * Math.sign(v) * Math.sqrt(Math.min(1, Math.abs(v)));
  const [low, middle, high] = [at(d.change_low), at(d.change), at(d.change_high)];
  return h(
    "svg",
    {
      class: `interval tone-${TONES[d.judgement]}`,
      viewBox: "0 0 120 16",
      width: "120",
      height: "16",
      "aria-hidden": "true",
      focusable: "false",
    },
    h("path", { class: "zero", d: "M60 1V15" }),
    h("path", { class: "reach", d: `M${low.toFixed(1)} 8H${Math.max(high, low + 1).toFixed(1)}` }),
    h("circle", { class: "middle", cx: middle.toFixed(1), cy: "8", r: "3.5" }),
  );
}

/** @param {Comparison} c @param {[Record<string, Series>, Record<string, Series>]} courses */
function courses(c, [a, b]) {
  return h(
    "div",
    { class: "courses", key: "courses" },
    CHARTS.map(({ metric, text }) => {
      const pair = [points(a[metric]), points(b[metric])];
      const highest = Math.max(
        ...pair.flat().map(([, v]) => v ?? 0),
        metric === "data_wait_ratio" ? 0.05 : 0.01,
      );
      const longest = Math.max(...pair.map((course) => course.at(-1)?.[0] ?? 0), 1);
      return h(
        "section",
        { class: "card course", key: metric, "aria-label": say("course-of-both", { metric }) },
        h(
          "header",
          { class: "card-head" },
          h("h2", {}, say("course-metric", { metric })),
          h("p", { class: "card-about" }, say("course-about")),
        ),
        h(
          "ul",
          { class: "legend" },
          h(
            "li",
            {},
            h("i", { class: "stroke stroke-a", "aria-hidden": "true" }),
            withCommas(["A", c.a.name]),
          ),
          h(
            "li",
            {},
            h("i", { class: "stroke stroke-b", "aria-hidden": "true" }),
            withCommas(["B", c.b.name]),
          ),
        ),
        h(
          "div",
          { class: "course-box" },
          h("span", { class: "course-y" }, text(highest)),
          h(
            "svg",
            {
              class: "course-lines",
              viewBox: "0 0 600 160",
              preserveAspectRatio: "none",
              role: "img",
              "aria-label": say("course-lines", { metric }),
            },
            h("path", { class: "floor", d: "M0 159.5H600" }),
            pair.map((course, i) =>
              h("path", {
                key: i,
                class: i === 0 ? "line-a" : "line-b",
                d: lineOf(course, longest, highest),
              }),
            ),
          ),
          h("span", { class: "course-x" }, h("span", {}, "0"), h("span", {}, duration(longest))),
        ),
      );
    }),
  );
}

/**
 * Seconds since the start, with means.
 * @param {Series|undefined} series @returns {[number, number|null][]}
 */
function points(series) {
  const first = series?.t[0] ?? 0;
  return (series?.t ?? []).map((t, i) => [t - first, series?.mean[i] ?? null]);
}

/**
 * A line that is broken where values are unknown.
 * @param {[number, number|null][]} points @param {number} last @param {number} most
 */
export function lineOf(points, last, most) {
  let down = false;
  return points
    .map(([t, v]) => {
      const begun = down;
      down = v !== null;
      return v === null
        ? ""
        : `${begun ? "L" : "M"}${((600 * t) / last).toFixed(1)} ${(160 - 152 * (v / most)).toFixed(1)}`;
    })
    .join("");
}
