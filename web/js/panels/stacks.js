// Stacks as faulthandler writes them: the reader's own frames stand out, library frames step back.

import { h } from "../dom.js";
import { clock } from "../format.js";
import { icon } from "../icons.js";

/**
 * @typedef {import("../types.js").Stack} Stack
 * @typedef {{file: string, line: string, name: string, own: boolean}} Frame
 * @typedef {{title: string, current: boolean, frames: Frame[]}} Thread
 */

const FRAME = /^\s*File "(.*)", line (\d+|\?\?\?) in (.*)$/;
const LIBRARY = /(site-packages|dist-packages)\/|\/lib(64)?\/python3|^<frozen |\/loaderwatch\/(agent|core|streamer)\//;

/** @param {string} text @returns {{threads: Thread[], other: string[]}} `other`: lines that are no frames */
export function parseStack(text) {
  /** @type {Thread[]} */
  const threads = [];
  /** @type {string[]} */
  const other = [];
  for (const line of text.split("\n")) {
    const frame = FRAME.exec(line);
    if (frame !== null) {
      if (threads.length === 0) threads.push({ title: "Thread", current: true, frames: [] });
      const [, file = "", number = "", name = ""] = frame;
      threads[threads.length - 1]?.frames.push({ file, line: number, name, own: !LIBRARY.test(file) });
    } else if (/^(Current thread|Thread|Stack) ?/.test(line)) {
      threads.push({ title: line.replace(/ \(most recent call first\):?$/, ""), current: line.startsWith("Current"), frames: [] });
    } else if (line.trim() !== "") other.push(line);
  }
  // The thread that took the signal is the one that matters, wherever faulthandler put it.
  threads.sort((a, b) => Number(b.current) - Number(a.current));
  return { threads, other };
}

/** The innermost frame of the reader's own code, in the thread that matters. @param {Thread[]} threads @returns {Frame|null} */
function innermostOwn(threads) {
  return threads[0]?.frames.find((f) => f.own) ?? null;
}

/** @param {string} text @returns {Frame|null} */
export function ownFrame(text) {
  return innermostOwn(parseStack(text).threads);
}

/** @param {Stack} stack */
export function stackName(stack) {
  return `${stack.worker < 0 ? `rank ${stack.rank}, training process` : `rank ${stack.rank}, worker ${stack.worker}`} · pid ${stack.pid}`;
}

/** The frames. @param {Stack} stack @param {boolean} [brief] - only the thread that matters */
export function stackBody(stack, brief = false) {
  const { threads, other } = parseStack(stack.text);
  const shown = brief ? threads.slice(0, 1) : threads;
  const own = innermostOwn(threads);
  return h(
    "div",
    { class: "stack-body", tabindex: "0", role: "region", "aria-label": `Stack of ${stackName(stack)}` },
    stack.text === "" && h("p", { class: "muted" }, stack.why === "" ? "No stack came back." : stack.why),
    other.map((line) => h("p", { class: "stack-other" }, line)),
    shown.map((thread) => [
      shown.length > 1 ? h("p", { class: "stack-thread" }, thread.title) : null,
      h("ol", { class: "frames" }, thread.frames.map((frame) => frameView(frame, frame === own))),
    ]),
  );
}

/** @param {Stack} stack @param {boolean} open @param {(open: boolean) => void} toggle @param {number} now @param {boolean} [brief] - only the thread that matters */
export function stackView(stack, open, toggle, now, brief = false) {
  const own = ownFrame(stack.text);
  const at = own === null ? "" : `${own.file.split("/").pop()}:${own.line} in ${own.name}`;
  return h(
    "div",
    { class: `stack${open ? " is-open" : ""}`, key: `${stack.rank}/${stack.worker}/${stack.pid}` },
    h(
      "button",
      { type: "button", class: "stack-head", "aria-expanded": String(open), onclick: () => toggle(!open) },
      icon("right", "chevron"),
      h("span", { class: "stack-name" }, stackName(stack)),
      h("code", { class: "stack-at" }, at),
      h("span", { class: "stack-when" }, clock(stack.taken_at, now), stack.why === "" ? "" : ` · ${stack.why}`),
    ),
    open && stackBody(stack, brief),
  );
}

/** @param {Frame} frame @param {boolean} here */
function frameView(frame, here) {
  return h(
    "li",
    { class: `frame${frame.own ? " own" : ""}${here ? " here" : ""}` },
    h("span", { class: "frame-name" }, frame.name),
    h("span", { class: "frame-file" }, `${frame.file}:${frame.line}`),
    here ? h("span", { class: "frame-tag" }, "your code") : null,
  );
}

