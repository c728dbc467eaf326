// The data that each card of each page requests.

import { call, runPath, withQuery } from "./api.js";
import { ASKED as HEADROOM_ASKED } from "./charts/headroom.js";
import { withoutOthers } from "./charts/others.js";
import { PARTS as PROFILED } from "./charts/profile.js";
import { COUNTERS, GPU_COUNTERS } from "./charts/small.js";
import { ASKED as STARVATION_ASKED } from "./charts/starvation.js";
import { ASKED as SLOWED_ASKED } from "./charts/slowed.js";
import { ASKED as SPEED_ASKED } from "./charts/speed.js";
import { ASKED, byDevice } from "./charts/steps.js";
import { hangNow } from "./panels/alerts.js";
import { unfolded } from "./panels/culprit.js";
import { asksOfHeatmap, heatmapQuery } from "./charts/heatmap.js";
import { asksForRows, pageAsked, rowOf } from "./ranks.js";
import { isGoing, shownRange, shownRank } from "./store.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {import("./store.js").Range} Range
 * @typedef {object} Source
 * @property {string} id
 * @property {"always"|"seen"} when - "seen": only while the card is on the screen
 * @property {(state: State) => string|null} asks - key of the request; a new key requests at once; null: none
 * @property {(state: State, range: Range, points: number, signal: AbortSignal) => Promise<any>} load
 * @property {boolean} [timed] - requests the shown time range
 * @property {boolean} [settled] - requested again only with a new key, not with every tick
 * @property {number} [every_s] - least seconds between two requests
 */

/** Significant digits of a number in a chart. All digits would triple the answer. */
const DIGITS = 4;

/** @param {State} state */
const base = (state) => runPath(state.route.run ?? "");

/**
 * Several series side by side, as one object by metric.
 * @param {string[]} metrics @param {number} [finest_s] - narrower buckets would mostly be empty
 * @returns {Source["load"]}
 */
function seriesOf(metrics, finest_s = 0.2) {
  return async (state, range, most, signal) => {
    const rank = shownRank(state);
    const points = Math.max(20, Math.min(most, Math.ceil((range.end - range.start) / finest_s)));
    const query = { metric: metrics, rank, start: range.start, end: range.end, points, digits: DIGITS };
    const answer = await call(withQuery(`${base(state)}/series`, query), { signal });
    const answers = metrics.length > 1 ? answer : [answer];
    return Object.fromEntries(metrics.map((metric, i) => [metric, answers[i]]));
  };
}

/** @param {State} state */
const rankKey = (state) => {
  const rank = shownRank(state);
  return rank === null ? null : String(rank);
};

/** @type {Source} */
const STEPS = {
  id: "steps",
  when: "seen",
  timed: true,
  asks: rankKey,
  load: async (...asked) => withoutOthers(byDevice(await seriesOf(ASKED)(...asked))),
};

/** @type {Source} */
const SPEED = { id: "speed", when: "seen", timed: true, asks: rankKey, load: seriesOf(SPEED_ASKED, 1) };

/** Settings, checkpoints and evaluation beside the charts. They are rare. @type {Source} */
const MARKS = {
  id: "marks",
  when: "always",
  timed: true,
  every_s: 10,
  asks: (state) => (rankKey(state) === null ? null : `${rankKey(state)} ${state.summary?.loaders.length}`),
  load: (state, range, _points, signal) =>
    call(
      withQuery(`${base(state)}/marks`, {
        rank: shownRank(state),
        start: range.start,
        end: range.end,
        attempt: state.route.attempt,
      }),
      { signal },
    ),
};

/** @type {Source} */
const GPU = {
  id: "gpu",
  when: "seen",
  timed: true,
  asks: (state) => (state.summary === null ? null : `${rankKey(state)} ${hasGpu(state)}`),
  load: (state, range, points, signal) =>
    seriesOf(hasGpu(state) ? ["gpu_utilization_ratio", "gpu_power_w"] : ["compute_duty_ratio"])(
      state,
      range,
      points,
      signal,
    ),
};

/** @type {Source} */
const HEADROOM = {
  id: "headroom",
  when: "seen",
  timed: true,
  asks: (state) => (hasDeviceClock(state) ? rankKey(state) : null),
  load: seriesOf(HEADROOM_ASKED),
};

/** @type {Source} */
const STARVATION = { ...HEADROOM, id: "starvation", load: seriesOf(STARVATION_ASKED) };

/** Whether CUDA events time the GPU's work. @param {State} state */
export function hasDeviceClock(state) {
  return state.summary !== null && state.summary.clock !== "loop";
}

/** @param {State} state */
export function hasGpu(state) {
  const s = state.summary;
  return s !== null && (s.gpu_utilization_ratio !== null || s.ranks.some((r) => r.gpu !== null));
}

