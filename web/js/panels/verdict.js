// The answer first: one sentence, what to do, and the numbers behind it.

import { h } from "../dom.js";
import { clock, count, duration, listed, number, percent, plural, ago } from "../format.js";
import { icon, severityIcon } from "../icons.js";
import { active, currentLoader, isGoing, routeHash, serverNow } from "../store.js";
import { goodTone, meter, shownState, stateBadge, waitTone } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Summary} Summary
 * @typedef {import("../types.js").RankRow} RankRow
 * @typedef {import("../dom.js").Child} Child
 * @typedef {{label: string, value: string, sub: Child, meter?: number|null, tone?: string, title?: string,
 *   simulated?: boolean}} Tile
 */

/** Name, state and the facts that do not change. @param {Summary} s @param {State} state @param {{facts: boolean}} [shown] - without them, where something comes first */
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
        { class: "badge lost-records", title: "These records fell out of a full buffer before they could be sent. Charts may have gaps; totals may be low." },
        icon("gap"),
        `${count(s.lost_records)} records lost`,
      ),
    unwatched > 0 &&
      h(
        "span",
        { class: "badge unwatched", title: "After several faults of its own loaderwatch stepped aside there; training goes on. The job's stderr names the fault." },
        icon("gap"),
        s.rank_count === 1 ? "not watched any more" : `${plural(unwatched, "rank")} not watched any more`,
      ),
    shown.facts && runFacts(s, state),
  );
}

/** @param {Summary} s @param {State} state */
export function runFacts(s, state) {
  const loader = currentLoader(state);
  const facts = [
    `${plural(s.world_size, "rank")} on ${listed(s.hosts.map((host) => host.name), 2, s.host_count)}`,
    lifetime(s, serverNow(state)),
    loader === null ? "" : loaderFacts(loader),
    s.progress ? progressFact(s.progress) : "",
    phasesFact(s),
  ];
  return h("p", { class: "page-meta", key: "facts" }, facts.filter(Boolean).map((fact) => h("span", {}, fact)));
}

/** Since when, and until when as far as that is known. @param {Summary} s @param {number} now */
function lifetime(s, now) {
  if (isGoing(s)) return `started ${clock(s.started_at, now)}, running for ${duration(now - s.started_at)}`;
  if (s.state === "lost") return `started ${clock(s.started_at, now)}, last heard of ${clock(s.last_seen_at, now)} (${ago(now - s.last_seen_at)})`;
  return `ran ${duration(s.last_seen_at - s.started_at)}, ended ${clock(s.last_seen_at, now)} (${ago(now - s.last_seen_at)})`;
}

/** How far the framework is, as it counts itself. @param {import("../types.js").Progress} p */
export function progressFact(p) {
  const parts = [`${p.framework} ${p.version}`.trim()];
  const epoch = p.epoch === null ? null : p.epoch + 1; // people count from 1, and the last is not followed by another
  if (epoch !== null) parts.push(p.max_epochs === null ? `epoch ${count(epoch)}` : `epoch ${count(Math.min(epoch, p.max_epochs))} of ${count(p.max_epochs)}`);
  if (p.global_step !== null) parts.push(`global step ${count(p.global_step)}`);
  if (p.stage !== null && p.stage !== "train") parts.push(p.stage);
  return parts.join(" · ");
}

const ENOUGH_STEPS = 50; // models are looked for in the first ones

/** @type {Record<string, string>} */
const UNTIMED = {
  optimizer: "Forward, backward and optimizer are not timed: none of PyTorch's optimizers has stepped. Pass model= and optimizer= to loaderwatch.attach.",
  model: "Forward and backward are not timed: no model that is trained was seen being called. Pass the module that the loop calls as model= to loaderwatch.attach, or call it outside of a compiled function.",
  many: "Forward and backward are not timed: the loop calls too many modules side by side. Call them from one module, and pass that as model= to loaderwatch.attach.",
};

