// HMAC-SHA-256, by the browser where possible: its keys can be used and stored, but not read. Browsers offer
// no cryptography to a page over plain http from another machine. There this module computes the HMAC.

/** @typedef {CryptoKey|Uint8Array} Key */

const ALGORITHM = { name: "HMAC", hash: "SHA-256" };
const BLOCK = 64;
const encoder = new TextEncoder();

/** @param {string|Uint8Array} secret @returns {Promise<Key>} */
export async function keyOf(secret) {
  const bytes = typeof secret === "string" ? encoder.encode(secret) : secret;
  if (globalThis.crypto.subtle === undefined) return bytes;
  return crypto.subtle.importKey("raw", /** @type {BufferSource} */ (bytes), ALGORITHM, false, ["sign"]);
}

/** @param {Key} key @param {string} text @returns {Promise<Uint8Array>} */
export async function hmac(key, text) {
  const bytes = encoder.encode(text);
  if (key instanceof Uint8Array) return ownHmac(key, bytes);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes));
}

/** @param {Uint8Array} bytes */
export const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** RFC 2104. @param {Uint8Array} secret @param {Uint8Array} bytes */
export function ownHmac(secret, bytes) {
  const key = new Uint8Array(BLOCK);
  key.set(secret.length > BLOCK ? sha256(secret) : secret);
  const padded = (/** @type {number} */ pad, /** @type {Uint8Array} */ rest) =>
    sha256(new Uint8Array([...key.map((byte) => byte ^ pad), ...rest]));
  return padded(0x5c, padded(0x36, bytes));
}

/** @type {number[]} */
const PRIMES = [];
for (let n = 2; PRIMES.length < 64; n += 1) if (PRIMES.every((prime) => n % prime !== 0)) PRIMES.push(n);
/** The first 32 bits of the fraction. @param {number} x */
const fraction = (x) => ((x - Math.floor(x)) * 2 ** 32) | 0;
const FIRST = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const ROUNDS = PRIMES.map((prime) => fraction(Math.cbrt(prime)));
/** @param {number} x @param {number} by */
const turned = (x, by) => (x >>> by) | (x << (32 - by));

/** FIPS 180-4. @param {Uint8Array} bytes */
function sha256(bytes) {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / BLOCK) * BLOCK);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 4, bytes.length * 8);
  const state = Int32Array.from(FIRST);
  const w = new Int32Array(64);
  for (let at = 0; at < padded.length; at += BLOCK) {
    for (let i = 0; i < 64; i += 1) {
      const [x, y] = [w[i - 15] ?? 0, w[i - 2] ?? 0];
      w[i] =
        i < 16
          ? view.getInt32(at + 4 * i)
          : (w[i - 16] ?? 0) +
            (turned(x, 7) ^ turned(x, 18) ^ (x >>> 3)) +
            (w[i - 7] ?? 0) +
            (turned(y, 17) ^ turned(y, 19) ^ (y >>> 10));
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
    for (let i = 0; i < 64; i += 1) {
      const t1 =
        (h +
          (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
          ((e & f) ^ (~e & g)) +
          (ROUNDS[i] ?? 0) +
          (w[i] ?? 0)) | 0;
      const t2 = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] = ((state[i] ?? 0) + word) | 0));
  }
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => out.setInt32(4 * i, word));
  return new Uint8Array(out.buffer);
}
