// The page's state and the pure functions that change it: no document, no network, no Plotly.

import { wholeList } from "./listing.js";
import { hasRank, heard as summaryHeard } from "./ranks.js";

/**
 * @typedef {import("./types.js").Summary} Summary
 * @typedef {import("./types.js").Finding} Finding
 * @typedef {import("./types.js").RunRow} RunRow
 * @typedef {{page: "runs"|"run"|"rank"|"compare", run: string|null, rank: number|null, finding: string|null,
 *   attempt: number|null, pair?: [string, string]}} Route
 * @typedef {{start: number, end: number}} Range
 * @typedef {{kind: "last", span_s: number}|{kind: "all"}|{kind: "fixed", start: number, end: number}} View
 * @typedef {"connecting"|"live"|"stale"|"gone"|"unauthorized"} Link
 * @typedef {{data: any, range: Range|null, error: string|null, loaded_at: number}} CardData
 * @typedef {object} State
 * @property {Route} route
 * @property {"light"|"dark"|"auto"} theme
 * @property {Link} link
 * @property {{before: boolean, problem: string}} sign_in - signed in before?; why the last try failed
 * @property {number} clock - this browser's time in seconds, updated once a second
 * @property {number} offset - server time minus browser time, seconds
 * @property {number|null} ticked_at - browser time of the server's last message
 * @property {RunRow[]|null} runs
 * @property {string|null} runs_error
 * @property {Summary|null} summary
 * @property {Summary|null} heard - the stream's newest; `summary` stays the same while paused
 * @property {Finding[]} findings
 * @property {number} findings_version
 * @property {number|null} newest_at
 * @property {boolean} may_change - may acknowledge, silence and request stacks; false: a viewer's token
 * @property {View} view
 * @property {boolean} paused
 * @property {number|null} rank - the rank of the run page's charts; null until known
 * @property {Record<string, CardData>} cards
 * @property {Record<string, boolean>} open - whether the reader unfolded a part, by its id
 * @property {{by: string, down: boolean}} sort - of the ranks table
 * @property {boolean} utc - times in UTC, not in the reader's zone
 * @property {boolean} attention - notification and sound at an alert
 * @property {number|null} pointed_at - the moment under the pointer on the charts, UTC seconds
 * @property {Record<string, string>} choices - the reader's input, by the name of the control
 * @property {boolean} help
 * @property {boolean} view_asked - the address or the reader chose the time range
 * @property {boolean} rank_asked - the address or the reader chose the rank
 * @property {import("./listing.js").Listing} listing - which runs the list shows
 * @property {number} listing_turn - number of resets of the list's filter
 * @property {string[]} picked - runs to compare, at most two
 * @property {import("./run_actions.js").Editing|null} editing - the run whose labels are being changed
 * @property {import("./compare.js").Compared|null} comparison
 * @property {string} note - last short message of an action; "": none
 */

/** After this time without a message the page is stale. The server sends one every 5 s; one may be late. */
export const STALE_AFTER_S = 12;

/** @returns {State} */
export function initialState() {
  return {
    route: { page: "runs", run: null, rank: null, finding: null, attempt: null },
    theme: "auto",
    link: "connecting",
    sign_in: { before: false, problem: "" },
    clock: 0,
    offset: 0,
    ticked_at: null,
    runs: null,
    runs_error: null,
    summary: null,
    heard: null,
    findings: [],
    findings_version: 0,
    newest_at: null,
    may_change: true,
    view: { kind: "last", span_s: 300 },
    paused: false,
    rank: null,
    cards: {},
    open: {},
    sort: { by: "rank", down: false },
    utc: false,
    attention: false,
    pointed_at: null,
    choices: {},
    help: false,
    view_asked: false,
    rank_asked: false,
    listing: wholeList(),
    listing_turn: 0,
    picked: [],
    editing: null,
    comparison: null,
    note: "",
  };
}

export class Store {
  constructor() {
    this.state = initialState();
    /** @type {Set<(state: State) => void>} */
    this.listeners = new Set();
  }

  /** @param {Partial<State>} patch */
  set(patch) {
    this.state = { ...this.state, ...patch };
    for (const listener of this.listeners) listener(this.state);
  }

  /** @param {(state: State) => void} listener */
  subscribe(listener) {
    this.listeners.add(listener);
  }
}

