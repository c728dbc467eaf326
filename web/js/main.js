// Connects all modules: routes, the live stream, the refresher, drawing. It draws once a second, and four
// times while the reader acts.

import { frozenHash, parseSeen, seenQuery } from "./address.js";
import { acknowledge, call, runPath, silence, takeStacks, withQuery } from "./api.js";
import { Attention, browser, savedAttention, title, turnOff, turnOn } from "./attention.js";
import { goesOn, loadComparison } from "./compare.js";
import { h, render } from "./dom.js";
import { listenTakes, takeRecording } from "./downloads.js";
import { cardOf, commonRange, figureOf } from "./figures.js";
import { listenKeys } from "./keys.js";
import { comparePage } from "./panels/compare.js";
import { blocked, helpDialog, topBar } from "./panels/frame.js";
import { rankPage, runPage } from "./panels/pages.js";
import { copy } from "./panels/parts.js";
import { runsPage } from "./panels/runs.js";
import { ACTED_EVERY_MS, Pace, pointsFor } from "./pace.js";
import { draw as drawChart, load as loadPlotly, purge } from "./plotly.js";
import { answered, neighbourOf } from "./ranks.js";
import { pageLanguage, saveLanguage } from "./reader.js";
import { Refresher } from "./refresh.js";
import { makeReport } from "./report.js";
import { runActions } from "./run_actions.js";
import { restore, signIn, wasSignedIn } from "./session.js";
import {
  Store,
  active,
  aged,
  heard,
  isGoing,
  navigated,
  parseRoute,
  routeHash,
  shownRank,
  streamed,
  zoomed,
} from "./store.js";
import { Stream, failure } from "./stream.js";
import { loadCatalogues, say } from "./texts.js";
import { applyTheme, listenPrint, readPalette, savedTheme } from "./theme.js";
import { saveUtc, savedUtc, useUtc } from "./zone.js";

/**
 * The reader's actions.
 * @typedef {typeof actions} Actions
 * @typedef {import("./store.js").State} State
 */

/** Changed alerts and marks are drawn with the next data, or after this time. */
const MARKS_EVERY_MS = 1200;
const RUNS_EVERY_MS = 2000;
const COMPARE_EVERY_MS = 15_000;
/** Longest pause of drawing while a mouse button is down. A drawing could lose the click. */
const HELD_MOST_MS = 5000;

const store = new Store();
const app = /** @type {HTMLElement} */ (document.getElementById("app"));
const announcer = /** @type {HTMLElement} */ (document.getElementById("announcer"));
const now = () => Date.now() / 1000;

/** Cards on the screen. @type {Set<string>} */
const seen = new Set();
const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      const id = /** @type {HTMLElement} */ (entry.target).dataset.card ?? "";
      if (entry.isIntersecting) seen.add(id);
      else seen.delete(id);
    }
    refresher.step();
    schedule();
  },
  { rootMargin: "120px" },
);
/** @type {Set<Element>} */
const watched = new Set();

const refresher = new Refresher({
  state: () => store.state,
  put: (id, card) => store.set(answered(store.state, id, card)),
  seen: (id) => seen.has(id),
  points: () => pointsFor(app.clientWidth),
});

/** @type {Stream|null} */
let stream = null;
/** @type {string} */
let announced = "";
/** @type {number|undefined} */
let noteTimer = undefined;

