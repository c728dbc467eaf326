// The card of reasons for a reduced clock of a rank's GPU.

import { hasGpu } from "../cards.js";
import { heldBy, isTold, slowedBy, slowedHeight } from "../charts/slowed.js";
import { percent } from "../format.js";
import { reading } from "../reading.js";
import { say } from "../texts.js";
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
    ? empty(say("slowed-none"), say("slowed-none-why"))
    : empty(say("not-known-in-range"), say("slowed-not-told"));
  return card(state, {
    id: "slowed",
    title: say("slowed-title"),
    about: say("slowed-about"),
    legend: reasons.map((r) => ({
      name: slowedBy(r.reason),
      color: r.color === "critical" ? "critical" : `c-${r.color}`,
      hatch: r.shape !== "",
      value: percent(reading(state, data?.[r.metric])),
    })),
    reads: true,
    height,
    body: plot("slowed", height, say("slowed-label")),
    empty: data !== null && reasons.length === 0 ? nothing : null,
  });
}
