// The answer first: one sentence, the advice, and the numbers behind them.

import { h } from "../dom.js";
import { clock, count, duration, listed, number, percent } from "../format.js";
import { icon, severityIcon } from "../icons.js";
import { active, currentLoader, isGoing, routeHash, serverNow } from "../store.js";
import { say } from "../texts.js";
import { goodTone, meter, shownState, stateBadge, waitTone } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Summary} Summary
 * @typedef {import("../types.js").RankRow} RankRow
 * @typedef {import("../dom.js").Child} Child
 * @typedef {{label: string, value: string, sub: Child, meter?: number|null, tone?: string, title?: string,
 *   simulated?: boolean}} Tile
 */

/**
 * Name, state and the facts that do not change.
 * @param {Summary} s @param {State} state
 * @param {{facts: boolean}} [shown] - without facts if something more important follows
 */
export function runHead(s, state, shown = { facts: true }) {
  const unwatched = s.unwatched_count;
  return h(
    "div",
    { class: "page-head" },
    h("h1", { title: s.run_id }, s.name),
    stateBadge(shownState(s.state, s.verdict.severity)),
    s.lost_records > 0 &&
      h(
        "span",
        { class: "badge lost-records", title: say("records-lost-about") },
        icon("gap"),
        say("records-lost", { records: s.lost_records }),
      ),
    unwatched > 0 &&
      h(
        "span",
        { class: "badge unwatched", title: say("not-watched-about") },
        icon("gap"),
        s.rank_count === 1 ? say("not-watched") : say("ranks-not-watched", { ranks: unwatched }),
      ),
    shown.facts && runFacts(s, state),
  );
}

/** @param {Summary} s @param {State} state */
export function runFacts(s, state) {
  const loader = currentLoader(state);
  const facts = [
    say("run-on-hosts", {
      ranks: s.world_size,
      hosts: listed(s.hosts.map((host) => host.name), 2, s.host_count),
    }),
    lifetime(s, serverNow(state)),
    loader === null ? "" : loaderFacts(loader),
    s.progress ? progressFact(s.progress) : "",
    phasesFact(s),
  ];
  return h(
    "p",
    { class: "page-meta", key: "facts" },
    facts.filter(Boolean).map((fact) => h("span", {}, fact)),
  );
}

/** When the run began, and when it ended if known. @param {Summary} s @param {number} now */
function lifetime(s, now) {
  const [lived_s, when, until] = [
    s.last_seen_at - s.started_at,
    clock(s.started_at, now),
    clock(s.last_seen_at, now),
  ];
  if (isGoing(s)) return say("run-is-running", { when, lasted_s: now - s.started_at });
  if (s.state === "lost") return say("run-was-lost", { when, until, ago_s: now - s.last_seen_at });
  return say("run-has-ended", { lasted_s: lived_s, until, ago_s: now - s.last_seen_at });
}

/** The framework's own count of its progress. @param {import("../types.js").Progress} p */
export function progressFact(p) {
  const parts = [`${p.framework} ${p.version}`.trim()];
  // People count from 1. The last epoch has no next one.
  const epoch = p.epoch === null ? null : p.epoch + 1;
  if (epoch !== null)
    parts.push(
      say("progress-epoch", { epoch: Math.min(epoch, p.max_epochs ?? epoch), epochs: p.max_epochs }),
    );
  if (p.global_step !== null) parts.push(say("progress-step", { step: p.global_step }));
  if (p.stage !== null && p.stage !== "train") parts.push(p.stage);
  return parts.join(" · ");
}

const ENOUGH_STEPS = 50; // the search for models takes place in the first steps

/** Phases that could not be timed, with advice; "" if all are, or if it is too early. @param {Summary} s */
export function phasesFact(s) {
  if ((s.steps ?? 0) < ENOUGH_STEPS) return "";
  const missing = s.ranks.map((r) => r.phases_missing).find(Boolean);
  return missing ? say("phases-missing", { missing }) : "";
}

