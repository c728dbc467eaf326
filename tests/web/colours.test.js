// The parts of a step, the states of threads and the heat map are distinct without colour vision, in both
// themes, and the parts and the heat map also on paper.
// Simulation: matrices of Machado, Oliveira and Fernandes (2009), severity 1.0. Distance: OKLab (Ottosson
// 2020) times 100; from about 2 on, adjacent colours look different. Paper: CIE L* (0 to 100).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { STATES } from "../../web/js/charts/profile.js";
import { PARTS, partName } from "../../web/js/charts/steps.js";

/** @typedef {[number, number, number]} Triple */

/** Least distances: of parts that touch; of any two in one chart; of parts that touch, on paper. */
const TOUCHING = 9;
const ANY_TWO = 6;
const ON_PAPER = 10;
/** Least contrast of a hatching's lines, which cover a third of it. WCAG asks for 3 if a shape is filled. */
const STANDS_OUT = 3.4;

/** Least contrast of small words, and the most of a state's colour behind them, under the pointer. */
const READABLE = 4.5;
const MOST_TINT = 0.38;

/** @type {Record<string, Triple[]>} */
const SEEN_BY = {
  everybody: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopes: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopes: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopes: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

const css = readFileSync(new URL("../../web/css/tokens.css", import.meta.url), "utf8");
/**
 * The colours of a theme, from every block of its scheme. The blocks must agree.
 * @param {"light"|"dark"} scheme @returns {Record<string, string>[]}
 */
function themes(scheme) {
  return css
    .split("color-scheme: ")
    .slice(1)
    .filter((block) => block.startsWith(`${scheme};`))
    .map((block) =>
      Object.fromEntries(
        [...(block.split("}")[0] ?? "").matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map((m) => [m[1], m[2]]),
      ),
    );
}

/** @param {string} color - #rrggbb @returns {Triple} linear, 0 to 1 */
function linear(color) {
  const [r, g, b] = [1, 3, 5]
    .map((at) => Number.parseInt(color.slice(at, at + 2), 16) / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return [/** @type {number} */ (r), /** @type {number} */ (g), /** @type {number} */ (b)];
}

/** @param {Triple[]} matrix @param {Triple} v @returns {Triple} */
const times = (matrix, v) =>
  /** @type {Triple} */ (matrix.map((row) => row[0] * v[0] + row[1] * v[1] + row[2] * v[2]));

/** @param {string} color @param {Triple[]} seen_by @returns {Triple} */
function oklab(color, seen_by) {
  const rgb = /** @type {Triple} */ (times(seen_by, linear(color)).map((c) => Math.min(1, Math.max(0, c))));
  const lms = times(
    [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    rgb,
  );
  return times(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    /** @type {Triple} */ (lms.map(Math.cbrt)),
  );
}

/** @param {string} a @param {string} b @param {Triple[]} seen_by */
function apart(a, b, seen_by) {
  const [p, q] = [oklab(a, seen_by), oklab(b, seen_by)];
  return 100 * Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
}

/** @param {string} color */
function lightness(color) {
  const [r, g, b] = linear(color);
  const y = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return y > 0.008856 ? 116 * Math.cbrt(y) - 16 : 903.3 * y;
}

/** WCAG's contrast ratio. @param {string} a @param {string} b */
function contrast(a, b) {
  const [light = 0, dark = 0] = [a, b]
    .map((color) => times([[0.2126, 0.7152, 0.0722]], linear(color))[0])
    .sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

/**
 * Two colours mixed as `color-mix(in srgb, …)` does.
 * @param {string} a @param {string} b @param {number} of_a
 */
function mixed(a, b, of_a) {
  const parts = [1, 3, 5].map((at) => {
    const [p, q] = [a, b].map((color) => Number.parseInt(color.slice(at, at + 2), 16));
    return Math.round((p ?? 0) * of_a + (q ?? 0) * (1 - of_a))
      .toString(16)
      .padStart(2, "0");
  });
  return `#${parts.join("")}`;
}

for (const scheme of /** @type {const} */ (["light", "dark"])) {
  const [colours = {}, ...again] = themes(scheme);

  /** @param {string} name */
  const of = (name) => {
    const found = colours[`c-${name}`];
    assert.ok(found !== undefined, `--c-${name} is not in tokens.css`);
    return found;
  };

  test(`${scheme}: the theme is the same whoever chose it, the reader or the system`, () => {
    assert.ok(Object.keys(colours).length > 20);
    for (const one of again) assert.deepEqual(one, colours);
  });

  test(`${scheme}: parts of a step that touch are told apart by everybody, and on paper`, () => {
    for (const [i, part] of PARTS.entries()) {
      // A run may lack a part. Then its lower and upper neighbours touch.
      for (const other of PARTS.slice(i + 1, i + 3)) {
        if (part.hatch !== other.hatch) continue;
        const [a, b] = [of(part.color), of(other.color)];
        for (const [who, matrix] of Object.entries(SEEN_BY))
          assert.ok(
            apart(a, b, matrix) >= TOUCHING,
            `${partName(part)} and ${partName(other)}, by ${who}: ${apart(a, b, matrix).toFixed(1)}`,
          );
        assert.ok(
          Math.abs(lightness(a) - lightness(b)) >= ON_PAPER,
          `${partName(part)} and ${partName(other)}, on paper: ${[a, b].map((c) => lightness(c).toFixed(0))}`,
        );
      }
    }
  });

  test(`${scheme}: what is hatched stands out from the card`, () => {
    const card = colours.panel ?? "";
    for (const part of PARTS.filter((p) => p.hatch))
      assert.ok(
        contrast(of(part.color), card) >= STANDS_OUT,
        `${partName(part)}: ${contrast(of(part.color), card).toFixed(1)}`,
      );
  });

  test(`${scheme}: any two parts of a step differ for those who see no red or no green`, () => {
    for (const [i, part] of PARTS.entries())
      for (const other of PARTS.slice(i + 1)) {
        if (part.hatch !== other.hatch) continue;
        for (const who of ["protanopes", "deuteranopes"]) {
          const found = apart(of(part.color), of(other.color), /** @type {Triple[]} */ (SEEN_BY[who]));
          assert.ok(
            found >= ANY_TWO,
            `${partName(part)} and ${partName(other)}, by ${who}: ${found.toFixed(1)}`,
          );
        }
      }
  });

  test(`${scheme}: states of threads are told apart, and words on their boxes can be read`, () => {
    const states = Object.entries(STATES).map(([state, look]) => ({
      state,
      ...look,
      hex: of(look.color.slice("c-".length)),
    }));
    for (const [i, one] of states.entries()) {
      const tint = mixed(one.hex, colours.panel ?? "", MOST_TINT);
      const found = contrast(colours.text ?? "", tint);
      assert.ok(found >= READABLE, `words on ${one.state}: ${found.toFixed(1)}`);
      if (one.hatch) assert.ok(contrast(one.hex, colours.panel ?? "") >= STANDS_OUT, one.state);
      for (const other of states.slice(i + 1)) {
        if (one.color === other.color && one.hatch !== other.hatch) continue;
        for (const who of ["everybody", "protanopes", "deuteranopes"]) {
          const distance = apart(one.hex, other.hex, /** @type {Triple[]} */ (SEEN_BY[who]));
          const which = `${one.state} and ${other.state}, by ${who}`;
          assert.ok(distance >= ANY_TWO, `${which}: ${distance.toFixed(1)}`);
        }
      }
    }
  });

  test(`${scheme}: more is darker in the heat map, or lighter in the dark, by as much on paper`, () => {
    const steps = [0, 1, 2, 3, 4].map((i) => lightness(/** @type {string} */ (colours[`heat-${i}`])));
    const sign = scheme === "light" ? -1 : 1;
    for (const [i, one] of steps.entries())
      if (i > 0)
        assert.ok(
          sign * (one - /** @type {number} */ (steps[i - 1])) >= 7,
          steps.map((s) => s.toFixed(0)).join(" "),
        );
  });
}
