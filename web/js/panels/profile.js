// The card "Where a fetch goes": sampled stacks as a picture and as a table of lines.

import {
  LEAST_SAMPLES,
  MUCH_UNREAD,
  PARTS,
  STATES,
  baseOf,
  boxBeside,
  boxesOf,
  byFrames,
  firstInside,
  isAt,
  moduleOf,
  rowsOf,
  sorted,
  stacksAt,
  unreadRatio,
} from "../charts/profile.js";
import { h } from "../dom.js";
import { clock, clockBare, count, duration, percent } from "../format.js";
import { icon } from "../icons.js";
import { serverNow } from "../store.js";
import { say } from "../texts.js";
import { card } from "./frame.js";
import { button, withCommas } from "./parts.js";
import { framesList } from "./stacks.js";
import { cell } from "./tables.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Profile} Profile
 * @typedef {import("../types.js").ProfileFrame} ProfileFrame
 * @typedef {import("../types.js").ProfileLine} ProfileLine
 * @typedef {import("../types.js").ProfilePartName} ProfilePartName
 * @typedef {import("../charts/profile.js").Box} Box
 * @typedef {import("../charts/profile.js").Counted} Counted
 * @typedef {import("../charts/profile.js").StateShare} StateShare
 * @typedef {import("../dom.js").Child} Child
 * @typedef {import("../main.js").Actions} Actions
 */

/** Lines that are shown at first. A click shows all. */
const FIRST_LINES = 5;
/** Stacks of a line or box that are shown. The others are rarer. */
const MOST_STACKS = 2;
/** States of a line with a smaller share are left out of its row, and at most this number is in it. */
const LEAST_STATE = 0.1;
/** A line that could save less is shown without its speed-up. As in cli/profile_lines.py. */
const LEAST_SPEEDUP = 1.05;
const MOST_STATES = 2;
/** Height of a row of the picture. `profile.css` has the same. */
export const ROW_PX = 28;
/** Narrower boxes have no words. */
const LEAST_WORDS = 0.035;

/**
 * @param {State} state @param {Actions} act
 * @returns {import("../dom.js").VNode}
 */
export function profileCard(state, act) {
  /** @type {Record<ProfilePartName, Profile>|null} */
  const data = state.cards.profile?.data ?? null;
  const parts = PARTS.filter((part) => (data?.[part].samples ?? 0) > 0);
  const of = parts.find((part) => part === state.choices["profile.of"]) ?? parts[0] ?? "fetch";
  const profile = data?.[of] ?? null;
  const nothing = parts.length === 0;
  return card(state, {
    id: "profile",
    title: say("profile-title", { of }),
    about:
      data === null || profile === null
        ? say("profile-about")
        : nothing
          ? whyNone(data)
          : inShort(profile),
    legend:
      profile === null || nothing
        ? []
        : sorted(profile.states).map(({ state, share }) => ({
            name: say("thread-state", { state }),
            ...STATES[state],
            value: percent(share),
          })),
    extra: parts.length > 1 && partSwitch(parts, of, act),
    height: "220px",
    body: profile === null || nothing ? null : body(profile, state, act),
  });
}

/** Why there is no stack. @param {Record<ProfilePartName, Profile>} data */
function whyNone(data) {
  const unread = PARTS.reduce((sum, part) => sum + data[part].unread, 0);
  return unread === 0 ? say("profile-none") : say("profile-none-read", { unread });
}

/** The most frequent line, in a sentence. @param {Profile} profile */
function inShort(profile) {
  const [line] = profile.lines;
  if (profile.samples < LEAST_SAMPLES) return say("profile-few", { samples: profile.samples });
  if (line === undefined) return say("profile-about");
  return say("profile-in-short", {
    of: profile.of,
    share_ratio: line.share,
    line: placeOf(line),
    function: line.function,
    calls: line.calls,
  });
}

/** @param {{file: string, line: number}} place */
const placeOf = (place) => `${baseOf(place.file)}:${place.line}`;

