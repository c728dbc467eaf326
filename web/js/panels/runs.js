// All runs with their verdicts, pinned and newest first. Readers search, filter, sort, and pick two of them.

import { h } from "../dom.js";
import { ago, clock, clockBare, listed } from "../format.js";
import { icon, severityIcon } from "../icons.js";
import { SORTS, STATES, shownRuns, stateCounts } from "../listing.js";
import { pairHash, routeHash, serverNow } from "../store.js";
import { say } from "../texts.js";
import { labelsDialog } from "./labels.js";
import { button, copyButton, empty, marked, shownState, skeleton, stateBadge, stateWord } from "./parts.js";

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
      h("h1", {}, say("runs")),
      runs !== null && runs.length > 0 && h("p", { class: "page-meta" }, summaryLine(runs)),
    ),
    state.runs_error !== null &&
      runs !== null &&
      h(
        "p",
        { class: "notice warning", role: "status" },
        say("runs-not-up-to-date", { error: state.runs_error }),
      ),
    runs === null
      ? state.runs_error === null
          ? h(
              "div",
              { class: "card flush" },
              [0, 1, 2].map((i) => h("div", { class: "run-row", key: i }, skeleton("40px"))),
            )
          : empty(say("runs-could-not-be-loaded"), say("trying-again-soon", { error: state.runs_error }))
      : runs.length === 0
        ? firstSteps(act)
        : [toolbar(runs, state, act), runTable(runs, state, act)],
    labelsDialog(state, act),
  );
}

/** @param {RunRow[]} runs */
function summaryLine(runs) {
  const going = runs.filter((r) => r.state === "live" || r.state === "hung").length;
  return say("runs-going-on", { runs: runs.length, going });
}

/** @param {RunRow[]} runs @param {State} state @param {Actions} act */
function toolbar(runs, state, act) {
  const { listing, picked } = state;
  const counts = stateCounts(runs, listing.query);
  const shownStates = STATES.filter((name) => (counts[name] ?? 0) > 0 || listing.states.includes(name));
  return h(
    "div",
    { class: "runs-bar", key: "bar", role: "search", "aria-label": say("runs-which") },
    h("input", {
      type: "search",
      key: `query ${state.listing_turn}`,
      class: "field",
      placeholder: say("runs-search-in"),
      "aria-label": say("runs-search"),
      value: listing.query,
      oninput: (/** @type {any} */ e) => act.list({ query: e.target.value }),
    }),
    h(
      "div",
      { class: "state-filter", role: "group", "aria-label": say("column-state") },
      shownStates.map((name) => {
        const on = listing.states.includes(name);
        const toggled = on ? listing.states.filter((s) => s !== name) : [...listing.states, name];
        return h(
          "button",
          {
            type: "button",
            key: name,
            class: `chip filter${on ? " on" : ""}`,
            "aria-pressed": String(on),
            onclick: () => act.list({ states: toggled }),
          },
          [h("span", {}, stateWord(name)), ` ${counts[name] ?? 0}`],
        );
      }),
    ),
    h(
      "label",
      { class: "select" },
      h("span", {}, say("runs-sort")),
      h(
        "select",
        { value: listing.sort, onchange: (/** @type {any} */ e) => act.list({ sort: e.target.value }) },
        Object.keys(SORTS).map((key) =>
          h(
            "option",
            { key, value: key, selected: key === listing.sort },
            say("runs-sorted-by", { by: key }),
          ),
        ),
      ),
    ),
    picked.length > 0 && compareBar(runs, picked, act),
  );
}

/**
 * The bar of picked runs. The run picked first is A, the baseline.
 * @param {RunRow[]} runs @param {string[]} picked @param {Actions} act
 */
function compareBar(runs, picked, act) {
  const name = (/** @type {string|undefined} */ id) => runs.find((run) => run.run_id === id)?.name ?? id;
  const [a, b] = picked;
  return h(
    "div",
    { class: "compare-bar", key: "picked", role: "status" },
    b === undefined
      ? h("span", {}, say("runs-pick-another", { name: name(a) }))
      : h(
          "a",
          { class: "button primary", href: pairHash(a ?? "", b) },
          say("runs-compare", { a: name(a), b: name(b) }),
        ),
    button(say("runs-clear"), act.pickNone),
  );
}

/** @param {RunRow[]} runs @param {State} state @param {Actions} act */
function runTable(runs, state, act) {
  const shown = shownRuns(runs, state.listing);
  if (shown.length === 0)
    return empty(
      say("runs-none-like-that"),
      say("runs-in-all", { runs: runs.length }),
      button(say("show-all"), act.listAll, { class: "button primary" }),
    );
  return h(
    "div",
    { class: "card flush run-table", key: "table", role: "list", "aria-label": say("runs") },
    h(
      "div",
      { class: "run-row run-head", "aria-hidden": "true" },
      [
        say("column-state"),
        say("run-column"),
        say("verdict"),
        say("run-started-column"),
        say("run-seen-column"),
      ].map((t) => h("span", {}, t)),
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
        h(
          "b",
          { title: run.script && run.script !== run.name ? `${run.name} (${run.script})` : run.name },
          run.name,
        ),
        h(
          "small",
          { title: run.hosts.join(", ") },
          say("run-on-hosts", { ranks: run.world_size, hosts: listed(run.hosts, 2, run.host_count) }),
          run.steps !== null && [" · ", say("steps-counted", { steps: run.steps })],
          run.attempts > 1 && [" · ", say("run-attempt", { attempt: run.attempts })],
          h("code", {}, run.run_id),
        ),
        tags.length > 0 &&
          h(
            "span",
            { class: "run-tags" },
            tags.map((tag) => h("span", { class: "chip", key: tag }, `#${tag}`)),
          ),
        run.note && h("small", { class: "run-note", title: run.note }, run.note),
      ),
      h(
        "span",
        { class: "run-verdict" },
        run.severity && severityIcon(run.severity),
        h("span", {}, run.verdict),
      ),
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
      {
        type: "button",
        class: `icon-button${picked ? " on" : ""}`,
        title: say("run-compare"),
        "aria-label": say("run-compare-named", { name: run.name }),
        "aria-pressed": String(picked),
        onclick: () => act.pick(run.run_id),
      },
      icon("compare"),
    ),
    h(
      "button",
      {
        type: "button",
        class: `icon-button${pinned ? " on" : ""}`,
        title: say("run-pin", { pinned }),
        "aria-label": say("run-pin-named", { name: run.name }),
        "aria-pressed": String(pinned),
        onclick: () => act.pin(run.run_id, !pinned),
      },
      icon("pin"),
    ),
    h(
      "button",
      {
        type: "button",
        class: "icon-button",
        title: say("run-edit"),
        "aria-label": say("labels-of-run", { name: run.name }),
        onclick: () => act.editRun(run.run_id),
      },
      icon("edit"),
    ),
  );
}

/** @param {Actions} act */
function firstSteps(act) {
  return h(
    "div",
    { class: "card first" },
    h("h2", {}, say("runs-none")),
    h("p", {}, say("runs-first-steps")),
    h("div", { class: "code" }, h("pre", {}, LINES), copyButton(LINES, act.tell)),
    h("p", { class: "muted" }, marked(say("runs-appear"))),
  );
}
