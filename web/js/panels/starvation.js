// The card of GPU starvation, for runs with GPU timing.

import { hasDeviceClock } from "../cards.js";
import { isEmpty } from "../charts/steps.js";
import { reading } from "../reading.js";
import { say } from "../texts.js";
import { card, plot } from "./frame.js";
import { empty } from "./parts.js";

/** @param {import("../store.js").State} state */
export function starvationCard(state) {
  if (!hasDeviceClock(state)) return null;
  /** @type {Record<string, import("../types.js").Series>|null} */
  const data = state.cards.starvation?.data ?? null;
  const none = data !== null && isEmpty(data.gpu_starved_ratio);
  return card(state, {
    id: "starvation",
    title: say("starvation-title"),
    badge: state.summary?.simulated_gpu ? say("simulated-gpu") : undefined,
    about: say("starvation-about"),
    legend: none
      ? []
      : [
          {
            name: say("chart-starved"),
            color: "c-wait",
            value: say("chart-starved-read", {
              starved_ratio: reading(state, data?.gpu_starved_ratio),
              per_step_s: reading(state, data?.gpu_starved_s),
            }),
          },
        ],
    reads: true,
    height: "130px",
    body: plot("starvation", "130px", say("starvation-label")),
    empty: none ? empty(say("not-known-in-range"), say("cuda-events-come-late")) : null,
  });
}
