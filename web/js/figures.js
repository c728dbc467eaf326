// From the state to the figure of each chart card. Pure: no document, no Plotly.

import { gpuFigure } from "./charts/gpu.js";
import { headroomFigure } from "./charts/headroom.js";
import { heatmapFigure, heatmapQuery, shownMetric } from "./charts/heatmap.js";
import { lanesFigure } from "./charts/lanes.js";
import { COUNTERS, GPU_COUNTERS, counterFigure, readyFigure } from "./charts/small.js";
import { starvationFigure } from "./charts/starvation.js";
import { slowedFigure } from "./charts/slowed.js";
import { speedFigure } from "./charts/speed.js";
import { stepsFigure } from "./charts/steps.js";
import { currentLoader, shownRank } from "./store.js";
import { say } from "./texts.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {import("./theme.js").Palette} Palette
 * @typedef {import("./charts/axis.js").Figure} Figure
 */

/** The card whose data a chart shows. @param {string} id */
export const cardOf = (id) =>
  id.startsWith("small-gpu_") ? "gpu_counters" : id.startsWith("small-") ? "counters" : id;

/**
 * @param {State} state @param {string} id @param {Palette} palette @param {number} width
 * @returns {Figure|null} null: nothing to draw
 */
export function figureOf(state, id, palette, width) {
  const held = state.cards[cardOf(id)];
  if (held === undefined || held.data === null || held.range === null) return null;
  const range = commonRange(state) ?? held.range;
  const epochs = epochsOf(state);
  const rank = state.route.page === "rank" ? state.route.rank : null;
  // The page of a rank has bands only for alerts of this rank and of the whole run.
  const findings =
    rank === null ? state.findings : state.findings.filter((f) => f.rank === null || f.rank === rank);
  const { data } = held;
  switch (id) {
    case "steps":
      return stepsFigure({ data, epochs, findings, range, width }, palette);
    case "speed":
      return speedFigure({ data, events: eventsOf(state), epochs, findings, range, width }, palette);
    case "gpu":
      return gpuFigure({ data, epochs, findings, range, width }, palette);
    case "starvation":
      return starvationFigure({ data, epochs, findings, range, width }, palette);
    case "slowed":
      return slowedFigure({ data, epochs, findings, range, width }, palette);
    case "headroom":
      return headroomFigure({ data, epochs, findings, range, width }, palette);
    case "heatmap":
      return heatmapFigure(
        { data, metric: shownMetric(state), by: heatmapQuery(state).by, epochs, findings, range, width },
        palette,
      );
    case "lanes":
      return lanesFigure(
        { fetches: data.fetches, workers: data.workers, epochs, range, now: data.at, width },
        palette,
      );
    case "ready":
      return readyFigure({ data, epochs, range, capacity: capacityOf(state), width }, palette);
    default: {
      const counter = [...COUNTERS, ...GPU_COUNTERS].find((c) => id === `small-${c.metric}`);
      return counter === undefined
        ? null
        : counterFigure({ series: data[counter.metric], counter, range, width }, palette);
    }
  }
}

/**
 * The one time range of all charts of a page: the range of the newest data. One moment has the same x on
 * every chart.
 * @param {State} state @returns {import("./store.js").Range|null}
 */
export function commonRange(state) {
  if (state.view.kind === "fixed") return { start: state.view.start, end: state.view.end };
  /** @type {import("./store.js").Range|null} */
  let newest = null;
  for (const card of Object.values(state.cards))
    if (card.range !== null && card.range.end > (newest?.end ?? 0)) newest = card.range;
  return newest;
}

/**
 * The marks follow the training loaders, and name the loader where there are several. An evaluation pass is
 * no epoch to the reader.
 * @param {State} state @returns {import("./charts/axis.js").EpochMark[]}
 */
export function epochsOf(state) {
  /** @type {import("./types.js").LoaderEpochs[]} */
  const loaders = state.cards.epochs?.data ?? [];
  const train = loaders.filter((loader) => loader.role !== "eval");
  return train
    .flatMap((loader) =>
      loader.newest.map((e) => ({
        began_at: e.began_at,
        name:
          train.length > 1
            ? say("epoch-of-loader", { loader: loader.name, epoch: e.epoch })
            : say("epoch-number", { epoch: e.epoch }),
      })),
    )
    .sort((a, b) => a.began_at - b.began_at);
}

/**
 * Events of the shown rank: alerts as this page knows them, all others from the server's last answer.
 * @param {State} state @returns {import("./types.js").Mark[]}
 */
export function eventsOf(state) {
  /** @type {import("./types.js").Mark[]} */
  const marks = state.cards.marks?.data ?? [];
  const rank = shownRank(state);
  const alerts = state.findings
    .filter((f) => f.severity !== "info" && (f.rank === null || f.rank === rank))
    .map((f) => ({
      kind: /** @type {const} */ ("alert"),
      began_at: f.began_at,
      ended_at: f.ended_at,
      ranks: f.rank === null ? [] : [f.rank],
      text: f.title,
      finding_id: f.id,
      text_text: null,
    }));
  return [...marks.filter((mark) => mark.kind !== "alert"), ...alerts];
}

/** Most batches that can be ready: num_workers × prefetch_factor. @param {State} state */
export function capacityOf(state) {
  const loader = currentLoader(state);
  return loader?.num_workers && loader.prefetch_factor ? loader.num_workers * loader.prefetch_factor : null;
}