const actions = {
  go: (/** @type {string} */ hash) => {
    location.hash = hash;
  },
  view: (/** @type {import("./store.js").View} */ view) => {
    store.set({ view, view_asked: true });
    refresher.restart();
    refresher.step();
  },
  resetZoom: () => {
    actions.view(
      beforeZoom ?? (isGoing(store.state.summary) ? { kind: "last", span_s: 300 } : { kind: "all" }),
    );
  },
  rank: (/** @type {number} */ rank) => store.set({ rank, rank_asked: true }),
  neighbour: (/** @type {number} */ by) => {
    const { summary, route } = store.state;
    const shown = shownRank(store.state);
    const next = summary === null ? null : neighbourOf(summary, shown, by);
    if (next === null) return;
    if (route.page === "rank") actions.go(routeHash({ run: route.run, rank: next }));
    else actions.rank(next);
  },
  togglePause: () => {
    store.set({ paused: !store.state.paused });
    if (!store.state.paused) refresher.restart();
  },
  nextTheme: () => {
    const order = /** @type {const} */ (["auto", "light", "dark"]);
    const theme = order[(order.indexOf(store.state.theme) + 1) % 3] ?? "auto";
    applyTheme(theme);
    store.set({ theme });
    actions.tell(say("note-theme", { theme }));
  },
  nextLanguage: () => {
    saveLanguage(pageLanguage() === "zh" ? "en" : "zh");
    location.reload();
  },
  toggleUtc: () => {
    const utc = !store.state.utc;
    saveUtc(utc);
    useUtc(utc);
    store.set({ utc });
    redraw();
  },
  toggleAttention: async () => {
    const attention = !store.state.attention;
    store.set({ attention });
    actions.tell(attention ? await turnOn() : turnOff());
  },
  /** @param {Event} event */
  signIn: async (event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const token = String(new FormData(form).get("token") ?? "").trim();
    if (!(await enter(token, say("sign-in-unknown-token")))) return form.reset();
    stream?.close();
    stream = null;
    store.set({ link: "connecting" });
    navigate();
  },
  /** @param {Event} event */
  takeRecording: (event) => {
    event.preventDefault();
    const { run } = store.state.route;
    if (run !== null)
      takeRecording(run).catch((error) => actions.tell(say("note-not-done", { why: error.message })));
  },
  toggleHelp: () => store.set({ help: !store.state.help }),
  toggle: (/** @type {string} */ id) => actions.open(id, !(store.state.open[id] ?? false)),
  open: (/** @type {string} */ id, /** @type {boolean} */ on) =>
    store.set({ open: { ...store.state.open, [id]: on } }),
  sort: (/** @type {string} */ by) => {
    const { sort } = store.state;
    store.set({
      sort:
        sort.by === by ? { by, down: !sort.down } : { by, down: !["rank", "state", "phase"].includes(by) },
    });
    actions.choose({ "ranks.offset": "0" });
  },
  /** @param {Record<string, string>} choices - by the name of the control */
  choose: (choices) => {
    store.set({ choices: { ...store.state.choices, ...choices } });
    refresher.step();
  },
  toAlerts: () => {
    const first = active(store.state.findings)[0];
    document.getElementById("alerts")?.scrollIntoView({ block: "start", behavior: "smooth" });
    if (first === undefined) return;
    /** @type {HTMLElement|null} */
    const row = document.querySelector(`[id="finding-${CSS.escape(first.id)}"] [data-nav]`);
    row?.focus({ preventScroll: true });
  },
  acknowledge: (/** @type {string} */ id) => change(acknowledge(id), say("note-acknowledged")),
  silence: (/** @type {string} */ id, /** @type {number} */ seconds) =>
    change(silence(id, seconds), say("note-silenced")),
  takeStacks: () => {
    const { run, rank } = store.state.route;
    if (run !== null && rank !== null) void report(takeStacks(run, rank), say("note-stacks-asked"));
  },
  copyLink: async () => {
    const link = location.href.split("#")[0] + frozenHash(store.state, location.hash);
    actions.tell((await copy(link)) ? say("note-link-copied") : say("note-link-not-copied", { link }));
  },
  report: () => makeReport(store, { app, every: seeAll, title: title(store.state), tell: actions.tell }),
  ...runActions(store, (note) => actions.tell(note), () => loadRuns(), (hash) => actions.go(hash)),
  tell: (/** @type {string} */ note) => {
    store.set({ note });
    clearTimeout(noteTimer);
    noteTimer = setTimeout(() => store.set({ note: "" }), 4000);
  },
};

/** @param {Promise<import("./types.js").Finding>} answer @param {string} note */
async function change(answer, note) {
  const finding = await report(answer, note);
  if (finding !== null)
    store.set({
      findings: store.state.findings.map((f) =>
        f.id === finding.id ? { ...f, ...finding, stacks: f.stacks } : f,
      ),
    });
}

/** @template T @param {Promise<T>} answer @param {string} note @returns {Promise<T|null>} */
async function report(answer, note) {
  try {
    const value = await answer;
    actions.tell(note);
    return value;
  } catch (error) {
    actions.tell(say("note-not-done", { why: error instanceof Error ? error.message : String(error) }));
    return null;
  }
}

/** The view before the first zoom, for the way back. @type {import("./store.js").View|null} */
let beforeZoom = null;

