// The page's second language. Every text that is drawn passes through `say`, which looks for the English sentence in the catalogue:
// the server's sentences and the page's own alike. What it has no words for stays as it is. `core/language.py` does the same in Python.

import { SOURCE, language } from "./reader.js";

/**
 * @typedef {[RegExp, string][]} Cuts - where a text is cut, and what stands there then
 * @typedef {{pattern: RegExp, anchor: string, weight: number, choices: string[][], said: string}} Sentence - of the catalogue
 */

/** How a hole of each kind looks in a text: anything, a share, a duration, a number with its noun, digits alone. @type {Record<string, string>} */
const HOLES = {
  "": "([^]*?)",
  "%": "([<>≤≥~+−-]?\\d[\\d.,]*(?:–[\\d.,]+)? ?%|nan %)",
  s: "([<>≤≥~+−-]?\\d[\\d.,]* ?(?:ms|µs|min|s|h|d)(?: \\d+ (?:s|min|h))?|an unknown time)",
  n: "([-−+~]?\\d[\\d.,]*(?: (?!(?:of|the|in|by|to|and|at|for|is|are|from|within|on|with|each|per|share|or)\\b)[A-Za-z][\\w/-]*){0,3}|an unknown number of \\w+|any number)",
  d: "([<>≤≥~+−-]?\\d[\\d.,]*)",
};
/** A full stop, and no decimal point. */
const NO_FRACTION = "(?!\\d)";
const LEAST_LETTERS = 3;
/** A number with its noun may be a duration as well: of two sentences with the same letters the other one is meant. */
const LESS_SAID = 0.1;
/** A sentence of several needs so many letters of its own: the holes of a short one would swallow the others. */
const SAYS_MUCH = 16;
const MOST_WAYS = 3;
const MOST_LEFT = 2;
const MOST_KEPT = 5000;
/** No sentence of ours is so long. What is may come from a script, and holes would be looked for in it for seconds. */
const LONGEST = 1200;

