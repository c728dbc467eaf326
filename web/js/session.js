// This browser's session with the server. The page signs its requests with a key that it never sends. It
// signs only for server processes that have proven to know the key. A signature that another process received
// at this address is useless later. The other side: loaderwatch/server/access/page_sessions.py.

import { hex, hmac, keyOf } from "./hmac.js";
import { say } from "./texts.js";

/**
 * @typedef {{ticket: string, key: import("./hmac.js").Key}} Session
 * @typedef {{challenge: string, ticket: string, boot: string, now_ms: number, proofs: string[]}} Greeting
 */

/** The process at this address has not proven to be our server. */
export class NotOurs extends Error {}

const SESSION = "/api/v1/session";
/** Most server processes that a request may name, for servers behind one balancer. The oldest is dropped. */
const MOST_BOOTS = 4;

/** @type {Session|null} */
let session = null;
/** Server processes that have proven to know the key. @type {string[]} */
let boots = [];
/** The server's clock minus this browser's clock. */
let ahead_ms = 0;
let sent_ms = 0;
/** Whether any server has proven itself to this page. */
let was_proven = false;
/** @type {Promise<boolean>|null} */
let renewing = null;

export const wasSignedIn = () => was_proven;

/**
 * The address of a request with its signature; without a session the plain address.
 * @param {string} method @param {string} path @param {string} [body]
 * @throws {NotOurs|TypeError} no process, or another process, answers at this address
 */
export async function signed(method, path, body = "") {
  if (session !== null && boots.length === 0) await renew();
  if (session === null) return path;
  const { ticket, key } = session;
  const namedBoots = boots.join("-");
  const { pathname, search } = new URL(path, location.origin);
  const target = pathname + search;
  const at = (sent_ms = Math.max(sent_ms + 1, Date.now() + ahead_ms));
  const signature = hex(await hmac(key, ["request", at, namedBoots, method, target, body].join("\n")));
  return `${target}${search === "" ? "?" : "&"}proof=${[ticket, at, namedBoots, signature].join(".")}`;
}

/** Trust no process until it proves itself again: a connection has failed. */
export function doubt() {
  boots = [];
}

/**
 * Ask the process at this address to prove that it knows the key.
 * @returns {Promise<boolean>} false: there is no session
 * @throws {NotOurs|TypeError}
 */
export function renew() {
  renewing ??= prove().finally(() => (renewing = null));
  return renewing;
}

async function prove() {
  if (session === null) return false;
  const greeting = await greet(session.ticket);
  if (greeting.ticket === session.ticket && (await isProven(greeting, session.key))) return true;
  boots = [];
  if (was_proven) throw new NotOurs(say("session-another-process-or-new-tokens"));
  session = null; // it belonged to a server that ran before this page was opened
  return false;
}

/** @param {string} token @returns {Promise<boolean>} whether the server knows the token */
export async function signIn(token) {
  if (token === "") return false;
  const greeting = await greet(null);
  const key = await keyOf(await hmac(await keyOf(token), `loaderwatch page session\n${greeting.ticket}`));
  if (!(await isProven(greeting, key))) return false;
  session = { ticket: greeting.ticket, key };
  await kept((store) => store.put(session, KEY));
  return true;
}

/** Restore the session that this browser keeps. */
export async function restore() {
  session = (await kept((store) => store.get(KEY))) ?? null;
}

/** @param {string|null} ticket @returns {Promise<Greeting>} */
async function greet(ticket) {
  const challenge = hex(crypto.getRandomValues(new Uint8Array(16)));
  const answer = await fetch(
    `${SESSION}?challenge=${challenge}${ticket === null ? "" : `&ticket=${ticket}`}`,
    { credentials: "omit", cache: "no-store" },
  );
  if (answer.status === 429 || answer.status >= 500) throw new TypeError("the server is busy");
  try {
    return { ...(await answer.json()), challenge };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new NotOurs(say("session-another-process"));
  }
}

/**
 * Whether a process knows the key. If it does, it is trusted from now on.
 * @param {Greeting} greeting @param {import("./hmac.js").Key} key
 */
async function isProven(greeting, key) {
  const { challenge, ticket, boot, now_ms, proofs } = greeting;
  const proof = hex(await hmac(key, ["server", challenge, ticket, boot, now_ms].join("\n")));
  if (!Array.isArray(proofs) || !proofs.includes(proof)) return false;
  boots = [boot, ...boots.filter((knownBoot) => knownBoot !== boot)].slice(0, MOST_BOOTS);
  // Late by the answer's travel time, so that signatures are never ahead of the server's clock.
  ahead_ms = now_ms - Date.now();
  was_proven = true;
  return true;
}

// ---- storage of the session: scripts of this origin can use its key, but cannot read it -------------------

const DATABASE = "loaderwatch";
const STORE = "session";
const KEY = "newest";

/**
 * Use the store; undefined in browsers that store nothing, such as some private windows.
 * @param {(store: IDBObjectStore) => IDBRequest} work @returns {Promise<any>}
 */
async function kept(work) {
  try {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    const database = await done(opening);
    try {
      return await done(work(database.transaction(STORE, "readwrite").objectStore(STORE)));
    } finally {
      database.close();
    }
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    return undefined;
  }
}

/** @param {IDBRequest} request @returns {Promise<any>} */
function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