/** @param {ProfilePartName[]} parts @param {ProfilePartName} of @param {Actions} act */
function partSwitch(parts, of, act) {
  return h(
    "div",
    { class: "segments", role: "group", "aria-label": say("profile-switch") },
    parts.map((part) =>
      h(
        "button",
        {
          type: "button",
          key: part,
          class: part === of ? "on" : "",
          "aria-pressed": String(part === of),
          onclick: () => act.choose({ "profile.of": part, "profile.box": "" }),
        },
        say("profile-part", { of: part }),
      ),
    ),
  );
}

/** @param {Profile} profile @param {State} state @param {Actions} act */
function body(profile, state, act) {
  const opened = new Set(
    Object.keys(state.open)
      .filter((id) => state.open[id] && id.startsWith(OPENED))
      .map((id) => id.slice(OPENED.length)),
  );
  const boxes = boxesFor(profile, opened);
  const unread = unreadRatio(profile);
  const chosen = boxes.find((box) => box.key === state.choices["profile.box"]) ?? null;
  return h(
    "div",
    { class: "profile" },
    h(
      "div",
      { class: "profile-left" },
      picture(profile, boxes, chosen, act),
      h(
        "p",
        { class: "profile-basis" },
        basis(profile, state),
        unread > MUCH_UNREAD && [" ", say("profile-unread", { unread_ratio: unread })],
        chosen === null && [" ", say("profile-hint")],
      ),
      chosen !== null && boxFrames(chosen, profile, opened, act),
    ),
    lines(profile, state, act),
  );
}

/** The boxes of the last drawing. Data comes every ten seconds, drawings come every second. */
let drawn = { of: /** @type {Profile|null} */ (null), opened: "", boxes: /** @type {Box[]} */ ([]) };

/** @param {Profile} profile @param {Set<string>} opened */
function boxesFor(profile, opened) {
  const keys = [...opened].join("\n");
  if (drawn.of !== profile || drawn.opened !== keys)
    drawn = { of: profile, opened: keys, boxes: boxesOf(profile, opened) };
  return drawn.boxes;
}

/** Before the key of an opened box among the parts that the reader unfolded. */
const OPENED = "profile/module/";

/** Which samples the card shows. @param {Profile} profile @param {State} state */
function basis(profile, state) {
  const now = serverNow(state);
  const { samples, ranks, start, end } = profile;
  return say("profile-basis", {
    samples,
    number: ranks.length,
    ranks: ranks.join(" "),
    from: start === null ? null : clockBare(start, now),
    to: end === null ? null : clock(end, now),
  });
}

/**
 * @param {Profile} profile @param {Box[]} boxes @param {Box|null} chosen @param {Actions} act
 */
function picture(profile, boxes, chosen, act) {
  return h(
    "div",
    {
      class: "flame",
      role: "group",
      "aria-label": say("profile-picture"),
      onkeydown: (/** @type {KeyboardEvent} */ event) => step(event, boxes),
    },
    h(
      "div",
      { class: "flame-rows", style: { height: `${rowsOf(boxes) * ROW_PX}px` } },
      boxes.map((box, at) => boxView(box, at, box === chosen, profile, act)),
    ),
  );
}

/** Arrow keys go from box to box. @param {KeyboardEvent} event @param {Box[]} boxes */
function step(event, boxes) {
  const from = boxes[Number(/** @type {HTMLElement} */ (event.target).dataset.box)];
  const next = from === undefined ? null : boxBeside(boxes, from, event.key);
  if (next === null) return;
  event.preventDefault();
  const group = /** @type {HTMLElement} */ (event.currentTarget);
  /** @type {HTMLElement|null} */ (group.querySelector(`[data-box="${boxes.indexOf(next)}"]`))?.focus();
}