/** What could not be found, and what to do; "" where all is timed, or it is too early to say. @param {Summary} s */
export function phasesFact(s) {
  if ((s.steps ?? 0) < ENOUGH_STEPS) return "";
  const missing = s.ranks.map((r) => r.phases_missing).find(Boolean);
  return missing ? (UNTIMED[missing] ?? "") : "";
}

/** @param {import("../types.js").Loader} l */
function loaderFacts(l) {
  const parts = [];
  if (l.num_workers !== null && l.num_workers !== undefined) parts.push(l.num_workers === 0 ? "no workers" : plural(l.num_workers, "worker"));
  if (l.batch_size) parts.push(`batch ${l.batch_size}`);
  return parts.length > 0 ? `${l.name}: ${parts.join(", ")}` : l.name;
}

/** @param {Summary} s @param {import("../types.js").Finding[]} [findings] */
export function verdictBanner(s, findings = []) {
  const { severity, title: said, advice, finding_id } = s.verdict;
  const recovering = findings.some((f) => f.id === finding_id && isRecovering(f));
  const title = recovering ? `Recovered, watching whether it lasts. Before: ${said}` : said;
  const known = ["critical", "warning", "info"].includes(severity) ? severity : "ok";
  return h(
    "section",
    { class: `verdict tone-${known}`, "aria-label": "Verdict" },
    h("div", { class: "verdict-icon" }, severityIcon(severity)),
    h(
      "div",
      { class: "verdict-text" },
      h("p", { class: "verdict-title" }, title),
      advice !== "" && h("p", { class: "verdict-advice" }, advice),
    ),
    finding_id !== null &&
      h("a", { class: "button verdict-link", href: routeHash({ run: s.run_id, finding: finding_id }) }, h("span", {}, "See the evidence"), icon("right")),
  );
}

/** Whether a hang is over as far as the last pass of the detectors saw. @param {import("../types.js").Finding} f */
export function isRecovering(f) {
  return f.recovering === true && f.state !== "resolved" && f.code.startsWith("hung");
}

/** Why there is no GPU chart, in the host's words. @param {Summary} s */
export function gpuStatus(s) {
  return s.hosts.find((host) => host.gpu_status !== "")?.gpu_status ?? "";
}

/** @typedef {import("../types.js").Clock} Clock */

/** By whose clock a number is. @type {Record<Clock, string>} */
const CLOCKS = { device: "GPU clock", nvml: "NVML clock", loop: "loop clock", mixed: "GPU and loop clock" };

/** @param {Clock} clock */
const lately = (clock) => `last 30 s, ${CLOCKS[clock]}`;

/** Whether a number by this clock comes from a GPU that is none. @param {Summary} s @param {Clock} clock */
const isSimulated = (s, clock) => s.simulated_gpu && clock !== "loop";

/** Alerts of these codes name time that is lost inside steps, which goodput and compute duty count in full. */
const INSIDE_STEPS = new Set(["slow-step", "gpu-sawtooth"]);

/**
 * The share of its time that an alert which goes on finds lost inside steps; null without one. What a slow rank costs the others is
 * taken out of goodput already.
 * @param {State} state
 */
function lostInside(state) {
  const now = serverNow(state);
  const shares = active(state.findings)
    .filter((f) => INSIDE_STEPS.has(f.code) && f.scenario !== "S48" && f.ended_at === null && f.lost_s !== null)
    .map((f) => Math.min(1, /** @type {number} */ (f.lost_s) / Math.max(1, now - f.began_at)));
  return shares.length === 0 ? null : Math.max(...shares);
}

/** A tile of the share that steps have: whole steps, so it says what an alert finds lost inside them. @param {string} label @param {number|null} ratio @param {Summary} s @param {State} state @returns {Tile} */
function inSteps(label, ratio, s, state) {
  const lost = lostInside(state);
  const sub = lost === null ? lately(s.clock) : `${lately(s.clock)}; counts steps in full, and an alert finds ${percent(lost)} lost inside them`;
  return { label, value: percent(ratio), sub, meter: ratio, tone: lost === null ? goodTone(ratio) : "none" };
}

