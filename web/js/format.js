// Numbers, times and lists as text, by default in the language of the page. Unknown is a dash, never a zero.

import { pageLanguage } from "./reader.js";
import { shown, zoneName } from "./zone.js";

/** @typedef {import("./reader.js").Language} Language */

export const UNKNOWN = "–";
const THIN = "\u202f"; // between number and unit; keeps both on one line
const WORDS = {
  en: {
    us: "µs",
    ms: "ms",
    s: "s",
    min: "min",
    h: "h",
    min_of_h: "min",
    days: "days",
    percent: `${THIN}%`,
    now: "just now",
    ago: " ago",
    comma: ", ",
    and: " and ",
    and_more: (/** @type {string} */ number) => ` and ${number} more`,
  },
  zh: {
    us: "微秒",
    ms: "毫秒",
    s: "秒",
    min: "分钟",
    h: "小时",
    min_of_h: "分",
    days: "天",
    percent: "%",
    now: "刚刚",
    ago: "前",
    comma: "、",
    and: " 和 ",
    and_more: (/** @type {string} */ number) => ` 和另外 ${number} 个`,
  },
};

/** @param {number|null|undefined} v @returns {v is number} */
function known(v) {
  return v !== null && v !== undefined && Number.isFinite(v);
}

/**
 * 0.541 → "54 %". Small shares keep a digit: 0.034 → "3.4 %".
 * @param {number|null|undefined} ratio @param {Language} [language]
 */
export function percent(ratio, language = pageLanguage()) {
  if (!known(ratio)) return UNKNOWN;
  const v = ratio * 100;
  const digits = Math.abs(v) >= 9.95 || v === 0 ? 0 : 1;
  return `${v.toFixed(digits)}${WORDS[language].percent}`;
}

/** Three significant digits, grouped thousands: 9.73, 97.3, 973, 12,345. @param {number|null|undefined} v */
export function number(v) {
  if (!known(v)) return UNKNOWN;
  const a = Math.abs(v);
  if (Number.isInteger(v) || a >= 100) return group(Math.round(v));
  return a >= 10 ? v.toFixed(1) : a >= 0.01 || v === 0 ? v.toFixed(2) : v.toPrecision(2);
}

/** Whole numbers with thin separators: 18,204. @param {number|null|undefined} v */
export function count(v) {
  return known(v) ? group(Math.round(v)) : UNKNOWN;
}

/** @param {number} v */
function group(v) {
  return String(v).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/**
 * A duration in the unit that fits: 850 µs, 45 ms, 1.4 s, 71 s, 12 min, 3 h 05 min.
 * @param {number|null|undefined} s @param {Language} [language] @returns {string}
 */
export function duration(s, language = pageLanguage()) {
  if (!known(s)) return UNKNOWN;
  if (s < 0) return `-${duration(-s, language)}`;
  const words = WORDS[language];
  if (s === 0) return `0${THIN}${words.s}`;
  if (s < 0.0009995) return `${Math.max(1, Math.round(s * 1e6))}${THIN}${words.us}`;
  if (s < 0.00995) return `${(s * 1e3).toFixed(1)}${THIN}${words.ms}`;
  if (s < 0.9995) return `${Math.round(s * 1e3)}${THIN}${words.ms}`;
  if (s < 9.95) return `${s.toFixed(1)}${THIN}${words.s}`;
  if (s < 119.5) return `${Math.round(s)}${THIN}${words.s}`;
  const minutes = Math.round(s / 60);
  if (minutes < 120) return `${minutes}${THIN}${words.min}`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48)
    return `${hours}${THIN}${words.h} ${String(minutes % 60).padStart(2, "0")}${THIN}${words.min_of_h}`;
  return `${Math.round(hours / 24)}${THIN}${words.days}`;
}

/**
 * How long ago, in coarse steps against flicker.
 * @param {number|null|undefined} s @param {Language} [language]
 */
export function ago(s, language = pageLanguage()) {
  if (!known(s)) return UNKNOWN;
  const words = WORDS[language];
  if (s < 5) return words.now;
  if (s < 60) return `${Math.floor(s / 5) * 5}${THIN}${words.s}${words.ago}`;
  if (s < 3600) return `${Math.floor(s / 60)}${THIN}${words.min}${words.ago}`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)}${THIN}${words.h}${words.ago}`;
  return `${Math.floor(s / 86400)}${THIN}${words.days}${words.ago}`;
}

/** Bytes in binary units: 296 MiB. @param {number|null|undefined} v */
export function bytes(v) {
  if (!known(v)) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let n = v;
  let unit = 0;
  while (Math.abs(n) >= 1023.5 && unit < units.length - 1) {
    n /= 1024;
    unit += 1;
  }
  return `${n >= 99.5 || unit === 0 ? Math.round(n) : n.toFixed(1)}${THIN}${units[unit]}`;
}

/**
 * Wall time in the page's zone: "14:03:22 CET", with the day when it is not today.
 * @param {number|null|undefined} t @param {number} now
 */
export function clock(t, now) {
  return known(t) ? `${clockBare(t, now)}\u00a0${zoneName(t)}` : UNKNOWN;
}

/**
 * The same without the zone, for a time beside another time that names the zone.
 * @param {number|null|undefined} t @param {number} now
 */
export function clockBare(t, now) {
  if (!known(t)) return UNKNOWN;
  const at = shown(t);
  const time = at.toISOString().slice(11, 19);
  if (at.toISOString().slice(0, 10) === shown(now).toISOString().slice(0, 10)) return time;
  const day = at.toLocaleDateString(undefined, { month: "short", day: "numeric", timeZone: "UTC" });
  return `${day}, ${time.slice(0, 5)}`;
}

/** A value of evidence in its unit. @param {import("./types.js").Evidence} e */
export function evidence(e) {
  if (e.value === null || e.value === undefined) return UNKNOWN;
  if (typeof e.value === "string") return e.value;
  switch (e.unit) {
    case "ratio":
      return percent(e.value);
    case "s":
      return duration(e.value);
    case "bytes":
      return bytes(e.value);
    case "per_s":
      return `${number(e.value)}/s`;
    case "index":
      return String(e.value);
    default:
      return number(e.value);
  }
}

/**
 * A list that stays readable: "a", "a and b", "a, b, c and 30 more".
 * @param {string[]} words @param {number} [most] - of at least `most` + 2 words, only `most` are named
 * @param {number} [of] - number of all words
 * @param {Language} [language]
 */
export function listed(words, most = 3, of = words.length, language = pageLanguage()) {
  const { comma, and, and_more } = WORDS[language];
  if (of > most + 1) return words.slice(0, most).join(comma) + and_more(count(of - most));
  const last = words.at(-1) ?? "";
  return words.length < 2 ? last : words.slice(0, -1).join(comma) + and + last;
}
