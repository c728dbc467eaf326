import assert from "node:assert/strict";
import { test } from "node:test";
import { textOf } from "../../web/js/dom.js";
import { hangCard } from "../../web/js/panels/alerts.js";
import { lastFetches, loadAloneView, unfolded } from "../../web/js/panels/culprit.js";
import { workersTable } from "../../web/js/panels/tables.js";
import { forAnIssue, loadAlone } from "../../web/js/snippets.js";
import { initialState, parseRoute } from "../../web/js/store.js";
import { finding, inOrder, summary } from "./shapes.js";

/** @type {any} */
const loader = {
  rank: 1,
  loader: 0,
  name: "train_loader",
  role: "train",
  class_name: "DataLoader",
  dataset_class: "Images",
  num_workers: 2,
  batch_size: 64,
};
const state = (more = {}) => ({
  ...initialState(),
  route: parseRoute("#/runs/r"),
  summary: summary({ loaders: [loader] }),
  link: /** @type {const} */ ("live"),
  clock: 1600,
  ...more,
});
const act = /** @type {any} */ ({});

test("a script loads the sample from the run's own loader, and checks the dataset's class", () => {
  const text = loadAlone({ index: 18432, worker: 2, rank: 1 }, loader, "train.py");
  assert.match(
    text,
    inOrder(
      /^# Loads sample 18432 alone, which worker 2 of rank 1 read in train\.py\.\n/,
      /# Paste it below the line that makes train_loader\.\n/,
    ),
  );
  assert.match(text, /^dataset = train_loader\.dataset$/m);
  assert.match(text, /^assert type\(dataset\).__name__ == "Images"/m);
  assert.match(text, /^sample = dataset\[18432\]$/m);
});

test("names of a job become no code", () => {
  const hostile = { ...loader, name: "x; import os", dataset_class: '"); import os #' };
  const text = loadAlone({ index: 7, worker: -1, rank: null }, hostile, "a\nimport os\u2028b.py");
  assert.match(text, /which the training process read in a import os b\.py\.\n/);
  assert.match(text, /calls x; import os, here "loader"\.\n/);
  assert.match(text, /^dataset = loader\.dataset$/m);
  assert.doesNotMatch(text, /^assert|^import os/m);
});

test("a stack for an issue: alert, run, process, loader, and a fence that nothing ends", () => {
  const stack = {
    rank: 1,
    worker: 2,
    pid: 31877,
    taken_at: 1600,
    why: "open span",
    text: "Current thread\n````\n  File \"a.py\", line 3 in f\n",
  };
  const text = forAnIssue(stack, summary({ loaders: [loader] }), { title: "It hangs", cause: "A socket" });
  assert.match(text, /^`````text\nIt hangs\nA socket\n\nrun: {4}train\.py, 2 ranks\n/);
  assert.match(
    text,
    /stack: {2}worker 2 of rank 1, pid 31877 on gpu01, taken 1970-01-01 00:26:40 UTC \(open span\)\n/,
  );
  assert.match(text, /loader: DataLoader train_loader of Images: batch_size=64, num_workers=2\n/);
  assert.match(text, /line 3 in f\n`````\n$/);
  assert.doesNotMatch(forAnIssue(stack, summary({ loaders: [] }), null), /loader:|It hangs/);
});

test("an alert with a sample has the script; an iterable dataset says why not", () => {
  const f = finding({ sample_indices: [7], worker: 0 });
  assert.match(
    textOf(loadAloneView(f, state(), act)),
    /Load it alone.*sample = dataset\[7\].*Copy the script/s,
  );
  const stream = state({ summary: summary({ loaders: [{ ...loader, iterable_dataset: true }] }) });
  assert.match(textOf(loadAloneView(f, stream, act)), /cannot be loaded alone/);
  assert.equal(loadAloneView(finding(), state(), act), null);
  assert.match(
    textOf(hangCard(f, state(), act)),
    /Copy a script that loads it alone.*Last fetches of worker 0/s,
  );
});

test("a worker's last fetches, newest first, once they are unfolded", () => {
  const data = {
    2: {
      loader: [0, 0],
      worker: [2, 2],
      began_at: [1500, 1550],
      fetch_s: [0.5, 2.4],
      collate_s: [0.1, 0.1],
      cpu_s: [0.2, 0.2],
      samples: [64, 64],
      slow_index: [null, 1204],
      slow_s: [null, 1.9],
      bytes: [1, 1],
    },
  };
  const cards = { fetched: { data, range: null, error: null, loaded_at: 1600 } };
  assert.equal(lastFetches(2, state({ cards })), null);
  const open = { "fetches/2": true, "fetches/1": false, other: true };
  assert.deepEqual(unfolded(state({ open })), [2]);
  const told = textOf(lastFetches(2, state({ cards, open }))).replace(/\u202f/g, " ");
  assert.match(told, /50 s ago *2\.4 s .*dataset\[1204\], 1\.9 s.*(100 s|1 min) ago/s);
  const worker = {
    rank: 1,
    worker: 2,
    loader: 0,
    pid: 9,
    phase: "fetch",
    phase_age_s: 1,
    sample_index: 3,
    sample_age_s: 1,
    os_state: "S",
    wchan: null,
    cpu_ratio: 0,
    rss_bytes: 1,
    threads: 1,
    fds: 1,
    alive: true,
    batches: 4,
  };
  assert.match(
    textOf(workersTable(/** @type {any} */ ([worker]), state({ cards, open }), act)),
    /Last fetches of worker 2 that ended/,
  );
});
