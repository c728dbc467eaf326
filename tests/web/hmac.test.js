import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { hex, hmac, keyOf, ownHmac } from "../../web/js/hmac.js";

/** @param {string} secret @param {string} text */
const known = (secret, text) => createHmac("sha256", secret).update(text).digest("hex");
const bytes = (/** @type {string} */ text) => new TextEncoder().encode(text);

test("our own HMAC is the browser's", () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000]) {
    const [secret, text] = ["k".repeat(length), "ä".repeat(length)];
    assert.equal(hex(ownHmac(bytes(secret), bytes(text))), known(secret, text), `${length}`);
  }
});

test("a key of the browser's cannot be read", async () => {
  const key = await keyOf("secret");
  assert.ok(key instanceof CryptoKey);
  assert.equal(key.extractable, false);
  assert.equal(hex(await hmac(key, "text")), known("secret", "text"));
});
