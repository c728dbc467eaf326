// How fast the training is, over time.

import { lanesOf, speedHeight } from "../charts/speed.js";
import { isEmpty } from "../charts/steps.js";
import { commonRange, eventsOf } from "../figures.js";
import { duration, number } from "../format.js";
import { reading } from "../reading.js";
import { card, plot } from "./frame.js";
import { empty } from "./parts.js";

/** @typedef {import("../store.js").State} State */

/** @param {State} state */
export function speedCard(state) {
  /** @type {Record<string, import("../types.js").Series>|null} */
  const data = state.cards.speed?.data ?? null;
  const range = commonRange(state);
  const height = `${speedHeight(range === null ? 0 : lanesOf(eventsOf(state), range).length)}px`;
  const none = data !== null && isEmpty(data.steps_per_s) && isEmpty(data.samples_per_s);
  const bucket = data?.steps_per_s?.bucket_s;
  const of = state.route.page === "run" && (state.summary?.rank_count ?? 0) > 1 ? ` of rank ${state.rank}` : "";
  return card(state, {
    id: "speed",
    title: "Speed",
    about: `training steps${of}, and the samples that were read for them${bucket === undefined ? "" : `, ${duration(bucket)} buckets`}; 0 while it stands`,
    legend: none
      ? []
      : [
          { name: "steps/s", color: "c-line", value: number(reading(state, data?.steps_per_s)) },
          ...(isEmpty(data?.samples_per_s) ? [] : [{ name: "samples/s", color: "c-power", value: number(reading(state, data?.samples_per_s)), dash: true }]),
        ],
    reads: true,
    height,
    body: plot("speed", height, "Steps and samples per second over time, with settings, checkpoints, evaluation and alerts"),
    empty: none ? empty("No steps in this range", "Choose a longer range, or All.") : null,
  });
}
