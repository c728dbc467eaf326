// All runs, pinned and newest first, each with its verdict: searched, filtered, sorted, and picked for a comparison.

import { h } from "../dom.js";
import { ago, clock, clockBare, listed, plural } from "../format.js";
import { icon, severityIcon } from "../icons.js";
import { SORTS, STATES, shownRuns, stateCounts } from "../listing.js";
import { pairHash, routeHash, serverNow } from "../store.js";
import { labelsDialog } from "./labels.js";
import { button, copyButton, empty, shownState, skeleton, stateBadge, stateWord } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").RunRow} RunRow
 * @typedef {import("../main.js").Actions} Actions
 */

const LINES = "import loaderwatch\nloaderwatch.attach(train_loader)";

/** @param {State} state @param {Actions} act */
export function runsPage(state, act) {
  const runs = state.runs;
  return h(
    "div",
    { class: "page", key: "runs" },
    h(
      "div",
      { class: "page-head" },
      h("h1", {}, "Runs"),
      runs !== null && runs.length > 0 && h("p", { class: "page-meta" }, summaryLine(runs)),
    ),
    state.runs_error !== null && runs !== null && h("p", { class: "notice warning", role: "status" }, `Not up to date: ${state.runs_error}. Trying again.`),
    runs === null
      ? state.runs_error === null
        ? h("div", { class: "card flush" }, [0, 1, 2].map((i) => h("div", { class: "run-row", key: i }, skeleton("40px"))))
        : empty("The list of runs could not be loaded", `${state.runs_error}. Trying again every few seconds.`)
      : runs.length === 0
        ? firstSteps(act)
        : [toolbar(runs, state, act), runTable(runs, state, act)],
    labelsDialog(state, act),
  );
}

/** @param {RunRow[]} runs */
function summaryLine(runs) {
  const going = runs.filter((r) => r.state === "live" || r.state === "hung").length;
  return going === 0 ? `${plural(runs.length, "run")}, none going on` : `${plural(runs.length, "run")}, ${going} going on`;
}

/** @param {RunRow[]} runs @param {State} state @param {Actions} act */
function toolbar(runs, state, act) {
  const { listing, picked } = state;
  const counts = stateCounts(runs, listing.query);
  const there = STATES.filter((each) => (counts[each] ?? 0) > 0 || listing.states.includes(each));
  return h(
    "div",
    { class: "runs-bar", key: "bar", role: "search", "aria-label": "Which runs" },
    h("input", {
      type: "search", key: `query ${state.listing_turn}`, class: "field", placeholder: "Search name, host, #tag, verdict", "aria-label": "Search runs", value: listing.query,
      oninput: (/** @type {any} */ e) => act.list({ query: e.target.value }),
    }),
    h(
      "div",
      { class: "state-filter", role: "group", "aria-label": "State" },
      there.map((each) => {
        const on = listing.states.includes(each);
        const toggled = on ? listing.states.filter((s) => s !== each) : [...listing.states, each];
        return h(
          "button",
          { type: "button", key: each, class: `chip filter${on ? " on" : ""}`, "aria-pressed": String(on), onclick: () => act.list({ states: toggled }) },
          [h("span", {}, stateWord(each)), ` ${counts[each] ?? 0}`],
        );
      }),
    ),
    h(
      "label",
      { class: "select" },
      h("span", {}, "Sort"),
      h("select", { value: listing.sort, onchange: (/** @type {any} */ e) => act.list({ sort: e.target.value }) }, Object.entries(SORTS).map(([key, { label }]) => h("option", { key, value: key, selected: key === listing.sort }, label))),
    ),
    picked.length > 0 && compareBar(runs, picked, act),
  );
}

/** The run picked first is A, what the other is compared with. @param {RunRow[]} runs @param {string[]} picked @param {Actions} act */
function compareBar(runs, picked, act) {
  const name = (/** @type {string|undefined} */ id) => runs.find((run) => run.run_id === id)?.name ?? id;
  const [a, b] = picked;
  return h(
    "div",
    { class: "compare-bar", key: "picked", role: "status" },
    b === undefined
      ? h("span", {}, `${name(a)}: pick another run to compare it with`)
      : h("a", { class: "button primary", href: pairHash(a ?? "", b) }, `Compare ${name(a)} with ${name(b)}`),
    button("Clear", act.pickNone),
  );
}

