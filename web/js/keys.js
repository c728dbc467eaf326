// The keyboard: this module says what a key means, main.js acts on it.

import { parentHash } from "./store.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {import("./main.js").Actions} Actions
 */

/** @param {() => State} state @param {Actions} act */
export function listenKeys(state, act) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    if (press(event.key, state(), act, target)) event.preventDefault();
  });
}

/**
 * @param {string} key @param {State} state @param {Actions} act @param {HTMLElement} target
 * @returns {boolean} whether the key meant something
 */
function press(key, state, act, target) {
  const { route } = state;
  if (state.editing !== null) return false;
  if (state.help && key !== "?" && key !== "Escape") return false;
  switch (key) {
    case "?":
      act.toggleHelp();
      return true;
    case "t":
      act.nextTheme();
      return true;
    case "l":
      act.nextLanguage();
      return true;
    case "u":
      act.toggleUtc();
      return true;
    case "n":
      act.toggleAttention();
      return true;
    case "j":
    case "ArrowDown":
      return move(1, key === "j" ? null : target);
    case "k":
    case "ArrowUp":
      return move(-1, key === "k" ? null : target);
    case "Escape":
    case "Backspace":
      if (state.help) act.toggleHelp();
      else if (key === "Escape" && state.view.kind === "fixed") act.resetZoom();
      else if (route.page === "runs") return false;
      else act.go(parentHash(route));
      return true;
  }
  if (route.run === null) return false;
  if (key === " " && target.tagName !== "BUTTON" && target.tagName !== "A") {
    act.togglePause();
    return true;
  }
  const spans = [300, 900, 3600];
  if (/^[1-3]$/.test(key)) act.view({ kind: "last", span_s: spans[Number(key) - 1] ?? 300 });
  else if (key === "4") act.view({ kind: "all" });
  else if (key === "a") act.toAlerts();
  else if (key === "[" || key === "]") act.neighbour(key === "[" ? -1 : 1);
  else return false;
  return true;
}

/**
 * Focus the next item of the page's lists. Arrow keys act only inside a list: elsewhere they scroll.
 * @param {number} by @param {HTMLElement|null} within
 */
function move(by, within) {
  const items = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-nav]")]);
  if (items.length === 0) return false;
  const at = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  if (at < 0 && within !== null && within !== document.body) return false;
  const last = items.length - 1;
  const entry = by > 0 ? 0 : last;
  const next = items[at < 0 ? entry : Math.max(0, Math.min(last, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
  return true;
}