/** @param {Summary} s @param {State} state @returns {Tile} */
function gpuTile(s, state) {
  if (s.gpu_utilization_ratio !== null)
    return {
      label: "GPU utilization",
      value: percent(s.gpu_utilization_ratio),
      sub: s.gpu_starved_ratio === null ? "last 30 s, mean of ranks" : `last 30 s, ${percent(s.gpu_starved_ratio)} starved for data`,
      meter: s.gpu_utilization_ratio,
      tone: "gpu",
      simulated: s.simulated_gpu,
    };
  const status = gpuStatus(s);
  const tile = inSteps("Compute duty", s.compute_duty_ratio, s, state);
  return { ...tile, sub: status === "" ? lately(s.clock) : `${lately(s.clock)}; no GPU readings`, title: status };
}

/** @param {Summary} s @param {State} state */
export function runTiles(s, state) {
  /** @type {Tile[]} */
  const tiles = [
    { label: "Data wait", value: percent(s.data_wait_ratio), sub: lately(s.clock), meter: s.data_wait_ratio, tone: waitTone(s.data_wait_ratio), simulated: isSimulated(s, s.clock) },
    { label: "Speed", value: number(s.steps_per_s), sub: `steps/s, last 30 s · ${count(s.steps)} in the run${s.eval_batches > 0 ? `, ${count(s.eval_batches)} eval batches` : ""}` },
    gpuTile(s, state),
    { ...inSteps("Goodput", s.goodput_ratio, s, state), simulated: isSimulated(s, s.clock) },
    { label: "Time lost", value: duration(s.lost_s), sub: `${lostShare(s)}, ${CLOCKS[s.lost_clock]}`, simulated: isSimulated(s, s.lost_clock) },
    { label: "Epochs", value: count(s.epochs), sub: epochSub(state) },
  ];
  return tileRow(tiles);
}

/** @param {Summary} s */
function lostShare(s) {
  const ran = s.last_seen_at - s.started_at;
  return s.lost_s === null || ran <= 0 ? "the run" : `${percent(Math.min(1, s.lost_s / ran))} of the run`;
}

/** @param {State} state */
function epochSub(state) {
  const batches = currentLoader(state)?.batches ?? null;
  return batches === null ? "begun in the run" : `begun in the run, ${count(batches)} batches each`;
}

/** @param {RankRow} r @param {Summary} s */
export function rankTiles(r, s) {
  /** @type {Tile[]} */
  const tiles = [
    { label: "Data wait", value: percent(r.data_wait_ratio), sub: lately(r.clock), meter: r.data_wait_ratio, tone: waitTone(r.data_wait_ratio), simulated: isSimulated(s, r.clock) },
    { label: "Speed", value: number(r.steps_per_s), sub: `steps/s, last 30 s${r.step === null ? "" : ` · step ${count(r.step)}`}` },
    { label: "Step", value: duration(r.step_s), sub: `${lately(r.clock)}, after ${duration(r.wait_s)} of wait`, simulated: isSimulated(s, r.clock) },
    { label: "Ready batches", value: number(r.ready_batches), sub: "unread when the loop last asked" },
    { label: "Now in", value: r.phase ?? "–", sub: r.phase_age_s === null ? "" : `for ${duration(r.phase_age_s)}` },
    r.gpu === null && r.gpu_utilization_ratio === null
      ? { label: "Epoch", value: count(r.epoch), sub: r.batch === null ? "" : `at batch ${count(r.batch)}` }
      : {
          label: "GPU utilization",
          value: percent(r.gpu_utilization_ratio),
          sub: `last 30 s, ${r.gpu === null ? r.host : `GPU ${r.gpu} on ${r.host}`}`,
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
        h("p", { class: "tile-label" }, t.label, t.simulated && h("span", { class: "badge simulated" }, "simulated")),
        h("p", { class: "tile-value" }, t.value),
        t.meter !== undefined ? meter(t.meter, t.tone ?? "none") : h("span", { class: "meter-space" }),
        h("p", { class: "tile-sub" }, t.sub),
      ),
    ),
  );
}
