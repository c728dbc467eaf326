// The card of the training speed over time.

import { lanesOf, speedHeight } from "../charts/speed.js";
import { isEmpty } from "../charts/steps.js";
import { commonRange, eventsOf } from "../figures.js";
import { number } from "../format.js";
import { reading } from "../reading.js";
import { say } from "../texts.js";
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
  const rank = state.route.page === "run" && (state.summary?.rank_count ?? 0) > 1 ? state.rank : null;
  return card(state, {
    id: "speed",
    title: say("speed-title"),
    about: say("speed-about", { rank, bucket_s: bucket }),
    legend: none
      ? []
      : [
          {
            name: say("chart-steps-per-s"),
            color: "c-line",
            value: number(reading(state, data?.steps_per_s)),
          },
          ...(isEmpty(data?.samples_per_s)
            ? []
            : [
                {
                  name: say("chart-samples-per-s"),
                  color: "c-power",
                  value: number(reading(state, data?.samples_per_s)),
                  dash: true,
                },
              ]),
        ],
    reads: true,
    height,
    body: plot("speed", height, say("speed-label")),
    empty: none ? empty(say("no-steps-in-range"), say("choose-longer-range")) : null,
  });
}
