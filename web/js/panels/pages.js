// The page of a run and the page of a rank: the answer, then the evidence in the order a person would check it.

import { LANES_LIMIT, hasDeviceClock, hasGpu } from "../cards.js";
import { laneWorkers, slowOnes } from "../charts/lanes.js";
import { COUNTERS, GPU_COUNTERS, SMALL_PX, inUnit } from "../charts/small.js";
import { isByDevice, isEmpty, knownParts } from "../charts/steps.js";
import { h } from "../dom.js";
import { downloadButtons } from "../downloads.js";
import { clock, duration, number, percent, plural } from "../format.js";
import { capacityOf } from "../figures.js";
import { icon } from "../icons.js";
import { reading, readingOf } from "../reading.js";
import { hasRank, neighbourOf, rowOf } from "../ranks.js";
import { routeHash, serverNow } from "../store.js";
import { alertsPanel, hangCard, hangNow } from "./alerts.js";
import { attemptBar } from "./attempts.js";
import { auditPanel } from "./audit.js";
import { boundariesCard } from "./boundaries.js";
import { couplingCard, isStanding } from "./coupling.js";
import { issueButton } from "./culprit.js";
import { blocked, card, plot, rangeBar } from "./frame.js";
import { gpusCard } from "./gpus.js";
import { heatmapCard } from "./heatmap.js";
import { button, empty, shownState, skeleton, stateBadge } from "./parts.js";
import { ranksTable } from "./ranks.js";
import { starvationCard } from "./starvation.js";
import { slowedCard } from "./slowed.js";
import { speedCard } from "./speed.js";
import { stackView } from "./stacks.js";
import { FIRST_SAMPLES, samplesTable, workersTable } from "./tables.js";
import { gpuStatus, rankTiles, runFacts, runHead, runTiles, verdictBanner } from "./verdict.js";
import { pageTools } from "./tools.js";
import { whatIfPanel } from "./whatif.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Summary} Summary
 * @typedef {import("../main.js").Actions} Actions
 */

/** @param {State} state @param {Actions} act */
export function runPage(state, act) {
  const s = state.summary;
  if (s === null) return waiting(state, act);
  const hang = hangNow(state);
  const standing = isStanding(state);
  return h(
    "div",
    { class: `page ${state.link === "stale" || state.link === "gone" ? `not-live` : ""}`, key: `run ${state.route.run}` },
    state.link === "gone" && h("p", { class: "notice warning", role: "status" }, "This run was deleted on the server. What you see is its last picture."),
    runHead(s, state, { facts: hang === null }),
    pageTools(state, act),
    hang === null && attemptBar(s, state, act),
    verdictBanner(s, state.findings),
    hang !== null && [hangCard(hang, state, act), runFacts(s, state), attemptBar(s, state, act)],
    standing && couplingCard(state, act),
    runTiles(s, state),
    !standing && state.route.attempt === null && couplingCard(state, act),
    rangeBar(state, act),
    speedCard(state),
    stepsCard(state),
    starvationCard(state),
    headroomCard(state),
    gpuCard(state, s),
    heatmapCard(state, s, act),
    boundariesCard(state, act),
    alertsPanel(state, act),
    state.route.attempt === null && auditPanel(state, act),
    state.route.attempt === null && whatIfPanel(state, act),
    ranksTable(state, act),
    state.route.attempt === null && gpusCard(state, act),
  );
}

