// Downloads: a chart as CSV or picture, the recording, the page as a report. The buttons carry their target
// as data attributes, so that cards know nothing about downloads.

import { runPath, signedAddress } from "./api.js";
import { csvOf } from "./csv.js";
import { h } from "./dom.js";
import { cardOf } from "./figures.js";
import { say } from "./texts.js";

/** @typedef {import("./store.js").State} State */

const SCALE = 2; // pixels of the picture per pixel of the page

/** The download buttons of a chart. @param {string} id - of its plot */
export function downloadButtons(id) {
  return h(
    "span",
    { class: "downloads", key: "downloads" },
    ["csv", "png"].map((kind) =>
      h(
        "button",
        {
          type: "button",
          class: "take",
          key: kind,
          "data-take": kind,
          "data-of": id,
          title: say("download-chart", { kind }),
          "aria-label": say("download-chart-button", { kind }),
        },
        kind.toUpperCase(),
      ),
    ),
  );
}

/** The address of a file with the last hour of a run, for `loaderwatch analyze`. @param {string} run */
export const recordingPath = (run) => `${runPath(run)}/recording?last=3600`;

/** @param {string} run */
export async function takeRecording(run) {
  take(await signedAddress(recordingPath(run)), "");
}

/** @param {() => State} state @param {(note: string) => void} tell */
export function listenTakes(state, tell) {
  document.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    const button = /** @type {HTMLElement|null} */ (target.closest?.("[data-take]"));
    if (button === null) return;
    const { take: kind, of: id = "" } = button.dataset;
    const work = kind === "csv" ? takeCsv(state(), id) : takePicture(state(), id);
    work.catch((error) =>
      tell(say("note-not-done", { why: error instanceof Error ? error.message : String(error) })),
    );
  });
}

/** @param {State} state @param {string} id */
async function takeCsv(state, id) {
  const data = state.cards[cardOf(id)]?.data;
  const metric = id.startsWith("small-") ? data?.[id.slice("small-".length)] : undefined;
  const text = csvOf(metric ?? data);
  if (text === null) throw new Error(say("download-no-table"));
  save(new Blob([text], { type: "text/csv;charset=utf-8" }), fileName(state, id, "csv"));
}

/** @param {State} state @param {string} id */
async function takePicture(state, id) {
  const element = /** @type {HTMLElement|null} */ (document.getElementById(`plot-${id}`));
  if (element === null) throw new Error(say("download-not-drawn"));
  const title =
    element.closest("[data-card], .small")?.querySelector("h2, .small-head span")?.textContent ?? id;
  const { svg, width, height } = svgOf(element, `${title} · ${state.summary?.name ?? state.route.run ?? ""}`);
  save(await rasterized(svg, width, height), fileName(state, id, "png"));
}

/**
 * A chart as the text of an SVG, with an optional title above it. It is assembled from Plotly's drawing:
 * Plotly's own export writes markup into the page, which Trusted Types forbid.
 * @param {HTMLElement} element @param {string} [title]
 */
export function svgOf(element, title) {
  const [first, ...over] = /** @type {NodeListOf<SVGElement>} */ (element.querySelectorAll(".main-svg"));
  if (first === undefined) throw new Error(say("download-not-drawn"));
  const above = title === undefined ? 0 : 40;
  const [width, height] = [element.clientWidth, element.clientHeight + above];
  const root = document.documentElement;
  const colour = (/** @type {string} */ name) => getComputedStyle(root).getPropertyValue(name).trim();
  const svg = part("svg", { width, height, viewBox: `0 ${-above} ${width} ${height}` });
  svg.append(part("rect", { x: 0, y: -above, width, height, fill: colour("--panel") }));
  if (title !== undefined) {
    const text = part("text", {
      x: 12,
      y: 22 - above,
      fill: colour("--text"),
      "font-family": getComputedStyle(root).fontFamily,
      "font-size": 14,
      "font-weight": 600,
    });
    text.textContent = title;
    svg.append(text);
  }
  for (const layer of [first, ...over]) {
    const copy = /** @type {SVGElement} */ (layer.cloneNode(true));
    for (const tool of copy.querySelectorAll(TOOLS)) tool.remove();
    for (const image of copy.querySelectorAll("image")) withoutNamespace(image);
    svg.append(...copy.childNodes);
  }
  return { svg: new XMLSerializer().serializeToString(svg), width, height };
}

/**
 * Plotly names a heat map's image in XLink's namespace without a prefix, which HTML files cannot express.
 * @param {SVGImageElement} image
 */
function withoutNamespace(image) {
  const address = image.href.baseVal;
  image.removeAttributeNS("http://www.w3.org/1999/xlink", "href");
  image.setAttribute("href", address);
}

/** Layers that Plotly draws for the pointer. */
const TOOLS = ".draglayer, .hoverlayer, .zoomlayer, .selectionlayer";

/** @param {string} tag @param {Record<string, string|number>} attributes */
function part(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/** @param {string} svg @param {number} width @param {number} height @returns {Promise<Blob>} */
async function rasterized(svg, width, height) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * SCALE, height * SCALE];
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob(
      (blob) => (blob === null ? reject(new Error(say("download-no-picture"))) : resolve(blob)),
      "image/png",
    ),
  );
}

/** @param {State} state @param {string} what @param {string} ending */
export function fileName(state, what, ending) {
  const rank = state.route.rank === null ? "" : `-rank${state.route.rank}`;
  return `${state.route.run ?? "loaderwatch"}${rank}-${what}.${ending}`.replace(/[^\w.-]+/g, "_");
}

/** @param {Blob} blob @param {string} name */
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  take(address, name);
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** @param {string} address @param {string} name - "": the name that the server gives */
function take(address, name) {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}
