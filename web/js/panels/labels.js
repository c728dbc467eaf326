// The dialog of a run: name, tags, note and pin. It also deletes the run: it says what is lost, and asks for
// the run's name.

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { say } from "../texts.js";
import { button } from "./parts.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Contents} Contents
 * @typedef {import("../types.js").RunRow} RunRow
 * @typedef {import("../main.js").Actions} Actions
 */

/** @param {State} state @param {Actions} act */
export function labelsDialog(state, act) {
  const { editing } = state;
  const run = editing && state.runs?.find((row) => row.run_id === editing.run);
  if (!editing || !run) return null;
  const { contents } = editing;
  return h(
    "div",
    { class: "overlay", key: `edit ${run.run_id}` },
    h(
      "div",
      {
        class: "dialog labels",
        role: "dialog",
        "aria-modal": "true",
        "aria-label": say(editing.deleting ? "delete-run-named" : "labels-of-run", { name: run.name }),
        tabindex: "-1",
        onkeydown: (/** @type {KeyboardEvent} */ e) => e.key === "Escape" && act.closeEditing(),
      },
      h(
        "header",
        { class: "card-head" },
        h("h2", {}, say(editing.deleting ? "delete-this-run" : "labels")),
        h(
          "button",
          { type: "button", class: "icon-button", "aria-label": say("close"), onclick: act.closeEditing },
          icon("close"),
        ),
      ),
      editing.error !== "" && h("p", { class: "notice warning", role: "alert" }, editing.error),
      editing.deleting && contents !== null ? deleteForm(contents, act) : labelsForm(run, contents, act),
    ),
  );
}

/** @param {RunRow} run @param {Contents|null} contents @param {Actions} act */
function labelsForm(run, contents, act) {
  const fixed = contents !== null && !contents.may_change;
  return h(
    "form",
    { class: "labels-form", key: "labels", onsubmit: act.saveLabels, autocomplete: "off" },
    h(
      "label",
      {},
      h("span", {}, say("run-name")),
      h("input", {
        class: "field",
        name: "name",
        maxlength: "200",
        value: run.script === run.name ? "" : run.name,
        placeholder: run.script || run.name,
        disabled: fixed,
      }),
    ),
    h(
      "label",
      {},
      h("span", {}, say("run-tags")),
      h("input", {
        class: "field",
        name: "tags",
        maxlength: "800",
        value: (run.tags ?? []).join(", "),
        placeholder: say("run-tags-example"),
        disabled: fixed,
      }),
    ),
    h(
      "label",
      {},
      h("span", {}, say("run-note")),
      h(
        "textarea",
        { class: "field", name: "note", rows: "4", maxlength: "4000", disabled: fixed },
        run.note ?? "",
      ),
    ),
    h(
      "label",
      { class: "check" },
      h("input", { type: "checkbox", name: "pinned", checked: run.pinned ?? false, disabled: fixed }),
      h("span", {}, say("run-pinned")),
    ),
    h(
      "div",
      { class: "actions" },
      h("button", { type: "submit", class: "button primary", disabled: fixed }, say("save")),
      button(say("delete-the-run"), act.askToDelete, {
        class: "button danger",
        disabled: contents === null || whyNot(contents) !== "",
      }),
      h(
        "p",
        { class: "muted", role: "status" },
        contents === null ? "" : fixed ? say("labels-need-token") : whyNot(contents),
      ),
    ),
  );
}

/** Why this reader cannot delete the run; "" if they can. @param {Contents} contents */
function whyNot(contents) {
  if (!contents.may_delete) return say("delete-needs-token");
  return contents.reporting ? say("delete-while-reporting") : "";
}

/** @param {Contents} contents @param {Actions} act */
function deleteForm(contents, act) {
  return h(
    "form",
    { class: "labels-form", key: "delete", onsubmit: act.deleteRun, autocomplete: "off" },
    h("p", {}, say("delete-loses")),
    h(
      "ul",
      { class: "lost" },
      [
        say("delete-loses-records", { records_bytes: contents.bytes, recorded_s: contents.seconds }),
        contents.steps === null ? "" : say("steps-counted", { steps: contents.steps }),
        contents.attempts > 1 ? say("attempts-counted", { attempts: contents.attempts }) : "",
        say("delete-loses-alerts", { alerts: contents.alerts }),
        say("delete-loses-labels"),
      ].filter(Boolean).map((line) => h("li", {}, line)),
    ),
    h(
      "label",
      {},
      h("span", {}, say("delete-write-name"), " ", h("b", {}, contents.name)),
      h("input", { class: "field", name: "confirm", required: true, "data-first": true }),
    ),
    h(
      "div",
      { class: "actions" },
      h("button", { type: "submit", class: "button danger" }, say("delete-for-good")),
      button(say("cancel"), act.closeEditing),
    ),
  );
}
