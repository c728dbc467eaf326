// What each epoch of a loader consisted of, beside the epoch before, and what its boundaries cost.

import { h } from "../dom.js";
import { clock, count, duration, percent, plural } from "../format.js";
import { serverNow, shownRank } from "../store.js";
import { card } from "./frame.js";
import { button, empty } from "./parts.js";
import { cell } from "./tables.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").LoaderEpochs} LoaderEpochs
 * @typedef {import("../types.js").EpochParts} EpochParts
 * @typedef {import("../main.js").Actions} Actions
 */

/** Epochs of a loader that are shown before the reader asks for all that are known here. */
const FIRST = 6;
/** Differences below both of these are noise. */
const LEAST_CHANGE = 0.05;
const LEAST_CHANGE_S = 0.005;

/** @type {{of: "start_s"|"sampler_s"|"first_batch_s"|"steady_s"|"teardown_s"|"gap_s", name: string, part: string}[]} */
export const PARTS = [
  { of: "start_s", name: "Workers’ start", part: "start" },
  { of: "sampler_s", name: "Sampler", part: "sampler" },
  { of: "first_batch_s", name: "First batch", part: "first" },
  { of: "steady_s", name: "Steady", part: "steady" },
  { of: "teardown_s", name: "Teardown", part: "teardown" },
  { of: "gap_s", name: "Gap to the next", part: "gap" },
];
/** How a pass was left, where it did not come to its end. @type {Record<string, string>} */
const ENDED = {
  break: "left early",
  error: "ended by an error",
  worker_died: "ended by a worker's death",
  left_after_death: "left after a worker's death",
};
const AT_BOUNDARY = PARTS.filter((p) => p.of !== "steady_s");

/** @param {State} state @param {Actions} act */
export function boundariesCard(state, act) {
  /** @type {LoaderEpochs[]|null} */
  const loaders = state.cards.epochs?.data ?? null;
  return card(state, {
    id: "epochs",
    title: "Epoch boundaries",
    about: about(loaders ?? [], state),
    legend: (loaders ?? []).length === 0 ? [] : AT_BOUNDARY.map((p) => ({ name: p.name.toLowerCase(), color: `b-${p.part}`, hatch: p.of === "gap_s" })),
    height: "120px",
    flush: true,
    body: h("div", { class: "boundaries" }, (loaders ?? []).map((one) => loaderEpochs(one, (loaders ?? []).length > 1, state, act))),
    empty: loaders?.length === 0 ? empty("No epoch has begun", "A row comes with each iter(loader) of a watched loader.") : null,
  });
}

/** @param {LoaderEpochs[]} loaders @param {State} state */
function about(loaders, state) {
  const s = state.summary;
  const cost = loaders.reduce((sum, one) => sum + one.cost_s, 0);
  const of = (s?.rank_count ?? 0) > 1 && state.route.page === "run" ? ` of rank ${shownRank(state)}` : "";
  if (loaders.length === 0 || s === null) return `what each epoch${of} consisted of`;
  const run_s = s.last_seen_at - s.started_at;
  return `what each epoch${of} consisted of; start, sampler, first batch and teardown cost ${duration(cost)}${run_s > 0 ? ` of ${duration(run_s)} (${percent(cost / run_s)})` : ""}`;
}

/** @param {LoaderEpochs} one @param {boolean} several @param {State} state @param {Actions} act */
function loaderEpochs(one, several, state, act) {
  const id = `epochs/${one.rank}/${one.loader}`;
  const all = state.open[id] ?? false;
  const known = [...one.newest].reverse();
  const shown = all ? known : known.slice(0, FIRST);
  const longest = Math.max(...shown.map(boundary), 1e-9);
  const now = serverNow(state);
  return h(
    "div",
    { key: id },
    h(
      "div",
      { class: "boundaries-head" },
      h("h3", {}, one.name),
      several && h("span", { class: "chip" }, one.role === "eval" ? "evaluation" : "training"),
      h("p", { class: "card-about" }, `${plural(one.epochs, "epoch")}, cost ${duration(one.cost_s)}${shown.length < one.epochs ? `; the newest ${shown.length} are shown` : ""}`),
      known.length > FIRST && button(all ? `Show ${FIRST}` : `Show ${known.length < one.epochs ? "the newest" : "all"} ${known.length}`, () => act.open(id, !all)),
    ),
    h(
      "div",
      { class: "table-scroll" },
      h(
        "table",
        { class: "grid boundaries-table" },
        h("thead", {}, h("tr", {}, ["Epoch", "Boundary", ...PARTS.map((p) => p.name)].map((t, i) => h("th", { scope: "col", class: i > 1 ? "num" : "" }, t)))),
        h("tbody", {}, shown.map((e, i) => row(e, known[i + 1], longest, now))),
      ),
    ),
  );
}

/** @param {EpochParts} e @param {EpochParts|undefined} before @param {number} longest @param {number} now */
function row(e, before, longest, now) {
  const ended = e.ended_at === null ? "goes on" : ENDED[e.ended_by ?? ""] ?? null;
  return h(
    "tr",
    { key: `${e.epoch}/${e.began_at}` },
    cell("Epoch", [h("b", {}, `epoch ${e.epoch}`), h("small", {}, [clock(e.began_at, now), ended].filter(Boolean).join(", "))]),
    cell("Boundary", bar(e, longest)),
    PARTS.map((p) => cell(p.name, part(e, before, p.of), true)),
  );
}

/** All of an epoch but its steady part. @param {EpochParts} e */
function boundary(e) {
  return AT_BOUNDARY.reduce((sum, p) => sum + (e[p.of] ?? 0), 0);
}

/** @param {EpochParts} e @param {number} longest */
function bar(e, longest) {
  const said = AT_BOUNDARY.filter((p) => (e[p.of] ?? 0) > 0).map((p) => `${p.name} ${duration(e[p.of])}`).join(", ");
  return h(
    "span",
    { class: "boundary-bar", role: "img", "aria-label": said, title: said },
    AT_BOUNDARY.filter((p) => (e[p.of] ?? 0) > 0).map((p) => h("i", { key: p.part, class: `at-${p.part}`, style: { width: `${((100 * (e[p.of] ?? 0)) / longest).toFixed(2)}%` } })),
  );
}

/** @param {EpochParts} e @param {EpochParts|undefined} before @param {typeof PARTS[0]["of"]} of */
function part(e, before, of) {
  const note = of === "start_s" ? how(e) : of === "steady_s" && e.batches !== null ? `${count(e.batches)} batches` : null;
  const changed = change(e[of], before?.[of] ?? null);
  return [duration(e[of]), (changed !== "" || note !== null) && h("small", {}, note, note !== null && changed !== "" && " · ", changed)];
}

/** How the epoch's iterator came to be. @param {EpochParts} e */
function how(e) {
  const workers = e.workers === null || e.workers === 0 ? "" : ` ${e.workers}`;
  if (e.iter_kind === "started" || e.iter_kind === "rebuilt") return `started${workers}`;
  if (e.iter_kind === "reset") return e.drained ? `reset, ${e.drained} thrown away` : `reset${workers}`;
  return null;
}

/** Against the epoch before: "+1.2 s"; nothing where it is about the same. @param {number|null} now @param {number|null} before */
export function change(now, before) {
  if (now === null || before === null) return "";
  const by = now - before;
  if (Math.abs(by) < Math.max(LEAST_CHANGE_S, LEAST_CHANGE * before)) return "";
  return `${by > 0 ? "+" : "−"}${duration(Math.abs(by))}`;
}
