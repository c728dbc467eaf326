// Small objects of the shapes in docs/http-api.md.

/**
 * @param {Partial<import("../../web/js/types.js").Summary>} [more]
 * @returns {import("../../web/js/types.js").Summary}
 */
export function summary(more = {}) {
  const ranks = more.ranks ?? [rank(0, 0.1), rank(1, 0.6)];
  return {
    run_id: "r",
    name: "train.py",
    state: "live",
    attempt: 1,
    attempts: 1,
    earlier: [],
    started_at: 1000,
    last_seen_at: 1600,
    now: 1600,
    world_size: 2,
    hosts: [{ name: "gpu01", cpus: 16, usable_cpus: 8, gpu_status: "" }],
    steps: 1200,
    eval_batches: 0,
    steps_per_s: 9.7,
    data_wait_ratio: 0.41,
    gpu_utilization_ratio: 0.55,
    gpu_starved_ratio: null,
    compute_duty_ratio: 0.59,
    goodput_ratio: 0.59,
    clock: "loop",
    lost_s: 71.2,
    lost_clock: "loop",
    lost_records: 0,
    simulated_gpu: false,
    epochs: 3,
    verdict: { severity: "warning", title: "Waits", advice: "Do", finding_id: "f1" },
    loaders: [
      {
        rank: 0,
        loader: 0,
        name: "train_loader",
        role: "train",
        num_workers: 2,
        prefetch_factor: 2,
        batch_size: 64,
        batches: 10,
      },
    ],
    rank_count: ranks.length,
    unwatched_count: ranks.filter((r) => !r.watched && r.state === "live").length,
    host_count: new Set(ranks.map((r) => r.host)).size,
    groups: [],
    ranks,
    ...more,
  };
}

/** @param {number} n @param {number|null} wait @returns {import("../../web/js/types.js").RankRow} */
export function rank(n, wait) {
  return {
    rank: n,
    host: "gpu01",
    pid: 4000 + n,
    state: "live",
    exit: null,
    watched: true,
    step: 1,
    eval_batches: 0,
    epoch: 0,
    batch: 1,
    phase: "wait",
    phase_age_s: 0.1,
    steps_per_s: 9,
    data_wait_ratio: wait,
    clock: "loop",
    step_s: 0.05,
    wait_s: 0.04,
    ready_batches: 0,
    gpu: n,
    gpu_utilization_ratio: 0.5,
    seen_at: 1600,
    in_detail: true,
  };
}

/**
 * @param {Partial<import("../../web/js/types.js").Finding>} [more]
 * @returns {import("../../web/js/types.js").Finding}
 */
export function finding(more = {}) {
  return {
    id: "f1",
    key: "k",
    code: "input-bound",
    scenario: "S02",
    severity: "warning",
    state: "firing",
    confidence: 0.9,
    rank: 1,
    host: "gpu01",
    worker: null,
    pid: null,
    sample_indices: [],
    began_at: 1200,
    ended_at: null,
    title: "Waits",
    cause: "Because",
    advice: "Do",
    evidence: [],
    lost_s: 10,
    gain_ceiling_ratio: 0.3,
    gain_of: "finding",
    stacks: [],
    folded: [],
    silenced_until: null,
    recovering: false,
    followed: null,
    ...more,
  };
}

/**
 * @param {(number|null)[]} mean @param {Partial<import("../../web/js/types.js").Series>} [more]
 * @returns {import("../../web/js/types.js").Series}
 */
export function series(mean, more = {}) {
  return {
    metric: "m",
    rank: 0,
    bucket_s: 1,
    t: mean.map((_, i) => 1500 + i),
    min: mean,
    mean,
    max: mean,
    ...more,
  };
}

/** @type {import("../../web/js/theme.js").Palette} */
export const palette = {
  kind: "light",
  text: "#171a21",
  muted: "#596273",
  grid: "#e4e7ed",
  panel: "#ffffff",
  accent: "#3451d1",
  critical: "#c4262e",
  warning: "#a85a00",
  ok: "#17794a",
  wait: "#d9480f",
  h2d: "#b7589b",
  forward: "#62b0e6",
  backward: "#1f6cb0",
  optimizer: "#119b74",
  other: "#b3bac6",
  others: "#b3bac6",
  gpu: "#119b74",
  power: "#a85a00",
  line: "#1f6cb0",
  heat: ["#eef0f4", "#fcd7a5", "#f59a4b", "#d6531c", "#86180f"],
};

/**
 * One expression of several, so that a long text is matched as a whole. It has the flags of the first one.
 * @param {RegExp[]} parts @returns {RegExp}
 */
export const inOrder = (...parts) => new RegExp(parts.map((part) => part.source).join(""), parts[0]?.flags);
