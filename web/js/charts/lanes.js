// A lane per worker and a bar per fetch. Collate is the bar's darker end, slow samples are outlined, an open
// fetch grows.

import { duration } from "../format.js";
import { say } from "../texts.js";
import { MARGIN, NARROW, epochMarks, fade, timeLayout, toAxis, valueAxis } from "./axis.js";

/**
 * @typedef {import("../types.js").Fetches} Fetches
 * @typedef {import("../types.js").Worker} Worker
 */

/** A fetch is outlined if it took so many times the view's median, at least half of it for one sample. */
const SLOW_FACTOR = 2;
/** A shorter fetch delays nobody. */
const SLOW_S = 0.1;
/** An open fetch older than this, and than three usual ones, is drawn as a warning. */
const LONG_OPEN_S = 1;

/** Placeholders in a message for the values that differ between fetches. */
const [FIRST, SECOND] = ["\ue001", "\ue002"];

/** Formats the message once and fills in the values of each of thousands of fetches. @param {string} said */
const filling =
  (said) =>
  (/** @type {number|null|undefined} */ first, /** @type {number|null|undefined} */ took_s) =>
    said.replace(FIRST, String(first)).replace(SECOND, duration(took_s));

/** @param {Fetches} f @returns {boolean[]} whether one slow sample delayed the fetch */
export function slowOnes(f) {
  const least = Math.max(SLOW_S, SLOW_FACTOR * median(f.fetch_s));
  return f.fetch_s.map((s, i) => s !== null && s > least && (f.slow_s[i] ?? 0) > s / 2);
}

/** The median of the known values. @param {(number|null)[]} values */
function median(values) {
  const sortedValues = values.flatMap((v) => (v === null ? [] : v)).sort((a, b) => a - b);
  return sortedValues[Math.floor(sortedValues.length / 2)] ?? 0;
}

/**
 * The workers of the lanes in order: all that fetched, and all that are alive.
 * @param {Fetches} f @param {Worker[]} workers @returns {number[]}
 */
export function laneWorkers(f, workers) {
  const seenWorkers = new Set([
    ...f.worker,
    ...workers.filter((w) => w.worker >= 0 && w.alive).map((w) => w.worker),
  ]);
  return [...seenWorkers].sort((a, b) => a - b);
}

/**
 * @param {{fetches: Fetches, workers: Worker[], epochs: import("./axis.js").EpochMark[],
 *   range: import("../store.js").Range, now: number, width: number}} input
 * @param {import("../theme.js").Palette} palette @returns {import("./axis.js").Figure}
 */
export function lanesFigure(input, palette) {
  const f = input.fetches;
  const lanes = laneWorkers(f, input.workers);
  const thick = lanes.length > 16 ? 8 : lanes.length > 8 ? 12 : 18;
  const layout = timeLayout(
    palette,
    Math.max(1, lanes.length) * (thick + 8) + MARGIN.t + MARGIN.b,
    input.range,
    input.width,
  );
  layout.hovermode = "closest";
  layout.yaxis = valueAxis(palette, {
    range: [lanes.length - 0.5, -0.5],
    tickmode: "array",
    tickvals: lanes.map((_, i) => i),
    ticktext: lanes.map((w) =>
      w < 0 ? say("main-process") : input.width < NARROW ? `w${w}` : say("worker-number", { worker: w }),
    ),
    showgrid: false,
  });
  layout.shapes = epochMarks(input.epochs, input.range, palette, input.width);
  const slow = slowOnes(f);
  const lane = new Map(lanes.map((w, i) => [w, i]));
  const fetches = [segments(), segments()];
  const collates = segments();
  const outlines = segments();
  const fetch = filling(say("lane-fetch-read", { worker: FIRST, took: SECOND }));
  const slowest = filling(say("lane-sample-read", { sample: FIRST, took: SECOND }));
  const collating = filling(say("lane-collate-read", { took: SECOND }));
  /** @type {Map<number, number>} */
  const seen = new Map();
  f.worker.forEach((worker, i) => {
    const began = /** @type {number} */ (f.began_at[i]);
    const took = /** @type {number} */ (f.fetch_s[i]);
    const collate = f.collate_s[i] ?? 0;
    const y = lane.get(worker) ?? 0;
    const turn = (seen.get(worker) ?? 0) % 2; // adjacent fetches differ in shade, so that they are countable
    seen.set(worker, turn + 1);
    const text = [
      fetch(worker, took),
      f.slow_index[i] === null ? "" : slowest(f.slow_index[i], f.slow_s[i]),
      collate > 0 ? collating(null, collate) : "",
    ];
    const label = text.filter(Boolean).join("<br>");
    if (slow[i]) add(outlines, began, began + took, y, label);
    add(/** @type {Segments} */ (fetches[turn]), began, began + took - collate, y, label);
    if (collate > 0) add(collates, began + took - collate, began + took, y, label);
  });
  const open = segments();
  const late = segments();
  const long = Math.max(LONG_OPEN_S, 3 * median(f.fetch_s));
  for (const w of input.workers) {
    if (w.worker < 0 || !w.alive || w.phase_age_s === null || (w.phase !== "fetch" && w.phase !== "collate"))
      continue;
    const sample =
      w.sample_index === null
        ? ""
        : `<br>${say("lane-open-sample-read", { sample: w.sample_index, age_s: w.sample_age_s })}`;
    add(
      w.phase_age_s > long ? late : open,
      input.now - w.phase_age_s,
      input.now,
      lane.get(w.worker) ?? 0,
      say("lane-fetching-read", { worker: w.worker, age_s: w.phase_age_s }) + sample,
    );
  }
  const data = [
    trace(outlines, palette.wait, thick + 5, say("lane-slow-sample")),
    trace(outlines, palette.panel, thick + 1, ""),
    trace(/** @type {Segments} */ (fetches[0]), palette.forward, thick, say("lane-fetch")),
    trace(/** @type {Segments} */ (fetches[1]), fade(palette.forward, 0.72), thick, say("lane-fetch")),
    trace(collates, palette.backward, thick, say("lane-collate")),
    trace(open, fade(palette.forward, 0.45), thick, say("lane-open-fetch")),
    trace(late, palette.warning, thick, say("lane-late-fetch")),
  ].filter((t) => t.x.length > 0);
  return { data, layout };
}

/** @typedef {{x: (number|null)[], y: (number|null)[], text: string[]}} Segments */

/** @returns {Segments} */
function segments() {
  return { x: [], y: [], text: [] };
}

/**
 * Add a bar. Its middle point is the target of the pointer.
 * @param {Segments} s @param {number} from @param {number} to @param {number} y @param {string} text
 */
function add(s, from, to, y, text) {
  s.x.push(toAxis(from), toAxis((from + to) / 2), toAxis(to), null);
  s.y.push(y, y, y, null);
  s.text.push(text, text, text, "");
}

/**
 * All bars of one look as one path, so that thousands of fetches are cheap.
 * @param {Segments} s @param {string} color @param {number} width @param {string} name @returns {any}
 */
function trace(s, color, width, name) {
  return {
    type: "scatter",
    mode: "lines",
    name,
    ...s,
    line: { color, width, simplify: false },
    hoverinfo: name === "" ? "skip" : "text",
    connectgaps: false,
  };
}
