// The page of a run and the page of a rank: first the answer, then the evidence in the order of checking.

import { LANES_LIMIT, hasDeviceClock, hasGpu } from "../cards.js";
import { laneWorkers, slowOnes } from "../charts/lanes.js";
import { COUNTERS, GPU_COUNTERS, SMALL_PX, inUnit } from "../charts/small.js";
import { isByDevice, isEmpty, knownParts, partName } from "../charts/steps.js";
import { h } from "../dom.js";
import { downloadButtons } from "../downloads.js";
import { clock, duration, number, percent } from "../format.js";
import { capacityOf } from "../figures.js";
import { icon } from "../icons.js";
import { reading, readingOf } from "../reading.js";
import { hasRank, neighbourOf, rowOf } from "../ranks.js";
import { routeHash, serverNow } from "../store.js";
import { say } from "../texts.js";
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
import { profileCard } from "./profile.js";
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
    {
      class: `page ${state.link === "stale" || state.link === "gone" ? `not-live` : ""}`,
      key: `run ${state.route.run}`,
    },
    state.link === "gone" && h("p", { class: "notice warning", role: "status" }, say("page-run-deleted")),
    runHead(s, state, { facts: hang === null }),
    pageTools(state, act),
    hang === null && attemptBar(s, state, act),
    verdictBanner(s, state.findings),
    hang !== null && [hangCard(hang, state, act), runFacts(s, state), attemptBar(s, state, act)],
    standing && couplingCard(state, act),
    runTiles(s, state),
    !standing && state.route.attempt === null && couplingCard(state, act),
    rangeBar(state, act),
    profileCard(state, act),
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
  if (row === null && hasRank(s, state.route.rank) && (state.cards.rank_row?.data ?? null) === null)
    return waiting(state, act);
  if (row === null)
    return h(
      "div",
      { class: "page", key: "no rank" },
      empty(
        say("no-such-rank", { rank: state.route.rank }),
        say("no-such-rank-why", { ranks: s.rank_count }),
        h("a", { class: "button primary", href: routeHash({ run: s.run_id }) }, say("back-to-the-run")),
        "h1",
      ),
    );
  const hang = hangNow(state);
  return h(
    "div",
    {
      class: `page ${state.link === "stale" || state.link === "gone" ? `not-live` : ""}`,
      key: `rank ${row.rank}`,
    },
    rankHead(row, s, state),
    pageTools(state, act),
    hang !== null && (hang.rank === null || hang.rank === row.rank) && hangCard(hang, state, act),
    rankTiles(row, s),
    rangeBar(state, act),
    profileCard(state, act),
    speedCard(state),
    stepsCard(state),
    starvationCard(state),
    headroomCard(state),
    lanesCard(state),
    readyCard(state),
    boundariesCard(state, act),
    hasGpu(state) ? gpuCard(state, s) : null,
    alertsPanel(state, act),
    workersCard(state, act),
    samplesCard(state, act),
    hasGpu(state)
      ? counters(state, "gpu_counters", say("counters-of-gpu", { simulated: s.simulated_gpu }), GPU_COUNTERS)
      : null,
    slowedCard(state),
    gpusCard(state, act, row.host),
    counters(state, "counters", say("counters-of-machine"), COUNTERS),
    stacksCard(state, act),
  );
}

/**
 * @param {import("../types.js").RankRow} row @param {import("../types.js").Summary} s @param {State} state
 */
function rankHead(row, s, state) {
  const now = serverNow(state);
  return h(
    "div",
    { class: "page-head" },
    h("h1", {}, say("rank-heading", { rank: row.rank })),
    stateBadge(shownState(row.state, row.exit)),
    h(
      "p",
      { class: "page-meta" },
      [
        say("rank-process", { host: row.host, pid: row.pid }),
        row.epoch === null ? "" : say("rank-epoch", { epoch: row.epoch, batch: row.batch }),
        row.exit ?? "",
        say("rank-seen-at", { when: clock(row.seen_at, now) }),
      ].filter(Boolean).map((t) => h("span", {}, t)),
    ),
    s.rank_count > 1 && rankNeighbours(s, row.rank),
  );
}

/** @param {State} state @param {Actions} act */
function workersCard(state, act) {
  return card(state, {
    id: "workers",
    title: say("processes-title"),
    about: say("processes-about"),
    height: "160px",
    flush: true,
    body: workersTable(state.cards.workers?.data ?? null, state, act),
    empty:
      state.cards.workers?.data?.length === 0
        ? empty(say("processes-none"), say("processes-none-why"))
        : null,
  });
}

/** @param {State} state @param {Actions} act */
function samplesCard(state, act) {
  return card(state, {
    id: "samples",
    title: say("samples-title"),
    about: say("samples-about"),
    height: "160px",
    flush: true,
    extra: moreSamples(state, act),
    body: samplesTable(state.cards.samples?.data ?? null, state, act),
    empty:
      state.cards.samples?.data?.length === 0 ? empty(say("samples-none"), say("samples-none-why")) : null,
  });
}

