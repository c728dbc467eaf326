// The page as one HTML file that opens without a network and runs nothing: what it says, its style sheets and its charts.

import { fileName, save, svgOf } from "./downloads.js";

const WAIT_MS = 60_000;
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
/** What makes no sense on paper. */
const LEFT_OUT = "button, .range-bar, .page-tools, .neighbours, .downloads, select, input, .skeleton";

/**
 * Every card is loaded and drawn first, and every alert unfolded: the report has room for all of it.
 * @param {import("./store.js").Store} store
 * @param {{app: HTMLElement, every: (over: boolean) => void, title: string, tell: (note: string) => void}} page - `every` has all cards drawn
 */
export async function makeReport(store, { app, every, title, tell }) {
  const { open, findings } = store.state;
  tell("Making the report");
  store.set({ open: { ...open, ...Object.fromEntries(findings.map((f) => [f.id, true])) } });
  try {
    await settled(() => {
      every(false);
      return app.querySelector("main .skeleton") === null && [...app.querySelectorAll(".plot")].every((plot) => plot.querySelector(".main-svg") !== null);
    });
    const main = /** @type {HTMLElement} */ (document.getElementById("content"));
    const text = reportOf(main, { title, source: location.href, made: new Date() });
    save(new Blob([text], { type: "text/html;charset=utf-8" }), fileName(store.state, "report", "html"));
    tell("The report is saved");
  } catch (error) {
    tell(`No report: ${error instanceof Error ? error.message : error}`);
  } finally {
    store.set({ open });
    every(true);
  }
}

/**
 * @param {HTMLElement} main - the page's content, with every card on it
 * @param {{title: string, source: string, made: Date}} about
 */
function reportOf(main, about) {
  const copy = /** @type {HTMLElement} */ (main.cloneNode(true));
  const charts = [.../** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll(".plot"))].map(chartText);
  copy.querySelectorAll(".plot").forEach((plot, i) => plot.replaceChildren(`@@chart ${i}@@`));
  for (const button of copy.querySelectorAll("button.alert-head, button.sort")) button.replaceWith(asText(button));
  for (const each of copy.querySelectorAll(LEFT_OUT)) each.remove();
  for (const link of copy.querySelectorAll("a")) link.removeAttribute("href");
  for (const each of copy.querySelectorAll("[id]")) each.removeAttribute("id");
  const body = copy.outerHTML.replace(/@@chart (\d+)@@/g, (_, i) => charts[Number(i)] ?? "");
  return [
    "<!doctype html>",
    `<html lang="en"${themeAttribute()}>`,
    `<head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}"><meta name="viewport" content="width=device-width, initial-scale=1">`,
    `<title>${escaped(about.title)}</title><style>${styles()}\n${OWN}</style></head>`,
    `<body><p class="report-head">${escaped(about.title)} · report of ${escaped(about.made.toISOString().replace("T", " ").slice(0, 19))} UTC · ${escaped(about.source)}</p>`,
    body,
    "</body></html>",
  ].join("\n");
}

const OWN = `
.report-head { padding: 12px 24px; color: var(--muted); font-size: 13px; border-bottom: 1px solid var(--border); overflow-wrap: anywhere; }
.plot > svg { display: block; max-width: 100%; height: auto; }
.plot { height: auto !important; }
.chevron { display: none; }
@media print { :root { color-scheme: light; } .card, .tile, .alert { break-inside: avoid; } }
`;

/** Wait until nothing that is on the page is still to come. @param {() => boolean} ready @returns {Promise<void>} */
async function settled(ready) {
  const until = performance.now() + WAIT_MS;
  while (!ready() && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 150));
}

/** @param {HTMLElement} plot */
function chartText(plot) {
  try {
    return svgOf(plot).svg;
  } catch (error) {
    return escaped(error instanceof Error ? error.message : String(error));
  }
}

/** A heading that folds nothing any more. @param {Element} button */
function asText(button) {
  const text = document.createElement("div");
  text.className = button.className;
  text.append(...button.childNodes);
  return text;
}

/** Our own style sheets, as the browser has read them. */
function styles() {
  return [...document.styleSheets]
    .filter((sheet) => sheet.href !== null)
    .flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText))
    .join("\n")
    .replaceAll("</", "<\\/");
}

function themeAttribute() {
  const { theme } = document.documentElement.dataset;
  return theme === undefined ? "" : ` data-theme="${escaped(theme)}"`;
}

/** @param {string} text */
function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