/** @param {RunRow[]} runs @param {State} state @param {Actions} act */
function runTable(runs, state, act) {
  const shown = shownRuns(runs, state.listing);
  if (shown.length === 0) return empty("No run is like that", `${plural(runs.length, "run")} in all.`, button("Show all", act.listAll, { class: "button primary" }));
  return h(
    "div",
    { class: "card flush run-table", key: "table", role: "list", "aria-label": "Runs" },
    h(
      "div",
      { class: "run-row run-head", "aria-hidden": "true" },
      ["State", "Run", "Verdict", "Started", "Last seen"].map((t) => h("span", {}, t)),
    ),
    shown.map((run) => runItem(run, state, act)),
  );
}

/** @param {RunRow} run @param {State} state @param {Actions} act */
function runItem(run, state, act) {
  const now = serverNow(state);
  const tags = run.tags ?? [];
  return h(
    "div",
    { role: "listitem", key: run.run_id, class: `run-item${run.pinned ? " is-pinned" : ""}` },
    h(
      "a",
      { class: `run-row run-link`, href: routeHash({ run: run.run_id }), "data-nav": true },
      h("span", { class: "run-state" }, stateBadge(shownState(run.state, run.severity))),
      h(
        "span",
        { class: "run-name" },
        h("b", { title: run.script && run.script !== run.name ? `${run.name} (${run.script})` : run.name }, run.name),
        h("small", { title: run.hosts.join(", ") }, `${plural(run.world_size, "rank")} on ${listed(run.hosts, 2, run.host_count)}`, run.steps !== null && [" · ", plural(run.steps, "step")], run.attempts > 1 && [" · ", `attempt ${run.attempts}`], h("code", {}, run.run_id)),
        tags.length > 0 && h("span", { class: "run-tags" }, tags.map((tag) => h("span", { class: "chip", key: tag }, `#${tag}`))),
        run.note && h("small", { class: "run-note", title: run.note }, run.note),
      ),
      h("span", { class: "run-verdict" }, run.severity && severityIcon(run.severity), h("span", {}, run.verdict)),
      h("span", { class: "run-started", title: clock(run.started_at, now) }, clockBare(run.started_at, now)),
      h("span", { class: "run-seen", title: clock(run.last_seen_at, now) }, ago(now - run.last_seen_at)),
    ),
    runTools(run, state, act),
  );
}

/** @param {RunRow} run @param {State} state @param {Actions} act */
function runTools(run, state, act) {
  const picked = state.picked.includes(run.run_id);
  const pinned = run.pinned ?? false;
  return h(
    "span",
    { class: "run-tools" },
    h(
      "button",
      { type: "button", class: `icon-button${picked ? " on" : ""}`, title: "Compare with another run", "aria-label": `Compare ${run.name}`, "aria-pressed": String(picked), onclick: () => act.pick(run.run_id) },
      icon("compare"),
    ),
    h(
      "button",
      { type: "button", class: `icon-button${pinned ? " on" : ""}`, title: pinned ? "Pinned: first in the list, and kept for good" : "Pin: first in the list, and kept for good", "aria-label": `Pin ${run.name}`, "aria-pressed": String(pinned), onclick: () => act.pin(run.run_id, !pinned) },
      icon("pin"),
    ),
    h(
      "button",
      { type: "button", class: "icon-button", title: "Name, tags, note, delete", "aria-label": `Name, tags and note of ${run.name}`, onclick: () => act.editRun(run.run_id) },
      icon("edit"),
    ),
  );
}

/** @param {Actions} act */
function firstSteps(act) {
  return h(
    "div",
    { class: "card first" },
    h("h2", {}, "No runs yet"),
    h("p", {}, "Add two lines to a training script, below the line that makes its DataLoader, and start it on this machine:"),
    h("div", { class: "code" }, h("pre", {}, LINES), copyButton(LINES, act.tell)),
    h(
      "p",
      { class: "muted" },
      "The run appears here by itself within a second or two. On another machine set ",
      h("code", {}, "LOADERWATCH_SERVER"),
      " to this address and ",
      h("code", {}, "LOADERWATCH_TOKEN"),
      " to the agent token in ",
      h("code", {}, "token.json"),
      " of the server's data folder.",
    ),
  );
}
