// Alerts: one line each, which unfolds to cause, advice, evidence and stacks. Also the card of a hang, with
// four facts.

import { h } from "../dom.js";
import { ago, clock, evidence } from "../format.js";
import { icon, severityIcon } from "../icons.js";
import { isGoing, knownUntil, pairHash, routeHash, serverNow, stateNow } from "../store.js";
import { say } from "../texts.js";
import { fetchesButton, issueButton, lastFetches, loadAloneView, scriptFor } from "./culprit.js";
import { button, copyAction, copyButton, marked, withCommas } from "./parts.js";
import { ownFrame, stackView } from "./stacks.js";
import { isRecovering } from "./verdict.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Finding} Finding
 * @typedef {import("../types.js").Folded} Folded
 * @typedef {import("../types.js").Worker} Worker
 * @typedef {import("../main.js").Actions} Actions
 */

/** The names of a finding's rank, worker and samples. @param {Finding} f @returns {string[]} */
export function scope(f) {
  const out = [];
  if (f.rank !== null) out.push(say("rank-number", { rank: f.rank }));
  if (f.worker !== null)
    out.push(f.worker < 0 ? say("finding-main-process") : say("worker-number", { worker: f.worker }));
  const [sample] = f.sample_indices;
  if (sample !== undefined)
    out.push(
      f.sample_indices.length === 1
        ? say("finding-sample", { sample })
        : say("finding-samples", { samples: f.sample_indices.length }),
    );
  return out;
}

/**
 * The current findings, with what the stream leaves out: stack texts, and later runs that followed an advice.
 * @param {State} state @returns {Finding[]}
 */
export function withStacks(state) {
  /** @type {Finding[]} */
  const full = state.cards.findings?.data?.findings ?? [];
  const fullById = new Map(full.map((f) => [f.id, f]));
  const now = serverNow(state);
  return state.findings.map((f) => ({
    ...f,
    state: stateNow(f, now),
    stacks: fullById.get(f.id)?.stacks ?? f.stacks,
    followed: fullById.get(f.id)?.followed ?? null,
  }));
}

/** @param {State} state @param {Actions} act */
export function alertsPanel(state, act) {
  const { rank } = state.route;
  const order = { firing: 0, acknowledged: 1, silenced: 2, resolved: 3 };
  const all = withStacks(state).filter((f) => rank === null || f.rank === null || f.rank === rank);
  const weight = { critical: 0, warning: 1, info: 2 };
  const list = [...all].sort(
    (a, b) =>
      (order[/** @type {"firing"} */ (a.state)] ?? 4) - (order[/** @type {"firing"} */ (b.state)] ?? 4) ||
      (a.state === "resolved"
        ? 0
        : (weight[/** @type {"info"} */ (a.severity)] ?? 3) -
          (weight[/** @type {"info"} */ (b.severity)] ?? 3)) ||
      b.began_at - a.began_at,
  );
  const firing = list.filter((f) => f.state === "firing" && f.severity !== "info").length;
  const scopeName = rank === null ? "run" : "rank";
  return h(
    "section",
    { class: "card flush", id: "alerts", key: "alerts", "aria-label": say("alerts-title", { of: "run" }) },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, say("alerts-title", { of: scopeName })),
      h(
        "p",
        { class: "card-about" },
        list.length === 0 ? "" : say("alerts-counted", { firing, all: list.length }),
      ),
    ),
    list.length === 0
      ? h("p", { class: "quiet" }, icon("ok", "sev-ok"), say("alerts-none", { of: scopeName }))
      : h("div", { role: "list" }, list.map((f) => alertRow(f, state, act))),
  );
}