/** What several sentences are put together with; there they are cut before any of them is looked for. @type {Cuts} */
const FRAMES = [
  [/\n/g, "\n"],
  [/(?<=^loaderwatch:) /g, " "],
  [/(?<=^\[)([\w-]+\] )/g, ""],
  [/ — /g, " — "],
];
const STOP = /(?<=[^\s.][.!?]) (?=\S)/;
/** Who a sentence is about, as the detectors begin it. @type {Cuts} */
const SUBJECT = [[/^(Training|Both ranks|All \d+ ranks|Ranks? \d+(?:(?:,| and) \d+)*) /g, ""]];
/** Where a text is cut if no sentence is all of it. @type {Cuts} */
const CUTS = [
  [/ · /g, " · "],
  [/; /g, "；"],
  [/: /g, "："],
  [/, /g, "，"],
  [/ and /g, " 和 "],
];
const NARROW = /[\u202f\u00a0]/g;
const PAUSES = "，；：";
const ENGLISH = /(?<![\w./`=(-])(?!(?:worker|rank|epoch|pid)\b)[a-z']{2,}(?![\w./`=(])|(?<![\w./`=(-])[A-Z][a-z]{2,} [a-z]/g;
const FULL = /[，。；：？！]$/;
const STOPPED = /[。.](?=[，。；：）)])/g;
const SPACED = /(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]) +(?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])/g;
const LATIN = /[A-Za-z0-9]/;
const HAN = /[\u4e00-\u9fff]/;
const ALL_HAN = /[\u4e00-\u9fff]/g;
const HAN_PER_WORD = 8;
const FILLED = /\{(\d+)(?::([^}]*))?\}/g;

/** A catalogue, ready to be asked. */
export class Language {
  /** @param {Record<string, string>} catalogue */
  constructor(catalogue) {
    const entries = Object.entries(catalogue);
    /** @type {Map<string, string>} */
    this.whole = new Map(entries.filter(([key]) => !key.includes("{")));
    this.sentences = entries
      .filter(([key]) => key.includes("{"))
      .flatMap(([key, said]) => sentenceOf(key, said) ?? [])
      .sort((a, b) => b.weight - a.weight);
    /** @type {Map<string, string>} */
    this.kept = new Map();
  }

  /** The text in this language, or as it is: half of each would be worse than either. @param {string} text @returns {string} */
  say(text) {
    const said = this.sayPart(text);
    const left = said === text ? 0 : wordsLeft(said);
    return left > MOST_LEFT && 2 * left > wordsLeft(text) ? text : said;
  }

  /** @param {string} text @returns {string} */
  sayPart(text) {
    const known = this.kept.get(text);
    if (known !== undefined) return known;
    if (this.kept.size > MOST_KEPT) this.kept.clear();
    const [, before = "", inner = "", after = ""] = /^([\s·]*)([^]*?)(\s*)$/.exec(text) ?? [];
    const even = inner.replace(NARROW, " "); // numbers are set apart from their units by less
    const said = this.best(even);
    const result = said === even ? text : FULL.test(said) ? before + said : before + said + after;
    this.kept.set(text, result);
    return result;
  }

  /** That way to say a text, whole or in parts, which leaves the fewest English words. @param {string} text */
  best(text) {
    if (!/[A-Za-z%]/.test(text)) return text;
    if (isSaid(text)) return this.known(text)[0] ?? text;
    const framed = this.cut(text, FRAMES);
    if (framed !== null) return framed;
    if (text.length > LONGEST) return text;
    const several = STOP.test(text);
    const ways = [...this.known(text, several ? SAYS_MUCH : 0), this.cut(text, SUBJECT), several ? this.inSentences(text) : null];
    if (ways.every((way) => way === null || wordsLeft(way) > 0)) ways.push(this.cut(text, CUTS));
    return fewest(ways.flatMap((way) => way ?? [])) ?? text;
  }

  /** What the catalogue has for all of a text, whose full stop may be missing: the likeliest first, a few at most. @param {string} text */
  known(text, least = 0) {
    const found = this.exactly(text, least);
    if (text.endsWith(".") || found.some((way) => wordsLeft(way) === 0)) return found;
    return [...found, ...this.exactly(`${text}.`, least).map((said) => said.replace(/。$/, ""))];
  }

  /** @param {string} text @param {number} least @returns {string[]} */
  exactly(text, least) {
    const whole = this.whole.get(text);
    if (whole !== undefined) return [whole];
    /** @type {string[]} */
    const ways = [];
    for (const sentence of this.sentences) {
      if (sentence.weight < least || ways.length === MOST_WAYS) break;
      const found = text.includes(sentence.anchor) ? sentence.pattern.exec(text) : null;
      if (found === null) continue;
      const way = this.filled(sentence, found, text);
      ways.push(way);
      if (wordsLeft(way) === 0) break;
    }
    return ways;
  }

  /** @param {Sentence} sentence @param {RegExpExecArray} found @param {string} text */
  filled(sentence, found, text) {
    const together = sentence.said.replace(FILLED, (hole, place, choice, at) => {
      const filled = found[Number(place)] ?? "";
      if (choice === undefined) return apart(sentence.said[at - 1], filled === text ? filled : this.sayPart(filled), sentence.said[at + hole.length]);
      return choice.split("|")[Math.max(0, (sentence.choices[Number(place) - 1] ?? []).indexOf(filled))] ?? "";
    });
    return tidy(together);
  }

  /** The text said in runs of its sentences, those that leave the fewest English words. @param {string} text */
  inSentences(text) {
    const parts = text.split(STOP);
    const rest = [""]; // the best way to say the last ones, beginning with none
    for (let at = parts.length - 1; at >= 0; at -= 1) {
      const ways = [joined(this.sayPart(parts[at] ?? ""), rest[0] ?? "")];
      for (let end = at + 2; end < parts.length + (at > 0 ? 1 : 0); end += 1)
        for (const run of this.known(parts.slice(at, end).join(" "), SAYS_MUCH)) ways.push(joined(run, rest[end - at - 1] ?? ""));
      rest.unshift(fewest(ways.reverse()) ?? "");
    }
    return rest[0] ?? "";
  }

  /** The text said part by part, by the first cut that helps; null where none does. @param {string} text @param {Cuts} cuts */
  cut(text, cuts) {
    for (const [at, between] of cuts) {
      const parts = text.split(at);
      if (parts.length < 2) continue;
      const gone = text.match(at) ?? [];
      let said = "";
      parts.forEach((part, place) => {
        // Some begin with what they are appended by: ", and 3 s since".
        const appended = place > 0 && between !== "" && PAUSES.includes(between) ? this.known(`${gone[place - 1]}${part}`) : [];
        said += fewest([...appended, (place > 0 ? between : "") + this.sayPart(part)]);
      });
      if (said !== parts.join(between)) return tidy(said);
    }
    return null;
  }
}

/** @param {string} key @param {string} said @returns {Sentence|null} null where it says too little to be told from others */
function sentenceOf(key, said) {
  const pieces = key.replace(/\.$/, "").split(/\{([^}]*)\}/);
  const literals = pieces.filter((_, i) => i % 2 === 0);
  const holes = pieces.filter((_, i) => i % 2 === 1);
  const chosen = holes.filter((hole) => !(hole in HOLES)).map((hole) => hole.split("|").reduce((a, b) => (b.length < a.length ? b : a)));
  const letters = [...literals, ...chosen].join("").replace(/[^A-Za-z`]/g, "").length;
  const open = holes.filter((hole) => hole === "").length;
  if (open > 0 && letters < LEAST_LETTERS) return null;
  const source = pieces.map((piece, i) =>
    i % 2 === 0 ? quoted(piece) + (piece.endsWith(".") ? NO_FRACTION : "") : (HOLES[piece] ?? `(${piece.split("|").map(quoted).join("|")})`),
  );
  return {
    pattern: new RegExp(`^${source.join("")}\\.?$`),
    anchor: literals.reduce((longest, piece) => (piece.length > longest.length ? piece : longest), ""),
    weight: letters - open - LESS_SAID * holes.filter((hole) => hole === "n").length,
    choices: holes.map((hole) => (hole in HOLES ? [] : hole.split("|"))),
    said,
  };
}