/** @param {State} state @param {Actions} act */
function moreSamples(state, act) {
  const showsAll = state.open["all-samples"] ?? false;
  const n = state.cards.samples?.data?.length ?? 0;
  return (
    n > FIRST_SAMPLES &&
    button(
      showsAll
        ? say("samples-show-first", { number: FIRST_SAMPLES })
        : say("samples-show-all", { number: n }),
      () => act.open("all-samples", !showsAll),
    )
  );
}

/** @param {State} state @param {Actions} act */
function waiting(state, act) {
  if (state.link === "gone" || state.link === "unauthorized")
    return h("div", { class: "page", key: "blocked" }, blocked(state, act));
  return h(
    "div",
    { class: "page", key: "waiting", "aria-busy": "true" },
    state.link === "stale" && h("p", { class: "notice warning", role: "status" }, say("page-no-answer")),
    h("div", { class: "page-head" }, skeleton("28px")),
    skeleton("88px"),
    h(
      "div",
      { class: "tiles" },
      [0, 1, 2, 3, 4, 5].map((i) => h("div", { class: "tile", key: i }, skeleton("64px"))),
    ),
    h("div", { class: "card" }, skeleton("260px")),
  );
}

/** @param {State} state */
function stepsCard(state) {
  /** @type {Record<string, import("../types.js").Series>|null} */
  const data = state.cards.steps?.data ?? null;
  const parts = data === null ? [] : knownParts(data);
  const bucket = data?.data_wait_s?.bucket_s;
  const split =
    data === null ||
    parts.length === 0 ||
    parts.some((p) => ["forward_s", "backward_s", "optimizer_s"].includes(p.metric));
  const of_rank = state.route.page === "run" && (state.summary?.rank_count ?? 0) > 1 ? state.rank : null;
  return card(state, {
    id: "steps",
    title: say("steps-title"),
    badge: isByDevice(data) && state.summary?.simulated_gpu ? say("simulated-gpu") : undefined,
    about: say("steps-about", { rank: of_rank, by_device: isByDevice(data), bucket_s: bucket, split }),
    legend: parts.map((p) => ({
      name: partName(p),
      color: `c-${p.color}`,
      hatch: p.hatch,
      value: duration(reading(state, data?.[p.metric])),
    })),
    reads: true,
    height: "260px",
    body: plot("steps", "260px", say("steps-label")),
    empty:
      data !== null && parts.length === 0
        ? empty(say("no-steps-in-range"), say("choose-longer-range"))
        : null,
  });
}

/** @param {State} state @param {Summary} s */
function gpuCard(state, s) {
  /** @type {Record<string, import("../types.js").Series>|null} */
  const data = state.cards.gpu?.data ?? null;
  const gpu = hasGpu(state);
  const legend = [];
  if (data !== null && !isEmpty(data.gpu_utilization_ratio))
    legend.push({
      name: say("chart-utilization"),
      color: "c-gpu",
      value: percent(reading(state, data.gpu_utilization_ratio)),
    });
  if (data !== null && !isEmpty(data.compute_duty_ratio))
    legend.push({
      name: say("chart-compute-duty"),
      color: "c-gpu",
      value: percent(reading(state, data.compute_duty_ratio)),
    });
  if (data !== null && !isEmpty(data.gpu_power_w))
    legend.push({
      name: say("chart-power"),
      color: "c-power",
      value: `${number(reading(state, data.gpu_power_w))}\u202fW`,
      dash: true,
    });
  return card(state, {
    id: "gpu",
    title: say("gpu-title", { gpu }),
    badge: gpu && s.simulated_gpu ? say("simulated-gpu") : undefined,
    about:
      (!gpu && gpuStatus(s)) ||
      say("gpu-about", { clock: !gpu ? "loop" : s.simulated_gpu ? "simulated" : "gpu" }),
    legend,
    reads: true,
    height: "170px",
    body: plot("gpu", "170px", say("gpu-label", { gpu })),
    empty:
      data !== null && legend.length === 0
        ? empty(say("no-readings-in-range"), gpuStatus(s) || say("gaps-stay-gaps"))
        : null,
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
    title: say("lanes-title"),
    about: say("lanes-about", { newest: full ? LANES_LIMIT : null }),
    legend: [
      { name: say("lane-fetch"), color: "c-forward" },
      { name: say("lane-collate"), color: "c-backward" },
      { name: say("lanes-held-up"), color: "c-wait", value: slow > 0 ? String(slow) : undefined },
      { name: say("lanes-open-for-long"), color: "warning" },
    ],
    height,
    body: plot("lanes", height, say("lanes-label")),
    empty:
      data !== null && data.fetches.worker.length === 0 && data.workers.every((w) => w.worker < 0)
        ? empty(say("lanes-none"), say("lanes-none-why"))
        : null,
  });
}