/** @param {Finding} f @param {State} state @param {Actions} act */
function alertRow(f, state, act) {
  const now = serverNow(state);
  const open = state.open[f.id] ?? false;
  const ended = f.ended_at !== null && f.state === "resolved";
  return h(
    "div",
    {
      class: `alert is-${f.state} tone-${f.severity}${open ? " is-open" : ""}`,
      role: "listitem",
      key: f.id,
      id: `finding-${f.id}`,
    },
    h(
      "button",
      {
        type: "button",
        class: "alert-head",
        "aria-expanded": String(open),
        "data-nav": true,
        onclick: () => act.toggle(f.id),
      },
      icon("right", "chevron"),
      severityIcon(ended ? "ok" : f.severity),
      h("span", { class: "alert-title" }, f.title),
      h("span", { class: "alert-scope" }, scope(f).map((s) => h("span", { class: "chip" }, s))),
      h(
        "span",
        { class: "alert-lost" },
        f.lost_s === null ? "" : marked(say("alert-lost", { lost_s: f.lost_s })),
      ),
      h("span", { class: "alert-when", title: clock(f.began_at, now) }, whenOf(f, ended, state)),
      h("span", { class: `pill pill-${f.state}` }, say("alert-state", { state: f.state })),
    ),
    open && alertBody(f, state, act),
  );
}

/**
 * How long ago an alert began, or how long it lasted. Without reports from the run, time does not count on.
 * @param {Finding} f @param {boolean} ended @param {State} state
 */
function whenOf(f, ended, state) {
  if (ended) return say("alert-lasted", { lasted_s: (f.ended_at ?? f.began_at) - f.began_at });
  const duration_s = knownUntil(state) - f.began_at;
  return isGoing(state.summary) ? ago(duration_s) : say("alert-open-for", { lasted_s: duration_s });
}

/** @param {Finding} f @param {State} state @param {Actions} act */
function alertBody(f, state, act) {
  const now = serverNow(state);
  const facts = [
    say("began-at", { when: clock(f.began_at, now) }),
    f.ended_at !== null ? say("alert-ended-at", { when: clock(f.ended_at, now) }) : "",
    f.host ?? "",
    f.pid !== null ? say("process-id", { pid: f.pid }) : "",
    `${f.code}${f.scenario === "" ? "" : ` · ${f.scenario}`}`,
    say("alert-confidence", { confidence_ratio: f.confidence }),
    f.silenced_until !== null && f.state === "silenced"
      ? say("alert-silent-until", { when: clock(f.silenced_until, now) })
      : "",
  ];
  const changeable = state.may_change && f.state !== "resolved";
  return h(
    "div",
    { class: "alert-body" },
    h(
      "div",
      { class: "alert-words" },
      h("h3", {}, say("alert-why")),
      h("p", {}, f.cause),
      h("h3", {}, say("alert-advice")),
      h("p", { class: "advice" }, f.advice),
      f.gain_ceiling_ratio !== null &&
        h(
          "p",
          { class: "gain" },
          marked(say("alert-gain", { most_ratio: f.gain_ceiling_ratio, of: f.gain_of })),
        ),
      f.followed !== null && followedLine(f.followed, state),
      h("p", { class: "facts" }, facts.filter(Boolean).map((t) => h("span", {}, t))),
      h(
        "div",
        { class: "actions" },
        changeable && f.state !== "acknowledged" && button(say("acknowledge"), () => act.acknowledge(f.id)),
        changeable &&
          f.state !== "silenced" &&
          button(say("silence-for-an-hour"), () => act.silence(f.id, 3600), {}, icon("bell")),
        f.rank !== null &&
          state.route.page === "run" &&
          h(
            "a",
            { class: "button", href: routeHash({ run: state.route.run, rank: f.rank }) },
            h("span", {}, say("open-rank", { rank: f.rank })),
            icon("right"),
          ),
      ),
    ),
    f.evidence.length > 0 && evidenceTable(f.evidence, say("evidence")),
    loadAloneView(f, state, act),
    f.folded.length > 0 && alsoSeen(f, state, act),
    f.stacks.length > 0 &&
      h("div", { class: "alert-stacks" }, h("h3", {}, say("stacks-title")), stackList(f, state, act)),
  );
}

