// Small parts that several panels share.

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { say } from "../texts.js";

/** @typedef {import("../dom.js").Child} Child */

/**
 * A message with bold words and code: those inside <b> and <code>. A name from a person or a script must not
 * be its parameter.
 * @param {string} said @returns {Child}
 */
export function marked(said) {
  return said.split(/(<b>.*?<\/b>|<code>.*?<\/code>)/).map((piece) => {
    const [, tag, words] = /^<(b|code)>(.*)<\//.exec(piece) ?? [];
    return tag === undefined ? piece : h(tag, {}, words);
  });
}

/** @param {string[]} items @param {(before: string, next: string) => string} join */
function joined(items, join) {
  const [first = "", ...rest] = items.filter(Boolean);
  return rest.reduce(join, first);
}

/** Remarks as one text, separated by commas. @param {string[]} items - empty ones are left out */
export const withCommas = (items) =>
  joined(items, (before, next) => say("joined-by-comma", { before, next }));

/** The same with semicolons. @param {string[]} items */
export const withSemicolons = (items) =>
  joined(items, (before, next) => say("joined-by-semicolon", { before, next }));

/** @param {string} state */
export const stateWord = (state) => say("run-state", { state });

/** How a process that somebody stopped ends, as in ``loaderwatch/core/ending.py``. */
const STOPS = /^(SIG(TERM|INT|HUP|QUIT)$|exit code 1(29|30|31|43)$|uncaught KeyboardInterrupt\b)/;

/**
 * The state to show for a run or rank. A stop by Ctrl-C or a signal counts as crashed, but is no failure. A
 * run's verdict is then "info"; a rank's end names the signal.
 * @param {string} state
 * @param {string|null|undefined} end - the severity of the verdict, or how the rank ended
 */
export const shownState = (state, end) =>
  state === "crashed" && (end === "info" || STOPS.test(end ?? "")) ? "stopped" : state;

/** The state of a run or rank as a shape and a word, so that colour is not needed. @param {string} state */
export function stateBadge(state) {
  return h(
    "span",
    { class: `badge state-${state}` },
    h("i", { class: "dot", "aria-hidden": "true" }),
    stateWord(state),
  );
}

/** A ratio as a short bar. @param {number|null|undefined} ratio @param {string} tone */
export function meter(ratio, tone) {
  const known = ratio !== null && ratio !== undefined;
  const width = known ? Math.max(0, Math.min(1, ratio)) * 100 : 0;
  return h(
    "span",
    { class: "meter", "aria-hidden": "true" },
    h("i", { class: `fill ${tone}`, style: { width: `${width.toFixed(1)}%` } }),
  );
}

/** The tone of a data wait. The verdict reports it from 10 % on. @param {number|null|undefined} ratio */
export function waitTone(ratio) {
  if (ratio === null || ratio === undefined) return "none";
  return ratio >= 0.3 ? "critical" : ratio >= 0.1 ? "warning" : "ok";
}

/** Green above 90 %, where the verdict may be green, too. @param {number|null|undefined} ratio */
export function goodTone(ratio) {
  return ratio !== null && ratio !== undefined && ratio > 0.9 ? "ok" : "none";
}

/**
 * @param {string} label @param {() => void} onclick @param {Record<string, any>} [props]
 * @param {Child} [lead]
 */
export function button(label, onclick, props = {}, lead = null) {
  return h("button", { type: "button", class: "button", onclick, ...props }, lead, h("span", {}, label));
}

/**
 * A button that copies text. Without clipboard access (plain http) it copies a selection.
 * @param {string} text @param {(note: string) => void} tell
 */
export function copyButton(text, tell) {
  return h(
    "button",
    {
      type: "button",
      class: "icon-button",
      title: say("copy-text", { text }),
      "aria-label": say("copy-text", { text }),
      onclick: copying(text, say("copied-text", { text }), tell),
    },
    icon("copy"),
  );
}

/**
 * A button that copies a text that is too long for a label.
 * @param {string} label @param {string} text @param {string} done - the note after copying
 * @param {(note: string) => void} tell
 */
export function copyAction(label, text, done, tell) {
  return h(
    "button",
    { type: "button", class: "button", onclick: copying(text, done, tell) },
    icon("copy"),
    h("span", {}, label),
  );
}

/** @param {string} text @param {string} done @param {(note: string) => void} tell */
function copying(text, done, tell) {
  return async (/** @type {MouseEvent} */ event) => {
    event.stopPropagation();
    tell((await copy(text)) ? done : say("copy-failed", { text }));
  };
}

/** @param {string} text */
export async function copy(text) {
  if (navigator.clipboard !== undefined) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch (error) {
      if (!(error instanceof DOMException)) throw error; // refused: copy a selection
    }
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/**
 * @param {string} title @param {Child} text @param {Child} [more]
 * @param {"p"|"h1"} [tag] - h1 if the page has no other heading
 */
export function empty(title, text, more = null, tag = "p") {
  return h(
    "div",
    { class: "empty" },
    h(tag, { class: "empty-title" }, title),
    h("p", { class: "empty-text" }, text),
    more,
  );
}

/** @param {string} height */
export function skeleton(height) {
  return h("div", { class: "skeleton", style: { height }, "aria-label": say("loading"), role: "img" });
}
