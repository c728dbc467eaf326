// The ranks of a large run as groups: the few that differ, and what all others do.

import { h } from "../dom.js";
import { count, duration, number, percent, plural } from "../format.js";
import { icon } from "../icons.js";
import { chosenGroup } from "../ranks.js";
import { meter, waitTone } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Summary} Summary
 * @typedef {import("../types.js").RankGroup} RankGroup
 * @typedef {import("../main.js").Actions} Actions
 */

/** How ranks differ from most, by measure: less, more. @type {Record<import("../types.js").RankMeasure, [string, string]>} */
const DIFFERS = {
  data_wait_ratio: ["wait less for data than most", "wait more for data than most"],
  step_s: ["have shorter steps than most", "have longer steps than most"],
  gpu_utilization_ratio: ["use their GPU less than most", "use their GPU more than most"],
};
/** @type {Record<string, string>} */
const ENDED = { crashed: "have crashed", finished: "have finished", lost: "are silent" };

/** What the ranks of a group do. @param {RankGroup} g @param {boolean} most - they are most of the ranks, and others do something else */
export function whatTheyDo(g, most) {
  const ended = ENDED[g.state];
  if (ended !== undefined) return ended;
  const differs = g.differs_in === null ? "" : DIFFERS[g.differs_in][g.higher ? 1 : 0];
  if (g.phase === null) return differs || (most ? "go on, as most do" : "go on alike");
  const age = duration(g.phase_age_s);
  return differs === "" ? `stand in ${g.phase} for ${age}` : `stand in ${g.phase} for ${age}, and ${differs}`;
}

/** The groups above the table, which shows the ranks of one of them when it is picked. @param {Summary} s @param {State} state @param {Actions} act */
export function groupList(s, state, act) {
  if (s.groups.length === 0) return null;
  const picked = chosenGroup(state);
  const rest = s.rank_count - s.groups.reduce((sum, g) => sum + g.count, 0);
  const hasGpu = s.groups.some((g) => g.gpu_utilization_ratio !== null);
  const pick = (/** @type {string|null} */ group) => act.choose({ "ranks.group": group ?? "", "ranks.offset": "0" });
  return h(
    "div",
    { class: "table-scroll rank-groups", key: "groups" },
    h(
      "table",
      { class: "grid", "aria-label": "Groups of ranks" },
      h("thead", {}, h("tr", {}, ["Ranks", "What they do", "Data wait", "Steps/s", "Step", ...(hasGpu ? ["GPU"] : [])].map((t, i) => h("th", { scope: "col", class: i > 2 ? "num" : "" }, t)))),
      h("tbody", {}, s.groups.map((g) => groupRow(g, { most: s.groups.length > 1 && 2 * g.count > s.rank_count, hasGpu, on: picked === g.group }, pick))),
    ),
    (rest > 0 || picked !== null) &&
      h(
        "p",
        { class: "groups-note" },
        rest > 0 && h("span", {}, `${plural(rest, "rank")} in further groups.`),
        picked !== null && h("button", { type: "button", class: "button", onclick: () => pick(null) }, icon("close"), h("span", {}, "Show the ranks of all groups")),
      ),
  );
}

/** @param {RankGroup} g @param {{most: boolean, hasGpu: boolean, on: boolean}} shown @param {(group: string|null) => void} pick */
function groupRow(g, { most, hasGpu, on }, pick) {
  const names = `${g.ranks.slice(0, 3).join(", ")}${g.count > 3 ? ", …" : ""}`;
  const cells = [
    ["Ranks", h("button", { type: "button", class: "pick", "aria-pressed": String(on) }, plural(g.count, "rank")), h("small", {}, names), h("small", {}, plural(g.hosts, "host"))],
    ["What they do", whatTheyDo(g, most)],
    ["Data wait", h("span", { class: "metered" }, meter(g.data_wait_ratio, waitTone(g.data_wait_ratio)), h("span", {}, percent(g.data_wait_ratio)))],
    ["Steps/s", number(g.steps_per_s)],
    ["Step", duration(g.step_s)],
    ...(hasGpu ? [["GPU", percent(g.gpu_utilization_ratio)]] : []),
  ];
  return h(
    "tr",
    { key: g.group, class: `row-link${on ? " on" : ""}`, onclick: () => pick(on ? null : g.group) },
    cells.map(([label, ...content], i) => h("td", { class: i > 2 ? "num" : "", "data-label": label }, content)),
  );
}
