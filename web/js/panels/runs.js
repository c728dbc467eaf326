// All runs, newest first, each with its verdict.

import { h } from "../dom.js";
import { ago, clock, clockBare, listed, plural } from "../format.js";
import { severityIcon } from "../icons.js";
import { routeHash, serverNow } from "../store.js";
import { copyButton, empty, skeleton, stateBadge } from "./parts.js";

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
        : runTable(runs, serverNow(state)),
  );
}

/** @param {RunRow[]} runs */
function summaryLine(runs) {
  const going = runs.filter((r) => r.state === "live" || r.state === "hung").length;
  return `${plural(runs.length, "run")}, ${going === 0 ? "none" : going} going on`;
}

/** @param {RunRow[]} runs @param {number} now */
function runTable(runs, now) {
  return h(
    "div",
    { class: "card flush run-table", role: "list", "aria-label": "Runs" },
    h(
      "div",
      { class: "run-row run-head", "aria-hidden": "true" },
      ["State", "Run", "Verdict", "Started", "Last seen"].map((t) => h("span", {}, t)),
    ),
    runs.map((run) =>
      h(
        "div",
        { role: "listitem", key: run.run_id },
        h(
          "a",
          { class: `run-row run-link`, href: routeHash({ run: run.run_id }), "data-nav": true },
          h("span", { class: "run-state" }, stateBadge(run.state)),
          h(
            "span",
            { class: "run-name" },
            h("b", { title: run.name }, run.name),
            h("small", { title: run.hosts.join(", ") }, `${plural(run.world_size, "rank")} on ${listed(run.hosts)}${run.steps === null ? "" : ` · ${plural(run.steps, "step")}`}${run.attempts > 1 ? ` · attempt ${run.attempts}` : ""}`, h("code", {}, run.run_id)),
          ),
          h("span", { class: "run-verdict" }, run.severity && severityIcon(run.severity), h("span", {}, run.verdict)),
          h("span", { class: "run-started", title: clock(run.started_at, now) }, clockBare(run.started_at, now)),
          h("span", { class: "run-seen", title: clock(run.last_seen_at, now) }, ago(now - run.last_seen_at)),
        ),
      ),
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
