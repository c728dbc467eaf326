// Icons as data: one stroke weight, 16 × 16.

import { h } from "./dom.js";

/** @type {Record<string, string[]>} */
const PATHS = {
  ok: ["M8 1.75a6.25 6.25 0 1 0 0 12.5a6.25 6.25 0 0 0 0-12.5Z", "m5.2 8.2 2 2 3.6-4"],
  warning: ["M8 2.2 1.9 12.9a.6.6 0 0 0 .5.9h11.2a.6.6 0 0 0 .5-.9Z", "M8 6.4v3.2", "M8 11.7v.1"],
  critical: ["M5.4 1.75h5.2l3.65 3.65v5.2l-3.65 3.65H5.4L1.75 10.6V5.4Z", "M8 4.9v3.6", "M8 10.9v.1"],
  info: ["M8 1.75a6.25 6.25 0 1 0 0 12.5a6.25 6.25 0 0 0 0-12.5Z", "M8 7.4v3.4", "M8 5.1v.1"],
  right: ["m6 3.5 4.5 4.5L6 12.5"],
  back: ["M13 8H3.4", "M7.2 4 3.2 8l4 4"],
  copy: ["M5.5 5.5h7.75v7.75H5.5Z", "M3.6 10.5h-.85V2.75h7.75v.85"],
  sun: [
    "M8 5a3 3 0 1 0 0 6a3 3 0 0 0 0-6Z",
    "M8 1.2v1.3M8 13.5v1.3M1.2 8h1.3M13.5 8h1.3M3.2 3.2l.9.9M11.9 11.9l.9.9M3.2 12.8l.9-.9M11.9 4.1l.9-.9",
  ],
  moon: ["M13.4 9.6A5.8 5.8 0 0 1 6.4 2.6a5.8 5.8 0 1 0 7 7Z"],
  auto: ["M8 1.75a6.25 6.25 0 1 0 0 12.5a6.25 6.25 0 0 0 0-12.5Z", "M8 1.75v12.5"],
  help: [
    "M6.1 6.1a1.95 1.95 0 1 1 2.7 1.8c-.5.2-.8.6-.8 1.2v.3",
    "M8 11.6v.1",
    "M8 1.75a6.25 6.25 0 1 0 0 12.5a6.25 6.25 0 0 0 0-12.5Z",
  ],
  pause: ["M5.5 3.5v9M10.5 3.5v9"],
  play: ["M5 3.2v9.6l7.6-4.8Z"],
  close: ["m4 4 8 8M12 4l-8 8"],
  gap: ["M1.75 8h3M11.25 8h3", "M7 4.5 6 11.5M10 4.5 9 11.5"],
  bell: ["M3.6 11.4h8.8l-1-1.6V7a3.4 3.4 0 0 0-6.8 0v2.8Z", "M6.8 13.4h2.4"],
  silent: ["M3.6 11.4h8.8l-1-1.6V7a3.4 3.4 0 0 0-6.8 0v2.8Z", "M6.8 13.4h2.4", "m2.2 2.2 11.6 11.6"],
  pin: ["M5.2 2.5h5.6M6.2 2.5v4L4 9.25h8L9.8 6.5v-4", "M8 9.25v4.5"],
  edit: ["m3 13 .6-2.8L10.9 2.9l2.2 2.2-7.3 7.3Z"],
  compare: ["M2.5 5h8.5M8.5 2.5 11 5 8.5 7.5", "M13.5 11H5M7.5 8.5 5 11l2.5 2.5"],
  down: ["M8 2.5v7.8M4.8 7.3 8 10.5l3.2-3.2", "M3 13.25h10"],
  camera: ["M2 4.75h2.6l1-1.5h4.8l1 1.5H14v8.5H2Z", "M8 6.6a2.2 2.2 0 1 0 0 4.4a2.2 2.2 0 0 0 0-4.4Z"],
};

/** @param {string} name @param {string} [extra] - more classes */
export function icon(name, extra = "") {
  return h(
    "svg",
    { class: `icon ${extra}`.trim(), viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    (PATHS[name] ?? []).map((d) => h("path", { d })),
  );
}

/** The sawtooth logo. */
export function logo() {
  return h(
    "svg",
    { class: "logo", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" },
    h("path", {
      class: "logo-ground",
      d: "M5 1h14a4 4 0 0 1 4 4v14a4 4 0 0 1-4 4H5a4 4 0 0 1-4-4V5a4 4 0 0 1 4-4Z",
    }),
    h("path", { class: "logo-line", d: "M4.5 16.5 8 7v9.5L13 7v9.5L19.5 7v9.5" }),
  );
}

/** @param {string} severity */
export function severityIcon(severity) {
  const name = ["critical", "warning", "info"].includes(severity) ? severity : "ok";
  return icon(name, `sev-${name}`);
}
