/**
 * The shapes of docs/http-api.md and of the page's own state, for the type checker. No code.
 *
 * @typedef {"live"|"finished"|"hung"|"crashed"|"lost"} RunStatus
 * @typedef {{run_id: string, name: string, state: RunStatus, started_at: number, last_seen_at: number, world_size: number,
 *   hosts: string[], attempts: number, steps: number|null, verdict: string, severity: string}} RunRow
 * @typedef {{name: string, cpus: number, usable_cpus: number|null, gpu_status: string}} Host
 * @typedef {{severity: string, title: string, advice: string, finding_id: string|null}} Verdict
 * @typedef {{framework: string, version: string, stage: string|null, epoch: number|null, max_epochs: number|null, global_step: number|null}} Progress
 * @typedef {{rank: number, loader: number, name: string, role: string, num_workers?: number|null, batch_size?: number|null,
 *   dataset_class?: string|null, dataset_length?: number|null, batches?: number|null, prefetch_factor?: number|null,
 *   persistent_workers?: boolean|null, pin_memory?: boolean|null}} Loader
 * @typedef {{rank: number, host: string, pid: number, state: string, exit: string|null, watched: boolean, phases_missing?: string|null, step: number|null, eval_batches: number, epoch: number|null,
 *   batch: number|null, phase: string|null, phase_age_s: number|null, steps_per_s: number|null, data_wait_ratio: number|null,
 *   step_s: number|null, wait_s: number|null, ready_batches: number|null, gpu: number|null,
 *   gpu_utilization_ratio: number|null, seen_at: number|null}} RankRow
 * @typedef {{attempt: number, state: string, began_at: number, ended_at: number, steps: number|null, exit: string|null}} Earlier
 * @typedef {{run_id: string, name: string, state: RunStatus, attempt: number, attempts: number, earlier: Earlier[],
 *   started_at: number, last_seen_at: number, now: number,
 *   world_size: number, hosts: Host[], steps: number|null, eval_batches: number, steps_per_s: number|null, data_wait_ratio: number|null,
 *   gpu_utilization_ratio: number|null, gpu_starved_ratio: number|null, compute_duty_ratio: number|null,
 *   goodput_ratio: number|null, lost_s: number|null, lost_records: number, simulated_gpu: boolean, epochs: number|null,
 *   progress?: Progress|null, verdict: Verdict, loaders: Loader[], ranks: RankRow[]}} Summary
 * @typedef {{rank: number, worker: number, pid: number, taken_at: number, text: string, why: string}} Stack
 * @typedef {{label: string, value: number|string|null, unit: string}} Evidence
 * @typedef {{key: string, code: string, scenario: string, severity: string, title: string, evidence: Evidence[], began_at: number,
 *   warned_s: number|null}} Folded
 * @typedef {{id: string, key: string, code: string, scenario: string, severity: string, state: string, confidence: number,
 *   rank: number|null, host: string|null, worker: number|null, pid: number|null, sample_indices: number[], began_at: number,
 *   ended_at: number|null, title: string, cause: string, advice: string, evidence: Evidence[], lost_s: number|null,
 *   gain_ceiling_ratio: number|null, stacks: Stack[], folded: Folded[], silenced_until: number|null}} Finding
 * @typedef {{check: string, severity: string, what: string, why: string, change: string, loader: string|null, ranks: number[]}} Advice
 * @typedef {{metric: string, rank: number|null, bucket_s: number, t: number[], min: (number|null)[], mean: (number|null)[],
 *   max: (number|null)[]}} Series
 * @typedef {{metric: string, bucket_s: number, ranks: number[], t: number[], values: (number|null)[][]}} Heatmap
 * @typedef {{rank: number, loader: number, epoch: number, began_at: number, iter_s: number|null, first_wait_s: number|null,
 *   iter_kind: string, workers: number|null, gap_s: number|null, ended_at: number|null, teardown_s: number|null,
 *   batches: number|null, ended_by: string|null}} Epoch
 * @typedef {{loader: number[], worker: number[], began_at: number[], fetch_s: number[], collate_s: (number|null)[],
 *   cpu_s: (number|null)[], samples: (number|null)[], slow_index: (number|null)[], slow_s: (number|null)[],
 *   bytes: (number|null)[]}} Fetches
 * @typedef {{rank: number, loader: number, worker: number, index: number, slow_s: number, fetch_s: number|null,
 *   at: number}} SlowSample
 * @typedef {{rank: number, worker: number, loader: number|null, pid: number, phase: string|null, phase_age_s: number|null,
 *   sample_index: number|null, sample_age_s: number|null, os_state: string|null, wchan: string|null, cpu_ratio: number|null,
 *   rss_bytes: number|null, threads: number|null, fds: number|null, alive: boolean, batches: number|null}} Worker
 *
 * @typedef {{rank: number, iteration_s: number, data_s: number, own_s: number, others_s: number, caused_s: number}} Share
 * @typedef {{ranks: number[], state: "stands"|"moving"|"ended"|"crashed"|"unknown", collective: string|null, stands: string,
 *   at: string|null, for_s: number|null, stack: Stack|null}} Place
 * @typedef {{state: "waiting"|"turns"|"even"|"apart"|"unknown"|"standing", reason: string, source: "measured"|"durations"|null,
 *   iterations: number, waiting: number[], waited_for: number[], wait_s: number|null, cause: "data"|"work"|null,
 *   where: string|null, ranks: Share[], places: Place[], given_up_in_s: number|null, timeout_s: number|null}} Coupling
 *
 * @typedef {{page: "runs"|"run"|"rank", run: string|null, rank: number|null, finding: string|null,
 *   attempt: number|null}} Route
 * @typedef {{start: number, end: number}} Range
 * @typedef {{kind: "last", span_s: number}|{kind: "all"}|{kind: "fixed", start: number, end: number}} View
 * @typedef {"connecting"|"live"|"stale"|"gone"|"unauthorized"} Link
 * @typedef {{data: any, range: Range|null, error: string|null, loaded_at: number}} CardData
 * @typedef {{kind: "light"|"dark", text: string, muted: string, grid: string, panel: string, accent: string, critical: string,
 *   warning: string, ok: string, wait: string, h2d: string, forward: string, backward: string, optimizer: string,
 *   other: string, gpu: string, power: string, line: string, heat: string[]}} Palette
 *
 * @typedef {object} State
 * @property {Route} route
 * @property {"light"|"dark"|"auto"} theme
 * @property {Link} link
 * @property {number} clock - this browser's time in seconds, moved once a second so that ages count up
 * @property {number} offset - server time minus browser time, seconds
 * @property {number|null} ticked_at - browser time of the last word from the server
 * @property {RunRow[]|null} runs
 * @property {string|null} runs_error
 * @property {Summary|null} summary
 * @property {Finding[]} findings
 * @property {number} findings_version
 * @property {number|null} newest_at
 * @property {boolean} may_change - whether this reader may acknowledge, silence and ask for stacks; a viewer's token may not
 * @property {View} view
 * @property {boolean} paused
 * @property {number|null} rank - the rank whose step timeline the run page shows; null until known
 * @property {Record<string, CardData>} cards
 * @property {Record<string, boolean>} open - what the reader unfolded
 * @property {{by: string, down: boolean}} sort - of the ranks table
 * @property {boolean} help
 * @property {string} note - last short message of an action, "" when none
 */
export {};
