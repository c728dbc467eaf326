import assert from "node:assert/strict";
import { test } from "node:test";
import { textOf } from "../../web/js/dom.js";
import { alertsPanel, hangCard, hangNow } from "../../web/js/panels/alerts.js";
import { sourcesOf } from "../../web/js/cards.js";
import { attemptBar } from "../../web/js/panels/attempts.js";
import { auditPanel } from "../../web/js/panels/audit.js";
import { card, freshness } from "../../web/js/panels/frame.js";
import { gpusCard } from "../../web/js/panels/gpus.js";
import { whatIfPanel } from "../../web/js/panels/whatif.js";
import { heatmapCard } from "../../web/js/panels/heatmap.js";
import { rankChoice, ranksTable } from "../../web/js/panels/ranks.js";
import { runsPage } from "../../web/js/panels/runs.js";
import { foldLibrary, ownFrame, parseStack, stackBody } from "../../web/js/panels/stacks.js";
import { rankTiles, runHead, runTiles, verdictBanner } from "../../web/js/panels/verdict.js";
import { initialState, parseRoute } from "../../web/js/store.js";
import { finding, inOrder, rank, summary } from "./shapes.js";

const act = /** @type {any} */ ({});
const state = (more = {}) => ({
  ...initialState(),
  route: parseRoute("#/runs/r"),
  summary: summary(),
  link: /** @type {const} */ ("live"),
  clock: 1600,
  ticked_at: 1600,
  ...more,
});
/** @param {any} node */
const text = (node) => textOf(node).replace(/\u202f|\u00a0/g, " ");

const STACK = `Thread 0x1 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Current thread 0x2 (most recent call first):
  File "/usr/lib/python3.11/socket.py", line 706 in readinto
  File "/venv/lib/python3.11/site-packages/urllib3/response.py", line 879 in _raw_read
  File "/home/ada/train/data/dataset.py", line 41 in __getitem__
  File "<frozen runpy>", line 88 in _run_code
`;

test("stacks: the current thread first, library frames told from the reader's own", () => {
  const { threads } = parseStack(STACK);
  assert.equal(threads.length, 2);
  assert.equal(threads[0]?.title, "Current thread 0x2");
  assert.deepEqual(threads[0]?.frames.map((f) => f.own), [false, false, true, false]);
  assert.deepEqual(ownFrame(STACK), {
    file: "/home/ada/train/data/dataset.py",
    line: "41",
    name: "__getitem__",
    own: true,
  });
});

test("stacks: our own hooks are not the reader's code", () => {
  const text =
    '  File "/src/loaderwatch/agent/hot/__init__.py", line 114 in __next__\n' +
    '  File "/src/train.py", line 9 in main\n';
  assert.equal(ownFrame(text)?.file, "/src/train.py");
});

test("stacks: library frames in a row are one line, around the reader's own", () => {
  const library = (/** @type {string} */ name) => ({
    file: "/v/site-packages/torch/nn/x.py",
    line: "1",
    name,
    own: false,
  });
  const own = { file: "/src/train.py", line: "9", name: "main", own: true };
  const [a, b, c] = [library("a"), library("b"), library("c")];
  assert.deepEqual(foldLibrary([a, b, c, own, a, b]), [[a, b, c], own, a, b]);
  assert.deepEqual(foldLibrary([own, a, b, c]), [own, [a, b, c]]);
  assert.deepEqual(foldLibrary([a, b, c]), [a, b, c], "nothing to bring forward");
  const stack = {
    rank: 0,
    worker: -1,
    pid: 1,
    taken_at: 0,
    why: "",
    text: [a, b, c, own].map((f) => `  File "${f.file}", line ${f.line} in ${f.name}`).join("\n"),
  };
  assert.match(text(stackBody(stack)), /^a 3 frames in torch .*main/s);
});

test("stacks: anything else is kept as it is", () => {
  assert.deepEqual(parseStack("no such process"), { threads: [], other: ["no such process"] });
  assert.equal(ownFrame(""), null);
  assert.equal(parseStack('  File "a.py", line 1 in f').threads.length, 1);
});

