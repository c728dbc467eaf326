// The reader's language: chosen on the page, or else requested by the browser.

/** @typedef {"en"|"zh"} Language */

const KEY = "loaderwatch.language";
/** Codes of Chinese in a browser's list of languages. */
const CHINESE = /^zh\b/i;
/** The language that has every message. @type {Language} */
export const SOURCE = "en";

/** @type {Language} */
let drawn = SOURCE;
/** @type {Language|null} */
let wanted = null;

/** The language in which the page is drawn. @returns {Language} */
export const pageLanguage = () => drawn;

/** The language to request; null: the server's choice is already the page's. @returns {Language|null} */
export const asked = () => wanted;

/** Draw in a language, and request it from the server if the browser would not. @param {Language} chosen */
export function drawIn(chosen) {
  drawn = chosen;
  wanted = chosen === SOURCE && !asksForChinese() ? null : chosen;
}

/** The language that the reader chose, or else the browser's. @returns {Language} */
export function chosenLanguage() {
  const saved = localStorage.getItem(KEY);
  if (saved === "en" || saved === "zh") return saved;
  return asksForChinese() ? "zh" : "en";
}

/** Save the language for the next visits. @param {Language} chosen */
export function saveLanguage(chosen) {
  localStorage.setItem(KEY, chosen);
}

const asksForChinese = () => CHINESE.test(globalThis.navigator?.language ?? "");