/** A new epoch is requested at once, the end of an epoch a little later. @type {Source} */
const EPOCHS = {
  id: "epochs",
  when: "always",
  asks: (state) => (state.summary === null ? null : `${rankKey(state)} ${state.summary.epochs}`),
  every_s: 5,
  load: async (state, _range, _points, signal) =>
    call(
      withQuery(`${base(state)}/boundaries`, {
        rank: shownRank(state),
        limit: MOST_EPOCHS,
        attempt: state.route.attempt,
      }),
      { signal },
    ),
};
/** Most epochs of a loader that the page lists and marks on the charts. */
const MOST_EPOCHS = 300;

/** @type {Source} */
const HEATMAP = {
  id: "heatmap",
  when: "seen",
  timed: true,
  asks: asksOfHeatmap,
  load: (state, range, points, signal) =>
    call(
      withQuery(`${base(state)}/heatmap`, {
        ...heatmapQuery(state),
        start: range.start,
        end: range.end,
        points,
        digits: DIGITS,
      }),
      { signal },
    ),
};

/**
 * Samples of stacks, by the part of the training. The streamer sends counts every ten seconds. The run's page
 * has those of all ranks.
 * @type {Source}
 */
const PROFILE = {
  id: "profile",
  when: "seen",
  timed: true,
  every_s: 10,
  asks: (state) => (state.route.page === "run" ? "all" : rankKey(state)),
  load: async (state, range, _points, signal) => {
    const rank = state.route.page === "run" ? null : shownRank(state);
    const { start, end } = range;
    const answers = PROFILED.map((of) =>
      call(withQuery(`${base(state)}/profile`, { of, rank, start, end }), { signal }),
    );
    const profiles = await Promise.all(answers);
    return Object.fromEntries(PROFILED.map((of, i) => [of, profiles[i]]));
  },
};

/** The page of the table of ranks that is in view. @type {Source} */
const RANKS = {
  id: "ranks",
  when: "seen",
  asks: (state) => (asksForRows(state) ? JSON.stringify(pageAsked(state)) : null),
  load: async (state, _range, _points, signal) => {
    const page = pageAsked(state);
    return {
      ...(await call(withQuery(`${base(state)}/ranks`, { ...page, down: String(page.down) }), { signal })),
      offset: page.offset,
    };
  },
};

/** The one rank that its own page shows. @type {Source} */
const RANK_ROW = {
  id: "rank_row",
  when: "always",
  asks: (state) => (asksForRows(state) ? rankKey(state) : null),
  load: (state, _range, _points, signal) =>
    call(withQuery(`${base(state)}/ranks`, { rank: shownRank(state) }), { signal }),
};

/** Stack texts and later runs that followed an advice: the stream leaves them out. @type {Source} */
const FINDINGS = {
  id: "findings",
  when: "always",
  settled: true,
  asks: (state) => {
    const going = isGoing(state.summary);
    return state.findings.some((f) => f.stacks.length > 0 || (!going && f.lost_s !== null))
      ? JSON.stringify([state.findings_version, going])
      : null;
  },
  load: async (state, _range, _points, signal) => ({
    findings: await call(withQuery(`${base(state)}/findings`, { attempt: state.route.attempt }), { signal }),
  }),
};

/** Advice changes with the loaders, and as epochs are measured. @type {Source} */
const AUDIT = {
  id: "audit",
  when: "seen",
  settled: true,
  asks: (state) =>
    state.summary === null
      ? null
      : JSON.stringify([
          state.summary.loaders.length,
          state.summary.epochs,
          Math.ceil(Math.log2(1 + (state.summary.steps ?? 0))),
        ]),
  load: (state, _range, _points, signal) => call(`${base(state)}/audit`, { signal }),
};

/** What other settings would give. The answer changes as more is measured. @type {Source} */
const WHAT_IF = {
  id: "whatif",
  when: "seen",
  settled: true,
  asks: AUDIT.asks,
  load: (state, _range, _points, signal) => call(`${base(state)}/what-if`, { signal }),
};

/** Which rank waits for which. For a run that is over, one request is enough. @type {Source} */
const COUPLING = {
  id: "coupling",
  when: "always",
  asks: (state) => ((state.summary?.world_size ?? 1) < 2 ? null : "all"),
  load: (state, _range, _points, signal) => call(`${base(state)}/coupling`, { signal }),
};

/** @type {Source} */
const HANG_WORKERS = {
  id: "hang_workers",
  when: "always",
  asks: (state) => {
    const hang = hangNow(state);
    return hang === null || hang.rank === null ? null : String(hang.rank);
  },
  load: async (state, _range, _points, signal) => ({
    workers: await call(withQuery(`${base(state)}/workers`, { rank: hangNow(state)?.rank }), { signal }),
  }),
};

