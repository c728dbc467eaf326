// Makes plotly.min.js with the traces that the page draws, and the licences of everything in it, in the folder given.
// The whole of Plotly is 1.5 MB compressed; this is 0.27 MB.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { parts } from "./parts.mjs";

const TRACES = ["heatmap"];

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("say into which folder: node bundle.mjs ../../web/vendor");
const { version } = JSON.parse(readFileSync("node_modules/plotly.js/package.json", "utf8"));
// As Plotly's own `src/core.js`, but for the components and the methods that no chart of ours uses: images, menus, sliders, error bars, ….
const COMPONENTS = ["annotations", "shapes", "colorscale", "colorbar", "fx", "modebar"];
const entry = `
  import { register } from "plotly.js/src/registry";
  import * as methods from "plotly.js/src/plot_api/plot_api";
  import "plotly.js/build/plotcss";
  import scatter from "plotly.js/src/traces/scatter";
  ${TRACES.map((trace) => `import ${trace} from "plotly.js/lib/${trace}";`).join("")}
  ${COMPONENTS.map((one) => `import ${one} from "plotly.js/src/components/${one}";`).join("")}
  import en from "plotly.js/src/locale-en";
  import enUs from "plotly.js/src/locale-en-us";
  for (const [name, fn] of Object.entries(methods)) if (typeof fn === "function") register({ moduleType: "apiMethod", name, fn });
  register([scatter, ${[...TRACES, ...COMPONENTS].join(", ")}, en, enUs]);
  export default { react: methods.react, purge: methods.purge };
`;

const outfile = join(folder, "plotly.min.js");
const { metafile } = await build({
  stdin: { contents: entry, resolveDir: "." },
  bundle: true,
  plugins: [parts],
  minify: true,
  platform: "browser",
  target: "es2020",
  format: "iife",
  globalName: "Plotly",
  define: { global: "window", "define.amd": "false" },
  loader: { ".css": "empty" }, // of maps, which are not in it
  banner: { js: `/*! plotly.js ${version} with scatter, ${TRACES.join(", ")}; licences: plotly.LICENSE.txt; made by vendor/plotly */` },
  footer: { js: "Plotly=Plotly.default;" },
  legalComments: "none",
  metafile: true,
  outfile,
});

/** @param {string} file - "node_modules/a/node_modules/@b/c/x.js" is a file of "node_modules/a/node_modules/@b/c" */
const packageOf = (file) => file.match(/^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//)?.[1];
const held = Object.entries(Object.values(metafile.outputs)[0]?.inputs ?? {}).filter(([, { bytesInOutput }]) => bytesInOutput > 0);
const packages = [...new Set(held.map(([file]) => packageOf(file)).filter((path) => path !== undefined))].sort();
const licences = packages.map((path) => {
  const about = JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
  const file = readdirSync(path).find((name) => /^licen[cs]e/i.test(name));
  const text = file === undefined ? "The package says no more than this name of its licence." : readFileSync(join(path, file), "utf8").trim();
  return `${about.name} ${about.version} (${about.license ?? "see below"})\n\n${text}\n`;
});
writeFileSync(join(folder, "plotly.LICENSE.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