/** @param {State} state @param {Actions} act */
export function rankPage(state, act) {
  const s = state.summary;
  if (s === null) return waiting(state, act);
  const row = rowOf(state, state.route.rank);
  if (row === null && hasRank(s, state.route.rank) && (state.cards.rank_row?.data ?? null) === null) return waiting(state, act);
  if (row === null)
    return h(
      "div",
      { class: "page", key: "no rank" },
      empty(`There is no rank ${state.route.rank}`, `This run has ${plural(s.rank_count, "rank")}.`, h("a", { class: "button primary", href: routeHash({ run: s.run_id }) }, "Back to the run"), "h1"),
    );
  const now = serverNow(state);
  const hang = hangNow(state);
  return h(
    "div",
    { class: `page ${state.link === "stale" || state.link === "gone" ? `not-live` : ""}`, key: `rank ${row.rank}` },
    h(
      "div",
      { class: "page-head" },
      h("h1", {}, `Rank ${row.rank}`),
      stateBadge(shownState(row.state, row.exit)),
      h("p", { class: "page-meta" }, [`${row.host}, pid ${row.pid}`, row.epoch === null ? "" : `epoch ${row.epoch}, batch ${row.batch ?? "–"}`, row.exit ?? "", `seen ${clock(row.seen_at, now)}`].filter(Boolean).map((t) => h("span", {}, t))),
      s.rank_count > 1 && rankNeighbours(s, row.rank),
    ),
    pageTools(state, act),
    hang !== null && (hang.rank === null || hang.rank === row.rank) && hangCard(hang, state, act),
    rankTiles(row, s),
    rangeBar(state, act),
    speedCard(state),
    stepsCard(state),
    starvationCard(state),
    headroomCard(state),
    lanesCard(state),
    readyCard(state),
    boundariesCard(state, act),
    hasGpu(state) ? gpuCard(state, s) : null,
    alertsPanel(state, act),
    card(state, {
      id: "workers", title: "Processes now", about: "the training process and its DataLoader workers", height: "160px", flush: true,
      body: workersTable(state.cards.workers?.data ?? null, state, act),
      empty: state.cards.workers?.data?.length === 0 ? empty("No process is known", "The streamer has not reported this rank's processes yet.") : null,
    }),
    card(state, {
      id: "samples", title: "Slowest samples", about: "over the whole run, one row per index", height: "160px", flush: true,
      extra: moreSamples(state, act),
      body: samplesTable(state.cards.samples?.data ?? null, state, act),
      empty: state.cards.samples?.data?.length === 0 ? empty("No samples timed yet", "Iterable datasets and wrapped loaders have no index to name.") : null,
    }),
    hasGpu(state) ? counters(state, "gpu_counters", s.simulated_gpu ? "GPU (simulated)" : "GPU", GPU_COUNTERS) : null,
    slowedCard(state),
    gpusCard(state, act, row.host),
    counters(state, "counters", "Machine and processes", COUNTERS),
    stacksCard(state, act),
  );
}

/** @param {State} state @param {Actions} act */
function moreSamples(state, act) {
  const all = state.open["all-samples"] ?? false;
  const n = state.cards.samples?.data?.length ?? 0;
  return n > FIRST_SAMPLES && button(all ? `Show ${FIRST_SAMPLES}` : `Show all ${n}`, () => act.open("all-samples", !all));
}

/** @param {State} state @param {Actions} act */
function waiting(state, act) {
  if (state.link === "gone" || state.link === "unauthorized") return h("div", { class: "page", key: "blocked" }, blocked(state, act));
  return h(
    "div",
    { class: "page", key: "waiting", "aria-busy": "true" },
    state.link === "stale" && h("p", { class: "notice warning", role: "status" }, "The server does not answer. Trying again every few seconds."),
    h("div", { class: "page-head" }, skeleton("28px")),
    skeleton("88px"),
    h("div", { class: "tiles" }, [0, 1, 2, 3, 4, 5].map((i) => h("div", { class: "tile", key: i }, skeleton("64px")))),
    h("div", { class: "card" }, skeleton("260px")),
  );
}

/** @param {State} state */
function stepsCard(state) {
  /** @type {Record<string, import("../types.js").Series>|null} */
  const data = state.cards.steps?.data ?? null;
  const parts = data === null ? [] : knownParts(data);
  const bucket = data?.data_wait_s?.bucket_s;
  const split = parts.some((p) => ["forward", "backward", "optimizer"].includes(p.name));
  return card(state, {
    id: "steps",
    title: "Where a step's time goes",
    badge: isByDevice(data) && state.summary?.simulated_gpu ? "simulated GPU" : undefined,
    about: `mean per step${state.route.page === "run" && (state.summary?.rank_count ?? 0) > 1 ? ` of rank ${state.rank}` : ""}${isByDevice(data) ? ", by the GPU's clock" : ""}${bucket === undefined ? "" : `, ${duration(bucket)} buckets`}${data !== null && parts.length > 0 && !split ? " · pass model= and optimizer= to attach() to see forward, backward and optimizer" : ""}`,
    legend: parts.map((p) => ({ name: p.name, color: `c-${p.color}`, hatch: p.hatch, value: duration(reading(state, data?.[p.metric])) })),
    reads: true,
    height: "260px",
    body: plot("steps", "260px", "Stacked bars over time: data wait, H2D copy, forward, backward, optimizer, other, waiting for other ranks"),
    empty: data !== null && parts.length === 0 ? empty("No steps in this range", "Choose a longer range, or All.") : null,
  });
}

