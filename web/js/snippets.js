// Texts to copy: a script that loads one sample alone, and a stack for an issue. They are in English, because
// other people read them. Names come from training jobs. Code leaves out a text that is no valid name, and a
// comment stays on one line.

/**
 * @typedef {import("./types.js").Loader} Loader
 * @typedef {import("./types.js").Stack} Stack
 * @typedef {import("./types.js").Summary} Summary
 * @typedef {{index: number, worker: number|null, rank: number|null}} Culprit
 */

/** Seconds without a result after which the script prints its stacks. */
const SAYS_AFTER_S = 30;

const NAME = /^[\p{L}_][\p{L}\p{N}_.]*$/u;

/** @param {string} text */
function oneLine(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, " ").slice(0, 200);
}

/** @param {number|null} rank @param {number|null} worker */
function reader(rank, worker) {
  const process = worker === null || worker < 0 ? "the training process" : `worker ${worker}`;
  return rank === null ? process : `${process} of rank ${rank}`;
}

/**
 * Python code that reads one sample of the run's dataset, in the process into which it is pasted.
 * @param {Culprit} culprit @param {Loader|null} loader @param {string|null} script
 */
export function loadAlone(culprit, loader, script) {
  const named = loader !== null && NAME.test(loader.name);
  const variable = named ? loader.name : "loader";
  const which =
    named || loader === null
      ? variable
      : `the loader that the page calls ${oneLine(loader.name)}, here "loader"`;
  const index = String(Math.trunc(culprit.index));
  const dataset = loader?.dataset_class ?? "";
  const who = reader(culprit.rank, culprit.worker);
  const repeat = `faulthandler.dump_traceback_later(${SAYS_AFTER_S}, repeat=True)`;
  return [
    `# Loads sample ${index} alone, which ${who} read in ${oneLine(script ?? "the script")}.`,
    `# Paste it below the line that makes ${which}.`,
    "import faulthandler, time",
    `dataset = ${variable}.dataset`,
    ...(NAME.test(dataset)
      ? [`assert type(dataset).__name__ == "${dataset}", f"another dataset: {type(dataset)}"`]
      : []),
    `${repeat}  # as long as it does not return: where it stands`,
    "began = time.perf_counter()",
    `sample = dataset[${index}]`,
    "faulthandler.cancel_dump_traceback_later()",
    `print(f"dataset[${index}]: {type(sample).__name__} after {time.perf_counter() - began:.3f} s")`,
    "",
  ].join("\n");
}

/** A Markdown fence that is longer than any fence in the text. @param {string} text */
function fenced(text) {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}text\n${text.trimEnd()}\n${fence}\n`;
}

/** @param {Loader} l */
function setting(l) {
  const keys = /** @type {const} */ ([
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory",
    "in_order",
    "start_method",
    "timeout_s",
  ]);
  const parts = keys
    .filter((key) => l[key] !== null && l[key] !== undefined)
    .map((key) => `${key}=${l[key]}`);
  const dataset = oneLine(l.dataset_class ?? "an unknown dataset");
  return `${l.class_name} ${oneLine(l.name)} of ${dataset}: ${parts.join(", ")}`;
}

/**
 * A stack as Markdown, with the facts that a reader of the issue needs.
 * @param {Stack} stack @param {Summary} s @param {{title: string, cause: string}|null} alert
 */
export function forAnIssue(stack, s, alert) {
  const row = s.ranks.find((r) => r.rank === stack.rank);
  const loader = s.loaders.find((l) => l.rank === stack.rank && l.role !== "eval") ?? null;
  const when = `${new Date(stack.taken_at * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
  const host = row === undefined ? "" : ` on ${oneLine(row.host)}`;
  const why = stack.why === "" ? "" : ` (${oneLine(stack.why)})`;
  const facts = [
    ...(alert === null ? [] : [oneLine(alert.title), oneLine(alert.cause), ""]),
    `run:    ${oneLine(s.name)}, ${s.world_size} rank${s.world_size === 1 ? "" : "s"}`,
    `stack:  ${reader(stack.rank, stack.worker)}, pid ${stack.pid}${host}, taken ${when}${why}`,
    ...(loader === null ? [] : [`loader: ${setting(loader)}`]),
    "",
    stack.text,
  ];
  return fenced(facts.join("\n"));
}