/** @param {import("../types.js").Loader} l */
function loaderFacts(l) {
  return say("loader-facts", { name: l.name, workers: l.num_workers, batch_size: l.batch_size || null });
}

/** @param {Summary} s @param {import("../types.js").Finding[]} [findings] */
export function verdictBanner(s, findings = []) {
  const { severity, title: said, advice, finding_id } = s.verdict;
  const recovering = findings.some((f) => f.id === finding_id && isRecovering(f));
  const title = recovering ? say("verdict-recovering", { title: said }) : said;
  const known = ["critical", "warning", "info"].includes(severity) ? severity : "ok";
  return h(
    "section",
    { class: `verdict tone-${known}`, "aria-label": say("verdict") },
    h("div", { class: "verdict-icon" }, severityIcon(severity)),
    h(
      "div",
      { class: "verdict-text" },
      h("p", { class: "verdict-title" }, title),
      advice !== "" && h("p", { class: "verdict-advice" }, advice),
    ),
    finding_id !== null &&
      h(
        "a",
        { class: "button verdict-link", href: routeHash({ run: s.run_id, finding: finding_id }) },
        h("span", {}, say("see-the-evidence")),
        icon("right"),
      ),
  );
}

/** Whether a hang was over at the last pass of the detectors. @param {import("../types.js").Finding} f */
export function isRecovering(f) {
  return f.recovering === true && f.state !== "resolved" && f.code.startsWith("hung");
}

/** Why there is no GPU chart, in the host's words. @param {Summary} s */
export function gpuStatus(s) {
  return s.hosts.find((host) => host.gpu_status !== "")?.gpu_status ?? "";
}

/** @typedef {import("../types.js").Clock} Clock */

/** @param {Clock} clock */
const lately = (clock) => say("tile-lately", { clock });

/** Whether a number by this clock comes from a simulated GPU. @param {Summary} s @param {Clock} clock */
const isSimulated = (s, clock) => s.simulated_gpu && clock !== "loop";

/** Alerts with these codes find time lost inside steps. Goodput and compute duty count such steps in full. */
const INSIDE_STEPS = new Set(["slow-step", "gpu-sawtooth"]);

/**
 * The largest share of time that a current alert finds lost inside steps; null: no alert. Goodput already
 * excludes the cost of a slow rank for other ranks.
 * @param {State} state
 */
function lostInside(state) {
  const now = serverNow(state);
  const shares = active(state.findings)
    .filter(
      (f) => INSIDE_STEPS.has(f.code) && f.scenario !== "S48" && f.ended_at === null && f.lost_s !== null,
    )
    .map((f) => Math.min(1, /** @type {number} */ (f.lost_s) / Math.max(1, now - f.began_at)));
  return shares.length === 0 ? null : Math.max(...shares);
}

/**
 * The tile of a share of whole steps. It adds the share that an alert finds lost inside them.
 * @param {string} label @param {number|null} ratio @param {Summary} s @param {State} state @returns {Tile}
 */
function inSteps(label, ratio, s, state) {
  const lost = lostInside(state);
  const sub =
    lost === null ? lately(s.clock) : say("tile-inside-steps", { clock: s.clock, lost_ratio: lost });
  return { label, value: percent(ratio), sub, meter: ratio, tone: lost === null ? goodTone(ratio) : "none" };
}

/** @param {Summary} s @param {State} state @returns {Tile} */
function gpuTile(s, state) {
  if (s.gpu_utilization_ratio !== null)
    return {
      label: say("tile-gpu"),
      value: percent(s.gpu_utilization_ratio),
      sub: say("tile-gpu-of-run", { starved_ratio: s.gpu_starved_ratio }),
      meter: s.gpu_utilization_ratio,
      tone: "gpu",
      simulated: s.simulated_gpu,
    };
  const status = gpuStatus(s);
  const tile = inSteps(say("tile-duty"), s.compute_duty_ratio, s, state);
  return {
    ...tile,
    sub: status === "" ? lately(s.clock) : say("tile-without-gpu", { clock: s.clock }),
    title: status,
  };
}

