// The reader's language: the one that was chosen on the page, else the one that the browser asks for.

/** @typedef {"en"|"zh"} Language */

const KEY = "loaderwatch.language";
/** Languages of browsers. */
const CHINESE = /^zh\b/i;
/** The language that has every message. @type {Language} */
export const SOURCE = "en";

/** @type {Language} */
let drawn = SOURCE;
/** @type {Language|null} */
let wanted = null;

/** The language in which the page is drawn. @returns {Language} */
export const pageLanguage = () => drawn;

/** The language to ask the server for; null where the server answers in the page's language by itself. @returns {Language|null} */
export const asked = () => wanted;

/** Draw in a language, and ask the server for it where the browser asks for another one. @param {Language} chosen */
export function drawIn(chosen) {
  drawn = chosen;
  wanted = chosen === SOURCE && !asksForChinese() ? null : chosen;
}

/** What the reader chose, else what the browser asks for. @returns {Language} */
export function chosenLanguage() {
  const saved = localStorage.getItem(KEY);
  if (saved === "en" || saved === "zh") return saved;
  return asksForChinese() ? "zh" : "en";
}

/** Choose a language from the next visit on. @param {Language} chosen */
export function saveLanguage(chosen) {
  localStorage.setItem(KEY, chosen);
}

const asksForChinese = () => CHINESE.test(globalThis.navigator?.language ?? "");
