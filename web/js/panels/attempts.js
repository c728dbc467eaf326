// The shown attempt of a run, the end of the previous one, and links to the others.

import { h } from "../dom.js";
import { clock } from "../format.js";
import { routeHash, serverNow } from "../store.js";
import { say } from "../texts.js";
import { shownState } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Summary} Summary
 * @typedef {import("../main.js").Actions} Actions
 */

/** A run's attempts; null: only one. @param {Summary} s @param {State} state @param {Actions} act */
export function attemptBar(s, state, act) {
  if (s.attempts === 1) return null;
  const now = serverNow(state);
  const previous = s.earlier.find((earlier) => earlier.attempt === s.attempt - 1);
  const facts = [
    say("attempt-of", { attempt: s.attempt, attempts: s.attempts }),
    say("began-at", { when: clock(s.started_at, now) }),
    previous === undefined
      ? ""
      : say("attempt-before", {
          state: shownState(previous.state, previous.exit),
          steps: previous.steps,
          exit: previous.exit,
        }),
  ];
  const choices = [
    { attempt: s.attempts, label: say("attempt-newest", { attempt: s.attempts }) },
    ...[...s.earlier].reverse().map((earlier) => ({
      attempt: earlier.attempt,
      label: say("attempt-choice", {
        attempt: earlier.attempt,
        state: shownState(earlier.state, earlier.exit),
      }),
    })),
  ];
  /** @param {Event} event */
  const choose = (event) => {
    const attempt = Number(/** @type {HTMLSelectElement} */ (event.target).value);
    act.go(routeHash({ run: s.run_id, attempt: attempt === s.attempts ? null : attempt }));
  };
  return h(
    "div",
    {
      class: `attempts ${s.attempt < s.attempts ? "earlier" : ""}`,
      key: "attempts",
      role: "group",
      "aria-label": say("attempts-of-run"),
    },
    h("p", { class: "attempts-text" }, facts.filter(Boolean).join(" · ")),
    h(
      "label",
      { class: "select" },
      h("span", {}, say("show")),
      h(
        "select",
        { onchange: choose },
        choices.map((c) =>
          h(
            "option",
            { key: c.attempt, value: String(c.attempt), selected: c.attempt === s.attempt },
            c.label,
          ),
        ),
      ),
    ),
    s.attempt < s.attempts &&
      h("a", { class: "button", href: routeHash({ run: s.run_id }) }, say("to-the-newest")),
  );
}
