// Makes plotly.min.js with the traces that the page draws, and the licences of everything in it, in the folder given.
// The whole of Plotly is 1.5 MB compressed; this is 0.4 MB. `scatter` is in Plotly's core.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const TRACES = ["heatmap"];

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("say into which folder: node bundle.mjs ../../web/vendor");
const { version } = JSON.parse(readFileSync("node_modules/plotly.js/package.json", "utf8"));
const entry = [
  'import core from "plotly.js/lib/core";',
  ...TRACES.map((trace) => `import ${trace} from "plotly.js/lib/${trace}";`),
  `core.register([${TRACES.join(", ")}]);`,
  "export default core;",
].join("\n");

const outfile = join(folder, "plotly.min.js");
const { metafile } = await build({
  stdin: { contents: entry, resolveDir: "." },
  bundle: true,
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
