// The only module that touches Plotly. The library (0.8 MB) loads after the first paint.

import { fromAxis } from "./charts/axis.js";
import { say } from "./texts.js";

/**
 * @typedef {import("./charts/axis.js").Figure} Figure
 * @typedef {object} Reactions
 * @property {(start: number, end: number) => void} zoom - the reader drew a range, UTC seconds
 * @property {() => void} reset - double click
 * @property {(t: number|null) => void} point - the moment under the pointer, UTC seconds; null: it left
 * @property {(id: string, y: number) => void} click - on a row of a chart
 */

const CONFIG = {
  displayModeBar: false,
  responsive: false,
  doubleClick: false,
  showTips: false,
  scrollZoom: false,
};

/** @type {Promise<any>|null} */
let loading = null;

/**
 * The hash of the library's file. It is the only script that loads after the page, perhaps from a process
 * that took over the server's port. The test of the gate's security headers checks the hash.
 */
const INTEGRITY = "sha384-tbZWJa6S2uzN/pj0RFqwZUYj975As/jPtuNDQuFhWIci2azb13tTa/8LdSHBlrq3";

/** The only script that the page adds: under Trusted Types a browser accepts its address from here alone. */
const SCRIPT = { createScriptURL: () => new URL("../vendor/plotly.min.js", import.meta.url).href };
const trusted = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("loaderwatch", SCRIPT) ?? SCRIPT;

/** @returns {Promise<any>} the Plotly object @throws {Error} when the file cannot be loaded */
export function load() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = trusted.createScriptURL("");
    script.integrity = INTEGRITY;
    script.async = true;
    script.onload = () => resolve(/** @type {any} */ (window).Plotly);
    script.onerror = () => {
      loading = null;
      script.remove();
      reject(new Error(say("chart-library-not-loaded")));
    };
    document.head.append(script);
  });
  return loading;
}

/** Elements whose events are connected. @type {Set<HTMLElement>} */
const wired = new Set();

/**
 * Mark the moment under the pointer on every chart (`.plot::after` draws the line).
 * @param {any} plot @param {number|null} client_x - null: the pointer left
 * @returns {number|null} that moment in UTC seconds; null beside the data
 */
function point(plot, client_x) {
  const axis = plot._fullLayout?.xaxis;
  if (axis === undefined) return null;
  const at =
    client_x === null ? -1 : (client_x - plot.getBoundingClientRect().left - axis._offset) / axis._length;
  for (const element of wired) {
    element.classList.toggle("is-pointed", at >= 0 && at <= 1);
    element.style.setProperty("--at", at.toFixed(4));
  }
  return at >= 0 && at <= 1 ? fromAxis(axis.p2d(at * axis._length)) : null;
}

/** @param {HTMLElement} element @param {Figure} figure @param {Reactions} reactions */
export async function draw(element, figure, reactions) {
  const Plotly = await load();
  if (!element.isConnected) return;
  figure.layout.width = element.clientWidth;
  await Plotly.react(element, figure.data, figure.layout, CONFIG);
  if (wired.has(element)) return;
  wired.add(element);
  const plot = /** @type {any} */ (element);
  plot.on("plotly_relayout", (/** @type {any} */ change) => {
    const from = change["xaxis.range[0]"];
    const to = change["xaxis.range[1]"];
    if (from !== undefined && to !== undefined) reactions.zoom(fromAxis(from), fromAxis(to));
  });
  element.addEventListener("pointermove", (event) => reactions.point(point(plot, event.clientX)));
  element.addEventListener("pointerleave", () => reactions.point(point(plot, null)));
  plot.on("plotly_doubleclick", () => reactions.reset());
  plot.on("plotly_click", (/** @type {any} */ event) => {
    const point = event.points?.[0];
    if (point !== undefined) reactions.click(element.id, Number(point.y));
  });
}

/** Release Plotly's data of a removed element. @param {HTMLElement} element */
export async function purge(element) {
  if (loading !== null && wired.delete(element)) (await loading).purge(element);
}
