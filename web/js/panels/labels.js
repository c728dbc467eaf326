// The dialog of a run: its name, tags, note and pin; and its end, which says what is lost and wants the run's name.

import { h } from "../dom.js";
import { bytes, duration, plural } from "../format.js";
import { icon } from "../icons.js";
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
  const run = editing && state.runs?.find((each) => each.run_id === editing.run);
  if (!editing || !run) return null;
  const { contents } = editing;
  return h(
    "div",
    { class: "overlay", key: `edit ${run.run_id}` },
    h(
      "div",
      {
        class: "dialog labels", role: "dialog", "aria-modal": "true", "aria-label": editing.deleting ? `Delete ${run.name}` : `Name, tags and note of ${run.name}`, tabindex: "-1",
        onkeydown: (/** @type {KeyboardEvent} */ e) => e.key === "Escape" && act.closeEditing(),
      },
      h("header", { class: "card-head" }, h("h2", {}, editing.deleting ? "Delete this run" : "Name, tags and note"), h("button", { type: "button", class: "icon-button", "aria-label": "Close", onclick: act.closeEditing }, icon("close"))),
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
    h("label", {}, h("span", {}, "Name"), h("input", { class: "field", name: "name", maxlength: "200", value: run.script === run.name ? "" : run.name, placeholder: run.script || run.name, disabled: fixed })),
    h("label", {}, h("span", {}, "Tags, with commas between"), h("input", { class: "field", name: "tags", maxlength: "800", value: (run.tags ?? []).join(", "), placeholder: "baseline, resnet50", disabled: fixed })),
    h("label", {}, h("span", {}, "Note"), h("textarea", { class: "field", name: "note", rows: "4", maxlength: "4000", disabled: fixed }, run.note ?? "")),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "pinned", checked: run.pinned ?? false, disabled: fixed }), h("span", {}, "Pinned: first in the list, and kept however old it gets")),
    h(
      "div",
      { class: "actions" },
      h("button", { type: "submit", class: "button primary", disabled: fixed }, "Save"),
      button("Delete the run…", act.askToDelete, { class: "button danger", disabled: contents === null || whyNot(contents) !== "" }),
      h("p", { class: "muted", role: "status" }, contents === null ? "" : fixed ? "Changing this takes the owner's token." : whyNot(contents)),
    ),
  );
}

/** Why this reader cannot delete it; "" where they can. @param {Contents} contents */
function whyNot(contents) {
  if (!contents.may_delete) return "Deleting takes the owner's token.";
  return contents.reporting ? "It is reporting; end its processes before you delete it." : "";
}

/** @param {Contents} contents @param {Actions} act */
function deleteForm(contents, act) {
  return h(
    "form",
    { class: "labels-form", key: "delete", onsubmit: act.deleteRun, autocomplete: "off" },
    h("p", {}, "This is lost for good, with its file on the server:"),
    h(
      "ul",
      { class: "lost" },
      [
        `${bytes(contents.bytes)} of records over ${duration(contents.seconds)}`,
        contents.steps === null ? "" : plural(contents.steps, "step"),
        contents.attempts > 1 ? plural(contents.attempts, "attempt") : "",
        plural(contents.alerts, "alert"),
        "its name, tags and note",
      ]
        .filter(Boolean)
        .map((what) => h("li", {}, what)),
    ),
    h("label", {}, h("span", {}, "To delete it, write its name: ", h("b", {}, contents.name)), h("input", { class: "field", name: "confirm", required: true, "data-first": true })),
    h("div", { class: "actions" }, h("button", { type: "submit", class: "button danger" }, "Delete for good"), button("Cancel", act.closeEditing)),
  );
}