const reactions = {
  zoom: (/** @type {number} */ a, /** @type {number} */ b) => {
    const view = zoomed(a, b);
    if (view === null) return redraw();
    if (store.state.view.kind !== "fixed") beforeZoom = store.state.view;
    actions.view(view);
  },
  reset: () => actions.resetZoom(),
  point: (/** @type {number|null} */ pointed_at) => {
    if (pointed_at !== store.state.pointed_at) store.set({ pointed_at });
  },
  click: (/** @type {string} */ id, /** @type {number} */ y) => {
    if (id !== "plot-heatmap") return;
    const rank = store.state.cards.heatmap?.data?.ranks[Math.round(y)];
    if (rank !== undefined) actions.go(routeHash({ run: store.state.route.run, rank }));
  },
};

// ---- drawing ----------------------------------------------------------------------------------------------

const pace = new Pace();
/** The state at the last notification. */
let noticed = store.state;
/** When the next drawing is due. */
let due_at = Infinity;
/** @type {number|undefined} */
let timer = undefined;
let drawn_at = 0;
/** When a mouse button or finger went down; null: none is down. @type {number|null} */
let held_at = null;
/**
 * The inputs that each chart was last drawn from.
 * @type {Map<string, {data: unknown[], marks: unknown[], other: unknown[], at: number}>}
 */
let inputs = new Map();
/** @type {Map<string, HTMLElement>} */
const plots = new Map();

function schedule(every_ms = ACTED_EVERY_MS) {
  const now = performance.now();
  const at = Math.max(now, drawn_at + every_ms);
  if (at >= due_at) return;
  due_at = at;
  clearTimeout(timer);
  timer = setTimeout(() => requestAnimationFrame(paint), at - now);
}

/** @param {State} state */
function changed(state) {
  const every_ms = pace.between(noticed, state, performance.now());
  noticed = state;
  schedule(every_ms);
}

/** Draw without waiting, after an action of the reader. */
function redraw() {
  inputs = new Map();
  drawn_at = 0;
  schedule();
}

/** @param {boolean} down */
function hold(down) {
  held_at = down ? performance.now() : null;
  if (!down) schedule();
}

function paint() {
  due_at = Infinity;
  const held_more = held_at === null ? 0 : held_at + HELD_MOST_MS - performance.now();
  if (held_more > 0) return void setTimeout(() => schedule(), held_more);
  drawn_at = performance.now();
  const { state } = store;
  const { route } = state;
  const page =
    state.link === "unauthorized" ? h("div", { class: "page", key: "blocked" }, blocked(state, actions))
    : route.page === "runs" ? runsPage(state, actions)
    : route.page === "compare" ? comparePage(state)
    : route.page === "run" ? runPage(state, actions)
    : rankPage(state, actions);
  render(app, [
    topBar(state, actions),
    h("main", { id: "content", tabindex: "-1" }, page),
    state.help && helpDialog(actions),
    state.note !== "" && h("div", { class: "note", key: "note", role: "status" }, state.note),
  ]);
  if (state.link === "unauthorized" && document.activeElement === document.body)
    document.getElementById("token")?.focus();
  if ((state.help || state.editing !== null) && document.activeElement?.closest(".dialog") === null) {
    /** @type {HTMLElement|null} */
    const first = app.querySelector(".dialog [data-first]") ?? app.querySelector(".dialog");
    first?.focus();
  }
  writeAddress(state);
  announce(state);
  watchCards();
  paintCharts();
}

/** @param {unknown[]} a @param {unknown[]} b */
const same = (a, b) => a.every((v, i) => v === b[i]);

function paintCharts() {
  const { state } = store;
  /** @type {import("./theme.js").Palette|null} */
  let palette = null;
  const range = commonRange(state);
  for (const [id, element] of plots) if (!element.isConnected) plots.delete(id), void purge(element);
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (app.querySelectorAll(".plot"))) {
    const id = element.id.slice("plot-".length);
    const card = cardOf(id);
    if (!seen.has(card)) continue;
    const data = [state.cards[card]?.data, range?.end];
    const marks = [state.findings_version, state.cards.epochs?.data, state.cards.marks?.data];
    const layoutInputs = [element, state.view, state.theme, element.clientWidth, themeTurn];
    const drawn = inputs.get(id);
    if (drawn !== undefined && same(drawn.other, layoutInputs)) {
      // Only time has passed. New data is drawn once all charts have theirs; new marks alone wait longer.
      const moved = !same(drawn.data, data);
      if (moved ? refresher.awaited() : same(drawn.marks, marks) || drawn_at - drawn.at < MARKS_EVERY_MS)
        continue;
    }
    palette ??= readPalette(state.theme);
    const figure = figureOf(state, id, palette, element.clientWidth);
    if (figure === null) continue;
    inputs.set(id, { data, marks, other: layoutInputs, at: drawn_at });
    plots.set(id, element);
    drawChart(element, figure, reactions).then(
      () => delete element.dataset.why,
      (error) => {
        inputs.delete(id);
        element.dataset.why = String(error.message ?? error);
        actions.tell(element.dataset.why);
        console.error(error);
      },
    );
  }
}

