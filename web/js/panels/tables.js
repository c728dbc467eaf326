// Tables of ranks, workers and slow samples.

import { h } from "../dom.js";
import { ago, bytes, clock, count, duration, number, percent, plural } from "../format.js";
import { routeHash, serverNow, sorted } from "../store.js";
import { fetchesButton, lastFetches, scriptFor } from "./culprit.js";
import { button, copyAction, copyButton, meter, stateBadge, waitTone } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").RankRow} RankRow
 * @typedef {import("../types.js").Worker} Worker
 * @typedef {import("../types.js").SlowSample} SlowSample
 * @typedef {import("../main.js").Actions} Actions
 * @typedef {import("../dom.js").Child} Child
 */

/** Rows drawn before the reader asks for all: a table of 256 that changes twice a second costs more than it tells. */
export const FIRST_ROWS = 16;
export const FIRST_SAMPLES = 6;

/** @type {{by: string, label: string, num?: boolean}[]} */
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
  const rows = sorted(s.ranks, state.sort);
  const all = state.open["all-ranks"] ?? false;
  const shown = all ? rows : rows.slice(0, FIRST_ROWS);
  const hasGpu = s.ranks.some((r) => r.gpu_utilization_ratio !== null);
  const columns = RANK_COLUMNS.filter((c) => hasGpu || c.by !== "gpu_utilization_ratio");
  return h(
    "section",
    { class: "card flush", key: "ranks", "aria-label": "Ranks" },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, "Ranks"),
      h("p", { class: "card-about" }, shown.length < rows.length ? `${shown.length} of ${rows.length}` : plural(rows.length, "rank")),
      rows.length > FIRST_ROWS && button(all ? `Show ${FIRST_ROWS}` : `Show all ${rows.length}`, () => act.open("all-ranks", !all)),
    ),
    h(
      "div",
      { class: "table-scroll" },
      h(
        "table",
        { class: "grid ranks" },
        h("thead", {}, h("tr", {}, columns.map((c) => sortHead(c, state, act)))),
        h("tbody", {}, shown.map((r) => rankRow(r, columns, state, act))),
      ),
    ),
  );
}

/** @param {{by: string, label: string, num?: boolean}} c @param {State} state @param {Actions} act */
function sortHead(c, state, act) {
  const on = state.sort.by === c.by;
  return h(
    "th",
    { scope: "col", key: c.by, class: c.num ? "num" : "", "aria-sort": on ? (state.sort.down ? "descending" : "ascending") : "none" },
    h("button", { type: "button", class: `sort${on ? " on" : ""}`, onclick: () => act.sort(c.by) }, c.label, on ? h("span", { "aria-hidden": "true" }, state.sort.down ? "↓" : "↑") : null),
  );
}

/** @param {RankRow} r @param {{by: string, label: string, num?: boolean}[]} columns @param {State} state @param {Actions} act */
function rankRow(r, columns, state, act) {
  /** @type {Record<string, Child>} */
  const cells = {
    rank: [h("a", { href: routeHash({ run: state.route.run, rank: r.rank }), "data-nav": true }, `rank ${r.rank}`), h("small", {}, `${r.host} · pid ${r.pid}`)],
    state: [stateBadge(r.state), r.exit !== null && h("small", {}, r.exit), !r.watched && h("small", {}, "not watched any more")],
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

const OS_STATES = { R: "running", S: "sleeping", D: "in uninterruptible I/O", T: "stopped", t: "traced", Z: "zombie", I: "idle" };

/** @param {Worker[]|null} workers @param {State} state @param {Actions} act */
export function workersTable(workers, state, act) {
  if (workers === null) return null;
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "grid" },
      h("thead", {}, h("tr", {}, ["Process", "Now in", "Sample", "System state", "CPU", "Memory", "Threads", "Batches"].map((t, i) => h("th", { scope: "col", class: i >= 4 ? "num" : "" }, t)))),
      h(
        "tbody",
        {},
        [...workers]
          .sort((a, b) => a.worker - b.worker)
          .flatMap((w) => [
            h(
              "tr",
              { key: `${w.loader}/${w.worker}`, class: w.alive ? "" : "gone" },
              cell("Process", [h("b", {}, w.worker < 0 ? "training" : `worker ${w.worker}`), h("small", {}, w.alive ? `pid ${w.pid}` : `pid ${w.pid}, gone`)]),
              cell("Now in", [w.phase ?? "–", w.phase_age_s !== null && h("small", {}, duration(w.phase_age_s))]),
              cell("Sample", w.sample_index === null ? "–" : [String(w.sample_index), w.sample_age_s !== null && w.sample_age_s >= 1 ? h("small", { class: "late" }, `for ${duration(w.sample_age_s)}`) : null]),
              cell("System state", [w.os_state === null ? "–" : `${w.os_state} ${OS_STATES[/** @type {"R"} */ (w.os_state)] ?? ""}`, w.wchan !== null && w.wchan !== "0" && h("small", {}, w.wchan)]),
              cell("CPU", percent(w.cpu_ratio), true),
              cell("Memory", bytes(w.rss_bytes), true),
              cell("Threads", count(w.threads), true),
              cell("Batches", [count(w.batches), w.worker >= 0 && fetchesButton(w.worker, state, act)], true),
            ),
            state.open[`fetches/${w.worker}`] && h("tr", { key: `${w.loader}/${w.worker}/fetches` }, h("td", { colspan: 8, class: "unfolded" }, lastFetches(w.worker, state))),
          ]),
      ),
    ),
  );
}

/** @param {SlowSample[]|null} samples @param {State} state @param {Actions} act */
export function samplesTable(samples, state, act) {
  if (samples === null) return null;
  const now = serverNow(state);
  const shown = state.open["all-samples"] ? samples : samples.slice(0, FIRST_SAMPLES);
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "grid" },
      h("thead", {}, h("tr", {}, ["Sample", "Took", "Of its fetch", "Worker", "When", "Load it alone"].map((t, i) => h("th", { scope: "col", class: i === 1 || i === 2 ? "num" : "" }, t)))),
      h(
        "tbody",
        {},
        shown.map((s) =>
          h(
            "tr",
            { key: `${s.loader}/${s.index}` },
            cell("Sample", h("b", {}, String(s.index))),
            cell("Took", duration(s.slow_s), true),
            cell("Of its fetch", s.fetch_s ? percent(Math.min(1, s.slow_s / s.fetch_s)) : "–", true),
            cell("Worker", s.worker < 0 ? "training process" : `worker ${s.worker}`),
            cell("When", h("span", { title: clock(s.at, now) }, ago(now - s.at))),
            cell("Load it alone", h("span", { class: "copyable" }, h("code", {}, `dataset[${s.index}]`), copyButton(`dataset[${s.index}]`, act.tell), scriptButton(s, state, act))),
          ),
        ),
      ),
    ),
  );
}

/** @param {SlowSample} s @param {State} state @param {Actions} act */
function scriptButton(s, state, act) {
  const script = scriptFor(state, s.index, s);
  return script === null ? null : copyAction("Script", script, `a script that loads dataset[${s.index}] alone`, act.tell);
}

/** @param {string} label @param {Child} content @param {boolean} [num] */
export function cell(label, content, num = false) {
  return h("td", { class: num ? "num" : "", "data-label": label }, content);
}

