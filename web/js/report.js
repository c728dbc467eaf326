// The page as one HTML file: text, style sheets and charts. It opens without a network and runs no script.

import { fileName, save, svgOf } from "./downloads.js";
import { say } from "./texts.js";

/** @typedef {import("./store.js").State} State */

/**
 * After this time without progress the report is made with parts missing. A hidden page draws nothing, so
 * that its time does not count.
 */
const WAIT_MS = 60_000;
/** Places whose content is missing or still loading. A drawn chart has an SVG. */
const UNDRAWN = ".skeleton, .is-failed > .empty, .small-none.is-failed, .plot:not(:has(.main-svg))";
const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
/** Parts that are useless on paper. */
const LEFT_OUT = "button, .range-bar, .page-tools, .neighbours, .downloads, select, input, .skeleton";

/**
 * Load and draw every card and unfold every alert first: the report has room for all of them.
 * @param {import("./store.js").Store} store
 * @param {{app: HTMLElement, every: (over: boolean) => void, title: string, tell: (note: string) => void}}
 *   page - `every` draws all cards
 */
export async function makeReport(store, { app, every, title, tell }) {
  const { open, findings } = store.state;
  tell(say("report-begins"));
  store.set({ open: { ...open, ...Object.fromEntries(findings.map((f) => [f.id, true])) } });
  try {
    await settled(() => {
      every(false);
      return app.querySelectorAll(`main :is(${UNDRAWN})`).length;
    });
    const main = /** @type {HTMLElement} */ (document.getElementById("content"));
    const missing = missingOn(main, store.state);
    const text = reportOf(main, { title, source: location.href, made: new Date(), missing });
    save(new Blob([text], { type: "text/html;charset=utf-8" }), fileName(store.state, "report", "html"));
    tell(say("report-saved", { missing: missing.length }));
  } catch (error) {
    tell(say("report-failed", { why: error instanceof Error ? error.message : String(error) }));
  } finally {
    store.set({ open });
    every(true);
  }
}

/**
 * The charts that the report lacks, in the order of `UNDRAWN` on the page, and why.
 * @param {HTMLElement} main @param {State} state @returns {{name: string, why: string}[]}
 */
function missingOn(main, state) {
  return [.../** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll(UNDRAWN))].map((place) => {
    const card = /** @type {HTMLElement|null} */ (place.closest("[data-card]"));
    const name =
      place.closest(".small")?.querySelector(".small-head span")?.textContent ??
      card?.getAttribute("aria-label") ??
      "";
    const error = place.dataset.why ?? state.cards[card?.dataset.card ?? ""]?.error;
    return {
      name,
      why: error ?? say(place.matches(".plot") ? "report-chart-not-drawn" : "report-chart-not-answered"),
    };
  });
}

/**
 * @param {HTMLElement} main - the page's content, with every card on it
 * @param {{title: string, source: string, made: Date, missing: {name: string, why: string}[]}} about
 */
function reportOf(main, about) {
  const copy = /** @type {HTMLElement} */ (main.cloneNode(true));
  copy.querySelectorAll(UNDRAWN).forEach((place, i) => {
    const text = document.createElement("p");
    text.className = "report-missing";
    text.textContent = say("report-chart-missing", { why: about.missing[i]?.why ?? "" });
    place.replaceWith(text);
  });
  const charts = [
    .../** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll(".plot:has(.main-svg)")),
  ].map((plot) => svgOf(plot).svg);
  copy.querySelectorAll(".plot").forEach((plot, i) => plot.replaceChildren(`@@chart ${i}@@`));
  for (const button of copy.querySelectorAll("button.alert-head, button.sort"))
    button.replaceWith(asText(button));
  for (const element of copy.querySelectorAll(LEFT_OUT)) element.remove();
  for (const link of copy.querySelectorAll("a")) link.removeAttribute("href");
  for (const element of copy.querySelectorAll("[id]")) element.removeAttribute("id");
  const body = copy.outerHTML.replace(/@@chart (\d+)@@/g, (_, i) => charts[Number(i)] ?? "");
  const time = about.made.toISOString().replace("T", " ").slice(0, 19);
  const head = [about.title, say("report-made", { time }), about.source].map(escaped).join(" · ");
  const names = about.missing.map((chart) => chart.name).join(", ");
  return [
    "<!doctype html>",
    `<html lang="${document.documentElement.lang}"${themeAttribute()}>`,
    '<head><meta charset="utf-8">' +
      `<meta http-equiv="Content-Security-Policy" content="${POLICY}">` +
      '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<title>${escaped(about.title)}</title><style>${styles()}\n${OWN}</style></head>`,
    `<body><p class="report-head">${head}</p>`,
    about.missing.length === 0
      ? ""
      : `<p class="report-missing" role="note">${escaped(say("report-missing", { charts: names }))}</p>`,
    body,
    "</body></html>",
  ].join("\n");
}

const OWN = `
.report-head { padding: 12px 24px; color: var(--muted); font-size: 13px;
  border-bottom: 1px solid var(--border); overflow-wrap: anywhere; }
.plot > svg { display: block; max-width: 100%; height: auto; }
.plot { height: auto !important; }
.chevron { display: none; }
.report-missing { margin: 12px 24px; padding: 8px 12px; border-left: 4px solid var(--warning);
  background: var(--warning-soft); font-size: 13px; }
@media print { :root { color-scheme: light; } .card, .tile, .alert { break-inside: avoid; } }
`;

/**
 * Wait until no part of the page is still loading, or until WAIT_MS passes without progress.
 * @param {() => number} left @returns {Promise<void>}
 */
async function settled(left) {
  let fewest = Infinity;
  let until = 0;
  for (let now_left = left(); now_left > 0; now_left = left()) {
    if (now_left < fewest || document.hidden) until = performance.now() + WAIT_MS;
    else if (performance.now() > until) return;
    fewest = Math.min(fewest, now_left);
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
}

/** A heading that no longer folds anything. @param {Element} button */
function asText(button) {
  const text = document.createElement("div");
  text.className = button.className;
  text.append(...button.childNodes);
  return text;
}

/** The page's own style sheets, as the browser parsed them. */
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
