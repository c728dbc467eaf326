// Tables of workers and slow samples.

import { h } from "../dom.js";
import { ago, bytes, clock, count, duration, percent } from "../format.js";
import { serverNow } from "../store.js";
import { say } from "../texts.js";
import { fetchesButton, lastFetches, scriptFor } from "./culprit.js";
import { button, copyAction, copyButton } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Worker} Worker
 * @typedef {import("../types.js").SlowSample} SlowSample
 * @typedef {import("../main.js").Actions} Actions
 * @typedef {import("../dom.js").Child} Child
 */

export const FIRST_SAMPLES = 6;

/** @param {Worker[]|null} workers @param {State} state @param {Actions} act */
export function workersTable(workers, state, act) {
  if (workers === null) return null;
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "grid" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          [
            say("column-process"),
            say("column-now-in"),
            say("column-sample"),
            say("process-system-state"),
            say("process-cpu"),
            say("process-ram"),
            say("process-threads"),
            say("process-batches"),
          ].map((t, i) => h("th", { scope: "col", class: i >= 4 ? "num" : "" }, t)),
        ),
      ),
      h(
        "tbody",
        {},
        [...workers].sort((a, b) => a.worker - b.worker).flatMap((w) => workerRows(w, state, act)),
      ),
    ),
  );
}

/**
 * The row of a worker, and its last fetches if they are unfolded.
 * @param {Worker} w @param {State} state @param {Actions} act
 */
function workerRows(w, state, act) {
  return [
    h(
      "tr",
      { key: `${w.loader}/${w.worker}`, class: w.alive ? "" : "gone" },
      cell(say("column-process"), [
        h("b", {}, w.worker < 0 ? say("process-role") : say("worker-number", { worker: w.worker })),
        h(
          "small",
          {},
          w.alive ? say("process-id", { pid: w.pid }) : say("process-gone", { pid: w.pid }),
        ),
      ]),
      cell(say("column-now-in"), [
        say("phase-name", { phase: w.phase }),
        w.phase_age_s !== null && h("small", {}, duration(w.phase_age_s)),
      ]),
      cell(
        say("column-sample"),
        w.sample_index === null
          ? "–"
          : [
              String(w.sample_index),
              w.sample_age_s !== null && w.sample_age_s >= 1
                ? h("small", { class: "late" }, say("for-so-long", { lasted_s: w.sample_age_s }))
                : null,
            ],
      ),
      cell(say("process-system-state"), [
        w.os_state ?? "–",
        w.os_state !== null && [" ", say("process-os-state", { state: w.os_state })],
        w.wchan !== null && w.wchan !== "0" && h("small", {}, w.wchan),
      ]),
      cell(say("process-cpu"), percent(w.cpu_ratio), true),
      cell(say("process-ram"), bytes(w.rss_bytes), true),
      cell(say("process-threads"), count(w.threads), true),
      cell(
        say("process-batches"),
        [count(w.batches), w.worker >= 0 && fetchesButton(w.worker, state, act)],
        true,
      ),
    ),
    state.open[`fetches/${w.worker}`] &&
      h(
        "tr",
        { key: `${w.loader}/${w.worker}/fetches` },
        h("td", { colspan: 8, class: "unfolded" }, lastFetches(w.worker, state)),
      ),
  ];
}

/** @param {SlowSample[]|null} samples @param {State} state @param {Actions} act */
export function samplesTable(samples, state, act) {
  if (samples === null) return null;
  const now = serverNow(state);
  const shown = state.open["all-samples"] ? samples : samples.slice(0, FIRST_SAMPLES);
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "grid" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          [
            say("column-sample"),
            say("column-took"),
            say("sample-share-of-fetch"),
            say("column-worker"),
            say("sample-when"),
            say("column-load-alone"),
          ].map((t, i) => h("th", { scope: "col", class: i === 1 || i === 2 ? "num" : "" }, t)),
        ),
      ),
      h(
        "tbody",
        {},
        shown.map((s) =>
          h(
            "tr",
            { key: `${s.loader}/${s.index}` },
            cell(say("column-sample"), h("b", {}, String(s.index))),
            cell(say("column-took"), duration(s.slow_s), true),
            cell(
              say("sample-share-of-fetch"),
              s.fetch_s ? percent(Math.min(1, s.slow_s / s.fetch_s)) : "–",
              true,
            ),
            cell(
              say("column-worker"),
              s.worker < 0 ? say("training-process") : say("worker-number", { worker: s.worker }),
            ),
            cell(say("sample-when"), h("span", { title: clock(s.at, now) }, ago(now - s.at))),
            cell(
              say("column-load-alone"),
              h(
                "span",
                { class: "copyable" },
                h("code", {}, `dataset[${s.index}]`),
                copyButton(`dataset[${s.index}]`, act.tell),
                scriptButton(s, state, act),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

/** @param {SlowSample} s @param {State} state @param {Actions} act */
function scriptButton(s, state, act) {
  const script = scriptFor(state, s.index, s);
  return script === null
    ? null
    : copyAction(say("script"), script, say("script-for-sample-copied", { sample: s.index }), act.tell);
}

/** @param {string} label @param {Child} content @param {boolean} [num] */
export function cell(label, content, num = false) {
  return h("td", { class: num ? "num" : "", "data-label": label }, content);
}