/** @param {State} state @param {Summary} s */
function gpuCard(state, s) {
  /** @type {Record<string, import("../types.js").Series>|null} */
  const data = state.cards.gpu?.data ?? null;
  const gpu = hasGpu(state);
  const legend = [];
  if (data !== null && !isEmpty(data.gpu_utilization_ratio)) legend.push({ name: "utilization", color: "c-gpu", value: percent(reading(state, data.gpu_utilization_ratio)) });
  if (data !== null && !isEmpty(data.compute_duty_ratio)) legend.push({ name: "compute duty", color: "c-gpu", value: percent(reading(state, data.compute_duty_ratio)) });
  if (data !== null && !isEmpty(data.gpu_power_w)) legend.push({ name: "power", color: "c-power", value: `${number(reading(state, data.gpu_power_w))}\u202fW`, dash: true });
  return card(state, {
    id: "gpu",
    title: gpu ? "GPU utilization" : "Compute duty",
    badge: gpu && s.simulated_gpu ? "simulated GPU" : undefined,
    about: gpu ? (s.simulated_gpu ? "follows the training process; not a real device" : "share of time a kernel ran, and power") : gpuStatus(s) || "share of time spent in the step, not waiting",
    legend,
    reads: true,
    height: "170px",
    body: plot("gpu", "170px", gpu ? "GPU utilization and power over time" : "Compute duty over time"),
    empty: data !== null && legend.length === 0 ? empty("No readings in this range", gpuStatus(s) || "Gaps in the readings stay gaps.") : null,
  });
}

/** @param {State} state */
function lanesCard(state) {
  /** @type {{fetches: import("../types.js").Fetches, workers: import("../types.js").Worker[]}|null} */
  const data = state.cards.lanes?.data ?? null;
  const lanes = data === null ? 4 : Math.max(1, laneWorkers(data.fetches, data.workers).length);
  const slow = data === null ? 0 : slowOnes(data.fetches).filter(Boolean).length;
  const full = (data?.fetches.worker.length ?? 0) >= LANES_LIMIT;
  const thick = lanes > 16 ? 8 : lanes > 8 ? 12 : 18;
  const height = `${lanes * (thick + 8) + 34}px`;
  return card(state, {
    id: "lanes",
    title: "Worker lanes",
    about: `each bar is one fetch${full ? `; the newest ${LANES_LIMIT} are shown` : ""}`,
    legend: [
      { name: "fetch", color: "c-forward" },
      { name: "collate", color: "c-backward" },
      { name: "held up by one sample", color: "c-wait", value: slow > 0 ? String(slow) : undefined },
      { name: "open for long", color: "warning" },
    ],
    height,
    body: plot("lanes", height, "One lane per worker, one bar per fetch"),
    empty: data !== null && data.fetches.worker.length === 0 && data.workers.every((w) => w.worker < 0) ? empty("No fetches in this range", "Workers report when they fetch; wrapped loaders have none.") : null,
  });
}

/** @param {State} state */
function readyCard(state) {
  const data = state.cards.ready?.data ?? null;
  const capacity = capacityOf(state);
  const none = data !== null && isEmpty(data.ready_batches);
  return card(state, {
    id: "ready",
    title: "Ready batches",
    about: `waiting unread when the loop asks for one${capacity === null ? "" : `; the dotted line is the most there can be (${capacity})`}`,
    legend: none ? [] : [{ name: "ready", color: "c-gpu", value: number(reading(state, data?.ready_batches)) }, { name: "out of order", color: "c-h2d", value: number(reading(state, data?.cached_batches)), dash: true }],
    reads: true,
    height: "150px",
    body: plot("ready", "150px", "Ready batches over time"),
    empty: none ? empty("Not known for this loader", "Loaders without worker processes have no queue to look into.") : null,
  });
}

