// Signals for a reader who does not look at the page: title, icon, notification, sound. They follow the
// store, which changes with each message. Drawing would be too late, because a hidden tab does not draw.

import { active, routeHash } from "./store.js";
import { say } from "./texts.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {"quiet"|"stale"|"warning"|"critical"} Tone
 * @typedef {{id: string, grave: boolean, title: string, body: string, hash: string}} News
 *
 * What the browser offers.
 * @typedef {object} World
 * @property {(title: string, tone: Tone) => void} show
 * @property {(news: News) => void} tell
 */

const KEY = "loaderwatch.attention";

export function savedAttention() {
  return localStorage.getItem(KEY) === "on";
}

/** Alerts that nobody has acknowledged. @param {State} state */
function firing(state) {
  return active(state.findings).filter((f) => f.state === "firing");
}

/**
 * Whether the run crashed. A run that somebody stopped did not crash: its verdict has severity "info".
 * @param {import("./types.js").Summary} summary
 */
function failed(summary) {
  return summary.state === "crashed" && summary.verdict.severity !== "info";
}

/** @param {State} state */
export function title(state) {
  const name = state.summary?.name ?? state.route.run;
  if (name === null || name === undefined) return "loaderwatch";
  const page = state.route.rank === null ? name : say("title-of-rank", { rank: state.route.rank, run: name });
  const open = firing(state).length;
  if (state.link === "stale") return say("title-stale", { page });
  return open > 0 ? say("title-with-alerts", { page, open }) : say("title", { page });
}

/** @param {State} state @returns {Tone} */
export function tone(state) {
  if (state.route.run === null || state.summary === null) return "quiet";
  if (state.link === "stale") return "stale";
  const [worst] = firing(state);
  if (worst?.severity === "critical" || failed(state.summary)) return "critical";
  return worst !== undefined || state.summary.state === "lost" ? "warning" : "quiet";
}

/** All news worth a notification. The page notifies once per id. @param {State} state @returns {News[]} */
export function news(state) {
  const s = state.summary;
  if (s === null) return [];
  const run = routeHash({ run: s.run_id });
  /** @type {News[]} */
  const items = firing(state).map((f) => ({
    id: f.code === "crashed" ? "crashed" : `${f.id}/${f.severity}`,
    grave: f.severity === "critical",
    title: f.title,
    body: say("news-of-run", { run: s.name, advice: f.advice }),
    hash: routeHash({ run: s.run_id, finding: f.id }),
  }));
  if (s.state === "lost")
    items.push({
      id: `lost/${s.last_seen_at}`,
      grave: false,
      title: say("news-lost", { run: s.name }),
      body: s.verdict.title,
      hash: run,
    });
  if (failed(s))
    items.push({
      id: "crashed",
      grave: true,
      title: s.verdict.title,
      body: say("news-of-run", { run: s.name, advice: s.verdict.advice }),
      hash: run,
    });
  return items;
}

export class Attention {
  /** @param {World} world */
  constructor(world) {
    this.world = world;
    this.shown = "";
    /**
     * The run and attempt of `told`: ids of news that was shown, or that existed when the page was opened.
     * @type {string|null}
     */
    this.run = null;
    /** @type {Set<string>} */
    this.told = new Set();
  }

  /** @param {State} state */
  look(state) {
    const now = title(state);
    const mark = tone(state);
    if (`${mark} ${now}` !== this.shown) {
      this.shown = `${mark} ${now}`;
      this.world.show(now, mark);
    }
    if (state.summary === null || state.route.attempt !== null) return;
    const run = `${state.summary.run_id}/${state.summary.attempt}`;
    const opened = this.run !== run;
    if (opened) this.told = new Set();
    this.run = run;
    for (const item of news(state)) {
      if (this.told.has(item.id)) continue;
      this.told.add(item.id);
      if (!opened && state.attention) this.world.tell(item);
    }
  }
}

// ---- the browser ------------------------------------------------------------------------------------------

/** @type {Record<Tone, string>} */
const BADGES = {
  quiet: "",
  stale: "<circle cx='17' cy='17' r='7' fill='%23596273' stroke='white' stroke-width='1.5'/>",
  warning:
    "<path d='M17 9.5 24 23H10Z' fill='%23f5b301' stroke='white' stroke-width='1.2'/>" +
    "<path d='M17 14v4M17 20v1' stroke='%23171a21' stroke-width='2'/>",
  critical:
    "<circle cx='17' cy='17' r='7' fill='%23c4262e' stroke='white' stroke-width='1.5'/>" +
    "<path d='M17 13v4.5M17 20v1' stroke='white' stroke-width='2'/>",
};

/** Each tone has its own shape, so that colour is not needed. @param {Tone} tone */
function showIcon(tone) {
  const link = /** @type {HTMLLinkElement|null} */ (document.querySelector("link[rel=icon]"));
  if (link === null) return;
  link.dataset.quiet ??= link.href;
  const [before = ""] = link.dataset.quiet.split(/%3C\/svg%3E|<\/svg>/);
  link.href =
    BADGES[tone] === ""
      ? link.dataset.quiet
      : `${before}${BADGES[tone].replaceAll("<", "%3C").replaceAll(">", "%3E")}%3C/svg%3E`;
  link.dataset.tone = tone;
}

/** @type {AudioContext|null} */
let audio = null;

/**
 * One tone for a warning, three for critical news; none before the reader's first click.
 * @param {boolean} grave
 */
function sound(grave) {
  if (navigator.userActivation?.hasBeenActive === false) return;
  audio ??= new AudioContext();
  const context = audio;
  void context.resume(); // the system may have suspended it
  (grave ? [880, 660, 880] : [660]).forEach((hz, n) => {
    const at = context.currentTime + 0.05 + 0.28 * n;
    const tone = context.createOscillator();
    const volume = context.createGain();
    tone.frequency.value = hz;
    volume.gain.setValueAtTime(0, at);
    volume.gain.linearRampToValueAtTime(0.25, at + 0.02);
    volume.gain.linearRampToValueAtTime(0, at + 0.24);
    tone.connect(volume).connect(context.destination);
    tone.start(at);
    tone.stop(at + 0.25);
  });
}

const maySay = () => window.isSecureContext && "Notification" in window;

/** @param {News} one */
function notify(one) {
  if (!maySay() || Notification.permission !== "granted") return;
  try {
    const shown = new Notification(one.title, { body: one.body, tag: one.id, requireInteraction: one.grave });
    shown.onclick = () => {
      window.focus();
      location.hash = one.hash;
      shown.close();
    };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // phones need a service worker; the sound must do
  }
}

/** @type {World} */
export const browser = {
  show: (text, tone) => {
    document.title = text;
    showIcon(tone);
  },
  tell: (item) => {
    sound(item.grave);
    notify(item);
  },
};

/** Ask for the permissions that the browser offers. @returns {Promise<string>} what the reader gets */
export async function turnOn() {
  localStorage.setItem(KEY, "on");
  sound(false);
  if (!maySay()) return say("alerts-sound-without-https");
  const answer = await Notification.requestPermission();
  return say("alerts-sound", { notified: answer === "granted" });
}

export function turnOff() {
  localStorage.removeItem(KEY);
  return say("alerts-silent");
}
