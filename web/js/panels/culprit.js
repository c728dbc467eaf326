// What to do about a culprit: load the sample alone, copy the stack, see what the worker read last.

import { h } from "../dom.js";
import { ago, clock, count, duration } from "../format.js";
import { icon } from "../icons.js";
import { forAnIssue, loadAlone } from "../snippets.js";
import { serverNow } from "../store.js";
import { say } from "../texts.js";
import { button, copyAction } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Fetches} Fetches
 * @typedef {import("../types.js").Finding} Finding
 * @typedef {import("../types.js").Loader} Loader
 * @typedef {import("../types.js").Stack} Stack
 * @typedef {import("../main.js").Actions} Actions
 */

/**
 * The training loader of a rank.
 * @param {State} state @param {number|null} rank @param {number|null} [loader] @returns {Loader|null}
 */
export function loaderOf(state, rank, loader = null) {
  const candidates =
    state.summary?.loaders.filter(
      (l) =>
        (rank === null || l.rank === rank) && (loader === null ? l.role !== "eval" : l.loader === loader),
    ) ?? [];
  return candidates[candidates.length - 1] ?? null;
}

/**
 * The script for a sample; null without an index.
 * @param {State} state @param {number|undefined} index
 * @param {{rank: number|null, worker: number|null, loader?: number|null}} of
 */
export function scriptFor(state, index, of) {
  const loader = loaderOf(state, of.rank, of.loader ?? null);
  if (index === undefined || loader?.iterable_dataset) return null;
  return loadAlone({ index, worker: of.worker, rank: of.rank }, loader, state.summary?.name ?? null);
}

/**
 * The script for an alert's sample. Of several samples the first one explains the alert.
 * @param {Finding} f @param {State} state @param {Actions} act
 */
export function loadAloneView(f, state, act) {
  const [index] = f.sample_indices;
  const script = scriptFor(state, index, f);
  if (script === null)
    return index === undefined ? null : h("p", { class: "muted" }, say("sample-without-index"));
  return h(
    "div",
    { class: "load-alone" },
    h("h3", {}, say("column-load-alone")),
    h(
      "div",
      { class: "code" },
      h(
        "pre",
        { tabindex: "0", role: "group", "aria-label": say("script-for-sample", { sample: index }) },
        script,
      ),
    ),
    h(
      "div",
      { class: "actions" },
      copyAction(
        say("copy-the-script"),
        script,
        say("script-for-sample-copied", { sample: index }),
        act.tell,
      ),
    ),
  );
}

/** @param {Stack} stack @param {State} state @param {Actions} act @param {Finding|null} [alert] */
export function issueButton(stack, state, act, alert = null) {
  if (state.summary === null || stack.text === "") return null;
  return copyAction(
    say("copy-for-an-issue"),
    forAnIssue(stack, state.summary, alert),
    say("stack-copied"),
    act.tell,
  );
}

/** The workers whose last fetches are unfolded. @param {State} state @returns {number[]} */
export function unfolded(state) {
  return Object.entries(state.open)
    .filter(([id, on]) => on && id.startsWith("fetches/"))
    .map(([id]) => Number(id.slice("fetches/".length)))
    .sort((a, b) => a - b);
}

/** @param {number} worker @param {State} state @param {Actions} act @param {string} [label] */
export function fetchesButton(worker, state, act, label = say("last-fetches")) {
  const id = `fetches/${worker}`;
  const open = state.open[id] ?? false;
  return button(
    label,
    () => act.open(id, !open),
    {
      class: "button unfold",
      "aria-expanded": String(open),
      "aria-label": say("last-fetches-of-worker", { worker }),
    },
    icon("right", "chevron"),
  );
}

/**
 * The last fetches of a worker, newest first; null while folded.
 * @param {number} worker @param {State} state
 */
export function lastFetches(worker, state) {
  if (!(state.open[`fetches/${worker}`] ?? false)) return null;
  /** @type {Fetches|undefined} */
  const f = state.cards.fetched?.data?.[worker];
  if (f === undefined) return h("p", { class: "muted" }, state.cards.fetched?.error ?? say("loading"));
  if (f.worker.length === 0) return h("p", { class: "muted" }, say("fetches-none"));
  const now = serverNow(state);
  return h(
    "table",
    { class: "evidence fetched" },
    h("caption", {}, say("fetches-that-ended", { worker })),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        [
          say("fetch-began"),
          say("column-took"),
          say("fetch-collate"),
          say("fetch-on-cpu"),
          say("fetch-samples"),
          say("fetch-slowest-sample"),
        ].map((t) => h("th", { scope: "col" }, t)),
      ),
    ),
    h(
      "tbody",
      {},
      f.worker
        .map((_, i) => {
          const slow = f.slow_index[i];
          return h(
            "tr",
            { key: f.began_at[i] },
            h("td", { title: clock(f.began_at[i], now) }, ago(now - (f.began_at[i] ?? now))),
            h("td", {}, duration(f.fetch_s[i])),
            h("td", {}, duration(f.collate_s[i])),
            h("td", {}, duration(f.cpu_s[i])),
            h("td", {}, count(f.samples[i])),
            h(
              "td",
              {},
              slow === null || slow === undefined
                ? "–"
                : say("fetch-slowest-took", { sample: slow, slow_s: f.slow_s[i] }),
            ),
          );
        })
        .reverse(),
    ),
  );
}
