// The live stream of one run: server-sent events. This module reconnects, because EventSource gives up on
// HTTP errors.

import { ApiError, call, runPath, signedAddress } from "./api.js";
import { doubt } from "./session.js";

/** Waits between attempts: 0.5, 1, 2, 4, then 8 s. @param {number} attempt */
export function backoff(attempt) {
  return Math.min(8, 0.5 * 2 ** attempt);
}

/** The link after a failed attempt. @param {unknown} error @returns {"unauthorized"|"gone"|"stale"} */
export function failure(error) {
  if (error instanceof ApiError && error.status === 401) return "unauthorized";
  if (error instanceof ApiError && error.status === 404) return "gone";
  return "stale";
}

/**
 * @typedef {object} Listener
 * @property {(message: any) => void} message
 * @property {() => void} still - the server answers without news
 * @property {(link: "connecting"|"stale"|"gone"|"unauthorized") => void} link
 */

export class Stream {
  /** @param {string} run @param {Listener} listener */
  constructor(run, listener) {
    this.run = run;
    this.listener = listener;
    this.attempt = 0;
    this.closed = false;
    /** @type {EventSource|null} */
    this.source = null;
    /** @type {number|undefined} */
    this.timer = undefined;
    void this.open();
  }

  async open() {
    let address;
    try {
      address = await signedAddress(`${runPath(this.run)}/events?changes=true`);
    } catch (error) {
      return this.retry(failure(error));
    }
    if (this.closed) return;
    const source = new EventSource(address);
    this.source = source;
    /** @param {MessageEvent<string>} event */
    const receive = (event) => {
      this.attempt = 0;
      this.listener.message(JSON.parse(event.data));
    };
    source.addEventListener("snapshot", receive);
    source.addEventListener("tick", receive);
    source.addEventListener("still", () => {
      this.attempt = 0;
      this.listener.still();
    });
    source.addEventListener("gone", () => {
      this.close();
      this.listener.link("gone");
    });
    source.onerror = () => this.failed();
  }

  failed() {
    if (this.closed) return;
    this.source?.close();
    doubt(); // another process may own the port by now
    // EventSource does not distinguish a 401 from a server that is down; an ordinary call does.
    call(`${runPath(this.run)}/summary`)
      .then(() => this.retry("stale"))
      .catch((error) => this.retry(failure(error)));
  }

  /** @param {"unauthorized"|"gone"|"stale"} link */
  retry(link) {
    if (this.closed) return;
    this.listener.link(link);
    if (link === "gone") return this.close();
    this.timer = setTimeout(() => void this.open(), backoff(this.attempt) * 1000);
    this.attempt += 1;
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.source?.close();
  }
}
