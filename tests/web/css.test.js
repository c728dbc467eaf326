// Style sheets without endless animations, which would make a browser draw sixty times a second.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

const folder = new URL("../../web/css/", import.meta.url);

test("no animation goes on for ever, and nothing that data moves glides", () => {
  for (const name of readdirSync(folder)) {
    const text = readFileSync(new URL(name, folder), "utf8");
    assert.doesNotMatch(text, /\binfinite\b/, `${name}: also below the fold, where nobody sees it`);
    assert.doesNotMatch(
      text,
      /transition:[^;]*\b(width|height|left|top|all)\b/,
      `${name}: with every answer`,
    );
  }
});
