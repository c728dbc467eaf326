// Requests the data of visible cards: at most once a second and one request in flight per card.

import { rangeFor, sourcesOf } from "./cards.js";
import { refreshAfter } from "./store.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {import("./store.js").CardData} CardData
 * @typedef {import("./cards.js").Source} Source
 * @typedef {{asked: string, due_at: number, stale: boolean, retry: boolean, abort: AbortController|null,
 *   timed: boolean, began: number}} Progress
 */

/** Longest time that a chart waits for the data of the other charts. */
const TOGETHER_S = 0.8;

export class Refresher {
  /**
   * @param {{state: () => State, put: (id: string, card: CardData) => void, seen: (id: string) => boolean,
   *   points: () => number}} page
   */
  constructor(page) {
    this.page = page;
    /** @type {Map<string, Progress>} */
    this.progress = new Map();
  }

  /** New data has arrived at the server. */
  touch() {
    for (const p of this.progress.values()) p.stale = true;
  }

  /** The reader wants other data: cancel requests in flight and ask again. */
  restart() {
    for (const p of this.progress.values()) {
      p.abort?.abort();
      p.abort = null;
      p.due_at = 0;
      p.stale = true;
    }
  }

  /** The page changed: forget everything. */
  clear() {
    for (const p of this.progress.values()) p.abort?.abort();
    this.progress.clear();
  }

  /** Whether data of another chart is about to arrive. Drawn one by one, each chart would be drawn twice. */
  awaited() {
    const now = performance.now() / 1000;
    return [...this.progress.values()].some((p) => p.abort !== null && p.timed && now - p.began < TOGETHER_S);
  }

  /** Send the requests that are due. Called often; usually nothing is due. */
  step() {
    const state = this.page.state();
    if (document.hidden || state.link === "gone" || state.link === "unauthorized") return;
    const now = performance.now() / 1000;
    for (const source of sourcesOf(state)) {
      const asks = source.asks(state);
      if (asks === null || (source.when === "seen" && !this.page.seen(source.id))) continue;
      let p = this.progress.get(source.id);
      if (p === undefined) {
        p = {
          asked: "",
          due_at: 0,
          stale: true,
          retry: false,
          abort: null,
          timed: source.timed ?? false,
          began: 0,
        };
        this.progress.set(source.id, p);
      }
      const changed = asks !== p.asked;
      if (changed && p.abort !== null) {
        p.abort.abort();
        p.abort = null;
      }
      // restart() sets due_at to 0: a new range is requested even while paused.
      const held = state.paused && p.due_at > 0;
      const wanted = changed || p.retry || (p.stale && !source.settled && !held);
      if (p.abort !== null || !wanted || (now < p.due_at && !changed)) continue;
      void this.ask(source, p, asks, state, now);
    }
  }

  /**
   * @param {Source} source @param {Progress} p @param {string} asks @param {State} state
   * @param {number} began
   */
  async ask(source, p, asks, state, began) {
    const range = rangeFor(state, source);
    if (range === null) return;
    const abort = new AbortController();
    p.abort = abort;
    p.began = began;
    p.asked = asks;
    p.stale = false;
    p.retry = false;
    let bucket = 0;
    try {
      const data = await source.load(state, range, this.page.points(), abort.signal);
      bucket = bucketOf(data);
      if (p.abort === abort)
        this.page.put(source.id, { data, range, error: null, loaded_at: Date.now() / 1000 });
    } catch (error) {
      if (abort.signal.aborted) return;
      const previous = this.page.state().cards[source.id];
      const message = error instanceof Error ? error.message : String(error);
      this.page.put(source.id, {
        data: previous?.data ?? null,
        range: previous?.range ?? null,
        error: message,
        loaded_at: previous?.loaded_at ?? 0,
      });
      p.retry = true;
      bucket = 2; // seconds until the next try
    } finally {
      if (p.abort === abort) {
        p.abort = null;
        // Whole seconds keep the cards in step, so that all charts end at the same moment.
        const after_s = Math.max(source.every_s ?? 0, refreshAfter(bucket, performance.now() / 1000 - began));
        p.due_at = Math.ceil(began + after_s - 0.5);
      }
    }
  }
}

/** The bucket width in an answer, in seconds; 0: no buckets. @param {any} data @returns {number} */
export function bucketOf(data) {
  if (data === null || typeof data !== "object") return 0;
  if (typeof data.bucket_s === "number") return data.bucket_s;
  const [first] = Object.values(data);
  return first !== null && typeof first === "object" && typeof first.bucket_s === "number"
    ? first.bucket_s
    : 0;
}
