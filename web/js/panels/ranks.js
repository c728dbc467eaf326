// The table of ranks, a page of it at a time, and the control that chooses whose charts are shown.

import { h } from "../dom.js";
import { count, duration, number, percent, plural } from "../format.js";
import { icon } from "../icons.js";
import { MANY_RANKS, PAGE_ROWS, hasRank, isLarge, pageShown } from "../ranks.js";
import { routeHash } from "../store.js";
import { groupList } from "./groups.js";
import { meter, shownState, stateBadge, waitTone } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").RankRow} RankRow
 * @typedef {import("../main.js").Actions} Actions
 * @typedef {import("../dom.js").Child} Child
 * @typedef {{by: string, label: string, num?: boolean}} Column
 */

/** @type {Column[]} */
const RANK_COLUMNS = [
  { by: "rank", label: "Rank" },
  { by: "state", label: "State" },
  { by: "phase", label: "Now in" },
  { by: "data_wait_ratio", label: "Data wait" },
  { by: "steps_per_s", label: "Steps/s", num: true },
  { by: "step_s", label: "Step", num: true },
  { by: "wait_s", label: "Wait", num: true },
  { by: "ready_batches", label: "Ready", num: true },
  { by: "gpu_utilization_ratio", label: "GPU", num: true },
  { by: "epoch", label: "Epoch", num: true },
  { by: "step", label: "At step", num: true },
];

/** @param {State} state @param {Actions} act */
export function ranksTable(state, act) {
  const s = state.summary;
  if (s === null) return null;
  const page = pageShown(state);
  const hasGpu = s.ranks.some((r) => r.gpu_utilization_ratio !== null);
  const columns = RANK_COLUMNS.filter((c) => hasGpu || c.by !== "gpu_utilization_ratio");
  const many = s.rank_count > PAGE_ROWS;
  return h(
    "section",
    { class: "card flush", key: "ranks", "data-card": "ranks", "aria-label": "Ranks" },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, "Ranks"),
      h("p", { class: "card-about" }, many ? pageText(page, s) : plural(s.rank_count, "rank")),
      many && h("div", { class: "controls" }, findBox("ranks.find", "Find a rank", state, (find) => act.choose({ "ranks.find": find, "ranks.offset": "0" })), pager("ranks", page, (to) => act.choose({ "ranks.offset": String(to) }))),
    ),
    groupList(s, state, act),
    page.total === 0
      ? h("p", { class: "none-found" }, `No rank of this run matches “${state.choices["ranks.find"] ?? ""}”: try a number, a host or a state.`)
      : h(
          "div",
          { class: "table-scroll" },
          h(
            "table",
            { class: "grid ranks" },
            h("thead", {}, h("tr", {}, columns.map((c) => sortHead(c, state, act)))),
            h("tbody", {}, page.rows.map((r) => rankRow(r, columns, state, act))),
          ),
        ),
  );
}

/** @param {{total: number, offset: number, rows: RankRow[]}} page @param {import("../types.js").Summary} s */
function pageText({ total, offset, rows }, s) {
  const some = total === 0 ? "none found" : `${count(offset + 1)} to ${count(offset + rows.length)} of ${count(total)}`;
  return isLarge(s) ? `${some}; ${count(s.ranks.length)} are looked at in detail` : some;
}

/** @param {string} what @param {{total: number, offset: number}} page @param {(offset: number) => void} turn */
export function pager(what, { total, offset }, turn) {
  /** @param {string} label @param {string} name @param {number} to */
  const step = (label, name, to) =>
    h("button", { type: "button", class: "button", key: label, "aria-label": label, title: label, disabled: to < 0 || to >= total, onclick: () => turn(to) }, icon(name));
  return h("div", { class: "pager", key: "pager" }, step(`Previous ${what}`, "right", offset - PAGE_ROWS), step(`Next ${what}`, "right", offset + PAGE_ROWS));
}

/**
 * A box to type in what is looked for; it acts with every letter.
 * @param {string} name - of the choice @param {string} label @param {State} state @param {(text: string) => void} type
 */
export function findBox(name, label, state, type) {
  return h("input", {
    type: "search", class: "find", key: name, name, placeholder: label, "aria-label": label, autocomplete: "off", spellcheck: "false",
    value: state.choices[name] ?? "", oninput: (/** @type {any} */ e) => type(e.target.value.slice(0, 200)),
  });
}

/** Whose charts the page of a run shows. @param {State} state @param {Actions} act */
export function rankChoice(state, act) {
  const s = state.summary;
  /** @param {any} e */
  const choose = (e) => {
    const rank = Number(e.target.value.replace(/^\s*rank\s*/i, "") || NaN);
    if (s !== null && hasRank(s, rank)) act.rank(rank);
    else act.tell(`There is no rank ${e.target.value.trim().slice(0, 40) || "of that name"} in this run`);
  };
  return h(
    "label",
    { class: "select" },
    h("span", {}, "Charts of"),
    (s?.rank_count ?? 0) > MANY_RANKS
      ? h("input", { class: "find rank-number", inputmode: "numeric", placeholder: `rank ${state.rank ?? ""}`, title: `Shown: rank ${state.rank}. Type another number`, onchange: choose })
      : h(
          "select",
          { value: state.rank ?? "", onchange: choose },
          s?.ranks.map((r) => h("option", { key: r.rank, value: r.rank, selected: r.rank === state.rank }, `rank ${r.rank}`)),
        ),
  );
}

/** @param {Column} c @param {State} state @param {Actions} act */
function sortHead(c, state, act) {
  const on = state.sort.by === c.by;
  return h(
    "th",
    { scope: "col", key: c.by, class: c.num ? "num" : "", "aria-sort": on ? (state.sort.down ? "descending" : "ascending") : "none" },
    h("button", { type: "button", class: `sort${on ? " on" : ""}`, onclick: () => act.sort(c.by) }, c.label, on ? h("span", { "aria-hidden": "true" }, state.sort.down ? "↓" : "↑") : null),
  );
}

/** @param {RankRow} r @param {Column[]} columns @param {State} state @param {Actions} act */
function rankRow(r, columns, state, act) {
  /** @type {Record<string, Child>} */
  const cells = {
    rank: [h("a", { href: routeHash({ run: state.route.run, rank: r.rank }), "data-nav": true }, `rank ${r.rank}`), h("small", {}, `${r.host} · pid ${r.pid}`)],
    state: [stateBadge(shownState(r.state, r.exit)), r.exit !== null && h("small", {}, r.exit), !r.watched && h("small", {}, "not watched any more")],
    phase: [r.phase ?? "–", r.phase_age_s !== null && r.phase_age_s >= 1 ? h("small", {}, duration(r.phase_age_s)) : null],
    data_wait_ratio: h("span", { class: "metered" }, meter(r.data_wait_ratio, waitTone(r.data_wait_ratio)), h("span", {}, percent(r.data_wait_ratio))),
    steps_per_s: number(r.steps_per_s),
    step_s: duration(r.step_s),
    wait_s: duration(r.wait_s),
    ready_batches: number(r.ready_batches),
    gpu_utilization_ratio: percent(r.gpu_utilization_ratio),
    epoch: count(r.epoch),
    step: count(r.step),
  };
  return h(
    "tr",
    { key: r.rank, class: "row-link", onclick: () => act.go(routeHash({ run: state.route.run, rank: r.rank })) },
    columns.map((c) => h("td", { class: c.num ? "num" : "", "data-label": c.label }, cells[c.by])),
  );
}
