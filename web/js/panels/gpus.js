// Every GPU of the run's hosts and the processes on it, whoever they are of.

import { h } from "../dom.js";
import { bytes, duration, number, percent, plural } from "../format.js";
import { hasGpu } from "../cards.js";
import { PAGE_ROWS } from "../ranks.js";
import { serverNow } from "../store.js";
import { card } from "./frame.js";
import { empty, meter } from "./parts.js";
import { pager } from "./ranks.js";
import { cell } from "./tables.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Gpu} Gpu
 * @typedef {import("../types.js").GpuProcess} GpuProcess
 * @typedef {import("../main.js").Actions} Actions
 */

/** Processes of a GPU that are named; those with the most memory come first. */
const NAMED = 3;
/** The streamer looks every five seconds; what is much older is told as such. */
const OLD_S = 15;

/** @param {State} state @param {Actions} act @param {string} [host] - only this host's */
export function gpusCard(state, act, host) {
  if (!hasGpu(state)) return null;
  /** @type {Gpu[]|null} */
  const data = state.cards.gpus?.data ?? null;
  const gpus = (data ?? []).filter((g) => host === undefined || g.host === host);
  const offset = Number(state.choices["gpus.offset"] ?? 0);
  const shown = gpus.slice(offset, offset + PAGE_ROWS);
  const hosts = new Set(gpus.map((g) => g.host)).size;
  return card(state, {
    id: "gpus",
    title: host === undefined ? "GPUs" : `GPUs of ${host}`,
    badge: gpus.some((g) => g.simulated) ? "simulated GPU" : undefined,
    about: about(gpus, offset, hosts, serverNow(state)),
    extra: gpus.length > PAGE_ROWS && pager("GPUs", { total: gpus.length, offset }, (to) => act.choose({ "gpus.offset": String(to) })),
    height: "120px",
    flush: true,
    body: table(shown, hosts > 1),
    empty: data !== null && gpus.length === 0 ? empty("No GPU is known", "The streamer of this host has not reported its GPUs.") : null,
  });
}

/** @param {Gpu[]} gpus @param {number} offset - of those that are drawn @param {number} hosts @param {number} now */
function about(gpus, offset, hosts, now) {
  const looked = Math.min(...gpus.map((g) => g.looked_at ?? Infinity));
  const old = Number.isFinite(looked) && now - looked > OLD_S ? `, ${duration(now - looked)} ago` : "";
  const some = gpus.length > PAGE_ROWS ? `${offset + 1} to ${Math.min(offset + PAGE_ROWS, gpus.length)} of ${gpus.length}` : plural(gpus.length, "GPU");
  return `${some}${hosts > 1 ? ` of ${hosts} hosts` : ""}, means of five seconds${old}`;
}

/** @param {Gpu[]} gpus @param {boolean} named */
function table(gpus, named) {
  const heads = ["GPU", "Utilization", "Memory", "Power", "SM clock", "Temperature", "Processes"];
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "grid gpus" },
      h("thead", {}, h("tr", {}, heads.map((t, i) => h("th", { scope: "col", class: i >= 3 && i <= 5 ? "num" : "" }, t)))),
      h("tbody", {}, gpus.map((g) => row(g, named))),
    ),
  );
}

/** @param {Gpu} g @param {boolean} named */
function row(g, named) {
  const share = g.memory_used_bytes === null || !g.memory_total_bytes ? null : g.memory_used_bytes / g.memory_total_bytes;
  const memory = g.memory_used_bytes === null ? "–" : `${bytes(g.memory_used_bytes)} of ${bytes(g.memory_total_bytes)}`;
  const watts = g.power_w === null ? "–" : `${number(Math.round(g.power_w))}\u202fW`;
  const mhz = g.sm_clock_hz === null ? "–" : `${number(Math.round(g.sm_clock_hz / 1e6))}\u202fMHz`;
  return h(
    "tr",
    { key: `${g.host}/${g.gpu}` },
    cell("GPU", [h("b", {}, g.ranks.length > 0 ? `GPU ${g.gpu}, ${g.ranks.length === 1 ? "rank" : "ranks"} ${g.ranks.join(", ")}` : `GPU ${g.gpu}`), h("small", {}, named ? `${g.host} · ${g.name}` : g.name)]),
    cell("Utilization", h("span", { class: "metered" }, meter(g.utilization_ratio, "gpu"), h("span", {}, percent(g.utilization_ratio)))),
    cell("Memory", h("span", { class: "metered gpu-memory" }, meter(share, ""), h("span", {}, memory))),
    cell("Power", [watts, g.power_limit_w !== null && h("small", {}, `of ${number(Math.round(g.power_limit_w))}\u202fW`)], true),
    cell("SM clock", [mhz, g.slowed_by.length > 0 && h("small", { class: "late" }, g.slowed_by.join(", "))], true),
    cell("Temperature", g.temperature_c === null ? "–" : `${number(g.temperature_c)}\u202f°C`, true),
    cell("Processes", g.processes.length === 0 ? "none listed" : processes(g.processes)),
  );
}

/** @param {GpuProcess[]} all */
function processes(all) {
  const named = all.slice(0, NAMED);
  return [
    named.map((p) => h("span", { class: `gpu-process${p.rank === null ? " other" : ""}`, key: p.pid }, describe(p))),
    all.length > NAMED && h("small", {}, `and ${all.length - NAMED} more`),
  ];
}

/** @param {GpuProcess} p */
export function describe(p) {
  const who = p.rank !== null ? `rank ${p.rank}` : [p.name ?? "another process", p.user === null ? "" : `of ${p.user}`].filter(Boolean).join(" ");
  const has = [p.memory_bytes === null ? "" : bytes(p.memory_bytes), p.sm_ratio === null ? "" : `${percent(p.sm_ratio)} of the time`].filter(Boolean);
  return `${who}, pid ${p.pid}${has.length > 0 ? `: ${has.join(", ")}` : ""}`;
}