/** The last fetches of unfolded workers, of this page's rank or of the rank that hangs. @type {Source} */
const FETCHED = {
  id: "fetched",
  when: "always",
  every_s: 2,
  asks: (state) =>
    unfolded(state).length === 0 || culpritRank(state) === null
      ? null
      : `${culpritRank(state)} ${unfolded(state).join()}`,
  load: async (state, _range, _points, signal) => {
    const workers = unfolded(state);
    const answers = await Promise.all(
      workers.map((worker) =>
        call(withQuery(`${base(state)}/fetches`, { rank: culpritRank(state), worker, limit: 8 }), { signal }),
      ),
    );
    return Object.fromEntries(workers.map((worker, i) => [worker, answers[i]]));
  },
};

/** @param {State} state */
const culpritRank = (state) =>
  state.route.page === "rank" ? state.route.rank : (hangNow(state)?.rank ?? null);

/** @type {Source} */
const LANES = {
  id: "lanes",
  when: "seen",
  timed: true,
  asks: rankKey,
  load: async (state, range, _points, signal) => {
    const rank = shownRank(state);
    const [fetches, workers] = await Promise.all([
      call(
        withQuery(`${base(state)}/fetches`, { rank, start: range.start, end: range.end, limit: LANES_LIMIT }),
        { signal },
      ),
      call(withQuery(`${base(state)}/workers`, { rank }), { signal }),
    ]);
    return { fetches, workers, at: state.clock + state.offset };
  },
};
export const LANES_LIMIT = 2000;

/** @type {Source} */
const READY = {
  id: "ready",
  when: "seen",
  timed: true,
  asks: rankKey,
  load: seriesOf(["ready_batches", "cached_batches"]),
};

/** One call for all counters: a browser sends a server at most six requests at a time. @type {Source} */
const SMALL = {
  id: "counters",
  when: "seen",
  timed: true,
  asks: rankKey,
  load: seriesOf(COUNTERS.map((c) => c.metric), 1),
};

/** @type {Source} */
const GPU_SMALL = {
  id: "gpu_counters",
  when: "seen",
  timed: true,
  asks: (state) => (hasGpu(state) ? rankKey(state) : null),
  load: seriesOf(GPU_COUNTERS.map((c) => c.metric), 1),
};

/** @type {Source} */
const SLOWED = {
  id: "slowed",
  when: "seen",
  timed: true,
  asks: (state) => (hasGpu(state) ? rankKey(state) : null),
  load: seriesOf(SLOWED_ASKED, 1),
};

/**
 * The streamer reads the GPUs every five seconds. A rank's page requests those of its host.
 * @type {Source}
 */
const GPUS = {
  id: "gpus",
  when: "seen",
  every_s: 5,
  asks: (state) => (hasGpu(state) ? `${hostOfRank(state)}` : null),
  load: (state, _range, _points, signal) =>
    call(withQuery(`${base(state)}/gpus`, { host: hostOfRank(state) }), { signal }),
};

/** @param {State} state @returns {string|null} */
function hostOfRank(state) {
  return rowOf(state, state.route.rank)?.host ?? null;
}

/** @param {string} id @param {string} path @param {Record<string, number>} [more] @returns {Source} */
function ofRank(id, path, more = {}) {
  return {
    id,
    when: "seen",
    asks: rankKey,
    load: (state, _range, _points, signal) =>
      call(withQuery(`${base(state)}/${path}`, { rank: shownRank(state), ...more }), { signal }),
  };
}

/** @param {State} state @returns {Source[]} */
export function sourcesOf(state) {
  if (state.route.attempt !== null)
    return [EPOCHS, MARKS, FINDINGS, PROFILE, SPEED, STEPS, STARVATION, HEADROOM, GPU, HEATMAP];
  if (state.route.page === "run")
    return [
      EPOCHS,
      MARKS,
      FINDINGS,
      HANG_WORKERS,
      FETCHED,
      COUPLING,
      PROFILE,
      SPEED,
      STEPS,
      STARVATION,
      HEADROOM,
      GPU,
      HEATMAP,
      AUDIT,
      WHAT_IF,
      GPUS,
      RANKS,
    ];
  if (state.route.page === "rank")
    return [
      EPOCHS,
      MARKS,
      FINDINGS,
      HANG_WORKERS,
      FETCHED,
      RANK_ROW,
      PROFILE,
      SPEED,
      STEPS,
      STARVATION,
      HEADROOM,
      LANES,
      READY,
      GPU,
      GPU_SMALL,
      SLOWED,
      GPUS,
      ofRank("workers", "workers"),
      ofRank("samples", "slow-samples", { limit: 20 }),
      ofRank("stacks", "stacks"),
      SMALL,
    ];
  return [];
}

/** @param {State} state @param {Source} source @returns {Range|null} */
export function rangeFor(state, source) {
  return source.timed ? shownRange(state) : { start: 0, end: 0 };
}
