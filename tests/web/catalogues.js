// Preloaded by `node --import ./tests/web/catalogues.js --test tests/web/*.test.js`: messages are said in English, and one that cannot be said is an error.

import { readFileSync } from "node:fs";
import { drawIn } from "../../web/js/reader.js";
import { Catalogue, FILES, sayFrom } from "../../web/js/texts.js";

/** A language's catalogues, from the disk. @param {import("../../web/js/reader.js").Language} language */
export const catalogue = (language) =>
  new Catalogue(
    language,
    FILES.map((name) =>
      readFileSync(new URL(`../../web/lang/${language}/${name}.ftl`, import.meta.url), "utf8"),
    ),
  );

/** Draw in a language, with its messages alone. @param {import("../../web/js/reader.js").Language} language */
export function sayIn(language) {
  drawIn(language);
  sayFrom([catalogue(language)], (fault) => {
    throw fault;
  });
}

sayIn("en");
