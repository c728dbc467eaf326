// Every call to the server, and the one kind of error that a call throws.

import { asked } from "./reader.js";
import { NotOurs, doubt, renew, signed } from "./session.js";
import { say } from "./texts.js";

/** @typedef {import("./store.js").Range} Range */

export class ApiError extends Error {
  /** @param {number} status - 0 when the server could not be reached @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const ROOT = "/api/v1";
/**
 * Most repeats of a refused request: a restarted server refuses once, each server behind a balancer, too.
 */
const MOST_TURNS = 4;

/**
 * The address of a `GET`, signed for immediate use: for an event stream or a download.
 * @param {string} path
 * @throws {ApiError}
 */
export const signedAddress = (path) => reached(() => signed("GET", addressOf(path)));

/** A path of the API, with the language of the page. @param {string} path */
const addressOf = (path) =>
  ROOT + (asked() === null ? path : `${path}${path.includes("?") ? "&" : "?"}lang=${asked()}`);

/**
 * @param {string} path
 * @param {{method?: string, body?: unknown, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 * @throws {ApiError} with the server's own sentence; an aborted call rejects with the browser's AbortError
 */
export async function call(path, options = {}) {
  const method = options.method ?? "GET";
  const body = options.body === undefined ? undefined : JSON.stringify(options.body);
  const response = await reached(async () => {
    for (let turn = 0; ; turn += 1) {
      const answer = await fetch(await signed(method, addressOf(path), body), {
        method,
        headers: body === undefined ? {} : { "Content-Type": "application/json" },
        body,
        signal: options.signal,
        cache: "no-store",
        credentials: "omit",
      });
      if (answer.status !== 401 || turn === MOST_TURNS || !(await renew())) return answer;
    }
  });
  if (response.ok) return response.json();
  let message = say("server-answered", { status: response.status });
  try {
    message = (await response.json()).error ?? message;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error; // no JSON: the message names the status only
  }
  throw new ApiError(response.status, message);
}

/** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
async function reached(work) {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    if (error instanceof NotOurs) throw new ApiError(401, error.message);
    doubt();
    throw new ApiError(0, say("server-silent"));
  }
}

/**
 * @param {string} path
 * @param {Record<string, string|number|string[]|null|undefined>} query - a list repeats its name
 */
export function withQuery(path, query) {
  const parts = Object.entries(query)
    .flatMap(([k, v]) =>
      Array.isArray(v) ? v.map((item) => /** @type {const} */ ([k, item])) : [/** @type {const} */ ([k, v])],
    )
    .filter(([, v]) => v !== null && v !== undefined)
    .map(([k, v]) => `${k}=${encodeURIComponent(String(v))}`);
  return parts.length > 0 ? `${path}?${parts.join("&")}` : path;
}

/** @param {string} run */
export const runPath = (run) => `/runs/${encodeURIComponent(run)}`;

/** @param {string} id */
export const acknowledge = (id) =>
  call(`/alerts/${encodeURIComponent(id)}/ack`, { method: "POST", body: {} });

/** @param {string} id @param {number} seconds */
export const silence = (id, seconds) =>
  call(`/alerts/${encodeURIComponent(id)}/silence`, { method: "POST", body: { seconds } });

/** @param {string} run @param {number} rank */
export const takeStacks = (run, rank) =>
  call(withQuery(`${runPath(run)}/stacks`, { rank }), { method: "POST", body: {} });