/** @param {Summary} s @param {State} state */
export function runTiles(s, state) {
  /** @type {Tile[]} */
  const tiles = [
    {
      label: say("column-data-wait"),
      value: percent(s.data_wait_ratio),
      sub: lately(s.clock),
      meter: s.data_wait_ratio,
      tone: waitTone(s.data_wait_ratio),
      simulated: isSimulated(s, s.clock),
    },
    {
      label: say("tile-speed"),
      value: number(s.steps_per_s),
      sub: say("tile-speed-of-run", { steps: s.steps, eval_batches: s.eval_batches }),
    },
    gpuTile(s, state),
    { ...inSteps(say("tile-goodput"), s.goodput_ratio, s, state), simulated: isSimulated(s, s.clock) },
    {
      label: say("tile-lost"),
      value: duration(s.lost_s),
      sub: say("tile-lost-of-run", { lost_ratio: lostShare(s), clock: s.lost_clock }),
      simulated: isSimulated(s, s.lost_clock),
    },
    { label: say("tile-epochs"), value: count(s.epochs), sub: epochSub(state) },
  ];
  return tileRow(tiles);
}

/** The lost share of the run, if known. @param {Summary} s */
function lostShare(s) {
  const ran = s.last_seen_at - s.started_at;
  return s.lost_s === null || ran <= 0 ? null : Math.min(1, s.lost_s / ran);
}

/** @param {State} state */
function epochSub(state) {
  return say("tile-epochs-begun", { batches: currentLoader(state)?.batches });
}

/** @param {RankRow} r @param {Summary} s */
export function rankTiles(r, s) {
  /** @type {Tile[]} */
  const tiles = [
    {
      label: say("column-data-wait"),
      value: percent(r.data_wait_ratio),
      sub: lately(r.clock),
      meter: r.data_wait_ratio,
      tone: waitTone(r.data_wait_ratio),
      simulated: isSimulated(s, r.clock),
    },
    {
      label: say("tile-speed"),
      value: number(r.steps_per_s),
      sub: say("tile-speed-of-rank", { step: r.step }),
    },
    {
      label: say("column-step-time"),
      value: duration(r.step_s),
      sub: say("tile-step-after-wait", { clock: r.clock, wait_s: r.wait_s }),
      simulated: isSimulated(s, r.clock),
    },
    { label: say("tile-ready"), value: number(r.ready_batches), sub: say("tile-ready-about") },
    {
      label: say("column-now-in"),
      value: say("phase-name", { phase: r.phase }),
      sub: r.phase_age_s === null ? "" : say("for-so-long", { lasted_s: r.phase_age_s }),
    },
    r.gpu === null && r.gpu_utilization_ratio === null
      ? {
          label: say("column-epoch"),
          value: count(r.epoch),
          sub: r.batch === null ? "" : say("tile-at-batch", { batch: r.batch }),
        }
      : {
          label: say("tile-gpu"),
          value: percent(r.gpu_utilization_ratio),
          sub: say("tile-gpu-of-rank", { gpu: r.gpu, host: r.host }),
          simulated: s.simulated_gpu,
          meter: r.gpu_utilization_ratio,
          tone: "gpu",
        },
  ];
  return tileRow(tiles);
}

/** @param {Tile[]} tiles */
function tileRow(tiles) {
  return h(
    "div",
    { class: "tiles" },
    tiles.map((t) =>
      h(
        "div",
        { class: "tile", key: t.label, title: t.title },
        h(
          "p",
          { class: "tile-label" },
          t.label,
          t.simulated && h("span", { class: "badge simulated" }, say("simulated")),
        ),
        h("p", { class: "tile-value" }, t.value),
        t.meter !== undefined ? meter(t.meter, t.tone ?? "none") : h("span", { class: "meter-space" }),
        h("p", { class: "tile-sub" }, t.sub),
      ),
    ),
  );
}