/** @param {Box} box @param {number} at @param {boolean} on @param {Profile} profile @param {Actions} act */
function boxView(box, at, on, profile, act) {
  const { states } = box;
  const { name, where } = wordsOf(box);
  const said = say("profile-box", {
    name,
    where: where || null,
    share_ratio: box.width,
    states: statesInWords(states),
  });
  return h(
    "button",
    {
      type: "button",
      key: box.key,
      class: `flame-box${box.frame.library ? "" : " own"}${on ? " on" : ""}`,
      style: {
        left: `${(box.left * 100).toFixed(3)}%`,
        width: `${(box.width * 100).toFixed(3)}%`,
        top: `${box.depth * ROW_PX}px`,
      },
      "data-box": at,
      tabindex: at === 0 ? "0" : "-1",
      title: `${said}\n${box.frame.file}`,
      "aria-label": said,
      "aria-expanded": String(on),
      onclick: () => act.choose({ "profile.box": on ? "" : box.key }),
    },
    states.map(({ state, share }) =>
      h("i", {
        key: state,
        class: STATES[state].hatch ? "hatch" : "",
        style: { "flex-grow": share.toFixed(4), "--swatch": `var(--${STATES[state].color})` },
      }),
    ),
    box.width >= LEAST_WORDS && h("span", {}, h("b", {}, name), where !== "" && [" ", h("small", {}, where)]),
  );
}

/** The name of a box, and what stands beside it. @param {Box} box */
function wordsOf(box) {
  const { frame, functions } = box;
  if (box.merged) return { name: moduleOf(frame.file), where: functions.size === 1 ? frame.function : "" };
  return { name: frame.function, where: frame.library ? moduleOf(frame.file) : placeOf(frame) };
}

/** @param {StateShare[]} states */
const largest = (states) =>
  states.filter(({ share }, at) => at === 0 || share >= LEAST_STATE).slice(0, MOST_STATES);

/** @param {StateShare[]} states */
const statesInWords = (states) =>
  withCommas(
    largest(states).map(({ state, share }) => say("thread-state-share", { state, share_ratio: share })),
  );

/**
 * The frames of a box, under the picture.
 * @param {Box} box @param {Profile} profile @param {Set<string>} opened @param {Actions} act
 */
function boxFrames(box, profile, opened, act) {
  const { name, where } = wordsOf(box);
  const { opens } = box;
  return h(
    "div",
    { class: "box-frames", key: "frames" },
    h(
      "div",
      { class: "box-frames-head" },
      h("h3", {}, name, where !== "" && h("small", {}, where)),
      opens !== null &&
        (opened.has(opens) || box.functions.size > 1) &&
        button(
          opened.has(opens)
            ? say("profile-merge", { module: moduleOf(box.frame.file) })
            : say("profile-open", { functions: box.functions.size }),
          () => {
            act.open(OPENED + opens, !opened.has(opens));
            act.choose({ "profile.box": opened.has(opens) ? opens : firstInside(box) });
          },
        ),
      h(
        "button",
        {
          type: "button",
          class: "icon-button",
          "aria-label": say("close"),
          onclick: () => act.choose({ "profile.box": "" }),
        },
        icon("close"),
      ),
    ),
    h(
      "p",
      { class: "card-about" },
      say("profile-share-of", {
        of: profile.of,
        share_ratio: box.width,
        states: statesInWords(box.states),
      }),
    ),
    stackFrames(
      byFrames(box.stacks),
      (frame) => !box.merged && isAt(box.frame, frame),
      !box.frame.library,
    ),
  );
}

/**
 * The most frequent stacks, the innermost frame first, as in the card of stacks.
 * @param {Counted[]} counted @param {(frame: ProfileFrame) => boolean} here
 * @param {boolean} [folded] - adjacent library frames are one entry
 */
function stackFrames(counted, here, folded = true) {
  const all = counted.reduce((sum, one) => sum + one.samples, 0);
  if (counted.length === 0) return h("p", { class: "card-about" }, say("profile-no-stack"));
  const shown_stacks = counted.slice(0, MOST_STACKS).map(({ frames, samples }, at) => {
    const inner_first = [...frames].reverse();
    const marked = inner_first.findIndex(here);
    const shown = inner_first.map((frame) => ({
      file: frame.file,
      line: String(frame.line),
      name: frame.function,
      own: !frame.library,
    }));
    return h(
      "div",
      { key: at, class: "profile-stack" },
      h(
        "p",
        { class: "card-about" },
        say("profile-stack-samples", { samples, all, share_ratio: samples / all }),
      ),
      framesList(shown, shown[marked] ?? null, folded),
    );
  });
  const rarer = counted.length - MOST_STACKS;
  return [
    ...shown_stacks,
    rarer > 0 && h("p", { key: "rarer", class: "card-about" }, say("profile-rarer", { stacks: rarer })),
  ];
}

