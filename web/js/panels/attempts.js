// Which attempt of a run is shown, how the one before ended, and the way to the others.

import { h } from "../dom.js";
import { clock, plural } from "../format.js";
import { routeHash, serverNow } from "../store.js";
import { shownState } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Summary} Summary
 * @typedef {import("../types.js").Earlier} Earlier
 * @typedef {import("../main.js").Actions} Actions
 */

/** How an attempt ended: "crashed after 1,204 steps: SIGKILL", "ended after 5 steps: SIGTERM". @param {Earlier} one */
export function ended(one) {
  const state = shownState(one.state, one.exit);
  const how = state === "lost" ? "ended without a word" : state === "stopped" ? "ended" : state;
  return `${how}${one.steps === null ? "" : ` after ${plural(one.steps, "step")}`}${one.exit === null ? "" : `: ${one.exit}`}`;
}

/** Nothing while there was only one. @param {Summary} s @param {State} state @param {Actions} act */
export function attemptBar(s, state, act) {
  if (s.attempts === 1) return null;
  const now = serverNow(state);
  const before = s.earlier.find((one) => one.attempt === s.attempt - 1);
  const facts = [
    `Attempt ${s.attempt} of ${s.attempts}`,
    `began ${clock(s.started_at, now)}`,
    before === undefined ? "" : `the one before ${ended(before)}`,
  ];
  const choices = [
    { attempt: s.attempts, label: `Attempt ${s.attempts}, the newest` },
    ...[...s.earlier].reverse().map((one) => ({ attempt: one.attempt, label: `Attempt ${one.attempt}, ${one.state === "lost" ? "no news of its end" : shownState(one.state, one.exit)}` })),
  ];
  /** @param {Event} event */
  const choose = (event) => {
    const attempt = Number(/** @type {HTMLSelectElement} */ (event.target).value);
    act.go(routeHash({ run: s.run_id, attempt: attempt === s.attempts ? null : attempt }));
  };
  return h(
    "div",
    { class: `attempts ${s.attempt < s.attempts ? "earlier" : ""}`, key: "attempts", role: "group", "aria-label": "Attempts of this run" },
    h("p", { class: "attempts-text" }, facts.filter(Boolean).join(" · ")),
    h(
      "label",
      { class: "select" },
      h("span", {}, "Show"),
      h("select", { onchange: choose }, choices.map((c) => h("option", { key: c.attempt, value: String(c.attempt), selected: c.attempt === s.attempt }, c.label))),
    ),
    s.attempt < s.attempts && h("a", { class: "button", href: routeHash({ run: s.run_id }) }, "To the newest"),
  );
}