test("the head: how far the framework is, as people count", () => {
  const head = (/** @type {any} */ more) => text(runHead(summary(more), state()));
  const progress = {
    framework: "Lightning",
    version: "2.6.6",
    stage: "train",
    epoch: 2,
    max_epochs: 10,
    global_step: 1204,
  };
  assert.match(head({ progress }), /Lightning 2\.6\.6 · epoch 3 of 10 · global step 1,204/);
  assert.match(head({ progress: { ...progress, epoch: 10, stage: null } }), /epoch 10 of 10/);
  assert.match(
    head({ progress: { ...progress, max_epochs: null, global_step: null, stage: "validate" } }),
    /Lightning 2\.6\.6 · epoch 3 · validate/,
  );
});

test("the head: phases that could not be found, once, and not in the first steps", () => {
  const head = (/** @type {string|null} */ missing, steps = 1200) =>
    text(
      runHead(
        summary({
          steps,
          ranks: [
            { ...rank(0, 0.1), phases_missing: missing },
            { ...rank(1, 0.1), phases_missing: missing },
          ],
        }),
        state(),
      ),
    );
  assert.doesNotMatch(head(null), /not timed/);
  assert.doesNotMatch(head("model", 10), /not timed/);
  assert.match(
    head("model"),
    inOrder(
      /Forward and backward are not timed: .* /,
      /Pass the module that the loop calls as model= to loaderwatch\.attach/,
    ),
  );
  assert.match(head("optimizer"), /none of PyTorch's optimizers has stepped/);
  assert.equal(head("many").split("not timed").length, 2);
  assert.doesNotMatch(head("of a newer server"), /not timed/);
});

test("the runs page: loading, empty with the two lines, failed, full", () => {
  const at = (/** @type {any} */ more) => text(runsPage({ ...initialState(), ...more }, act));
  assert.doesNotMatch(at({}), /attach|could not/);
  assert.match(at({ runs: [] }), /loaderwatch\.attach\(train_loader\)/);
  assert.match(at({ runs_error: "the server does not answer" }), /could not be loaded.*does not answer/s);
  const row = {
    run_id: "r",
    name: "t.py",
    state: "hung",
    started_at: 0,
    last_seen_at: 0,
    world_size: 2,
    hosts: ["a"],
    steps: 1204,
    attempts: 2,
    verdict: "Frozen",
    severity: "critical",
  };
  const stopped = at({
    runs: [{ ...row, state: "crashed", verdict: "Stopped by SIGTERM.", severity: "info" }],
  });
  assert.match(stopped, /Stopped.*t\.py.*Stopped by SIGTERM/s);
  assert.match(at({ runs: [row] }), /Hung.*t\.py.*2.ranks on a +· +1,204.steps +· +attempt 2.*Frozen/s);
});

test("attempts: nothing of the only one; else which it is, and how the one before ended", () => {
  assert.equal(attemptBar(summary(), state(), act), null);
  const earlier = [
    { attempt: 1, state: "lost", began_at: 100, ended_at: 500, steps: null, exit: null },
    { attempt: 2, state: "crashed", began_at: 500, ended_at: 1000, steps: 1204, exit: "SIGKILL" },
  ];
  const newest = text(attemptBar(summary({ attempt: 3, attempts: 3, earlier }), state(), act));
  assert.match(newest, /Attempt 3 of 3 · began .* · the one before crashed after 1,204.steps: SIGKILL/s);
  assert.doesNotMatch(newest, /To the newest/);
  const stopped = [{ ...earlier[1], exit: "SIGTERM" }];
  const after = text(attemptBar(summary({ attempt: 3, attempts: 3, earlier: stopped }), state(), act));
  assert.match(after, /the one before ended after 1,204.steps: SIGTERM.*Attempt 2, stopped/s);
  const second = text(attemptBar(summary({ attempt: 2, attempts: 3, earlier }), state(), act));
  assert.match(second, /Attempt 2 of 3 · .*the one before ended without a word .*To the newest/s);
});

test("verdict: the sentence, the advice, and a link only when there is a finding", () => {
  assert.match(text(verdictBanner(summary())), /Waits.*Do.*See the evidence/s);
  const ok = summary({
    verdict: { severity: "ok", title: "Nothing is wrong", advice: "", finding_id: null },
  });
  assert.doesNotMatch(text(verdictBanner(ok)), /evidence/);
});

test("lost records are shown only when there are some", () => {
  assert.doesNotMatch(text(runHead(summary(), state())), /records lost/);
  assert.match(text(runHead(summary({ lost_records: 18204 }), state())), /18,204 records lost/);
});

test("tiles: a stand-in GPU says so; without one compute duty takes its place", () => {
  assert.match(text(runTiles(summary({ simulated_gpu: true }), state())), /GPU utilization\s*simulated/);
  const none = text(
    runTiles(
      summary({
        gpu_utilization_ratio: null,
        hosts: [{ name: "h", cpus: 2, usable_cpus: 2, gpu_status: "no driver" }],
      }),
      state(),
    ),
  );
  assert.match(none, /Compute duty 59 %.*no GPU readings/s);
  assert.doesNotMatch(none, /GPU utilization/);
});

test("tiles: each names its interval and its clock, and a simulated GPU", () => {
  const plain = (/** @type {any} */ tree) => text(tree).replace(/\s+/g, " ");
  const tiles = (/** @type {any} */ more) => plain(runTiles(summary(more), state()));
  assert.match(
    tiles({}),
    /Data wait 41.% last 30 s, loop clock Speed 9\.70 steps\/s, last 30 s · 1,200 in the run/,
  );
  assert.match(
    tiles({}),
    inOrder(
      /GPU utilization 55.% last 30 s, mean of ranks Goodput 59.% last 30 s, loop clock /,
      /Time lost .* of the run, loop clock Epochs 3 begun in the run/,
    ),
  );
  const device = { clock: "device", lost_clock: "mixed", gpu_starved_ratio: 0.41, simulated_gpu: true };
  assert.match(tiles(device), /Data wait simulated 41.% last 30 s, GPU clock/);
  assert.match(
    tiles(device),
    /last 30 s, 41.% starved for data Goodput simulated .*Time lost simulated .*, GPU and loop clock/,
  );
  assert.doesNotMatch(tiles({ simulated_gpu: true }), /(Data wait|Goodput|Time lost) simulated/);
  const own = (/** @type {any} */ more, /** @type {any} */ of) =>
    plain(rankTiles({ ...rank(0, 0.2), ...more }, summary(of)));
  const tile = own({}, {});
  assert.match(
    tile,
    inOrder(
      /Data wait 20.% last 30 s, loop clock Speed 9 steps\/s, last 30 s · step 1 /,
      /Step 50.ms last 30 s, loop clock, after 40.ms of wait/,
    ),
  );
  assert.match(
    own({ clock: "device" }, { simulated_gpu: true }),
    /Data wait simulated .*Step simulated .*GPU utilization simulated 50.% last 30 s, GPU 0 on gpu01/,
  );
});

test("tiles: time well spent is green only where the verdict may be, too", () => {
  const fills = (/** @type {any} */ more) =>
    [...JSON.stringify(runTiles(summary(more), state())).matchAll(/"fill (\w+)"/g)].map((m) => m[1]);
  const well = {
    data_wait_ratio: 0.02,
    gpu_utilization_ratio: null,
    compute_duty_ratio: 0.98,
    goodput_ratio: 0.95,
  };
  assert.deepEqual(fills(well), ["ok", "ok", "ok"]);
  assert.deepEqual(fills({ ...well, data_wait_ratio: 0.82, compute_duty_ratio: 0.18, goodput_ratio: 0.18 }), [
    "critical",
    "none",
    "none",
  ]);
});

test("tiles: goodput is not green beside an alert of time lost inside steps", () => {
  const work = finding({ code: "slow-step", scenario: "S26", began_at: 1500, lost_s: 54 });
  const at = (/** @type {any[]} */ findings) =>
    runTiles(
      summary({ goodput_ratio: 0.95, gpu_utilization_ratio: null, compute_duty_ratio: 0.95 }),
      state({ findings }),
    );
  const goodput = (/** @type {any[]} */ findings) =>
    text(at(findings)).replace(/\s+/g, " ").match(/Goodput (.*) Time lost/)?.[1] ?? "";
  const fills = (/** @type {any[]} */ findings) =>
    [...JSON.stringify(at(findings)).matchAll(/"fill (\w+)"/g)].map((m) => m[1]);
  assert.match(
    goodput([work]),
    /^95.% last 30 s, loop clock; counts steps in full, and an alert finds 54.% lost inside them$/,
  );
  assert.deepEqual(fills([work]).slice(1), ["none", "none"]);
  for (const other of [
    finding(),
    { ...work, severity: "info" },
    { ...work, state: "resolved" },
    { ...work, ended_at: 1550 },
    { ...work, scenario: "S48" },
  ]) {
    assert.match(goodput([other]), /^95.% last 30 s, loop clock$/);
    assert.deepEqual(fills([other]).slice(1), ["ok", "ok"]);
  }
});

test("the configuration's audit: loading, folded, unfolded, nothing to change", () => {
  const advice = {
    check: "set-epoch",
    severity: "warning",
    what: "Same order",
    why: "Never set",
    change: "Call set_epoch",
    loader: "train_loader",
    ranks: [0, 1],
  };
  const remark = { ...advice, check: "pin-memory", severity: "info", what: "No pinning" };
  /** @param {any[]|null} data @param {boolean} open */
  const at = (data, open) =>
    text(
      auditPanel(
        state({
          cards: { audit: { data, range: null, error: null, loaded_at: 1600 } },
          open: { audit: open },
        }),
        act,
      ),
    );
  assert.doesNotMatch(at(null, true), /to change/);
  assert.match(at([advice, remark], false), /1 thing to change, 1 remark/);
  assert.doesNotMatch(at([advice], false), /Same order/);
  assert.match(
    at([advice, remark], true),
    /Same order.*train_loader.*2 ranks.*Never set.*Call set_epoch.*No pinning/s,
  );
  assert.match(at([], true), /Nothing to change/);
});

test("alerts: none, folded, unfolded", () => {
  assert.match(text(alertsPanel(state(), act)), /No detector has found anything/);
  const f = finding({ evidence: [{ label: "data wait", value: 0.54, unit: "ratio" }] });
  assert.doesNotMatch(text(alertsPanel(state({ findings: [f] }), act)), /Because/);
  const open = text(alertsPanel(state({ findings: [f], open: { f1: true } }), act));
  assert.match(open, /Because.*Do.*at most\s+30 %.*Acknowledge.*Silence.*data wait 54 %/s);
  const resolved = text(
    alertsPanel(state({ findings: [{ ...f, state: "resolved", ended_at: 1260 }], open: { f1: true } }), act),
  );
  assert.doesNotMatch(resolved, /Acknowledge/);
  assert.match(resolved, /lasted 60 s/);
});

test("alerts: an advice that was followed in a later run says so, of a run that is over", () => {
  const f = finding({ state: "resolved", ended_at: 1260 });
  /** @type {import("../../web/js/types.js").Followed} */
  const followed = {
    run_id: "r2",
    name: "train.py",
    measure: "steps_per_s",
    before_per_s: 12,
    after_per_s: 47,
    promised_per_s: 50,
    judgement: "better",
    sentence: "followed: 12 → 47 steps/s, promised at most 50",
  };
  const over = state({ findings: [f], open: { f1: true }, summary: summary({ state: "finished" }) });
  assert.doesNotMatch(text(alertsPanel(over, act)), /followed/, "the stream leaves it out");
  const cards = {
    findings: { data: { findings: [{ ...f, followed }] }, range: null, error: null, loaded_at: 0 },
  };
  assert.match(
    text(alertsPanel({ ...over, cards }, act)),
    /Do.*followed: 12 → 47 steps\/s, promised at most 50\s+·\s+train\.py/s,
  );
  const asks = (/** @type {any} */ more) =>
    sourcesOf({ ...over, ...more }).find((s) => s.id === "findings")?.asks({ ...over, ...more });
  assert.notEqual(asks({}), null);
  assert.equal(asks({ summary: summary() }), null, "it goes on");
  assert.equal(asks({ findings: [{ ...f, lost_s: null }] }), null, "it cost no time");
});

test("other findings of the same cause are buttons under their alert", () => {
  const other = {
    key: "running-out:shm:a",
    code: "running-out",
    scenario: "S39",
    severity: "warning",
    title: "/dev/shm is too small.",
    began_at: 1190,
    warned_s: 24,
    evidence: [{ label: "needed", value: 68, unit: "count" }],
  };
  const f = finding({ code: "crashed", title: "Died", folded: [other] });
  assert.doesNotMatch(text(alertsPanel(state({ findings: [f] }), act)), /too small/);
  const open = text(alertsPanel(state({ findings: [f], open: { f1: true } }), act));
  assert.match(open, /Died.*Also seen, same cause.*\/dev\/shm is too small.*warned 24 s before/s);
  assert.doesNotMatch(open, /needed/);
  const all = { f1: true, "f1/also/running-out:shm:a": true };
  assert.match(text(alertsPanel(state({ findings: [f], open: all }), act)), /needed 68/);
  assert.doesNotMatch(
    text(alertsPanel(state({ findings: [finding()], open: { f1: true } }), act)),
    /Also seen/,
  );
});

test("a hang shows its four facts, and is over when resolved", () => {
  const f = finding({
    code: "hung",
    severity: "critical",
    worker: 2,
    pid: 31877,
    sample_indices: [18432],
    stacks: [{ rank: 1, worker: 2, pid: 31877, taken_at: 1, text: STACK, why: "" }],
  });
  const s = state({
    findings: [f],
    cards: {
      hang_workers: {
        data: { workers: [{ worker: 2, os_state: "D", wchan: "io_schedule" }] },
        range: null,
        error: null,
        loaded_at: 0,
      },
    },
  });
  assert.equal(hangNow(s)?.id, "f1");
  assert.match(
    text(hangCard(f, s, act)),
    /Rank 1.*Worker 2.*pid 31877 · state D · in io_schedule.*dataset\[18432\].*dataset\.py:41/s,
  );
  assert.equal(hangNow(state({ findings: [{ ...f, state: "resolved" }] })), null);
});

test("cards: loading, failed, stale, gone, live", () => {
  const held = { data: {}, range: null, error: null, loaded_at: 1590 };
  const of = (/** @type {any} */ more) =>
    card(state(more), { id: "x", title: "T", about: "", height: "1px", body: "BODY" });
  assert.match(of({}).props.class, /is-loading/);
  assert.match(of({ cards: { x: { ...held, data: null, error: "boom" } } }).props.class, /is-failed/);
  assert.match(of({ cards: { x: held } }).props.class, /is-live/);
  assert.match(text(of({ cards: { x: { ...held, error: "boom" } } })), /stale, 10 s.*BODY/s);
  assert.match(of({ cards: { x: held }, link: "stale" }).props.class, /is-stale/);
  assert.match(of({ cards: { x: held }, link: "gone" }).props.class, /is-gone/);
});

test("freshness in a word", () => {
  const word = (/** @type {any} */ more) => freshness(state(more)).text.replace(/\u202f/g, " ");
  assert.equal(word({}), "Live");
  assert.equal(word({ paused: true }), "Paused");
  assert.equal(word({ link: "stale", clock: 1612 }), "Stale, 12 s old");
  assert.equal(word({ link: "gone" }), "Run deleted");
  assert.equal(word({ summary: summary({ state: "finished" }) }), "Up to date");
});

test("256 ranks are drawn sixteen at a time", () => {
  const ranks = Array.from({ length: 256 }, (_, i) => rank(i, 0.1));
  const shown = (/** @type {any} */ choices, /** @type {any} */ more = {}) =>
    text(ranksTable(state({ summary: summary({ ranks, state: "finished" }), choices, ...more }), act));
  const rows = (/** @type {string} */ drawn) => (drawn.match(/pid \d+/g) ?? []).length;
  assert.equal(rows(shown({})), 16);
  assert.match(shown({}), /1 to 16 of 256/);
  assert.match(shown({ "ranks.offset": "240" }), /241 to 256 of 256.*rank 240/s);
  assert.match(shown({ "ranks.find": "rank 77" }), /1 to 1 of 1 .*rank 77 /s);
  assert.match(shown({ "ranks.find": "nowhere" }), /No rank of this run matches “nowhere”/);
  const answer = {
    data: { total: 256, offset: 32, rows: [rank(99, 0.9)] },
    range: null,
    error: null,
    loaded_at: 0,
  };
  assert.match(
    shown({}, { summary: summary({ ranks }), cards: { ranks: answer } }),
    /33 to 33 of 256.*rank 99/s,
  );
});

test("a rank is picked among few and typed among many", () => {
  const ranks = (/** @type {number} */ n) => Array.from({ length: n }, (_, i) => rank(i, 0.1));
  /** @type {string[]} */
  const done = [];
  const acting = /** @type {any} */ ({
    rank: (/** @type {number} */ r) => done.push(`rank ${r}`),
    tell: (/** @type {string} */ t) => done.push(t),
  });
  const control = (/** @type {number} */ n) => {
    const shown = state({ summary: summary({ ranks: ranks(n) }), rank: 3 });
    return /** @type {any} */ (rankChoice(shown, acting)).children[1];
  };
  assert.deepEqual([control(64).tag, control(1024).tag], ["select", "input"]);
  for (const typed of ["rank 700", "5", "", "seven", "2000"])
    control(1024).props.onchange({ target: { value: typed } });
  assert.deepEqual(done, [
    "rank 700",
    "rank 5",
    "There is no rank of that name in this run",
    "There is no rank seven in this run",
    "There is no rank 2000 in this run",
  ]);
});

test("the heat map of many ranks has rows of hosts, and says how many there are", () => {
  const ranks = Array.from({ length: 128 }, (_, i) => ({ ...rank(i, 0.1), host: `gpu${Math.floor(i / 8)}` }));
  const data = {
    metric: "data_wait_ratio",
    bucket_s: 1,
    ranks: [77, 3],
    hosts: ["gpu9", "gpu0"],
    t: [1500],
    values: [[0.7], [0.1]],
    of: 16,
  };
  const held = { data, range: { start: 1500, end: 1501 }, error: null, loaded_at: 1590 };
  const s = summary({ ranks });
  const drawn = text(heatmapCard(state({ summary: s, cards: { heatmap: held } }), s, act));
  assert.match(
    drawn,
    /a row per host: the greatest of its ranks; 2 of 16 rows; click a row to open its worst rank/,
  );
  const none = { ...held, data: { ...data, ranks: [], hosts: [], values: [], of: 0 } };
  assert.match(
    text(
      heatmapCard(state({ summary: s, cards: { heatmap: none }, choices: { "heat.find": "gpu99" } }), s, act),
    ),
    /No rank or host of this run is “gpu99”/,
  );
});

test("GPUs: their processes, those of other users as well", () => {
  /** @type {import("../../web/js/types.js").Gpu} */
  const used = {
    host: "gpu01",
    gpu: 0,
    uuid: "GPU-a",
    name: "NVIDIA H100",
    simulated: false,
    ranks: [0],
    looked_at: 1598,
    utilization_ratio: 0.62,
    memory_used_bytes: 20 * 2 ** 30,
    memory_total_bytes: 80 * 2 ** 30,
    power_w: 310.4,
    power_limit_w: 700,
    sm_clock_hz: 1.2e9,
    temperature_c: 84,
    slowed_by: ["hardware thermal slowdown"],
    processes: [
      { pid: 4000, rank: 0, memory_bytes: 15 * 2 ** 30, sm_ratio: 0.6, name: "python", user: "ada" },
      { pid: 99, rank: null, memory_bytes: 5 * 2 ** 30, sm_ratio: null, name: "ollama", user: "bob" },
      { pid: 98, rank: null, memory_bytes: null, sm_ratio: null, name: null, user: null },
      { pid: 97, rank: null, memory_bytes: null, sm_ratio: null, name: null, user: null },
    ],
  };
  const free = {
    ...used,
    gpu: 1,
    ranks: [],
    utilization_ratio: 0,
    slowed_by: [],
    processes: [],
    looked_at: 1598,
  };
  const cards = /** @type {any} */ ({
    gpus: { data: [used, free, { ...free, host: "gpu02" }], range: null, error: null, loaded_at: 1600 },
  });
  const told = text(gpusCard(state({ cards }), act, "gpu01"));
  assert.match(told, /GPUs of gpu01 *2 GPUs, means of five seconds/);
  assert.match(told, /GPU 0, rank 0 *NVIDIA H100 *62 %/);
  assert.match(told, /rank 0, pid 4000: 15\.0 GiB, 60 % of the time/);
  assert.match(told, /ollama of bob, pid 99: 5\.0 GiB/);
  assert.match(told, /another process, pid 98 *and 1 more/);
  assert.match(told, /hardware thermal slowdown/);
  assert.match(told, /GPU 1 .*none listed/);
  assert.match(
    text(gpusCard(state({ cards, clock: 1700 }), act)),
    /3 GPUs of 2 hosts, means of five seconds, (1\.7 min|102 s) ago/,
  );
  const many = { gpus: { ...cards.gpus, data: Array.from({ length: 40 }, (_, gpu) => ({ ...free, gpu })) } };
  assert.match(
    text(gpusCard(state({ cards: many, choices: { "gpus.offset": "32" } }), act)),
    /33 to 40 of 40, means.*GPU 39/s,
  );
  assert.equal(
    gpusCard(state({ cards, summary: { ...summary(), gpu_utilization_ratio: null, ranks: [] } }), act),
    null,
  );
});

test("other settings are compared with today's, up to the knee", () => {
  /** @param {number} workers @param {number} perS */
  const setting = (workers, perS, more = {}) => ({
    num_workers: workers,
    prefetch_factor: 2,
    in_order: true,
    steps_per_s: perS,
    least_per_s: perS - 1,
    most_per_s: perS + 1,
    gain_ratio: Math.max(0, 1 - 16 / perS),
    memory_bytes: workers * 2 ** 21,
    ...more,
  });
  const found = {
    rank: 0,
    loader: 0,
    name: "train_loader",
    measured_per_s: 16,
    today: setting(2, 16.2),
    workers: [
      setting(1, 8),
      setting(2, 16.2),
      setting(3, 25),
      setting(6, 48),
      setting(7, 48),
      setting(9, 48),
    ],
    knee: 6,
    others: [setting(2, 16.2, { prefetch_factor: 8 }), setting(2, 18, { in_order: false })],
    fetches: 200,
    fetch_s: 0.12,
    step_s: 0.02,
    cpus: 0.4,
    fetch_cpus: 0.1,
    free_bytes: 20 * 2 ** 20,
    free_in: "/dev/shm",
    options: [
      {
        change: "persistent_workers=True",
        least_ratio: 0.06,
        most_ratio: 0.08,
        per_epoch_s: 4,
        rests_on: "Workers started anew in 3 epochs.",
      },
      {
        change: "batch_size=16",
        least_ratio: 0,
        most_ratio: 0.01,
        per_epoch_s: null,
        rests_on: "The step takes 2 times as long at worst.",
      },
      {
        change: "pin_memory=True",
        least_ratio: -0.2,
        most_ratio: 0,
        per_epoch_s: null,
        rests_on: "It was measured.",
      },
    ],
  };
  const cards = /** @type {any} */ ({ whatif: { data: [found], range: null, error: null, loaded_at: 1600 } });
  const short = text(whatIfPanel(state({ cards }), act));
  assert.match(short, /num_workers=6 gives about 48\.0 batches\/s, today 16\.0 batches\/s/);
  assert.doesNotMatch(short, /num_workers=3/);
  const told = text(whatIfPanel(state({ cards, open: { whatif: true } }), act));
  assert.match(told, /train_loader, rank 0: played with its last 200 batches/);
  assert.match(told, /num_workers=2 *today/);
  assert.match(told, /num_workers=6 *as good as any/);
  assert.match(told, /num_workers=2, prefetch_factor=8/);
  assert.match(told, /num_workers=2, in_order=False/);
  assert.match(told, /47\.0 to 49\.0 *67 % *12\.0 MiB/);
  assert.doesNotMatch(told, /num_workers=9/);
  assert.match(told, /num_workers=6[^%]*67 % *12\.0 MiB(?! *more)/);
  assert.match(told, /20\.0 MiB are free in \/dev\/shm/);
  assert.match(told, /Today *: *2 .*As good as any *: *6 .*CPUs are full *: *4/);
  assert.match(
    told,
    /persistent_workers=True *6\.0 % to 8\.0 %, 4\.0 s of an epoch *Workers started anew in 3 epochs/,
  );
  assert.match(told, /batch_size=16 *nothing/);
  assert.match(told, /pin_memory=True *costs up to 20 %/);
  const tight = /** @type {any} */ ({
    whatif: { ...cards.whatif, data: [{ ...found, free_bytes: 5 * 2 ** 20 }] },
  });
  assert.match(
    text(whatIfPanel(state({ cards: tight, open: { whatif: true } }), act)),
    /num_workers=6[^%]*67 % *12\.0 MiB *more than is free in \/dev\/shm/,
  );
  const even = { ...found, workers: found.workers.map((s) => ({ ...s, gain_ratio: 0 })) };
  const none = /** @type {any} */ ({ whatif: { ...cards.whatif, data: [even] } });
  assert.match(
    text(whatIfPanel(state({ cards: none }), act)),
    /no number of workers gives more than today's 16\.0 batches\/s/,
  );
});
