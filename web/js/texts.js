// The texts of the page: messages by id from the catalogues `web/lang/LANGUAGE/*.ftl`, in the syntax of
// Project Fluent. `loaderwatch/texts` does the same for the server's texts. Load the catalogues
// (`loadCatalogues`) before the first drawing.

import { FluentBundle, FluentNone, FluentNumber, FluentResource } from "../vendor/fluent/index.js";
import { UNKNOWN, ago, bytes, count, duration, listed, number, percent } from "./format.js";
import { SOURCE, chosenLanguage, drawIn } from "./reader.js";

/**
 * @typedef {import("./reader.js").Language} Language
 * @typedef {string|number|boolean|null|undefined} Parameter - null and undefined: not known
 * @typedef {import("../vendor/fluent/types.js").FluentFunction} FluentFunction
 */

/** The files of each language. */
export const FILES = ["page", "panels", "charts"];

/** Replaces a line break of a parameter while the line breaks of the catalogue's file are removed. */
const KEPT_BREAK = "\ue000";
const BROKEN_LINE = /\s*\n\s*/g;
const BETWEEN_HAN = /(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\s*\n\s*/g;

/** A parameter without a value. KNOWN recognizes it; as a number it is NaN, which becomes a dash. */
class Unknown extends FluentNone {
  toString() {
    return UNKNOWN;
  }
}

/**
 * @param {(value: number, language: Language) => string} format @param {Language} language
 * @returns {FluentFunction}
 */
const numeric = (format, language) => ([value]) => {
  if (value instanceof FluentNumber) return format(value.value, language);
  if (value instanceof Unknown) return format(NaN, language);
  throw new TypeError(`no number: ${value}`);
};

/**
 * The functions of the catalogues, with the names of `loaderwatch/texts/formats.py`. Numbers look as in the
 * page's tables.
 * @param {Language} language @returns {Record<string, FluentFunction>}
 */
const functionsOf = (language) => ({
  DURATION: numeric(duration, language),
  AGO: numeric(ago, language),
  SIZE: numeric(bytes, language),
  PERCENT: numeric(percent, language),
  COUNT: numeric(count, language),
  THREE_DIGITS: numeric(number, language),
  LISTING: ([words]) => listed(String(words).split(" "), undefined, undefined, language),
  KNOWN: ([value]) =>
    value instanceof FluentNone || (value instanceof FluentNumber && !Number.isFinite(value.value))
      ? "no"
      : "yes",
});

/** The messages of one language. */
export class Catalogue {
  /** @param {Language} language @param {string[]} sources */
  constructor(language, sources) {
    this.language = language;
    this.bundle = new FluentBundle(language, { functions: functionsOf(language), useIsolating: false });
    for (const source of sources) {
      const [fault] = this.bundle.addResource(new FluentResource(source));
      if (fault !== undefined) throw fault;
    }
  }

  /**
   * @param {string} id @param {Record<string, Parameter>} params
   * @throws {Error} no message has this id, or a parameter is missing or has the wrong type
   */
  say(id, params) {
    const pattern = this.bundle.getMessage(id)?.value;
    if (pattern === undefined || pattern === null) throw new Error(`no message ${id} in ${this.language}`);
    if (typeof pattern === "string") return this.oneLine(pattern);
    /** @type {Error[]} */
    const faults = [];
    const values = Object.fromEntries(
      Object.entries(params).map(([name, value]) => [name, fluentValue(value)]),
    );
    const text = this.bundle.formatPattern(pattern, values, faults);
    if (faults[0] !== undefined) throw new Error(`message ${id} in ${this.language}: ${faults[0].message}`);
    return this.oneLine(text).replaceAll(KEPT_BREAK, "\n");
  }

  /** A text without the line breaks of the catalogue's file. @param {string} said */
  oneLine(said) {
    if (!said.includes("\n")) return said;
    return (this.language === "zh" ? said.replace(BETWEEN_HAN, "") : said).replace(BROKEN_LINE, " ");
  }
}

/** A parameter in Fluent's type. @param {Parameter} value */
function fluentValue(value) {
  if (value === null || value === undefined) return new Unknown();
  if (typeof value === "string") return value.replaceAll("\n", KEPT_BREAK);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return new FluentNumber(value, { useGrouping: false });
}

/** The catalogues to search: the reader's language, then English. @type {Catalogue[]} */
let catalogues = [];
/** @type {Set<string>} */
const reported = new Set();
/** @param {Error} fault */
const report = (fault) => {
  if (!reported.has(fault.message)) console.error(fault.message);
  reported.add(fault.message);
};
let hear = report;

/**
 * Take messages from these catalogues from now on.
 * @param {Catalogue[]} chosen - the reader's language first
 * @param {(fault: Error) => void} [onFault] - gets the error of each message that cannot be formatted
 */
export function sayFrom(chosen, onFault = report) {
  catalogues = chosen;
  hear = onFault;
}

/**
 * A message in the reader's language, else in English, else its id: no error stops the drawing.
 * @param {string} id @param {Record<string, Parameter>} [params]
 */
export function say(id, params = {}) {
  for (const catalogue of catalogues) {
    try {
      return catalogue.say(id, params);
    } catch (fault) {
      hear(/** @type {Error} */ (fault));
    }
  }
  return id;
}

/** @param {Language} language @returns {Promise<Catalogue|null>} null where it cannot be loaded */
async function load(language) {
  try {
    const sources = FILES.map(async (name) => {
      const answer = await fetch(new URL(`../lang/${language}/${name}.ftl`, import.meta.url));
      if (!answer.ok) throw new Error(`${answer.url}: ${answer.status}`);
      return answer.text();
    });
    return new Catalogue(language, await Promise.all(sources));
  } catch (fault) {
    console.error(fault);
    return null;
  }
}

/**
 * Load the catalogues of the reader's language, and the English ones for messages that it lacks. The page
 * is in English if the reader's catalogues cannot be loaded.
 */
export async function loadCatalogues() {
  const language = chosenLanguage();
  const [own, source] = await Promise.all([language === SOURCE ? null : load(language), load(SOURCE)]);
  sayFrom([own, source].flatMap((catalogue) => catalogue ?? []));
  drawIn(own === null ? SOURCE : language);
  if (own !== null) document.documentElement.lang = "zh-CN";
  for (const written of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-message]")))
    written.textContent = say(written.dataset.message ?? "");
}