/** @param {State} state */
function headroomCard(state) {
  if (!hasDeviceClock(state)) return null;
  /** @type {Record<string, import("../types.js").Series>|null} */
  const data = state.cards.headroom?.data ?? null;
  const none = data !== null && isEmpty(data.slack_s);
  return card(state, {
    id: "headroom",
    title: "Headroom of the GPU",
    badge: state.summary?.simulated_gpu ? "simulated GPU" : undefined,
    about: "how long it goes on without another batch",
    legend: none
      ? []
      : [
          { name: "queued on the GPU", color: "c-gpu", value: duration(reading(state, data?.slack_s)) },
          { name: "batches ready", color: "c-h2d", value: duration(reading(state, data?.cushion_s)) },
        ],
    reads: true,
    height: "150px",
    body: plot("headroom", "150px", "How long the GPU would go on without another batch, over time"),
    empty: none ? empty("Not known in this range", "CUDA events tell it some steps later.") : null,
  });
}

/** @param {State} state @param {string} id @param {string} title @param {import("../charts/small.js").Counter[]} list */
function counters(state, id, title, list) {
  return h("section", { key: id, class: "smalls", "data-card": id, "aria-label": title }, h("h2", { class: "section-title" }, title, h("small", {}, readingOf(state))), h("div", { class: "small-grid" }, list.map((c) => smallCard(state, id, c))));
}

/** @param {State} state @param {string} id @param {import("../charts/small.js").Counter} c */
function smallCard(state, id, c) {
  const held = state.cards[id];
  const series = held?.data?.[c.metric];
  return h(
    "div",
    { class: `small${held === undefined ? " is-loading" : ""}`, key: c.metric },
    h("p", { class: "small-head", title: c.about }, h("span", {}, c.name), h("b", {}, inUnit(reading(state, series), c.unit)), series && !isEmpty(series) && downloadButtons(`small-${c.metric}`)),
    held === undefined ? skeleton(`${SMALL_PX}px`) : held.data === null ? h("p", { class: "small-none is-failed" }, "Could not be loaded") : isEmpty(series) ? h("p", { class: "small-none" }, "Not offered by this system") : plot(`small-${c.metric}`, `${SMALL_PX}px`, c.name),
    h("p", { class: "small-about" }, c.about),
  );
}

/** @param {State} state @param {Actions} act */
function stacksCard(state, act) {
  /** @type {import("../types.js").Stack[]|null} */
  const stacks = state.cards.stacks?.data ?? null;
  const now = serverNow(state);
  return card(state, {
    id: "stacks",
    title: "Stacks",
    about: stacks === null || stacks.length === 0 ? "of the training process and its workers" : `newest of each process, taken ${clock(Math.max(...stacks.map((s) => s.taken_at)), now)}`,
    extra: state.may_change && button("Take stacks now", act.takeStacks, { class: "button primary" }, icon("camera")),
    height: "120px",
    flush: true,
    body: h("div", { class: "stack-list" }, (stacks ?? []).map((s) => stackView(s, state.open[`stack/${s.worker}`] ?? s.worker < 0, (on) => act.open(`stack/${s.worker}`, on), now, false, issueButton(s, state, act)))),
    empty: stacks?.length === 0 ? empty("No stacks taken yet", "They are taken by themselves when something is stuck, or a GPU swings within steps; or take them now, training does not stop.") : null,
  });
}

/** @param {Summary} s @param {number} rank */
function rankNeighbours(s, rank) {
  const before = neighbourOf(s, rank, -1);
  const after = neighbourOf(s, rank, 1);
  return h(
    "div",
    { class: "neighbours" },
    before !== null && h("a", { class: "button", key: "before", href: routeHash({ run: s.run_id, rank: before }), title: "Previous rank ([)" }, icon("back"), h("span", {}, `rank ${before}`)),
    after !== null && h("a", { class: "button", key: "after", href: routeHash({ run: s.run_id, rank: after }), title: "Next rank (])" }, h("span", {}, `rank ${after}`), icon("right")),
  );
}
