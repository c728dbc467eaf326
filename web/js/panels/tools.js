// The downloads of the page of a run or a rank.

import { recordingPath } from "../downloads.js";
import { h } from "../dom.js";
import { icon } from "../icons.js";
import { say } from "../texts.js";
import { button } from "./parts.js";

/** @param {import("../store.js").State} state @param {import("../main.js").Actions} act */
export function pageTools(state, act) {
  const { run } = state.route;
  if (run === null) return null;
  return h(
    "div",
    { class: "page-tools", key: "tools" },
    button(say("take-link"), act.copyLink, { title: say("take-link-about") }, icon("copy")),
    button(say("take-report"), act.report, { title: say("take-report-about") }, icon("down")),
    h(
      "a",
      {
        class: "button",
        href: `/api/v1${recordingPath(run)}`,
        download: "",
        onclick: act.takeRecording,
        title: say("take-recording-about"),
      },
      icon("down"),
      h("span", {}, say("take-recording")),
    ),
  );
}
