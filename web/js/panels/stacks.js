// Stacks in faulthandler's format. The reader's own frames are prominent, library frames are dimmed.

import { h } from "../dom.js";
import { clock } from "../format.js";
import { icon } from "../icons.js";
import { say } from "../texts.js";

/**
 * @typedef {import("../types.js").Stack} Stack
 * @typedef {{file: string, line: string, name: string, own: boolean}} Frame
 * @typedef {{title: string, current: boolean, frames: Frame[]}} Thread
 */

const FRAME = /^\s*File "(.*)", line (\d+|\?\?\?) in (.*)$/;
/** This many library frames in a row, or more, become one line. */
const LEAST_FOLDED = 3;
const LIBRARY = new RegExp(
  [
    "(site-packages|dist-packages)/",
    "/lib(64)?/python3",
    "^<frozen ",
    "/loaderwatch/((agent|core|streamer)/|demo/virtual_gpu\\.py$)",
  ].join("|"),
);

/** @param {string} text @returns {{threads: Thread[], other: string[]}} `other`: lines outside frames */
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
      threads.push({
        title: line.replace(/ \(most recent call first\):?$/, ""),
        current: line.startsWith("Current"),
        frames: [],
      });
    } else if (line.trim() !== "") other.push(line);
  }
  // The thread that took the signal comes first, in whatever place faulthandler printed it.
  threads.sort((a, b) => Number(b.current) - Number(a.current));
  return { threads, other };
}

/** The innermost own frame, in the relevant thread. @param {Thread[]} threads @returns {Frame|null} */
function innermostOwn(threads) {
  return threads[0]?.frames.find((f) => f.own) ?? null;
}

/** @param {string} text @returns {Frame|null} */
export function ownFrame(text) {
  return innermostOwn(parseStack(text).threads);
}

/** The parameters that name a stack in messages. @param {Stack} stack */
const named = (stack) => ({
  rank: stack.rank,
  worker: stack.worker < 0 ? null : stack.worker,
  pid: stack.pid,
});

/** Why a stack was taken, or why there is none. A variant of a message has no spaces. @param {string} why */
const reason = (why) => say("stack-why", { why: why.replace(/[^A-Za-z]+/g, "-"), said: why });

/** The frames. @param {Stack} stack @param {boolean} [brief] - only the relevant thread */
export function stackBody(stack, brief = false) {
  const { threads, other } = parseStack(stack.text);
  const shown = brief ? threads.slice(0, 1) : threads;
  const own = innermostOwn(threads);
  return h(
    "div",
    { class: "stack-body", tabindex: "0", role: "group", "aria-label": say("stack-of", named(stack)) },
    stack.text === "" && h("p", { class: "muted" }, stack.why === "" ? say("stack-none") : reason(stack.why)),
    other.map((line) => h("p", { class: "stack-other" }, line)),
    shown.map((thread) => [
      shown.length > 1 ? h("p", { class: "stack-thread" }, thread.title) : null,
      framesList(thread.frames, own),
    ]),
  );
}

/**
 * Frames as a list, the innermost first.
 * @param {Frame[]} frames @param {Frame|null} here - the frame that is marked
 * @param {boolean} [folded] - adjacent library frames are one entry
 */
export function framesList(frames, here, folded = true) {
  return h(
    "ol",
    { class: "frames" },
    (folded ? foldLibrary(frames) : frames).map((entry) =>
      Array.isArray(entry) ? foldedView(entry) : frameView(entry, entry === here),
    ),
  );
}

/**
 * @param {Stack} stack @param {boolean} open @param {(open: boolean) => void} toggle @param {number} now
 * @param {boolean} [brief] - only the relevant thread
 * @param {import("../dom.js").Child} [tools] - under the open stack
 */
export function stackView(stack, open, toggle, now, brief = false, tools = null) {
  const own = ownFrame(stack.text);
  const at = own === null ? "" : `${own.file.split("/").pop()}:${own.line} in ${own.name}`;
  return h(
    "div",
    { class: `stack${open ? " is-open" : ""}`, key: `${stack.rank}/${stack.worker}/${stack.pid}` },
    h(
      "button",
      { type: "button", class: "stack-head", "aria-expanded": String(open), onclick: () => toggle(!open) },
      icon("right", "chevron"),
      h("span", { class: "stack-name" }, say("stack-name", named(stack))),
      h("code", { class: "stack-at" }, at),
      h(
        "span",
        { class: "stack-when" },
        clock(stack.taken_at, now),
        stack.why === "" ? "" : ` · ${reason(stack.why)}`,
      ),
    ),
    open && stackBody(stack, brief),
    open && tools !== null && h("div", { class: "actions stack-tools" }, tools),
  );
}

/**
 * Adjacent library frames as one entry, so that the reader's own frames stand out. A stack without own frames
 * stays as it is.
 * @param {Frame[]} frames @returns {(Frame|Frame[])[]}
 */
export function foldLibrary(frames) {
  if (!frames.some((frame) => frame.own)) return frames;
  /** @type {(Frame|Frame[])[]} */
  const out = [];
  for (let at = 0; at < frames.length; ) {
    let end = at;
    while (end < frames.length && frames[end]?.own === false) end += 1;
    if (end - at >= LEAST_FOLDED) out.push(frames.slice(at, end));
    else out.push(...frames.slice(at, Math.max(end, at + 1)));
    at = Math.max(end, at + 1);
  }
  return out;
}

/** A folded row of library frames, with its innermost frame: the call that waits. @param {Frame[]} frames */
function foldedView(frames) {
  const [first] = frames;
  const packages = [...new Set(frames.map(packageOf))].slice(0, 3).join(", ");
  return h(
    "li",
    { class: "frame-run" },
    h(
      "details",
      null,
      h(
        "summary",
        { class: "frame" },
        h("span", { class: "frame-name" }, first?.name),
        h("span", { class: "frame-file" }, say("stack-frames-in", { frames: frames.length, packages })),
      ),
      h("ol", null, frames.map((frame) => frameView(frame, false))),
    ),
  );
}

/** @param {Frame} frame */
function packageOf(frame) {
  const [, inside] = /(?:site|dist)-packages\/([^/]+?)(?:\.py)?(?:\/|$)/.exec(frame.file) ?? [];
  return inside ?? (/\/loaderwatch\//.test(frame.file) ? "loaderwatch" : "Python");
}

/** @param {Frame} frame @param {boolean} here */
function frameView(frame, here) {
  return h(
    "li",
    { class: `frame${frame.own ? " own" : ""}${here ? " here" : ""}` },
    h("span", { class: "frame-name" }, frame.name),
    h("span", { class: "frame-file" }, `${frame.file}:${frame.line}`),
    here && frame.own && h("span", { class: "frame-tag" }, say("stack-your-code")),
  );
}

