// The effect of other loader settings: speeds that were simulated from the measured fetches.

import { h } from "../dom.js";
import { bytes, number, percent } from "../format.js";
import { say } from "../texts.js";
import { card } from "./frame.js";
import { button, empty, meter, withSemicolons } from "./parts.js";
import { cell } from "./tables.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").WhatIf} WhatIf
 * @typedef {import("../types.js").LoaderSetting} LoaderSetting
 * @typedef {import("../types.js").LoaderOption} LoaderOption
 * @typedef {import("../main.js").Actions} Actions
 */

/** Numbers of workers shown beyond the knee, the fewest workers that reach the best speed. */
const BEYOND = 2;
/** A gain below this share is noise. */
const LEAST_GAIN = 0.03;
/** Shares that differ by less are one number to the reader. */
const LEAST_SPREAD = 0.005;

/** @param {State} state @param {Actions} act */
export function whatIfPanel(state, act) {
  /** @type {WhatIf[]|null} */
  const list = state.cards.whatif?.data ?? null;
  const open = state.open.whatif ?? false;
  return card(state, {
    id: "whatif",
    title: say("whatif-title"),
    about: withSemicolons((list ?? []).map((w) => inShort(w, (list ?? []).length > 1))),
    extra: button(say(open ? "hide" : "show"), () => act.open("whatif", !open), {
      "aria-expanded": String(open),
    }),
    height: "32px",
    flush: true,
    body: open ? h("div", {}, (list ?? []).map((w) => settings(w))) : null,
    empty: open && list?.length === 0 ? empty(say("whatif-none"), say("whatif-none-why")) : null,
  });
}

/** @param {LoaderSetting} s @param {LoaderSetting} today */
const same = (s, today) =>
  s.num_workers === today.num_workers &&
  s.prefetch_factor === today.prefetch_factor &&
  s.in_order === today.in_order;

/** The best speed of any number of workers, in a sentence. @param {WhatIf} w @param {boolean} named */
function inShort(w, named) {
  const knee = w.workers.find((s) => s.num_workers === w.knee);
  const gains = knee !== undefined && knee.gain_ratio >= LEAST_GAIN;
  return say("whatif-in-short", {
    loader: named ? w.name : null,
    gains,
    workers: w.knee,
    best: rate(knee?.steps_per_s ?? 0),
    today: rate(w.measured_per_s),
  });
}

/** @param {number} perS */
function rate(perS) {
  return perS >= 100 ? number(Math.round(perS)) : perS.toFixed(1);
}

/** @param {WhatIf} w */
function settings(w) {
  const numbers = w.workers.filter((s) => s.num_workers <= Math.max(w.knee, w.today.num_workers) + BEYOND);
  const highest = Math.max(...[...numbers, ...w.others].map((s) => s.most_per_s));
  const heads = [
    say("setting"),
    say("whatif-rate"),
    say("whatif-range"),
    say("whatif-saved"),
    say("whatif-memory"),
  ];
  return h(
    "div",
    { class: "table-scroll", key: `${w.rank}/${w.loader}` },
    h("p", { class: "whatif-basis" }, restsOn(w)),
    curve(w, numbers),
    h(
      "table",
      { class: "grid whatif" },
      h(
        "thead",
        {},
        h("tr", {}, heads.map((t, i) => h("th", { scope: "col", class: i >= 2 ? "num" : "" }, t))),
      ),
      h("tbody", {}, [...numbers, ...w.others].map((s) => row(s, w, highest))),
    ),
    w.options.length > 0 && options(w),
  );
}

/**
 * Batches per second by number of workers, with the range. Marks: today, the knee, and the number from which
 * workers want more CPUs than there are.
 * @param {WhatIf} w @param {LoaderSetting[]} numbers
 */
