// The audit of the configuration, folded to one line until the reader opens it.

import { h } from "../dom.js";
import { severityIcon } from "../icons.js";
import { say } from "../texts.js";
import { card } from "./frame.js";
import { button, empty } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Advice} Advice
 * @typedef {import("../main.js").Actions} Actions
 */

/** @param {Advice[]} list */
function count(list) {
  const changes = list.filter((a) => a.severity !== "info").length;
  return say("audit-counted", { changes, remarks: list.length - changes });
}

/** @param {State} state @param {Actions} act */
export function auditPanel(state, act) {
  /** @type {Advice[]|null} */
  const list = state.cards.audit?.data ?? null;
  const open = state.open.audit ?? false;
  return card(state, {
    id: "audit",
    title: say("audit-title"),
    about: list === null ? "" : count(list),
    extra: button(say(open ? "hide" : "show"), () => act.open("audit", !open), {
      "aria-expanded": String(open),
    }),
    height: "32px",
    flush: true,
    body: open ? h("div", { class: "advice-list", role: "list" }, (list ?? []).map(adviceRow)) : null,
    empty: open && list?.length === 0 ? empty(say("audit-nothing"), say("audit-nothing-why")) : null,
  });
}

/** @param {Advice} a */
function adviceRow(a) {
  const who = [
    a.loader ?? "",
    a.ranks.length > 1 ? say("ranks-counted", { ranks: a.ranks.length }) : "",
  ].filter(Boolean);
  return h(
    "div",
    { class: `advice-row tone-${a.severity}`, role: "listitem", key: `${a.check}/${a.loader}` },
    severityIcon(a.severity),
    h(
      "div",
      { class: "alert-words" },
      h("p", {}, h("b", {}, a.what), who.map((w) => h("span", { class: "chip" }, w))),
      h("p", { class: "advice-why" }, a.why),
      h("p", { class: "advice" }, a.change),
    ),
  );
}
