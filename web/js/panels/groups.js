// The ranks of a large run as groups: the few that differ, and the majority.

import { h } from "../dom.js";
import { duration, number, percent } from "../format.js";
import { icon } from "../icons.js";
import { chosenGroup } from "../ranks.js";
import { say } from "../texts.js";
import { meter, waitTone } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Summary} Summary
 * @typedef {import("../types.js").RankGroup} RankGroup
 * @typedef {import("../main.js").Actions} Actions
 */

const ENDED = new Set(["crashed", "finished", "lost"]);

/** @param {RankGroup} g @param {boolean} most - they are the majority, and others differ */
export function whatTheyDo(g, most) {
  if (ENDED.has(g.state)) return say("group-ended", { state: g.state });
  const differs =
    g.differs_in === null ? null : say("group-differs", { measure: g.differs_in, more: g.higher });
  if (g.phase === null) return differs ?? say("group-goes-on", { as_most: most });
  return say("group-stands", { phase: g.phase, age_s: g.phase_age_s, differs });
}

/** @param {boolean} hasGpu */
const heads = (hasGpu) => [
  say("groups-ranks-column"),
  say("groups-what-they-do"),
  say("column-data-wait"),
  say("column-steps-per-s"),
  say("column-step-time"),
  ...(hasGpu ? [say("column-gpu")] : []),
];

/**
 * The groups above the table. The table shows the ranks of the picked group.
 * @param {Summary} s @param {State} state @param {Actions} act
 */
export function groupList(s, state, act) {
  if (s.groups.length === 0) return null;
  const picked = chosenGroup(state);
  const rest = s.rank_count - s.groups.reduce((sum, g) => sum + g.count, 0);
  const hasGpu = s.groups.some((g) => g.gpu_utilization_ratio !== null);
  const pick = (/** @type {string|null} */ group) =>
    act.choose({ "ranks.group": group ?? "", "ranks.offset": "0" });
  return h(
    "div",
    { class: "table-scroll rank-groups", key: "groups" },
    h(
      "table",
      { class: "grid", "aria-label": say("groups-of-ranks") },
      h(
        "thead",
        {},
        h("tr", {}, heads(hasGpu).map((t, i) => h("th", { scope: "col", class: i > 2 ? "num" : "" }, t))),
      ),
      h(
        "tbody",
        {},
        s.groups.map((g) =>
          groupRow(
            g,
            { most: s.groups.length > 1 && 2 * g.count > s.rank_count, hasGpu, on: picked === g.group },
            pick,
          ),
        ),
      ),
    ),
    (rest > 0 || picked !== null) &&
      h(
        "p",
        { class: "groups-note" },
        rest > 0 && h("span", {}, say("groups-left-out", { ranks: rest })),
        picked !== null &&
          h(
            "button",
            { type: "button", class: "button", onclick: () => pick(null) },
            icon("close"),
            h("span", {}, say("groups-show-all")),
          ),
      ),
  );
}

/**
 * @param {RankGroup} g @param {{most: boolean, hasGpu: boolean, on: boolean}} shown
 * @param {(group: string|null) => void} pick
 */
function groupRow(g, { most, hasGpu, on }, pick) {
  const names = `${g.ranks.slice(0, 3).join(", ")}${g.count > 3 ? ", …" : ""}`;
  const cells = [
    [
      h(
        "button",
        { type: "button", class: "pick", "aria-pressed": String(on) },
        say("ranks-counted", { ranks: g.count }),
      ),
      h("small", {}, names),
      h("small", {}, say("hosts-counted", { hosts: g.hosts })),
    ],
    whatTheyDo(g, most),
    h(
      "span",
      { class: "metered" },
      meter(g.data_wait_ratio, waitTone(g.data_wait_ratio)),
      h("span", {}, percent(g.data_wait_ratio)),
    ),
    number(g.steps_per_s),
    duration(g.step_s),
    percent(g.gpu_utilization_ratio),
  ];
  return h(
    "tr",
    { key: g.group, class: `row-link${on ? " on" : ""}`, onclick: () => pick(on ? null : g.group) },
    heads(hasGpu).map((label, i) => h("td", { class: i > 2 ? "num" : "", "data-label": label }, cells[i])),
  );
}
