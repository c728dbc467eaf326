// The zone of all times on the page: the reader's own, or UTC. The key u switches.

const KEY = "loaderwatch.utc";

let utc = false;

/** @returns {boolean} */
export function savedUtc() {
  return localStorage.getItem(KEY) === "on";
}

/** @param {boolean} on */
export function saveUtc(on) {
  if (on) localStorage.setItem(KEY, "on");
  else localStorage.removeItem(KEY);
}

/** Show all times in UTC, or in the reader's zone, from now on. @param {boolean} on */
export function useUtc(on) {
  utc = on;
}

/** Milliseconds that the shown clock is ahead of UTC at a moment. @param {number} ms */
export function aheadMs(ms) {
  return utc ? 0 : -new Date(ms).getTimezoneOffset() * 60_000;
}

/** The moment as a date whose UTC fields show the page's clock. @param {number} t - UTC seconds */
export function shown(t) {
  return new Date(t * 1000 + aheadMs(t * 1000));
}

/** Names of the reader's zone by offset: a formatter is slow to create. @type {Map<number, string>} */
const names = new Map();

/** The name of the zone at a moment: "CEST", "UTC", "GMT+5:30". @param {number} t - UTC seconds */
export function zoneName(t) {
  if (utc) return "UTC";
  const ahead = aheadMs(t * 1000);
  let name = names.get(ahead);
  if (name === undefined) {
    const parts = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" }).formatToParts(
      new Date(t * 1000),
    );
    name = parts.find((part) => part.type === "timeZoneName")?.value ?? "";
    names.set(ahead, name);
  }
  return name;
}