/** @param {State} state */
function readyCard(state) {
  const data = state.cards.ready?.data ?? null;
  const capacity = capacityOf(state);
  const none = data !== null && isEmpty(data.ready_batches);
  return card(state, {
    id: "ready",
    title: say("ready-title"),
    about: say("ready-about", { most: capacity }),
    legend: none
      ? []
      : [
          { name: say("chart-ready"), color: "c-gpu", value: number(reading(state, data?.ready_batches)) },
          {
            name: say("chart-out-of-order"),
            color: "c-h2d",
            value: number(reading(state, data?.cached_batches)),
            dash: true,
          },
        ],
    reads: true,
    height: "150px",
    body: plot("ready", "150px", say("ready-label")),
    empty: none ? empty(say("ready-none"), say("ready-none-why")) : null,
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
    title: say("headroom-title"),
    badge: state.summary?.simulated_gpu ? say("simulated-gpu") : undefined,
    about: say("headroom-about"),
    legend: none
      ? []
      : [
          { name: say("chart-queued"), color: "c-gpu", value: duration(reading(state, data?.slack_s)) },
          {
            name: say("chart-batches-ready"),
            color: "c-h2d",
            value: duration(reading(state, data?.cushion_s)),
          },
        ],
    reads: true,
    height: "150px",
    body: plot("headroom", "150px", say("headroom-label")),
    empty: none ? empty(say("not-known-in-range"), say("cuda-events-come-late")) : null,
  });
}

/**
 * @param {State} state @param {string} id @param {string} title
 * @param {import("../charts/small.js").Counter[]} list
 */
function counters(state, id, title, list) {
  return h(
    "section",
    { key: id, class: "smalls", "data-card": id, "aria-label": title },
    h("h2", { class: "section-title" }, title, h("small", {}, readingOf(state))),
    h("div", { class: "small-grid" }, list.map((c) => smallCard(state, id, c))),
  );
}

/** @param {State} state @param {string} id @param {import("../charts/small.js").Counter} c */
function smallCard(state, id, c) {
  const held = state.cards[id];
  const series = held?.data?.[c.metric];
  return h(
    "div",
    { class: `small${held === undefined ? " is-loading" : ""}`, key: c.metric },
    h(
      "p",
      { class: "small-head", title: say(c.about_message) },
      h("span", {}, say(c.message)),
      h("b", {}, inUnit(reading(state, series), c.unit)),
      series && !isEmpty(series) && downloadButtons(`small-${c.metric}`),
    ),
    held === undefined
      ? skeleton(`${SMALL_PX}px`)
      : held.data === null
        ? h("p", { class: "small-none is-failed" }, say("could-not-be-loaded"))
        : isEmpty(series)
          ? h("p", { class: "small-none" }, say("counter-not-offered"))
          : plot(`small-${c.metric}`, `${SMALL_PX}px`, say(c.message)),
    h("p", { class: "small-about" }, say(c.about_message)),
  );
}

/** @param {State} state @param {Actions} act */
function stacksCard(state, act) {
  /** @type {import("../types.js").Stack[]|null} */
  const stacks = state.cards.stacks?.data ?? null;
  const now = serverNow(state);
  return card(state, {
    id: "stacks",
    title: say("stacks-title"),
    about: say("stacks-about", {
      when:
        stacks === null || stacks.length === 0
          ? null
          : clock(Math.max(...stacks.map((s) => s.taken_at)), now),
    }),
    extra:
      state.may_change &&
      button(say("stacks-take-now"), act.takeStacks, { class: "button primary" }, icon("camera")),
    height: "120px",
    flush: true,
    body: h(
      "div",
      { class: "stack-list" },
      (stacks ?? []).map((s) =>
        stackView(
          s,
          state.open[`stack/${s.worker}`] ?? s.worker < 0,
          (on) => act.open(`stack/${s.worker}`, on),
          now,
          false,
          issueButton(s, state, act),
        ),
      ),
    ),
    empty: stacks?.length === 0 ? empty(say("stacks-none"), say("stacks-none-why")) : null,
  });
}

/** @param {Summary} s @param {number} rank */
function rankNeighbours(s, rank) {
  const previous = neighbourOf(s, rank, -1);
  const next = neighbourOf(s, rank, 1);
  return h(
    "div",
    { class: "neighbours" },
    previous !== null &&
      h(
        "a",
        {
          class: "button",
          key: "before",
          href: routeHash({ run: s.run_id, rank: previous }),
          title: say("rank-previous"),
        },
        icon("back"),
        h("span", {}, say("rank-number", { rank: previous })),
      ),
    next !== null &&
      h(
        "a",
        {
          class: "button",
          key: "after",
          href: routeHash({ run: s.run_id, rank: next }),
          title: say("rank-next"),
        },
        h("span", {}, say("rank-number", { rank: next })),
        icon("right"),
      ),
  );
}