/** Treat all cards as visible until `over`. @param {boolean} over */
function seeAll(over) {
  for (const card of app.querySelectorAll("[data-card]"))
    seen.add(/** @type {HTMLElement} */ (card).dataset.card ?? "");
  if (over) {
    for (const card of watched) watcher.unobserve(card);
    watched.clear();
    seen.clear();
  }
  refresher.step();
  schedule();
}

/** Observe which cards are on the screen. */
function watchCards() {
  const cards = new Set(app.querySelectorAll("[data-card]"));
  for (const element of watched)
    if (!cards.has(element)) {
      watcher.unobserve(element);
      watched.delete(element);
      seen.delete(/** @type {HTMLElement} */ (element).dataset.card ?? "");
    }
  for (const element of cards)
    if (!watched.has(element)) {
      watched.add(element);
      watcher.observe(element);
    }
}

/** Tell screen readers about a new alert, once. @param {State} state */
function announce(state) {
  const first = active(state.findings).find((f) => f.state === "firing");
  const text = first === undefined ? "" : say("new-alert", { severity: first.severity, title: first.title });
  const which = first?.id ?? "";
  if (which !== announced) {
    announced = which;
    announcer.textContent = text;
  }
}

// ---- where we are -----------------------------------------------------------------------------------------

/** The address that the state follows; the browser's address is ahead of it after a click on a link. */
let followed = "";

/** Write the view into the address. The history keeps pages, not each zoom. @param {State} state */
function writeAddress(state) {
  if (location.hash !== followed) return;
  const [path = "", query = ""] = followed.split("?");
  const wantedQuery = seenQuery(state);
  if (wantedQuery === query) return;
  history.replaceState(history.state, "", `${path || "#/"}${wantedQuery === "" ? "" : `?${wantedQuery}`}`);
  followed = location.hash;
}

async function loadPair() {
  const { pair } = store.state.route;
  if (pair === undefined) return;
  const comparison = await loadComparison(pair);
  if (store.state.route.pair !== pair) return;
  store.set({ comparison, clock: now() });
  setLink(comparison.link);
}

function navigate() {
  followed = location.hash;
  const previous = store.state.route;
  const route = parseRoute(followed);
  const sameRun = previous.run === route.run && previous.attempt === route.attempt;
  if (!sameRun || previous.page !== route.page || previous.rank !== route.rank) {
    refresher.clear();
    inputs = new Map();
    window.scrollTo(0, 0);
  }
  if (!sameRun) {
    stream?.close();
    stream = null;
    beforeZoom = null;
  }
  const { seen: asked, alert } = parseSeen(followed);
  store.set({ ...navigated(store.state, route), ...asked });
  shownAlert = route.finding ?? alert;
  if (route.pair !== undefined) void loadPair();
  else if (route.run === null) void loadRuns();
  else if (route.attempt !== null) void loadAttempt(route.run, route.attempt);
  else if (stream === null) {
    stream = new Stream(route.run, {
      message: onMessage,
      still: () => store.set(heard(store.state, now())),
      link: onLink,
    });
    loadCharts();
  }
  drawn_at = 0;
  schedule();
  if (shownAlert !== null) showFinding(shownAlert);
}

/** The alert that the address names. @type {string|null} */
let shownAlert = null;

/** Start loading Plotly (0.8 MB) after the first paint. */
function loadCharts() {
  requestAnimationFrame(() =>
    setTimeout(() => loadPlotly().catch((error) => actions.tell(error.message)), 0),
  );
}

