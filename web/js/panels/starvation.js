// The card of GPU starvation, where the GPU's clock is known.

import { hasDeviceClock } from "../cards.js";
import { isEmpty } from "../charts/steps.js";
import { duration, percent } from "../format.js";
import { reading } from "../reading.js";
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
    title: "GPU starved for data",
    badge: state.summary?.simulated_gpu ? "simulated GPU" : undefined,
    about: "share of time in which it had nothing to do because a batch was missing; the dotted line is where the verdict speaks",
    legend: none ? [] : [{ name: "starved", color: "c-wait", value: `${percent(reading(state, data?.gpu_starved_ratio))}, ${duration(reading(state, data?.gpu_starved_s))} per step` }],
    reads: true,
    height: "130px",
    body: plot("starvation", "130px", "Share of time in which the GPU starved for data, over time"),
    empty: none ? empty("Not known in this range", "CUDA events tell it some steps later.") : null,
  });
}
