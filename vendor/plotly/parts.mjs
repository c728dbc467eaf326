// What Plotly's core takes along that no chart of ours uses, and what stands in its place. Other modules are as Plotly has them, but for
// the descriptions of their attributes.

import { readFileSync } from "node:fs";
import { parse } from "acorn";
import { simple } from "acorn-walk";

/** A function that does nothing. */
const NOTHING = "module.exports = () => {};";

/** Of plotly.js/src: what stands in place of each of these. */
const INSTEAD = {
  // Buttons in the chart's corner: `displayModeBar: false` draws none. Their names stand in descriptions alone.
  "components/modebar/manage.js": NOTHING,
  "components/modebar/constants.js": "exports.default = {};",
  // Selecting points with lasso and box, and drawing shapes with the pointer: we only zoom.
  "components/selections/index.js": "exports.prepSelect = exports.clearOutline = exports.selectOnClick = () => {};",
  "components/selections/draw_newselection/attributes.js": "module.exports = { newselection: {}, activeselection: {} };",
  "components/shapes/display_outlines.js": NOTHING,
  // Bars beside each other (`scattermode: "group"`), and histograms: no trace of ours.
  "traces/bar/cross_trace_calc.js": "exports.setGroupPositions = () => {};",
  "traces/histogram2d/calc.js": NOTHING,
};

/** Packages of which Plotly takes all, and needs little: Plotly's colours are those of CSS' older forms, hex, rgb() and hsl(). */
const ONLY = {
  culori: `import { modeHsl, modeLrgb, modeRgb, useMode } from "culori/fn";
    for (const mode of [modeRgb, modeHsl, modeLrgb]) useMode(mode);
    export { converter, formatHex, formatRgb, wcagContrast, wcagLuminance } from "culori/fn";`,
  "gl-mat4": 'exports.invert = require("gl-mat4/invert"); exports.multiply = require("gl-mat4/multiply");',
};

/** The plugin for esbuild. What it replaces must be there: a later Plotly may have it elsewhere. */
export const parts = {
  name: "parts",
  setup(build) {
    const left = new Set([...Object.keys(INSTEAD), ...Object.keys(ONLY)]);
    build.onResolve({ filter: new RegExp(`^(${Object.keys(ONLY).join("|")})$`) }, ({ path }) => ({ path, namespace: "only" }));
    build.onLoad({ filter: /.*/, namespace: "only" }, ({ path }) => {
      left.delete(path);
      return { contents: ONLY[path], resolveDir: "." };
    });
    build.onLoad({ filter: /plotly\.js[\\/]src[\\/].*\.js$/ }, ({ path }) => {
      const name = path.replaceAll("\\", "/").split("plotly.js/src/")[1];
      left.delete(name);
      return { contents: INSTEAD[name] ?? undescribed(readFileSync(path, "utf8")) };
    });
    build.onEnd(() => (left.size === 0 ? undefined : { errors: [{ text: `parts.mjs replaces what is not in this Plotly: ${[...left].join(", ")}` }] }));
  },
};

/** A module without the descriptions of its attributes, which Plotly's documentation is made from and nothing else. */
function undescribed(source) {
  const cut = [];
  simple(parse(source, { ecmaVersion: "latest", sourceType: "script" }), {
    ObjectExpression({ properties }) {
      cut.push(...properties.filter((one) => one.key?.name === "description" && isText(one.value)));
    },
  });
  cut.sort((a, b) => b.start - a.start);
  return cut.reduce((text, { start, end }) => text.slice(0, start) + text.slice(end).replace(/^\s*,/, ""), source);
}

/** Whether an expression is a text, or the lines of one. */
const isText = (node) =>
  node.type === "Literal" ||
  (node.type === "BinaryExpression" && isText(node.left) && isText(node.right)) ||
  (node.type === "CallExpression" && node.callee.object?.type === "ArrayExpression" && node.callee.property.name === "join");