/** Request an earlier attempt once: it is over. @param {string} run @param {number} attempt */
async function loadAttempt(run, attempt) {
  loadCharts();
  try {
    const [summary, findings] = await Promise.all(
      ["summary", "findings"].map((part) => call(withQuery(`${runPath(run)}/${part}`, { attempt }))),
    );
    const { route } = store.state;
    if (route.run !== run || route.attempt !== attempt) return;
    onMessage({
      summary,
      findings,
      findings_changed: true,
      newest_at: summary.last_seen_at,
      may_change: false,
    });
    store.set({ ticked_at: null });
  } catch (error) {
    onLink(failure(error));
    actions.tell(error instanceof Error ? error.message : String(error));
  }
}

/** @param {State["link"]} link */
function onLink(link) {
  setLink(link);
  if (link === "gone" && store.state.summary === null) void loadRuns(); // for similar names
}

/** @param {State["link"]} link */
function setLink(link) {
  const { sign_in } = store.state;
  store.set({ link, sign_in: { ...sign_in, before: wasSignedIn() } });
}

/** Sign in, or note why not. @param {string} token @param {string} unknown - the note for an unknown token */
async function enter(token, unknown) {
  let problem = unknown;
  try {
    if (await signIn(token)) problem = "";
  } catch {
    problem = say("sign-in-server-silent");
  }
  store.set({ sign_in: { ...store.state.sign_in, problem } });
  return problem === "";
}

/** @param {any} message */
function onMessage(message) {
  const first = store.state.summary === null;
  store.set(streamed(store.state, message, now()));
  refresher.touch();
  refresher.step();
  if (first && shownAlert !== null) showFinding(shownAlert);
}

/** Unfold a finding, and scroll to it once it is drawn. @param {string} id */
function showFinding(id) {
  actions.open(id, true);
  setTimeout(() => {
    const element = document.getElementById(`finding-${id}`);
    element?.scrollIntoView({ block: "start", behavior: "smooth" });
    /** @type {HTMLElement|null|undefined} */
    const row = element?.querySelector("[data-nav]");
    row?.focus({ preventScroll: true });
  }, ACTED_EVERY_MS + 100);
}

async function loadRuns() {
  try {
    const runs = await call("/runs");
    store.set({
      runs,
      runs_error: null,
      clock: now(),
      ...(store.state.route.run === null ? { link: "live" } : {}),
    });
  } catch (error) {
    const link = failure(error);
    setLink(link === "gone" ? "stale" : link);
    store.set({ runs_error: error instanceof Error ? error.message : String(error) });
  }
}

let themeTurn = 0;

function start() {
  useUtc(savedUtc());
  store.set({ theme: savedTheme(), utc: savedUtc(), attention: savedAttention(), clock: now() });
  const attention = new Attention(browser);
  store.subscribe((state) => attention.look(state));
  store.subscribe(changed);
  window.addEventListener("hashchange", navigate);
  document.addEventListener("visibilitychange", () => refresher.step());
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    themeTurn += 1;
    schedule();
  });
  listenPrint(() => {
    themeTurn += 1;
    paint();
  });
  new ResizeObserver(() => schedule()).observe(app);
  window.addEventListener("pointerdown", (event) => hold(event.button === 0), true);
  for (const over of ["pointerup", "pointercancel", "dragend", "blur"])
    window.addEventListener(over, () => hold(false), true);
  listenKeys(() => store.state, actions);
  listenTakes(() => store.state, actions.tell);
  setInterval(() => {
    if (document.hidden) return;
    store.set(aged(store.state, now()));
    refresher.step();
  }, 1000);
  setInterval(() => {
    if (store.state.route.page === "runs" && !document.hidden) void loadRuns();
  }, RUNS_EVERY_MS);
  setInterval(() => {
    if (store.state.route.page === "compare" && !document.hidden && goesOn(store.state.comparison))
      void loadPair();
  }, COMPARE_EVERY_MS);
  navigate();
}

/** Take the token out of the printed address, before anything else happens. */
function takeToken() {
  const address = new URL(location.href);
  const token = address.searchParams.get("token");
  address.searchParams.delete("token");
  if (token !== null) history.replaceState(history.state, "", address);
  return token;
}

/** @param {string|null} token - from the address */
async function open(token) {
  await loadCatalogues();
  if (token === null) await restore();
  else if (!(await enter(token, say("sign-in-unknown-token-in-address")))) await restore();
  start();
}

await open(takeToken());
