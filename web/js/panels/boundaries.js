// The parts of each epoch of a loader, compared with the previous epoch, and the cost of its boundaries.

import { h } from "../dom.js";
import { clock, duration } from "../format.js";
import { serverNow, shownRank } from "../store.js";
import { say } from "../texts.js";
import { card } from "./frame.js";
import { button, empty, withCommas } from "./parts.js";
import { cell } from "./tables.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").LoaderEpochs} LoaderEpochs
 * @typedef {import("../types.js").EpochParts} EpochParts
 * @typedef {import("../main.js").Actions} Actions
 */

/** Epochs of a loader that are shown at first. A click shows all that the page knows. */
const FIRST = 6;
/** Differences below both of these are noise. */
const LEAST_CHANGE = 0.05;
const LEAST_CHANGE_S = 0.005;

/** @type {{of: "start_s"|"sampler_s"|"first_batch_s"|"steady_s"|"teardown_s"|"gap_s", part: string}[]} */
export const PARTS = [
  { of: "start_s", part: "start" },
  { of: "sampler_s", part: "sampler" },
  { of: "first_batch_s", part: "first" },
  { of: "steady_s", part: "steady" },
  { of: "teardown_s", part: "teardown" },
  { of: "gap_s", part: "gap" },
];
/** Early ends of a pass; the message `epoch-ended-by` names them. */
const LEFT = new Set(["break", "error", "worker_died", "left_after_death"]);
const AT_BOUNDARY = PARTS.filter((p) => p.of !== "steady_s");

/** @param {State} state @param {Actions} act */
export function boundariesCard(state, act) {
  /** @type {LoaderEpochs[]|null} */
  const loaders = state.cards.epochs?.data ?? null;
  return card(state, {
    id: "epochs",
    title: say("boundaries-title"),
    about: about(loaders ?? [], state),
    legend:
      (loaders ?? []).length === 0
        ? []
        : AT_BOUNDARY.map((p) => ({
            name: say("epoch-part-in-legend", { part: p.part }),
            color: `b-${p.part}`,
            hatch: p.of === "gap_s",
          })),
    height: "120px",
    flush: true,
    body: h(
      "div",
      { class: "boundaries" },
      (loaders ?? []).map((loader) => loaderEpochs(loader, (loaders ?? []).length > 1, state, act)),
    ),
    empty: loaders?.length === 0 ? empty(say("epochs-none"), say("epochs-none-why")) : null,
  });
}

/** @param {LoaderEpochs[]} loaders @param {State} state */
function about(loaders, state) {
  const s = state.summary;
  const cost = loaders.reduce((sum, loader) => sum + loader.cost_s, 0);
  const rank = (s?.rank_count ?? 0) > 1 && state.route.page === "run" ? shownRank(state) : null;
  if (loaders.length === 0 || s === null) return say("boundaries-about", { rank });
  const run_s = Math.max(0, s.last_seen_at - s.started_at) || null;
  return say("boundaries-about-cost", {
    rank,
    cost_s: cost,
    run_s,
    cost_ratio: run_s === null ? null : cost / run_s,
  });
}

/** @param {LoaderEpochs} loader @param {boolean} several @param {State} state @param {Actions} act */
function loaderEpochs(loader, several, state, act) {
  const id = `epochs/${loader.rank}/${loader.loader}`;
  const showsAll = state.open[id] ?? false;
  const epochs = [...loader.newest].reverse();
  const shown = showsAll ? epochs : epochs.slice(0, FIRST);
  const longest = Math.max(...shown.map(boundary), 1e-9);
  const now = serverNow(state);
  const names = PARTS.map(({ part }) => say("epoch-part", { part }));
  return h(
    "div",
    { key: id },
    h(
      "div",
      { class: "boundaries-head" },
      h("h3", {}, loader.name),
      several && h("span", { class: "chip" }, say("loader-role", { role: loader.role })),
      h(
        "p",
        { class: "card-about" },
        say("epochs-of-loader", {
          epochs: loader.epochs,
          cost_s: loader.cost_s,
          shown: shown.length < loader.epochs ? shown.length : null,
        }),
      ),
      epochs.length > FIRST &&
        button(
          showsAll
            ? say("epochs-show-first", { number: FIRST })
            : say("epochs-show-more", { all: epochs.length === loader.epochs, number: epochs.length }),
          () => act.open(id, !showsAll),
        ),
    ),
    h(
      "div",
      { class: "table-scroll" },
      h(
        "table",
        { class: "grid boundaries-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            [say("column-epoch"), say("epoch-boundary"), ...names].map((t, i) =>
              h("th", { scope: "col", class: i > 1 ? "num" : "" }, t),
            ),
          ),
        ),
        h("tbody", {}, shown.map((e, i) => row(e, epochs[i + 1], { longest, now, names }))),
      ),
    ),
  );
}