/** @param {string} text */
const quoted = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** What fills a hole, with a space where a Latin letter or a digit would touch a Chinese character. @param {string|undefined} before @param {string} filled @param {string|undefined} after */
const apart = (before, filled, after) => (HAN.test(before ?? "") && LATIN.test(filled[0] ?? "") ? " " : "") + filled + (HAN.test(after ?? "") && LATIN.test(filled.at(-1) ?? "") ? " " : "");

/** @param {string} before @param {string} after */
const joined = (before, after) => before + (after === "" || FULL.test(before) ? "" : " ") + after;

/** How many English words a text has left, as far as they do not look like names. @param {string} text */
const wordsLeft = (text) => text.match(ENGLISH)?.length ?? 0;

/** The first of those that leave the fewest English words. @param {string[]} ways @returns {string|undefined} */
const fewest = (ways) => ways.reduce((/** @type {string|undefined} */ best, way) => (best === undefined || wordsLeft(way) < wordsLeft(best) ? way : best), undefined);

/** A text whose parts were put together, without what they bring along: a full stop within, spaces between characters. @param {string} text */
const tidy = (text) => text.replace(STOPPED, "").replace(SPACED, "");

/** Whether the server has said a text in this language: it has far more characters of it than English words. @param {string} text */
const isSaid = (text) => (text.match(ALL_HAN) ?? []).length > HAN_PER_WORD * wordsLeft(text);

/** @type {Language|null} */
let spoken = null;

/** A text as the reader reads it. @param {string} text @returns {string} */
export const say = (text) => (spoken === null ? text : spoken.say(text));

/** Load the catalogue where one is needed; without it the page is in English. */
export async function learnSentences() {
  if (language() === SOURCE) return;
  try {
    const answer = await fetch(new URL("../lang/zh.json", import.meta.url));
    if (!answer.ok) return;
    const { sentences, parts } = await answer.json();
    spoken = new Language({ ...sentences, ...parts });
  } catch {
    // no catalogue, no translation
  }
}
