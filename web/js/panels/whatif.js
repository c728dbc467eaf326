// What other settings of a loader would give: speeds that were played with the measured fetches.

import { h } from "../dom.js";
import { bytes, duration, number, percent } from "../format.js";
import { card } from "./frame.js";
import { button, empty, meter } from "./parts.js";
import { cell } from "./tables.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").WhatIf} WhatIf
 * @typedef {import("../types.js").LoaderSetting} LoaderSetting
 * @typedef {import("../main.js").Actions} Actions
 */

/** Numbers of workers that are shown beyond the fewest that are as good as any. */
const BEYOND = 2;
/** A gain below this share is noise. */
const LEAST_GAIN = 0.03;

/** @param {State} state @param {Actions} act */
export function whatIfPanel(state, act) {
  /** @type {WhatIf[]|null} */
  const list = state.cards.whatif?.data ?? null;
  const open = state.open.whatif ?? false;
  return card(state, {
    id: "whatif",
    title: "Other loader settings",
    about: (list ?? []).map((w) => inShort(w, (list ?? []).length > 1)).join("; "),
    extra: button(open ? "Hide" : "Show", () => act.open("whatif", !open), { "aria-expanded": String(open) }),
    height: "32px",
    flush: true,
    body: open ? h("div", {}, (list ?? []).map((w) => settings(w))) : null,
    empty: open && list?.length === 0 ? empty("Nothing is predicted yet", "It takes a training DataLoader and at least eight measured batches.") : null,
  });
}

/** @param {LoaderSetting} s @param {LoaderSetting} today */
const same = (s, today) => s.num_workers === today.num_workers && s.prefetch_factor === today.prefetch_factor && s.in_order === today.in_order;

/** The best that any number of workers gives. @param {WhatIf} w @param {boolean} named */
function inShort(w, named) {
  const knee = w.workers.find((s) => s.num_workers === w.knee);
  const who = named ? `${w.name}: ` : "";
  if (knee === undefined || knee.gain_ratio < LEAST_GAIN) return `${who}no number of workers gives more than today's ${speed(w.measured_per_s)}`;
  return `${who}num_workers=${w.knee} gives about ${speed(knee.steps_per_s)}, today ${speed(w.measured_per_s)}`;
}

/** @param {number} perS */
function speed(perS) {
  return `${rate(perS)} batches/s`;
}

/** @param {number} perS */
function rate(perS) {
  return perS >= 100 ? number(Math.round(perS)) : perS.toFixed(1);
}

/** @param {WhatIf} w */
function settings(w) {
  const numbers = w.workers.filter((s) => s.num_workers <= Math.max(w.knee, w.today.num_workers) + BEYOND);
  const most = Math.max(...[...numbers, ...w.others].map((s) => s.most_per_s));
  const heads = ["Setting", "Batches/s", "Range", "Time saved", "Memory read ahead"];
  return h(
    "div",
    { class: "table-scroll", key: `${w.rank}/${w.loader}` },
    h("p", { class: "whatif-basis" }, restsOn(w)),
    h(
      "table",
      { class: "grid whatif" },
      h("thead", {}, h("tr", {}, heads.map((t, i) => h("th", { scope: "col", class: i >= 2 ? "num" : "" }, t)))),
      h("tbody", {}, [...numbers, ...w.others].map((s) => row(s, w, most))),
    ),
  );
}

/** What the numbers rest on, and what they cannot know. @param {WhatIf} w */
function restsOn(w) {
  const cpus = w.cpus === null ? "" : `, with ${number(Math.round(w.cpus * 10) / 10)} CPUs to share`;
  return `${w.name}, rank ${w.rank}: played with its last ${number(w.fetches)} batches (${duration(w.fetch_s)} to read one, ${duration(w.step_s)} a step)${cpus}. It holds while storage gives more readers as much as it gives today's.`;
}

/** @param {LoaderSetting} s @param {WhatIf} w @param {number} most */
function row(s, w, most) {
  const marks = [same(s, w.today) && "today", s.num_workers === w.knee && w.workers.includes(s) && "as good as any"].filter(Boolean);
  return h(
    "tr",
    { key: `${s.num_workers}/${s.prefetch_factor}/${s.in_order}` },
    cell("Setting", [h("b", {}, named(s, w.today)), marks.map((m) => [" ", h("span", { class: "chip" }, m)])]),
    cell("Batches/s", h("span", { class: "metered" }, meter(s.steps_per_s / most, ""), h("span", {}, rate(s.steps_per_s)))),
    cell("Range", `${rate(s.least_per_s)} to ${rate(s.most_per_s)}`, true),
    cell("Time saved", s.gain_ratio < LEAST_GAIN ? "–" : percent(s.gain_ratio), true),
    cell("Memory read ahead", s.memory_bytes === null ? "–" : bytes(s.memory_bytes), true),
  );
}

/** What is to be written, where it differs from today's. @param {LoaderSetting} s @param {LoaderSetting} today */
function named(s, today) {
  const parts = [`num_workers=${s.num_workers}`];
  if (s.prefetch_factor !== today.prefetch_factor) parts.push(`prefetch_factor=${s.prefetch_factor}`);
  if (s.in_order !== today.in_order) parts.push(`in_order=${s.in_order ? "True" : "False"}`);
  return parts.join(", ");
}