/** Routes follow the `#`, so that the server knows only one page. @param {string} hash @returns {Route} */
export function parseRoute(hash) {
  const parts = (hash.split("?")[0] ?? "").replace(/^#\/?/, "").split("/").filter(Boolean).map(decode);
  if (parts[0] === "compare" && parts[1] && parts[2])
    return {
      page: "compare",
      run: null,
      rank: null,
      finding: null,
      attempt: null,
      pair: [parts[1], parts[2]],
    };
  const run = parts[0] === "runs" && parts[1] ? parts[1] : null;
  if (run === null) return { page: "runs", run: null, rank: null, finding: null, attempt: null };
  if (parts[2] === "ranks" && /^\d+$/.test(parts[3] ?? ""))
    return { page: "rank", run, rank: Number(parts[3]), finding: null, attempt: null };
  const attempt = parts[2] === "attempts" && /^\d+$/.test(parts[3] ?? "") ? Number(parts[3]) : null;
  return {
    page: "run",
    run,
    rank: null,
    finding: parts[2] === "findings" ? (parts[3] ?? null) : null,
    attempt,
  };
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch (error) {
    if (error instanceof URIError) return part;
    throw error;
  }
}

/** @param {Partial<Route>} route */
export function routeHash(route) {
  if (!route.run) return "#/";
  const run = `#/runs/${encodeURIComponent(route.run)}`;
  if (route.attempt) return `${run}/attempts/${route.attempt}`;
  if (route.rank !== null && route.rank !== undefined) return `${run}/ranks/${route.rank}`;
  return route.finding ? `${run}/findings/${encodeURIComponent(route.finding)}` : run;
}

/** The address of the page that compares two runs. @param {string} a @param {string} b */
export const pairHash = (a, b) => `#/compare/${encodeURIComponent(a)}/${encodeURIComponent(b)}`;

/** The address of the page one level up. @param {Route} route */
export function parentHash(route) {
  return route.page === "rank" || route.attempt !== null ? routeHash({ run: route.run }) : "#/";
}

/** The state after a change of page. @param {State} state @param {Route} route @returns {State} */
export function navigated(state, route) {
  const sameRun = state.route.run === route.run && state.route.attempt === route.attempt;
  const keepsCards = sameRun && state.route.page === route.page && state.route.rank === route.rank;
  const fresh = initialState();
  return {
    ...state,
    route,
    pointed_at: null,
    cards: keepsCards ? state.cards : {},
    ...(sameRun
      ? {}
      : {
          summary: null,
          heard: null,
          choices: {},
          findings: [],
          newest_at: null,
          ticked_at: null,
          rank: null,
          view: fresh.view,
          view_asked: false,
          rank_asked: false,
          paused: false,
          open: {},
          sort: fresh.sort,
          link: fresh.link,
        }),
  };
}

/**
 * The state after a message of the live stream. A snapshot replaces, a tick updates. Findings stay when a
 * tick has none.
 * @param {State} state
 * @param {{summary: any, findings: Finding[]|null, findings_changed: boolean, newest_at: number|null,
 *   may_change?: boolean, partial?: boolean, worst_rank?: number|null}} message
 * @param {number} now - browser time, seconds
 * @returns {State}
 */
export function streamed(state, message, now) {
  const summary = summaryHeard(state.heard, message);
  const first = state.summary === null;
  if (state.paused && !first) {
    // A paused page keeps its charts, but alerts still arrive.
    const findings = message.findings ?? state.findings;
    return { ...state, link: "live", clock: now, ticked_at: now, findings, heard: summary };
  }
  // A link may name a rank that the run does not have.
  const asked = first && !hasRank(summary, state.rank) ? null : state.rank;
  const rank = asked ?? frozenRank(message.findings ?? []) ?? message.worst_rank ?? worstRank(summary);
  const ended = !isGoing(summary);
  return {
    ...state,
    link: "live",
    clock: now,
    ticked_at: now,
    // The summary of an ended run is as old as its end.
    offset: ended ? state.offset : summary.now - now,
    summary,
    heard: summary,
    newest_at: message.newest_at ?? state.newest_at,
    may_change: message.may_change ?? true,
    findings: message.findings ?? state.findings,
    findings_version: state.findings_version + (message.findings === null ? 0 : 1),
    rank,
    // No more data will arrive: show the whole run.
    view: first && ended && !state.view_asked ? { kind: "all" } : state.view,
    sort: first && summary.rank_count > 16 ? { by: "data_wait_ratio", down: true } : state.sort,
  };
}

/** The state after a message without news. @param {State} state @param {number} now @returns {State} */
export function heard(state, now) {
  return { ...state, clock: now, ticked_at: now, link: state.link === "stale" ? "live" : state.link };
}

/** The state a second later. @param {State} state @param {number} now @returns {State} */
export function aged(state, now) {
  const quiet = state.ticked_at !== null && now - state.ticked_at > STALE_AFTER_S;
  return { ...state, clock: now, link: state.link === "live" && quiet ? "stale" : state.link };
}

/** The server's time now, as estimated by this browser. @param {State} state */
export function serverNow(state) {
  return state.clock + state.offset;
}

/** Whether the run reports. If not, its durations stop counting. @param {Summary|null} summary */
export function isGoing(summary) {
  return summary?.state === "live" || summary?.state === "hung";
}

/** The server time until which the run is known: now, or its last message. @param {State} state */
export function knownUntil(state) {
  return state.summary === null || isGoing(state.summary) ? serverNow(state) : state.summary.last_seen_at;
}

/**
 * The current state of an alert. An expired silence has ended, even if no detector judges the run any more.
 * @param {Finding} f @param {number} now
 */
export function stateNow(f, now) {
  return f.state === "silenced" && f.silenced_until !== null && f.silenced_until <= now ? "firing" : f.state;
}

/**
 * The training loader in use: the newest one of the shown rank.
 * @param {State} state @returns {import("./types.js").Loader|null}
 */
export function currentLoader(state) {
  const all = state.summary?.loaders.filter((l) => l.role !== "eval") ?? [];
  const rank = shownRank(state);
  const own = all.filter((l) => l.rank === rank);
  return (own.length > 0 ? own : all).reduce(
    (newest, l) => (newest === null || l.loader > newest.loader ? l : newest),
    /** @type {import("./types.js").Loader|null} */ (null),
  );
}

/** The rank that a current hang names. @param {Finding[]} findings @returns {number|null} */
function frozenRank(findings) {
  return active(findings).find((f) => f.code.startsWith("hung"))?.rank ?? null;
}

/** The rank with the longest data wait, or the first one. @param {Summary} summary @returns {number|null} */
export function worstRank(summary) {
  let worst = summary.ranks[0] ?? null;
  for (const row of summary.ranks)
    if (worst !== null && (row.data_wait_ratio ?? -1) > (worst.data_wait_ratio ?? -1)) worst = row;
  return worst === null ? null : worst.rank;
}

/** The rank whose charts the page shows. @param {State} state @returns {number|null} */
export function shownRank(state) {
  return state.route.page === "rank" ? state.route.rank : state.rank;
}

/** The time range of all charts; null: nothing is known. @param {State} state @returns {Range|null} */
export function shownRange(state) {
  if (state.view.kind === "fixed") return { start: state.view.start, end: state.view.end };
  if (state.summary === null) return null;
  const end = state.newest_at ?? state.summary.last_seen_at;
  const running = isGoing(state.summary);
  // The axis of a silent (hung) run keeps moving: the growing empty stretch is the news.
  const edge = running ? Math.max(end, state.summary.now - 1) : end;
  if (state.view.kind === "last") {
    const { span_s } = state.view;
    // A hang longer than the span would fill the charts with emptiness. Show the time before it, too.
    const hang = running
      ? state.findings.find((f) => f.code.startsWith("hung") && f.state !== "resolved")
      : undefined;
    // A young run fills the width. The first minute is a minute wide, so that it does not rush by.
    const start = Math.max(edge - span_s, Math.min(state.summary.started_at, edge - 60));
    return { start: hang === undefined ? start : Math.min(start, hang.began_at - 0.4 * span_s), end: edge };
  }
  const start = state.summary.started_at;
  return { start, end: Math.max(edge, start + 10) };
}

/**
 * A range drawn with the mouse; null: shorter than a second, which counts as a click.
 * @param {number} a @param {number} b @returns {View|null}
 */
export function zoomed(a, b) {
  const [start, end] = a < b ? [a, b] : [b, a];
  return end - start < 1 ? null : { kind: "fixed", start, end };
}

/**
 * Seconds until the next request for a card, at most 15. A chart waits at least two and its bucket's width,
 * and a slow server gets fewer requests.
 * @param {number} bucket_s @param {number} took_s
 */
export function refreshAfter(bucket_s, took_s) {
  return Math.min(15, Math.max(bucket_s > 0 ? Math.max(2, bucket_s) : 1, took_s * 4));
}

/**
 * Rows sorted for a table; unknown values are last in both directions.
 * @template T
 * @param {T[]} rows @param {{by: string, down: boolean}} sort @returns {T[]}
 */
export function sorted(rows, sort) {
  const sign = sort.down ? -1 : 1;
  /** @param {T} row */
  const key = (row) => /** @type {any} */ (row)[sort.by];
  return [...rows].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === y) return 0;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return x < y ? -sign : sign;
  });
}

/** Findings that need attention, worst and newest first. @param {Finding[]} findings */
export function active(findings) {
  const weight = { critical: 0, warning: 1 };
  return findings
    .filter((f) => f.state !== "resolved" && f.severity !== "info")
    .sort(
      (a, b) =>
        (weight[/** @type {"critical"} */ (a.severity)] ?? 2) -
          (weight[/** @type {"critical"} */ (b.severity)] ?? 2) || b.began_at - a.began_at,
    );
}
