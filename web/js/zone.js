// The zone that times are shown in: the reader's own, or UTC, by the key u. One for the whole page.

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

/** All times from now on. @param {boolean} on */
export function useUtc(on) {
  utc = on;
}

/** How much the shown clock is ahead of UTC at a moment, in milliseconds. @param {number} ms */
export function aheadMs(ms) {
  return utc ? 0 : -new Date(ms).getTimezoneOffset() * 60_000;
}

/** The moment as a date whose UTC fields are what the shown clock says. @param {number} t - UTC seconds */
export function shown(t) {
  return new Date(t * 1000 + aheadMs(t * 1000));
}

/** What the reader's zone is called, summer and winter: a formatter is slow to make. @type {Map<number, string>} */
const names = new Map();

/** What the zone is called then: "CEST", "UTC", "GMT+5:30". @param {number} t - UTC seconds */
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
