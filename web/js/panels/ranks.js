// The table of ranks, page by page, and the control that picks the rank of the charts.

import { h } from "../dom.js";
import { count, duration, number, percent } from "../format.js";
import { icon } from "../icons.js";
import { MANY_RANKS, PAGE_ROWS, hasRank, isLarge, pageShown } from "../ranks.js";
import { routeHash } from "../store.js";
import { say } from "../texts.js";
import { groupList } from "./groups.js";
import { meter, shownState, stateBadge, waitTone } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").RankRow} RankRow
 * @typedef {import("../main.js").Actions} Actions
 * @typedef {import("../dom.js").Child} Child
 * @typedef {{by: string, message: string, num?: boolean}} Column
 */

/** @type {Column[]} */
const RANK_COLUMNS = [
  { by: "rank", message: "column-rank" },
  { by: "state", message: "column-state" },
  { by: "phase", message: "column-now-in" },
  { by: "data_wait_ratio", message: "column-data-wait" },
  { by: "steps_per_s", message: "column-steps-per-s", num: true },
  { by: "step_s", message: "column-step-time", num: true },
  { by: "wait_s", message: "column-wait", num: true },
  { by: "ready_batches", message: "ranks-ready-column", num: true },
  { by: "gpu_utilization_ratio", message: "column-gpu", num: true },
  { by: "epoch", message: "column-epoch", num: true },
  { by: "step", message: "ranks-step-column", num: true },
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
    { class: "card flush", key: "ranks", "data-card": "ranks", "aria-label": say("ranks-title") },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, say("ranks-title")),
      h(
        "p",
        { class: "card-about" },
        many ? pageText(page, s) : say("ranks-counted", { ranks: s.rank_count }),
      ),
      many &&
        h(
          "div",
          { class: "controls" },
          findBox("ranks.find", say("ranks-find"), state, (find) =>
            act.choose({ "ranks.find": find, "ranks.offset": "0" }),
          ),
          pager("ranks", page, (to) => act.choose({ "ranks.offset": String(to) })),
        ),
    ),
    groupList(s, state, act),
    page.total === 0
      ? h("p", { class: "none-found" }, say("ranks-none-found", { find: state.choices["ranks.find"] ?? "" }))
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
  return say("ranks-shown", {
    total,
    from: offset + 1,
    to: offset + rows.length,
    detailed: isLarge(s) ? s.ranks.length : null,
  });
}

/**
 * @param {"ranks"|"gpus"} of @param {{total: number, offset: number}} page
 * @param {(offset: number) => void} turn
 */
export function pager(of, { total, offset }, turn) {
  /** @param {string} label @param {string} name @param {number} to */
  const step = (label, name, to) =>
    h(
      "button",
      {
        type: "button",
        class: "button",
        key: label,
        "aria-label": label,
        title: label,
        disabled: to < 0 || to >= total,
        onclick: () => turn(to),
      },
      icon(name),
    );
  return h(
    "div",
    { class: "pager", key: "pager" },
    step(say("page-previous", { of }), "right", offset - PAGE_ROWS),
    step(say("page-next", { of }), "right", offset + PAGE_ROWS),
  );
}

/**
 * A search field that acts on every letter.
 * @param {string} name - of the choice
 * @param {string} label @param {State} state @param {(text: string) => void} type
 */
export function findBox(name, label, state, type) {
  return h("input", {
    type: "search",
    class: "find",
    key: name,
    name,
    placeholder: label,
    "aria-label": label,
    autocomplete: "off",
    spellcheck: "false",
    value: state.choices[name] ?? "",
    oninput: (/** @type {any} */ e) => type(e.target.value.slice(0, 200)),
  });
}

/** The control for the rank whose charts the page shows. @param {State} state @param {Actions} act */
export function rankChoice(state, act) {
  const s = state.summary;
  /** @param {any} e */
  const choose = (e) => {
    const rank = Number(e.target.value.replace(/^\s*rank\s*/i, "") || NaN);
    if (s !== null && hasRank(s, rank)) act.rank(rank);
    else act.tell(say("rank-typed-unknown", { typed: e.target.value.trim().slice(0, 40) || null }));
  };
  return h(
    "label",
    { class: "select" },
    h("span", {}, say("charts-of")),
    (s?.rank_count ?? 0) > MANY_RANKS
      ? h("input", {
          class: "find rank-number",
          inputmode: "numeric",
          placeholder: say("rank-number", { rank: state.rank ?? "" }),
          title: say("rank-shown", { rank: state.rank }),
          onchange: choose,
        })
      : h(
          "select",
          { value: state.rank ?? "", onchange: choose },
          s?.ranks.map((r) =>
            h(
              "option",
              { key: r.rank, value: r.rank, selected: r.rank === state.rank },
              say("rank-number", { rank: r.rank }),
            ),
          ),
        ),
  );
}

/** @param {Column} c @param {State} state @param {Actions} act */
function sortHead(c, state, act) {
  const on = state.sort.by === c.by;
  return h(
    "th",
    {
      scope: "col",
      key: c.by,
      class: c.num ? "num" : "",
      "aria-sort": on ? (state.sort.down ? "descending" : "ascending") : "none",
    },
    h(
      "button",
      { type: "button", class: `sort${on ? " on" : ""}`, onclick: () => act.sort(c.by) },
      say(c.message),
      on ? h("span", { "aria-hidden": "true" }, state.sort.down ? "↓" : "↑") : null,
    ),
  );
}

/** @param {RankRow} r @param {Column[]} columns @param {State} state @param {Actions} act */
function rankRow(r, columns, state, act) {
  /** @type {Record<string, Child>} */
  const cells = {
    rank: [
      h(
        "a",
        { href: routeHash({ run: state.route.run, rank: r.rank }), "data-nav": true },
        say("rank-number", { rank: r.rank }),
      ),
      h("small", {}, say("rank-on-host", { host: r.host, pid: r.pid })),
    ],
    state: [
      stateBadge(shownState(r.state, r.exit)),
      r.exit !== null && h("small", {}, r.exit),
      !r.watched && h("small", {}, say("not-watched")),
    ],
    phase: [
      say("phase-name", { phase: r.phase }),
      r.phase_age_s !== null && r.phase_age_s >= 1 ? h("small", {}, duration(r.phase_age_s)) : null,
    ],
    data_wait_ratio: h(
      "span",
      { class: "metered" },
      meter(r.data_wait_ratio, waitTone(r.data_wait_ratio)),
      h("span", {}, percent(r.data_wait_ratio)),
    ),
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
    {
      key: r.rank,
      class: "row-link",
      onclick: () => act.go(routeHash({ run: state.route.run, rank: r.rank })),
    },
    columns.map((c) => h("td", { class: c.num ? "num" : "", "data-label": say(c.message) }, cells[c.by])),
  );
}