/**
 * @param {EpochParts} e @param {EpochParts|undefined} before
 * @param {{longest: number, now: number, names: string[]}} table
 */
function row(e, before, { longest, now, names }) {
  const left = LEFT.has(e.ended_by ?? "") ? say("epoch-ended-by", { by: e.ended_by }) : "";
  const ended = e.ended_at === null ? say("epoch-goes-on") : left;
  return h(
    "tr",
    { key: `${e.epoch}/${e.began_at}` },
    cell(say("column-epoch"), [
      h("b", {}, say("epoch-number", { epoch: e.epoch })),
      h("small", {}, withCommas([clock(e.began_at, now), ended])),
    ]),
    cell(say("epoch-boundary"), bar(e, longest)),
    PARTS.map((p, i) => cell(names[i] ?? "", part(e, before, p.of), true)),
  );
}

/** Seconds of an epoch outside its steady part. @param {EpochParts} e */
function boundary(e) {
  return AT_BOUNDARY.reduce((sum, p) => sum + (e[p.of] ?? 0), 0);
}

/** @param {EpochParts} e @param {number} longest */
function bar(e, longest) {
  const said = withCommas(
    AT_BOUNDARY.filter((p) => (e[p.of] ?? 0) > 0).map((p) =>
      say("epoch-part-took", { part: p.part, took_s: e[p.of] }),
    ),
  );
  return h(
    "span",
    { class: "boundary-bar", role: "img", "aria-label": said, title: said },
    AT_BOUNDARY.filter((p) => (e[p.of] ?? 0) > 0).map((p) =>
      h("i", {
        key: p.part,
        class: `at-${p.part}`,
        style: { width: `${((100 * (e[p.of] ?? 0)) / longest).toFixed(2)}%` },
      }),
    ),
  );
}

/** @param {EpochParts} e @param {EpochParts|undefined} before @param {typeof PARTS[0]["of"]} of */
function part(e, before, of) {
  const note =
    of === "start_s"
      ? how(e)
      : of === "steady_s" && e.batches !== null
        ? say("epoch-batches", { batches: e.batches })
        : null;
  const changed = change(e[of], before?.[of] ?? null);
  return [
    duration(e[of]),
    (changed !== "" || note !== null) &&
      h("small", {}, note, note !== null && changed !== "" && " · ", changed),
  ];
}

/** How the epoch got its workers. @param {EpochParts} e */
function how(e) {
  const workers = e.workers || null;
  if (e.iter_kind === "started" || e.iter_kind === "rebuilt")
    return say("epoch-workers-started", { workers });
  if (e.iter_kind === "reset")
    return e.drained
      ? say("epoch-batches-thrown-away", { batches: e.drained })
      : say("epoch-workers-reset", { workers });
  return null;
}

/** "+1.2 s" since the previous epoch; "" for noise. @param {number|null} now @param {number|null} before */
export function change(now, before) {
  if (now === null || before === null) return "";
  const by = now - before;
  if (Math.abs(by) < Math.max(LEAST_CHANGE_S, LEAST_CHANGE * before)) return "";
  return `${by > 0 ? "+" : "−"}${duration(Math.abs(by))}`;
}
