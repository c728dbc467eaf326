// Messages: formatting, replacements for missing ones, and every message of the page in both languages.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, test } from "node:test";
import { Catalogue, say, sayFrom } from "../../web/js/texts.js";
import { catalogue, sayIn } from "./catalogues.js";

const NO_FAULT = /** @type {Error[]} */ ([]);
/** @param {Error[]} faults @param {Catalogue[]} catalogues */
const sayHearing = (faults, ...catalogues) => sayFrom(catalogues, (fault) => faults.push(fault));
/** Ordinary spaces instead of thin ones, which are hard to read in tests. @param {string} s */
const plain = (s) => s.replace(/\u202f|\u00a0/g, " ");

const ENGLISH = `
waits = { $rank } waits { DURATION($wait_s) }, { PERCENT($wait_ratio) }
rows = { $n ->
    [one] { COUNT($n) } row
   *[other] { COUNT($n) } rows
}
state = { $live ->
    [yes] live
   *[no] over
}, { KNOWN($since_s) ->
    [yes] { AGO($since_s) }
   *[no] nobody knows when
}
long = One sentence
    on two lines
quoted = It said: { $words }
only-english = only in English
`;
const CHINESE = `
waits = { $rank } 等待 { DURATION($wait_s) }，{ PERCENT($wait_ratio) }
long = 一句话
    分成两行
broken = { $missing }
`;
const english = () => new Catalogue("en", [ENGLISH]);
const chinese = () => new Catalogue("zh", [CHINESE]);

afterEach(() => sayIn("en"));

test("numbers have the units of the language", () => {
  sayHearing(NO_FAULT, english());
  assert.equal(
    plain(say("waits", { rank: "rank 3", wait_s: 0.0452, wait_ratio: 0.034 })),
    "rank 3 waits 45 ms, 3.4 %",
  );
  sayHearing(NO_FAULT, chinese(), english());
  assert.equal(
    plain(say("waits", { rank: "rank 3", wait_s: 3 * 3600 + 300, wait_ratio: 0.541 })),
    "rank 3 等待 3 小时 05 分，54%",
  );
  assert.deepEqual(NO_FAULT, []);
});

test("plurals and choices", () => {
  sayHearing(NO_FAULT, english());
  assert.deepEqual([0, 1, 18204].map((n) => say("rows", { n })), ["0 rows", "1 row", "18,204 rows"]);
  assert.equal(say("state", { live: true, since_s: 2 }), "live, just now");
  assert.equal(say("state", { live: false, since_s: null }), "over, nobody knows when");
  assert.equal(say("waits", { rank: undefined, wait_s: undefined, wait_ratio: null }), "– waits –, –");
  assert.deepEqual(NO_FAULT, []);
});

test("a line break of the catalogue is a space, or nothing in Chinese; one of a parameter stays", () => {
  sayHearing(NO_FAULT, english());
  assert.equal(say("long"), "One sentence on two lines");
  assert.equal(say("quoted", { words: "two\nlines {of} it" }), "It said: two\nlines {of} it");
  sayHearing(NO_FAULT, chinese());
  assert.equal(say("long"), "一句话分成两行");
});

test("a message falls back to English, and then to its id", () => {
  /** @type {Error[]} */
  const faults = [];
  sayHearing(faults, chinese(), english());
  assert.equal(say("only-english"), "only in English");
  assert.equal(say("nowhere"), "nowhere");
  assert.equal(say("waits", { rank: "rank 3", wait_s: "long", wait_ratio: 1 }), "waits");
  assert.equal(say("waits", {}), "waits");
  assert.match(
    faults.map((fault) => fault.message).join("\n"),
    /no message only-english in zh\n.*nowhere in zh\n.*nowhere in en\n.*waits in zh: no number: long/,
  );
  sayFrom([]);
  assert.equal(say("waits", {}), "waits");
});

test("in tests a message that cannot be said is an error", () => {
  assert.throws(() => say("nowhere"), /no message nowhere in en/);
  assert.throws(() => say("title"), /message title in en/);
});

test("an id that stands twice is an error", () => {
  assert.throws(() => new Catalogue("en", ["a = x", "a = y"]), /override/);
});

test("the page says what stands in its file until its catalogues are there", () => {
  const html = readFileSync(new URL("../../web/index.html", import.meta.url), "utf8");
  const written = [...html.matchAll(/data-message="([^"]*)">([^<]*)</g)].map(([, id = "", text]) => [
    id,
    text,
  ]);
  assert.equal(written.length, 2);
  for (const [id, text] of written) assert.equal(say(id ?? ""), text);
});

for (const language of /** @type {const} */ (["en", "zh"]))
  test(`each message can be said in ${language}`, () => {
    const { bundle } = catalogue(language);
    sayIn(language);
    const ids = [...bundle._messages.keys()];
    assert.ok(ids.length > 400);
    for (const id of ids) {
      const needed = parametersOf(bundle, id);
      for (const value of [0, 1, 2.5, 1e7, Number.NaN, null]) {
        const said = say(id, Object.fromEntries(needed.map((name) => [name, value])));
        assert.doesNotMatch(said, /\{|\}|\n/, id);
      }
    }
  });

/**
 * The parameters of a message and of the messages inside it.
 * @param {import("../../web/vendor/fluent/bundle.js").FluentBundle} bundle @param {string} id
 * @returns {string[]}
 */
function parametersOf(bundle, id) {
  /** @type {Set<string>} */
  const names = new Set();
  /** @param {any} part */
  const look = (part) => {
    if (part === null || typeof part !== "object") return;
    if (part.type === "var") names.add(part.name);
    if (part.type === "mesg") for (const name of parametersOf(bundle, part.name)) names.add(name);
    for (const child of Object.values(part)) look(child);
  };
  look(bundle.getMessage(id)?.value);
  return [...names];
}
