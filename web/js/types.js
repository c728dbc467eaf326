/**
 * The answers of the HTTP API as types. Generated from loaderwatch/core/answers/ by `make types`.
 *
 * @typedef {{check: string, severity: Severity, rule: string, params: Object<string, Param>, what: string,
 *   why: string, change: string, loader: string|null, where: string|null, ranks: number[]}} Advice
 * @typedef {"firing"|"acknowledged"|"silenced"|"resolved"} AlertState
 * @typedef {"finished"|"crashed"|"lost"} AttemptStatus
 * @typedef {"device"|"nvml"|"loop"|"mixed"} Clock
 * @typedef {"waiting"|"turns"|"even"|"apart"|"unknown"|"standing"} CouplingState
 * @typedef {{label: string, value: number|string|null, unit: Unit, label_text: Text|null,
 *   value_text: Text|null}} Evidence
 * @typedef {"finding"|"run"} GainOf
 * @typedef {"stands"|"moving"|"ended"|"crashed"|"unknown"} PlaceState
 * @typedef {"data_wait_ratio"|"step_s"|"gpu_utilization_ratio"} RankMeasure
 * @typedef {"live"|"finished"|"crashed"|"lost"} RankStatus
 * @typedef {"live"|"finished"|"hung"|"crashed"|"lost"} RunStatus
 * @typedef {"info"|"warning"|"critical"} Severity
 * @typedef {{rank: number, worker: number, pid: number, taken_at: number, text: string, why: string}} Stack
 * @typedef {"ratio"|"s"|"count"|"bytes"|"index"|"text"|"per_s"} Unit
 * @typedef {{severity: VerdictSeverity, title: string, advice: string, finding_id: string|null, rule: string,
 *   params: Object<string, Param>}} Verdict
 * @typedef {"ok"|"info"|"warning"|"critical"} VerdictSeverity
 * @typedef {{frames: ProfileFrame[], state: ThreadStateName, samples: number}} CountedStack
 * @typedef {{rank: number, loader: number, epoch: number, began_at: number, iter_s: number|null,
 *   sampler_s: number|null, first_wait_s: number|null, iter_kind: string|null, workers: number|null,
 *   drained: number|null, gap_s: number|null, ended_at: number|null, teardown_s: number|null,
 *   batches: number|null, ended_by: string|null}} Epoch
 * @typedef {{epoch: number, began_at: number, start_s: number|null, sampler_s: number|null,
 *   first_batch_s: number|null, steady_s: number|null, teardown_s: number|null, gap_s: number|null,
 *   cost_s: number, ended_at: number|null, ended_by: string|null, batches: number|null,
 *   iter_kind: string|null, workers: number|null, drained: number|null}} EpochParts
 * @typedef {{loader: number[], worker: number[], began_at: number[], fetch_s: (number|null)[],
 *   collate_s: (number|null)[], cpu_s: (number|null)[], samples: (number|null)[],
 *   slow_index: (number|null)[], slow_s: (number|null)[], bytes: (number|null)[]}} Fetches
 * @typedef {{metric: string, bucket_s: number, ranks: number[], t: number[], values: (number|null)[][],
 *   hosts: string[], of: number}} Heatmap
 * @typedef {{rank: number, loader: number, name: string, role: "train"|"eval", epochs: number,
 *   cost_s: number, usual_wait_s: number, newest: EpochParts[]}} LoaderEpochs
 * @typedef {{kind: MarkKind, began_at: number, ended_at: number|null, ranks: number[], text: string,
 *   finding_id: string|null, text_text: Text|null}} Mark
 * @typedef {"config"|"checkpoint"|"evaluation"|"attempt"|"alert"} MarkKind
 * @typedef {{of: ProfilePartName, ranks: number[], start: number|null, end: number|null, samples: number,
 *   unread: number, states: Object<string, number>, lines: ProfileLine[], stacks: CountedStack[]}} Profile
 * @typedef {{file: string, line: number, function: string, library: boolean}} ProfileFrame
 * @typedef {{file: string, line: number, function: string, share: number, low: number, high: number,
 *   states: Object<string, number>, calls: string|null, per_sample_s: number|null, per_batch_s: number|null,
 *   speedup: number|null}} ProfileLine
 * @typedef {"fetch"|"step"|"evaluation"|"boundary"} ProfilePartName
 * @typedef {{metric: string, rank: number|null, bucket_s: number, t: number[], min: (number|null)[],
 *   mean: (number|null)[], max: (number|null)[]}} Series
 * @typedef {{rank: number, loader: number, worker: number, index: number, slow_s: number,
 *   fetch_s: number|null, at: number}} SlowSample
 * @typedef {"running"|"runnable"|"disk"|"network"|"lock"|"pipe"|"child"|"timer"|"waiting"} ThreadStateName
 * @typedef {{run_id: string, name: string, state: RunStatus, started_at: number, began_at: number,
 *   seconds: number, world_size: number, steps: number|null}} ComparedRun
 * @typedef {{a: ComparedRun, b: ComparedRun, title: string, judgement: Judgement, notes: string[],
 *   settings: Setting[], measures: Difference[], title_text: Text|null, note_texts: Text[]}} Comparison
 * @typedef {{measure: string, label: string, unit: Unit, a: Estimate|null, b: Estimate|null,
 *   change: number|null, change_low: number|null, change_high: number|null, judgement: Judgement,
 *   said: string, label_text: Text|null, said_text: Text|null}} Difference
 * @typedef {{mean: number, low: number|null, high: number|null, values: number}} Estimate
 * @typedef {"better"|"worse"|"changed"|"noise"|"unknown"} Judgement
 * @typedef {{change: string, least_ratio: number, most_ratio: number, per_epoch_s: number|null,
 *   rests_on: string, rests_on_text: Text|null}} LoaderOption
 * @typedef {{num_workers: number, prefetch_factor: number, in_order: boolean, steps_per_s: number,
 *   least_per_s: number, most_per_s: number, gain_ratio: number, memory_bytes: number|null}} LoaderSetting
 * @typedef {{where: string, what: string, a: string|null, b: string|null}} Setting
 * @typedef {{rank: number, loader: number, name: string, measured_per_s: number, today: LoaderSetting,
 *   workers: LoaderSetting[], knee: number, others: LoaderSetting[], fetches: number, fetch_s: number,
 *   step_s: number, cpus: number|null, fetch_cpus: number, options: LoaderOption[], free_bytes: number|null,
 *   free_in: string}} WhatIf
 * @typedef {{state: CouplingState, reason: string, source: "measured"|"durations"|null, iterations: number,
 *   waiting: number[], waited_for: number[], wait_s: number|null, cause: "data"|"work"|null,
 *   where: string|null, ranks: Share[], places: Place[], given_up_in_s: number|null, timeout_s: number|null,
 *   reason_text: Text|null}} Coupling
 * @typedef {{host: string, gpu: number, uuid: string, name: string, simulated: boolean, ranks: number[],
 *   looked_at: number|null, utilization_ratio: number|null, memory_used_bytes: number|null,
 *   memory_total_bytes: number|null, power_w: number|null, power_limit_w: number|null,
 *   sm_clock_hz: number|null, temperature_c: number|null, slowed_by: string[], processes: GpuProcess[],
 *   slowed_by_texts: Text[]}} Gpu
 * @typedef {{pid: number, rank: number|null, memory_bytes: number|null, sm_ratio: number|null,
 *   name: string|null, user: string|null}} GpuProcess
 * @typedef {{ranks: number[], state: PlaceState, collective: string|null, stands: string, at: string|null,
 *   for_s: number|null, stack: Stack|null, stands_text: Text|null, at_text: Text|null}} Place
 * @typedef {{rank: number, iteration_s: number, data_s: number, own_s: number, others_s: number,
 *   caused_s: number}} Share
 * @typedef {{rank: number, worker: number, loader: number|null, pid: number, phase: "outside"|"iter"|"wait"|
 *   "step"|"h2d"|"forward"|"backward"|"optimizer"|"teardown"|"user"|"idle"|"fetch"|"collate"|"starting",
 *   phase_age_s: number, sample_index: number|null, sample_age_s: number|null, os_state: string|null,
 *   wchan: string|null, cpu_ratio: number|null, rss_bytes: number|null, threads: number|null,
 *   fds: number|null, alive: boolean, batches: number}} Worker
 * @typedef {{key: string, code: string, scenario: string, severity: Severity, evidence: Evidence[],
 *   confidence: number, rule: string, params: Object<string, Param>, frame: Text|null, also: Text[],
 *   rank: number|null, host: string|null, loader: number|null, worker: number|null, pid: number|null,
 *   sample_indices: number[], lost_s: number|null, gain_ceiling_ratio: number|null, gain_of: GainOf,
 *   id: string, state: AlertState, began_at: number, ended_at: number|null, title: string, cause: string,
 *   advice: string, stacks: Stack[], folded: Folded[], silenced_until: number|null, recovering: boolean,
 *   followed: Followed|null}} Finding
 * @typedef {{key: string, code: string, scenario: string, severity: Severity, evidence: Evidence[],
 *   title: string, began_at: number, warned_s: number|null, title_text: Text|null}} Folded
 * @typedef {{run_id: string, name: string, measure: "steps_per_s"|"samples_per_s", before_per_s: number,
 *   after_per_s: number, promised_per_s: number|null, judgement: Judgement, sentence: string,
 *   sentence_text: Text|null}} Followed
 * @typedef {{run_id: string, name: string, bytes: number, seconds: number, steps: number|null,
 *   attempts: number, alerts: number, reporting: boolean, may_change: boolean, may_delete: boolean}} Contents
 * @typedef {{attempt: number, state: AttemptStatus, began_at: number, ended_at: number, steps: number|null,
 *   exit: string|null}} Earlier
 * @typedef {{fingerprint: string}} Fingerprint
 * @typedef {{name: string, cpus: number, usable_cpus: number|null, gpu_status: string,
 *   gpu_status_text: Text|null}} Host
 * @typedef {{name: string, tags: string[], note: string, pinned: boolean}} Labels
 * @typedef {{loader: number, name: string, role: "train"|"eval", class_name: string,
 *   dataset_class: string|null, dataset_length: number|null, batches: number|null, batch_size: number|null,
 *   num_workers: number|null, prefetch_factor: number|null, persistent_workers: boolean|null,
 *   pin_memory: boolean|null, in_order: boolean|null, drop_last: boolean|null, timeout_s: number|null,
 *   start_method: string|null, iterable_dataset: boolean|null, sampler_class: string|null,
 *   distributed: boolean|null, same_epoch_passes: number|null, shards: number|null,
 *   splits_by_worker: boolean|null, snapshot_every_n_steps: number|null, reader: string|null,
 *   reader_error: string|null, between_steps: boolean, acts: boolean, autotuned: string|null,
 *   cached_batches: number, rank: number}} Loader
 * @typedef {{framework: string, version: string, stage: string|null, epoch: number|null,
 *   max_epochs: number|null, global_step: number|null}} Progress
 * @typedef {{group: string, count: number, ranks: number[], hosts: number, state: RankStatus,
 *   phase: string|null, phase_age_s: number|null, differs_in: RankMeasure|null, higher: boolean|null,
 *   data_wait_ratio: number|null, steps_per_s: number|null, step_s: number|null,
 *   gpu_utilization_ratio: number|null}} RankGroup
 * @typedef {{total: number, rows: RankRow[]}} RankPage
 * @typedef {{rank: number, host: string, pid: number, state: RankStatus, exit: string|null, watched: boolean,
 *   phases_missing: string|null, step: number|null, eval_batches: number, epoch: number|null,
 *   batch: number|null, phase: string|null, phase_age_s: number|null, steps_per_s: number|null,
 *   data_wait_ratio: number|null, clock: Clock, known_ratio: number|null, step_s: number|null,
 *   wait_s: number|null, ready_batches: number|null, gpu: number|null, gpu_utilization_ratio: number|null,
 *   seen_at: number|null, in_detail: boolean}} RankRow
 * @typedef {{run_id: string, name: string, state: RunStatus, started_at: number, last_seen_at: number,
 *   world_size: number, hosts: string[], host_count: number, steps: number|null, attempts: number,
 *   verdict: string|null, severity: VerdictSeverity|null, script: string, tags: string[], note: string,
 *   pinned: boolean, verdict_text: Text|null}} RunRow
 * @typedef {{url: string, pid: number, data_dir: string, started_by: string, started_at: number,
 *   idle_hours: number|null, leaves_at: number|null, reporting: string[]}} ServerFacts
 * @typedef {{run_id: string, name: string, state: RunStatus, attempt: number, attempts: number,
 *   earlier: Earlier[], started_at: number, last_seen_at: number, now: number, world_size: number,
 *   rank_count: number, unwatched_count: number, host_count: number, hosts: Host[], steps: number|null,
 *   eval_batches: number, steps_per_s: number|null, data_wait_ratio: number|null, clock: Clock,
 *   known_ratio: number|null, gpu_utilization_ratio: number|null, gpu_starved_ratio: number|null,
 *   compute_duty_ratio: number|null, goodput_ratio: number|null, lost_s: number|null, lost_clock: Clock,
 *   lost_records: number, simulated_gpu: boolean, epochs: number|null, progress: Progress|null,
 *   verdict: Verdict, loaders: Loader[], groups: RankGroup[], ranks: RankRow[]}} Summary
 * @typedef {boolean|number|string|(number|string|Text)[]|Text|null} Param
 * @typedef {{id: string, params: Object<string, Param>, part: string|null}} Text
 */
export {};
