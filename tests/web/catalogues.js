// Preloaded by `node --import ./tests/web/catalogues.js --test tests/web/*.test.js`: tests run in English,
// and a message that cannot be formatted is an error.

import { readFileSync } from "node:fs";
import { drawIn } from "../../web/js/reader.js";
import { Catalogue, FILES, sayFrom } from "../../web/js/texts.js";

/**
 * The catalogues of a language, from the disk.
 * @param {import("../../web/js/reader.js").Language} language
 */
export const catalogue = (language) =>
  new Catalogue(
    language,
    FILES.map((name) =>
      readFileSync(new URL(`../../web/lang/${language}/${name}.ftl`, import.meta.url), "utf8"),
    ),
  );

/**
 * Draw in one language, without a second one for missing messages.
 * @param {import("../../web/js/reader.js").Language} language
 */
export function sayIn(language) {
  drawIn(language);
  sayFrom([catalogue(language)], (fault) => {
    throw fault;
  });
}

sayIn("en");
