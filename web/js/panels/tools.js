// What a reader can take along from the page of a run or a rank.

import { recordingPath } from "../downloads.js";
import { h } from "../dom.js";
import { icon } from "../icons.js";
import { button } from "./parts.js";

/** @param {import("../store.js").State} state @param {import("../main.js").Actions} act */
export function pageTools(state, act) {
  const { run } = state.route;
  if (run === null) return null;
  return h(
    "div",
    { class: "page-tools", key: "tools" },
    button("Copy link", act.copyLink, { title: "The address of exactly this: range of time, rank and alert" }, icon("copy")),
    button("Report", act.report, { title: "This page as one file that opens without a network" }, icon("down")),
    h("a", { class: "button", href: `/api/v1${recordingPath(run)}`, download: "", onclick: act.takeRecording, title: "The newest hour of the run, for loaderwatch analyze FILE" }, icon("down"), h("span", {}, "Recording")),
  );
}