/**
 * The result of the advice in a later run, with a link to the comparison.
 * @param {import("../types.js").Followed} later @param {State} state
 */
function followedLine(later, state) {
  return h(
    "p",
    { class: "followed" },
    h("a", { href: pairHash(state.route.run ?? "", later.run_id) }, later.sentence),
    " · ",
    h("a", { href: routeHash({ run: later.run_id }) }, later.name),
  );
}

/** @param {import("../types.js").Evidence[]} list @param {string|null} caption */
function evidenceTable(list, caption) {
  return h(
    "table",
    { class: "evidence" },
    caption !== null && h("caption", {}, caption),
    h(
      "tbody",
      {},
      list.map((e) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, e.label),
          h(
            "td",
            { class: typeof e.value === "string" && e.value.includes("\n") ? "lines" : "" },
            evidence(e),
          ),
        ),
      ),
    ),
  );
}

/**
 * Other findings of the same cause, which raised no alert of their own.
 * @param {Finding} f @param {State} state @param {Actions} act
 */
function alsoSeen(f, state, act) {
  return h(
    "div",
    { class: "also" },
    h("h3", { id: `also-${f.id}` }, say("also-seen")),
    h(
      "ul",
      { "aria-labelledby": `also-${f.id}` },
      f.folded.map((folded) => alsoRow(folded, `${f.id}/also/${folded.key}`, state, act)),
    ),
  );
}

/** @param {Folded} other @param {string} id @param {State} state @param {Actions} act */
function alsoRow(other, id, state, act) {
  const open = state.open[id] ?? false;
  return h(
    "li",
    { class: open ? "is-open" : "", key: id },
    h(
      "button",
      {
        type: "button",
        class: "also-head",
        "aria-expanded": String(open),
        "data-nav": true,
        onclick: () => act.toggle(id),
      },
      icon("right", "chevron"),
      h("span", {}, other.title),
      h(
        "span",
        { class: "also-when" },
        other.warned_s === null
          ? other.scenario
          : say("also-warned", { before_s: other.warned_s, scenario: other.scenario }),
      ),
    ),
    open && evidenceTable(other.evidence, null),
  );
}

/** @param {Finding} f @param {State} state @param {Actions} act */
function stackList(f, state, act) {
  return f.stacks.map((s, i) => {
    const id = `${f.id}/${s.rank}/${s.worker}`;
    const open = state.open[id] ?? i === 0;
    return stackView(
      s,
      open,
      (on) => act.open(id, on),
      serverNow(state),
      false,
      issueButton(s, state, act, f),
    );
  });
}

/** The current hang, if any. @param {State} state */
export function hangNow(state) {
  return (
    withStacks(state).find(
      (f) => f.code.startsWith("hung") && (f.state === "firing" || f.state === "acknowledged"),
    ) ?? null
  );
}

/** Rank, worker, sample and stack of a hang. @param {Finding} f @param {State} state @param {Actions} act */
export function hangCard(f, state, act) {
  const now = serverNow(state);
  const going = isGoing(state.summary);
  const recovering = isRecovering(f);
  /** @type {Worker[]} */
  const workers = state.cards.hang_workers?.data?.workers ?? [];
  const worker = workers.find((w) => w.worker === (f.worker ?? -1));
  const stack =
    f.stacks.find((s) => s.worker === (f.worker ?? -1) && s.rank === (f.rank ?? s.rank)) ?? f.stacks[0];
  const sample = f.sample_indices[0];
  const script = scriptFor(state, sample, { rank: f.rank, worker: f.worker, loader: worker?.loader ?? null });
  const own = stack === undefined ? null : ownFrame(stack.text);
  return h(
    "section",
    {
      class: `card hang${recovering ? " is-recovering" : ""}`,
      key: "hang",
      "aria-label": say("hang-card", { is: recovering ? "recovering" : "frozen" }),
    },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, say("hang-title", { is: recovering ? "recovering" : going ? "frozen" : "unheard" })),
      h("p", { class: "card-about" }, since(f, state)),
      state.may_change && f.state === "firing" && button(say("acknowledge"), () => act.acknowledge(f.id)),
    ),
    hangFacts(f, worker, own, state, act),
    h(
      "div",
      { class: "actions" },
      script !== null &&
        copyAction(
          say("copy-script-for-sample"),
          script,
          say("script-for-sample-copied", { sample }),
          act.tell,
        ),
      f.worker !== null &&
        f.worker >= 0 &&
        f.rank !== null &&
        fetchesButton(f.worker, state, act, say("last-fetches-of-worker", { worker: f.worker })),
    ),
    f.worker !== null && f.rank !== null && lastFetches(f.worker, state),
    stack !== undefined &&
      h(
        "div",
        { class: "hang-stack" },
        stackView(
          stack,
          state.open.hang ?? true,
          (on) => act.open("hang", on),
          now,
          true,
          issueButton(stack, state, act, f),
        ),
      ),
  );
}