/** The table. @param {Profile} profile @param {State} state @param {Actions} act */
function lines(profile, state, act) {
  const all = state.open["profile/all"] ?? false;
  const shown = all ? profile.lines : profile.lines.slice(0, FIRST_LINES);
  const per = profile.lines.some((line) => line.per_sample_s !== null) ? "sample" : profile.of;
  const heads = [
    say("profile-line"),
    say("profile-share", { interval: profile.samples >= LEAST_SAMPLES }),
    say("profile-per", { per }),
    say("profile-does"),
    say("profile-calls"),
  ];
  return h(
    "div",
    { class: "profile-lines" },
    h(
      "table",
      { class: "grid" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((t, i) => h("th", { scope: "col", class: i === 1 || i === 2 ? "num" : "" }, t)),
        ),
      ),
      h(
        "tbody",
        {},
        shown.flatMap((line) => lineRows(line, heads, profile, state, act)),
      ),
    ),
    profile.lines.length > FIRST_LINES &&
      h(
        "p",
        { class: "profile-more" },
        button(
          all
            ? say("profile-show-first", { number: FIRST_LINES })
            : say("profile-show-all", { number: profile.lines.length }),
          () => act.open("profile/all", !all),
        ),
      ),
  );
}

/**
 * @param {ProfileLine} line @param {string[]} heads @param {Profile} profile @param {State} state
 * @param {Actions} act
 */
function lineRows(line, heads, profile, state, act) {
  const [named = "", share = "", per = "", does = "", calls = ""] = heads;
  const id = `profile/${profile.of}/${line.file}:${line.line}:${line.function}`;
  const open = state.open[id] ?? false;
  return [
    h(
      "tr",
      { key: id, class: `row-link${open ? " on" : ""}`, onclick: () => act.open(id, !open) },
      cell(named, [
        h(
          "button",
          {
            type: "button",
            class: "pick",
            "aria-expanded": String(open),
            "aria-label": placeOf(line),
            title: line.file,
          },
          icon("right"),
          h("span", {}, baseOf(line.file)),
          `:${line.line}`,
        ),
        h("small", {}, line.function),
      ]),
      cell(
        share,
        [
          h("b", {}, percent(line.share)),
          profile.samples >= LEAST_SAMPLES &&
            h("small", {}, intervalText(line.low, line.high)),
        ],
        true,
      ),
      cell(per, duration(line.per_sample_s ?? line.per_batch_s), true),
      cell(
        does,
        [
          h(
            "ul",
            { class: "does" },
            largest(sorted(line.states)).map(({ state, share }) =>
              h(
                "li",
                { key: state },
                h("i", {
                  class: STATES[state].hatch ? "hatch" : "",
                  style: { "--swatch": `var(--${STATES[state].color})` },
                  "aria-hidden": "true",
                }),
                say("thread-state-share", { state, share_ratio: share }),
              ),
            ),
          ),
          (line.speedup ?? 0) >= LEAST_SPEEDUP &&
            h("small", {}, say("profile-without", { times: line.speedup })),
        ],
      ),
      cell(
        calls,
        line.calls === null
          ? h("span", { class: "muted" }, say("profile-own-code"))
          : h("code", {}, line.calls),
      ),
    ),
    open &&
      h(
        "tr",
        { key: `${id}/frames` },
        h(
          "td",
          { colspan: heads.length, class: "unfolded" },
          stackFrames(byFrames(stacksAt(profile, line)), (frame) => isAt(line, frame)),
        ),
      ),
  ];
}

/** An interval of shares with one sign at its end: "46–58 %". @param {number} low @param {number} high */
export function intervalText(low, high) {
  return `${percent(low).replace(/[\u202f ]*%$/, "")}–${percent(high)}`;
}
