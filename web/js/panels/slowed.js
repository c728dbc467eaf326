// What holds the clock of a rank's GPU down.

import { hasGpu } from "../cards.js";
import { heldBy, isTold, slowedHeight } from "../charts/slowed.js";
import { percent } from "../format.js";
import { reading } from "../reading.js";
import { card, plot } from "./frame.js";
import { empty } from "./parts.js";

/** @typedef {import("../store.js").State} State */

/** @param {State} state */
export function slowedCard(state) {
  if (!hasGpu(state)) return null;
  /** @type {Record<string, import("../types.js").Series>|null} */
  const data = state.cards.slowed?.data ?? null;
  const reasons = data === null ? [] : heldBy(data);
  const height = `${slowedHeight(reasons.length)}px`;
  const nothing = isTold(data)
    ? empty("Nothing held its clock down in this range", "Neither heat nor power supply, and no power cap.")
    : empty("Not known in this range", "The driver does not tell why the clock is held down.");
  return card(state, {
    id: "slowed",
    title: "What holds the GPU’s clock down",
    about: "share of the time, as its driver tells; a power cap is a limit that was set, and no fault",
    legend: reasons.map((r) => ({ name: r.name, color: r.color === "critical" ? "critical" : `c-${r.color}`, hatch: r.shape !== "", value: percent(reading(state, data?.[r.metric])) })),
    reads: true,
    height,
    body: plot("slowed", height, "Reasons for which the GPU's clock was held down, over time"),
    empty: data !== null && reasons.length === 0 ? nothing : null,
  });
}
