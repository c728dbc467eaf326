// Tables of workers and slow samples.

import { h } from "../dom.js";
import { ago, bytes, clock, count, duration, percent } from "../format.js";
import { serverNow } from "../store.js";
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

const OS_STATES = { R: "running", S: "sleeping", D: "in uninterruptible I/O", T: "stopped", t: "traced", Z: "zombie", I: "idle" };

/** @param {Worker[]|null} workers @param {State} state @param {Actions} act */
export function workersTable(workers, state, act) {
  if (workers === null) return null;
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "grid" },
      h("thead", {}, h("tr", {}, ["Process", "Now in", "Sample", "System state", "CPU", "RAM", "Threads", "Batches"].map((t, i) => h("th", { scope: "col", class: i >= 4 ? "num" : "" }, t)))),
      h(
        "tbody",
        {},
        [...workers]
          .sort((a, b) => a.worker - b.worker)
          .flatMap((w) => [
            h(
              "tr",
              { key: `${w.loader}/${w.worker}`, class: w.alive ? "" : "gone" },
              cell("Process", [h("b", {}, w.worker < 0 ? "training" : `worker ${w.worker}`), h("small", {}, w.alive ? `pid ${w.pid}` : `pid ${w.pid}, gone`)]),
              cell("Now in", [w.phase ?? "–", w.phase_age_s !== null && h("small", {}, duration(w.phase_age_s))]),
              cell("Sample", w.sample_index === null ? "–" : [String(w.sample_index), w.sample_age_s !== null && w.sample_age_s >= 1 ? h("small", { class: "late" }, `for ${duration(w.sample_age_s)}`) : null]),
              cell("System state", [w.os_state ?? "–", w.os_state !== null && [" ", OS_STATES[/** @type {"R"} */ (w.os_state)]], w.wchan !== null && w.wchan !== "0" && h("small", {}, w.wchan)]),
              cell("CPU", percent(w.cpu_ratio), true),
              cell("RAM", bytes(w.rss_bytes), true),
              cell("Threads", count(w.threads), true),
              cell("Batches", [count(w.batches), w.worker >= 0 && fetchesButton(w.worker, state, act)], true),
            ),
            state.open[`fetches/${w.worker}`] && h("tr", { key: `${w.loader}/${w.worker}/fetches` }, h("td", { colspan: 8, class: "unfolded" }, lastFetches(w.worker, state))),
          ]),
      ),
    ),
  );
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
      h("thead", {}, h("tr", {}, ["Sample", "Took", "Of its fetch", "Worker", "When", "Load it alone"].map((t, i) => h("th", { scope: "col", class: i === 1 || i === 2 ? "num" : "" }, t)))),
      h(
        "tbody",
        {},
        shown.map((s) =>
          h(
            "tr",
            { key: `${s.loader}/${s.index}` },
            cell("Sample", h("b", {}, String(s.index))),
            cell("Took", duration(s.slow_s), true),
            cell("Of its fetch", s.fetch_s ? percent(Math.min(1, s.slow_s / s.fetch_s)) : "–", true),
            cell("Worker", s.worker < 0 ? "training process" : `worker ${s.worker}`),
            cell("When", h("span", { title: clock(s.at, now) }, ago(now - s.at))),
            cell("Load it alone", h("span", { class: "copyable" }, h("code", {}, `dataset[${s.index}]`), copyButton(`dataset[${s.index}]`, act.tell), scriptButton(s, state, act))),
          ),
        ),
      ),
    ),
  );
}

/** @param {SlowSample} s @param {State} state @param {Actions} act */
function scriptButton(s, state, act) {
  const script = scriptFor(state, s.index, s);
  return script === null ? null : copyAction("Script", script, `a script that loads dataset[${s.index}] alone`, act.tell);
}

/** @param {string} label @param {Child} content @param {boolean} [num] */
export function cell(label, content, num = false) {
  return h("td", { class: num ? "num" : "", "data-label": label }, content);
}

