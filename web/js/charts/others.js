// Waiting for other ranks as a part of a step of its own. It is taken out of the phases that contain it.

import { held } from "./steps.js";

/** @typedef {import("../types.js").Series} Series */

/** Phases in which ranks meet: the exchange of gradients first, the rest of the step last. */
const PHASES = ["backward_s", "forward_s", "optimizer_s", "other_s"];

/** On average, a wait below this share of an iteration is the cost of any exchange. */
const LEAST_RATIO = 0.02;

/**
 * The parts of a step, with waiting for other ranks as one more part. The sum of each bucket stays the same.
 * @param {Record<string, Series>} data @returns {Record<string, Series>}
 */
export function withoutOthers(data) {
  const { others_wait_s: others, iteration_s: iteration, ...rest } = data;
  if (others === undefined) return data;
  const whole = sum(iteration);
  const plain = iteration === undefined ? rest : { ...rest, iteration_s: iteration };
  if (whole === 0 || sum(others) < LEAST_RATIO * whole) return plain;
  const phaseMeans = Object.fromEntries(
    PHASES.flatMap((metric) => (data[metric] === undefined ? [] : [[metric, [...data[metric].mean]]])),
  );
  // With very many iterations the server samples some. A bucket without a sample keeps the previous value.
  const waited = held(others, others).map((wait, i) => {
    if (wait === null || (iteration?.mean[i] ?? null) === null) return null;
    let left = wait;
    for (const metric of PHASES) {
      const part = phaseMeans[metric]?.[i] ?? null;
      if (part === null) continue;
      const taken = Math.min(part, left);
      /** @type {(number|null)[]} */ (phaseMeans[metric])[i] = part - taken;
      left -= taken;
    }
    return wait - left;
  });
  const phases = Object.fromEntries(
    Object.entries(phaseMeans).map(([metric, mean]) => [
      metric,
      { .../** @type {Series} */ (data[metric]), min: mean, mean, max: mean },
    ]),
  );
  return { ...plain, ...phases, others_wait_s: { ...others, min: waited, mean: waited, max: waited } };
}

/** @param {Series|undefined} series */
function sum(series) {
  return (series?.mean ?? []).reduce((/** @type {number} */ total, v) => total + (v ?? 0), 0);
}