function curve(w, numbers) {
  if (numbers.length < 2) return null;
  const [first, last] = [numbers[0].num_workers, numbers[numbers.length - 1].num_workers];
  const top = Math.max(w.measured_per_s, ...numbers.map((s) => s.most_per_s)) * 1.08;
  const across = (/** @type {number} */ workers) => ((workers - first) / (last - first)) * 100;
  const up = (/** @type {number} */ perS) => (perS / top) * 100;
  const points = (/** @type {(s: LoaderSetting) => number} */ of) =>
    numbers.map((s) => `${across(s.num_workers).toFixed(2)},${(100 - up(of(s))).toFixed(2)}`);
  const upright = (/** @type {number} */ workers, /** @type {string} */ cls) =>
    h("line", { class: cls, x1: across(workers), x2: across(workers), y1: 0, y2: 100 });
  const full = w.cpus !== null && w.fetch_cpus > 0 ? w.cpus / w.fetch_cpus : Infinity;
  const dot = (/** @type {number} */ workers, /** @type {number} */ perS, /** @type {string} */ cls) =>
    h("i", { class: `whatif-dot ${cls}`, style: { left: `${across(workers)}%`, bottom: `${up(perS)}%` } });
  const knee = numbers.find((s) => s.num_workers === w.knee);
  const marks = [
    w.today.num_workers >= first && ["today", w.today.num_workers],
    knee && ["knee", w.knee],
    full >= first && full <= last && ["full", full],
  ].filter(Boolean);
  return h(
    "figure",
    { class: "whatif-curve" },
    h(
      "div",
      { class: "whatif-plot", role: "img", "aria-label": inShort(w, true) },
      h(
        "svg",
        { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
        h("polygon", {
          class: "band",
          points: [...points((s) => s.most_per_s), ...points((s) => s.least_per_s).reverse()].join(" "),
        }),
        full >= first && full <= last && upright(full, "full"),
        knee && upright(w.knee, "knee"),
        h("polyline", { class: "line", points: points((s) => s.steps_per_s).join(" ") }),
      ),
      knee && dot(w.knee, knee.steps_per_s, "knee"),
      w.today.num_workers >= first && dot(w.today.num_workers, w.measured_per_s, "today"),
      h("span", { class: "whatif-top" }, say("whatif-speed", { rate: rate(top / 1.08) })),
    ),
    h(
      "div",
      { class: "whatif-axis", "aria-hidden": "true" },
      h("span", {}, `num_workers=${first}`),
      h("span", {}, number(last)),
    ),
    h(
      "figcaption",
      {},
      marks.map((mark) => {
        const [which, workers] = /** @type {[string, number]} */ (mark);
        return [
          h(
            "span",
            { class: `whatif-mark ${which}` },
            h("i", { "aria-hidden": "true" }),
            say("whatif-mark", { mark: which, workers: Math.round(workers * 10) / 10 }),
          ),
          " ",
        ];
      }),
    ),
  );
}

/** The effect of options that are not simulated. @param {WhatIf} w */
function options(w) {
  return h(
    "table",
    { class: "grid whatif" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        [say("whatif-option"), say("whatif-saved"), say("whatif-basis")].map((t) =>
          h("th", { scope: "col" }, t),
        ),
      ),
    ),
    h(
      "tbody",
      {},
      w.options.map((o) =>
        h(
          "tr",
          { key: o.change },
          cell(say("whatif-option"), h("b", {}, o.change)),
          cell(say("whatif-saved"), saved(o)),
          cell(say("whatif-basis"), h("span", { class: "wrapped" }, o.rests_on)),
        ),
      ),
    ),
  );
}

/** @param {LoaderOption} o */
function saved(o) {
  const { least_ratio, most_ratio, per_epoch_s } = o;
  const gains = most_ratio - least_ratio < LEAST_SPREAD ? "about" : "range";
  const costs = least_ratio > -LEAST_GAIN ? "nothing" : "costs";
  return say("whatif-saves", {
    saves: most_ratio < LEAST_GAIN ? costs : gains,
    least_ratio,
    most_ratio,
    cost_ratio: -least_ratio,
    per_epoch_s,
  });
}

/** The data behind the numbers, and their limits. @param {WhatIf} w */
function restsOn(w) {
  const cpus = w.cpus === null ? null : Math.round(w.cpus * 10) / 10;
  const { name: loader, rank, fetches: batches, fetch_s, step_s, free_bytes, free_in } = w;
  return say("whatif-rests-on", { loader, rank, batches, fetch_s, step_s, cpus, free_bytes, free_in });
}

/** @param {LoaderSetting} s @param {WhatIf} w @param {number} most */
function row(s, w, most) {
  const marks = [
    same(s, w.today) && say("whatif-today"),
    s.num_workers === w.knee && w.workers.includes(s) && say("whatif-as-good"),
  ].filter(Boolean);
  return h(
    "tr",
    { key: `${s.num_workers}/${s.prefetch_factor}/${s.in_order}` },
    cell(say("setting"), [
      h("b", {}, named(s, w.today)),
      marks.map((m) => [" ", h("span", { class: "chip" }, m)]),
    ]),
    cell(
      say("whatif-rate"),
      h("span", { class: "metered" }, meter(s.steps_per_s / most, ""), h("span", {}, rate(s.steps_per_s))),
    ),
    cell(
      say("whatif-range"),
      say("whatif-range-of", { least: rate(s.least_per_s), most: rate(s.most_per_s) }),
      true,
    ),
    cell(say("whatif-saved"), s.gain_ratio < LEAST_GAIN ? "–" : percent(s.gain_ratio), true),
    cell(say("whatif-memory"), memory(s, w), true),
  );
}

/** @param {LoaderSetting} s @param {WhatIf} w */
function memory(s, w) {
  if (!s.memory_bytes) return "–";
  const tooMuch = w.free_bytes !== null && s.memory_bytes > w.free_bytes;
  return [
    bytes(s.memory_bytes),
    tooMuch && [" ", h("span", { class: "too-much" }, say("whatif-too-much", { free_in: w.free_in }))],
  ];
}

/** Arguments of a setting that differ from today's. @param {LoaderSetting} s @param {LoaderSetting} today */
function named(s, today) {
  const parts = [`num_workers=${s.num_workers}`];
  if (s.prefetch_factor !== today.prefetch_factor) parts.push(`prefetch_factor=${s.prefetch_factor}`);
  if (s.in_order !== today.in_order) parts.push(`in_order=${s.in_order ? "True" : "False"}`);
  return parts.join(", ");
}