/**
 * The four facts of a hang: rank, worker, sample and line of code.
 * @param {Finding} f @param {Worker|undefined} worker @param {import("./stacks.js").Frame|null} own
 * @param {State} state @param {Actions} act
 */
function hangFacts(f, worker, own, state, act) {
  const loader = state.summary?.loaders.find(
    (l) => l.rank === f.rank && l.loader === (worker?.loader ?? l.loader),
  );
  const sample = f.sample_indices[0];
  const process = [
    worker?.os_state ? say("hang-process-state", { state: worker.os_state }) : "",
    worker?.wchan ? say("hang-process-waits", { place: worker.wchan }) : "",
    worker?.alive === false ? say("hang-process-ended") : "",
  ];
  return h(
    "div",
    { class: "facts-row" },
    fact(
      say("column-rank"),
      f.rank === null ? "–" : String(f.rank),
      f.host ?? "",
      f.rank === null || state.route.page === "rank"
        ? null
        : h("a", { href: routeHash({ run: state.route.run, rank: f.rank }) }, say("hang-open-rank")),
    ),
    fact(
      say(f.worker === null ? "column-process" : "column-worker"),
      f.worker === null ? say("main-process") : String(f.worker),
      [f.pid === null ? "" : say("process-id", { pid: f.pid }), ...process].filter(Boolean).join(" · "),
      f.pid === null ? null : copyButton(String(f.pid), act.tell),
    ),
    fact(
      say("column-sample"),
      sample === undefined ? "–" : `dataset[${sample}]`,
      sample === undefined
        ? say("hang-no-sample")
        : loader?.dataset_class
          ? withCommas([loader.dataset_class, loader.name])
          : say("hang-load-alone"),
      sample === undefined ? null : copyButton(`dataset[${sample}]`, act.tell),
    ),
    fact(
      say("hang-stuck-at"),
      own === null ? "–" : `${own.file.split("/").pop()}:${own.line}`,
      own === null ? say("hang-no-stack") : say("hang-in-function", { function: own.name }),
      null,
    ),
  );
}

/**
 * How long the run has been frozen, as far as known.
 * @param {Finding} f @param {State} state @returns {import("../dom.js").Child}
 */
function since(f, state) {
  const now = serverNow(state);
  const began = clock(f.began_at, now);
  if (isRecovering(f)) return say("hang-recovering", { began });
  const until = knownUntil(state);
  const lasted_s = until - f.began_at;
  return marked(
    isGoing(state.summary)
      ? say("hang-since", { began, lasted_s })
      : say("hang-until", { began, until: clock(until, now), lasted_s }),
  );
}

/** @param {string} label @param {string} value @param {string} sub @param {import("../dom.js").Child} more */
function fact(label, value, sub, more) {
  return h(
    "div",
    { class: "fact", key: label },
    h("p", { class: "tile-label" }, label),
    h("p", { class: "fact-value" }, h("span", {}, value), more),
    h("p", { class: "tile-sub" }, sub),
  );
}
