// Prints the texts of the page's modules as {calls, named, sentences}; test_page.py checks them.
// calls: each call of `say` with its possible ids (null: from a table) and parameters (null: unknown here).
// named: each text that may be an id. sentences: texts for people that are no messages.
// Texts of a TypeError are left out: they report faults in the code.

import { parse } from "acorn";
import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../web/js", import.meta.url));
/** Properties whose text nobody reads. */
const UNREAD = new Set(
  "class className d viewBox transform key id type role href rel style family hovermode reason".split(" "),
);
/** Functions whose arguments nobody reads. */
const UNREAD_CALLS = new Set(
  "querySelector querySelectorAll getElementById addEventListener setAttribute setProperty".split(" "),
);
/** Modules with sentences that are not drawn: texts for the clipboard, units, faults of catalogues. */
const UNDRAWN = new Set(["snippets.js", "format.js", "texts.js"]);
const SYNTAX = { ecmaVersion: "latest", sourceType: "module", locations: true };
const FUNCTION = /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/;

/** @type {{where: string, ids: string[]|null, params: string[]|null, at_import: boolean, odd: boolean}[]} */
const calls = [];
/** @type {Record<string, string>} */
const named = {};
/** @type {Record<string, string>} */
const sentences = {};

for (const path of modules(ROOT)) {
  const module = relative(ROOT, path);
  const tree = parse(readFileSync(path, "utf8"), SYNTAX);
  visit(tree, { module, inside: false });
}
console.log(JSON.stringify({ calls, named, sentences }));

function* modules(folder) {
  const entries = readdirSync(folder, { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* modules(path);
    else if (path.endsWith(".js")) yield path;
  }
}

/** The name of a variable, property or key. */
function nameOf(node) {
  return node.type === "MemberExpression" ? nameOf(node.property) : (node.name ?? node.value);
}

/** @param {{module: string, inside: boolean}} at - `inside`: in a function, which does not run at import */
function visit(node, at) {
  if (/^(Import|ExportAll)/.test(node.type)) return;
  if (FUNCTION.test(node.type)) at = { ...at, inside: true };
  if (node.type === "NewExpression" && nameOf(node.callee) === "TypeError") return;
  if (node.type === "CallExpression" && node.callee.name === "say" && at.module !== "texts.js")
    return call(node, at);
  if (node.type === "Property" && UNREAD.has(nameOf(node.key))) return;
  if (node.type === "CallExpression" && UNREAD_CALLS.has(nameOf(node.callee))) return;
  if (node.type === "BinaryExpression" && /^([!=]==?|in|instanceof)$/.test(node.operator)) return;
  const text = textOf(node);
  if (text !== null) {
    named[text] ??= at.module;
    if (isRead(text) && !UNDRAWN.has(at.module)) sentences[text] ??= at.module;
  }
  if (node.type === "Property") return visit(node.value, at);
  if (node.type === "SwitchCase") return node.consequent.forEach((statement) => visit(statement, at));
  for (const child of Object.values(node).flat()) if (child?.type !== undefined) visit(child, at);
}

function call(node, at) {
  const [id, params] = node.arguments;
  const ids = idsOf(id);
  calls.push({
    where: `${at.module}:${node.loc.start.line}`,
    ids,
    params: params === undefined ? [] : keysOf(params),
    at_import: !at.inside,
    odd: ids === null && !/(^|_)message$/.test(nameOf(id) ?? ""),
  });
  if (ids === null || id.type === "ConditionalExpression") visit(id, at);
  for (const name of ids ?? []) named[name] ??= at.module;
  if (params !== undefined) visit(params, at);
}

/** The keys of an object; null if another object is spread into it. */
function keysOf(node) {
  const isPlain =
    node.type === "ObjectExpression" && node.properties.every((property) => property.type === "Property");
  return isPlain ? node.properties.map((property) => nameOf(property.key)) : null;
}

/** The ids that an expression chooses from; null if it is no choice of texts. */
function idsOf(node) {
  if (node.type === "ConditionalExpression") {
    const [yes, no] = [idsOf(node.consequent), idsOf(node.alternate)];
    return yes === null || no === null ? null : [...yes, ...no];
  }
  return node.type === "Literal" && typeof node.value === "string" ? [node.value] : null;
}

/** A text with "{}" for each expression inside; null if the node is no text. */
function textOf(node) {
  if (node.type === "Literal") return typeof node.value === "string" ? node.value.trim() : null;
  if (node.type === "TemplateLiteral") return node.quasis.map((part) => part.value.cooked).join("{}").trim();
  return null;
}

/** Whether a text looks like one for people: two words, or one that is capitalized. */
function isRead(text) {
  if (/^[<.]|^(import|assert|Bearer) |sans-serif|'none'|@@|\n/.test(text)) return false;
  const literal = text.replaceAll("{}", " ");
  if (/^[a-z-]+$|^[\w.\-/:#%?=&]*[/#?=&][\w.\-/:#%?=&]*$/.test(text.replaceAll("{}", "x"))) return false;
  const hasTwoWords = /[A-Za-z] [A-Za-z{]|\} [a-z]|[a-z] \{/.test(text);
  return hasTwoWords ? /[A-Za-z]{2,}/.test(literal) : /^[A-Z][a-z]{2,}$/.test(text);
}
