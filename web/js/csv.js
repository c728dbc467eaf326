// The data of a card as CSV. Pure. Each time appears twice: as text for people, as a number for programs.

/** @typedef {Record<string, any>} Data */

/**
 * @param {any} data - of a card, as the server sent it
 * @returns {string|null} null: no part of the data fits a table
 */
export function csvOf(data) {
  const rows = tableOf(data);
  return rows === null ? null : rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** @param {any} data @returns {any[][]|null} */
function tableOf(data) {
  if (data === null || typeof data !== "object") return null;
  if (isSeries(data)) return ofSeries({ [data.metric]: data });
  if (isHeatmap(data)) return ofHeatmap(data);
  if (isColumns(data)) return ofColumns(data);
  const series = Object.entries(data).filter(([, value]) => isSeries(value));
  if (series.length > 0) return ofSeries(Object.fromEntries(series));
  return Object.values(data).map(tableOf).find((table) => table !== null) ?? null;
}

/** @param {any} data */
const isSeries = (data) =>
  data !== null && typeof data === "object" && Array.isArray(data.t) && Array.isArray(data.mean);
/** @param {any} data */
const isHeatmap = (data) => Array.isArray(data.t) && Array.isArray(data.values) && Array.isArray(data.ranks);
/** @param {any} data */
const isColumns = (data) => {
  const columns = Object.values(data);
  return (
    columns.length > 1 &&
    columns.every(
      (column) =>
        Array.isArray(column) &&
        column.length === columns[0].length &&
        column.every((v) => typeof v !== "object" || v === null),
    )
  );
};

/** @param {Record<string, Data>} series */
function ofSeries(series) {
  const times = [...new Set(Object.values(series).flatMap((entry) => entry.t))].sort((a, b) => a - b);
  const parts = Object.entries(series).flatMap(([name, entry]) =>
    ["mean", "min", "max"].map((measure) => ({
      name: `${name}_${measure}`,
      at: new Map(
        entry.t.map((/** @type {number} */ t, /** @type {number} */ i) => [t, entry[measure]?.[i]]),
      ),
    })),
  );
  return [
    ["time", "unix_s", ...parts.map((part) => part.name)],
    ...times.map((t) => [utc(t), t, ...parts.map((part) => part.at.get(t))]),
  ];
}

/** @param {Data} data */
function ofHeatmap(data) {
  return [
    ["time", "unix_s", ...data.ranks.map((/** @type {number} */ rank) => `rank_${rank}`)],
    ...data.t.map((/** @type {number} */ t, /** @type {number} */ i) => [
      utc(t),
      t,
      ...data.values.map((/** @type {any[]} */ row) => row[i]),
    ]),
  ];
}

/** @param {Data} data */
function ofColumns(data) {
  const names = Object.keys(data);
  return [
    names,
    ...data[names[0] ?? ""].map((/** @type {any} */ _, /** @type {number} */ i) =>
      names.map((name) => data[name][i]),
    ),
  ];
}

/** @param {number} t */
const utc = (t) => new Date(t * 1000).toISOString();

/** Mark a text that a spreadsheet would read as a formula. @param {any} value */
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(String(value)) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
