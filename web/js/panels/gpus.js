// Every GPU of the run's hosts, with the processes of all users on it.

import { h } from "../dom.js";
import { number, percent } from "../format.js";
import { hasGpu } from "../cards.js";
import { slowedBy } from "../charts/slowed.js";
import { PAGE_ROWS } from "../ranks.js";
import { serverNow } from "../store.js";
import { say } from "../texts.js";
import { card } from "./frame.js";
import { empty, meter, withCommas } from "./parts.js";
import { pager } from "./ranks.js";
import { cell } from "./tables.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Gpu} Gpu
 * @typedef {import("../types.js").GpuProcess} GpuProcess
 * @typedef {import("../main.js").Actions} Actions
 */

/** Most processes that are named per GPU; those with the most memory come first. */
const NAMED = 3;
/** The streamer reads the GPUs every five seconds. Older values are marked as such. */
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
    title: say("gpus-title", { host }),
    badge: gpus.some((g) => g.simulated) ? say("simulated-gpu") : undefined,
    about: about(gpus, offset, hosts, serverNow(state)),
    extra:
      gpus.length > PAGE_ROWS &&
      pager("gpus", { total: gpus.length, offset }, (to) => act.choose({ "gpus.offset": String(to) })),
    height: "120px",
    flush: true,
    body: table(shown, hosts > 1),
    empty: data !== null && gpus.length === 0 ? empty(say("gpus-none"), say("gpus-none-why")) : null,
  });
}

/** @param {Gpu[]} gpus @param {number} offset - first shown @param {number} hosts @param {number} now */
function about(gpus, offset, hosts, now) {
  const looked = Math.min(...gpus.map((g) => g.looked_at ?? Infinity));
  const old = Number.isFinite(looked) && now - looked > OLD_S;
  const some = gpus.length > PAGE_ROWS;
  return say("gpus-about", {
    gpus: gpus.length,
    from: some ? offset + 1 : null,
    to: some ? Math.min(offset + PAGE_ROWS, gpus.length) : null,
    hosts: hosts > 1 ? hosts : null,
    ago_s: old ? now - looked : null,
  });
}

/** @param {Gpu[]} gpus @param {boolean} named */
function table(gpus, named) {
  const heads = [
    say("column-gpu"),
    say("gpu-utilization-column"),
    say("gpu-memory-column"),
    say("gpu-power-column"),
    say("gpu-clock-column"),
    say("gpu-temperature-column"),
    say("gpu-processes-column"),
  ];
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "grid gpus" },
      h(
        "thead",
        {},
        h("tr", {}, heads.map((t, i) => h("th", { scope: "col", class: i >= 3 && i <= 5 ? "num" : "" }, t))),
      ),
      h("tbody", {}, gpus.map((g) => row(g, named))),
    ),
  );
}

/** @param {Gpu} g @param {boolean} named */
function row(g, named) {
  const share =
    g.memory_used_bytes === null || !g.memory_total_bytes ? null : g.memory_used_bytes / g.memory_total_bytes;
  const memory =
    g.memory_used_bytes === null
      ? "–"
      : say("gpu-memory-of", { used_bytes: g.memory_used_bytes, total_bytes: g.memory_total_bytes });
  const watts = g.power_w === null ? "–" : `${number(Math.round(g.power_w))}\u202fW`;
  const mhz = g.sm_clock_hz === null ? "–" : `${number(Math.round(g.sm_clock_hz / 1e6))}\u202fMHz`;
  return h(
    "tr",
    { key: `${g.host}/${g.gpu}` },
    cell(say("column-gpu"), [
      h(
        "b",
        {},
        g.ranks.length > 0
          ? say("gpu-of-ranks", { gpu: g.gpu, number: g.ranks.length, ranks: g.ranks.join(", ") })
          : say("gpu-number", { gpu: g.gpu }),
      ),
      h("small", {}, named ? `${g.host} · ${g.name}` : g.name),
    ]),
    cell(
      say("gpu-utilization-column"),
      h(
        "span",
        { class: "metered" },
        meter(g.utilization_ratio, "gpu"),
        h("span", {}, percent(g.utilization_ratio)),
      ),
    ),
    cell(
      say("gpu-memory-column"),
      h("span", { class: "metered gpu-memory" }, meter(share, ""), h("span", {}, memory)),
    ),
    cell(
      say("gpu-power-column"),
      [
        watts,
        g.power_limit_w !== null && h("small", {}, say("gpu-power-limit", { limit_w: g.power_limit_w })),
      ],
      true,
    ),
    cell(
      say("gpu-clock-column"),
      [mhz, g.slowed_by.length > 0 && h("small", { class: "late" }, withCommas(g.slowed_by.map(slowedBy)))],
      true,
    ),
    cell(
      say("gpu-temperature-column"),
      g.temperature_c === null ? "–" : `${number(g.temperature_c)}\u202f°C`,
      true,
    ),
    cell(
      say("gpu-processes-column"),
      g.processes.length === 0 ? say("gpu-processes-none") : processes(g.processes),
    ),
  );
}

/** @param {GpuProcess[]} all */
function processes(all) {
  const named = all.slice(0, NAMED);
  return [
    named.map((p) =>
      h("span", { class: `gpu-process${p.rank === null ? " other" : ""}`, key: p.pid }, describe(p)),
    ),
    all.length > NAMED && h("small", {}, say("gpu-processes-more", { number: all.length - NAMED })),
  ];
}

/** @param {GpuProcess} p */
const describe = (p) =>
  say("gpu-process", {
    rank: p.rank,
    name: p.name,
    user: p.user,
    pid: p.pid,
    memory_bytes: p.memory_bytes,
    sm_ratio: p.sm_ratio,
  });
