// Prints the sentences of the page's modules as {key: module}; see sentences.py for what a key is.

import { parse } from "acorn";
import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../web/js", import.meta.url));
/** Properties whose text nobody reads. */
const UNREAD = new Set(["class", "className", "d", "viewBox", "transform", "key", "id", "type", "role", "href", "rel", "style", "family"]);
/** Functions whose text is for others than people. */
const UNREAD_CALLS = new Set(["querySelector", "querySelectorAll", "getElementById", "addEventListener", "setAttribute", "setProperty"]);
const TYPED = new Map([["percent", "{%}"], ["duration", "{s}"], ["seconds", "{s}"], ["rate", "{n}"], ["count", "{n}"], ["number", "{n}"]]);

/** @type {Record<string, string>} */
const found = {};
for (const path of modules(ROOT))
  visit(parse(readFileSync(path, "utf8"), { ecmaVersion: "latest", sourceType: "module" }), relative(ROOT, path));
console.log(JSON.stringify(found));

function* modules(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* modules(path);
    else if (path.endsWith(".js") && entry.name !== "language.js") yield path;
  }
}

/** The name by which something is called or kept. */
function nameOf(node) {
  return node.type === "MemberExpression" ? nameOf(node.property) : node.name ?? node.value;
}

function visit(node, module) {
  if (/^(Import|ExportAll|Throw)/.test(node.type)) return;
  if (node.type === "Property") {
    if (UNREAD.has(nameOf(node.key))) return;
    return visit(node.value, module);
  }
  if (node.type === "MemberExpression") return visit(node.object, module);
  if (node.type === "CallExpression") {
    const called = nameOf(node.callee);
    if (UNREAD_CALLS.has(called)) return;
    visit(node.callee, module);
    node.arguments.slice(called === "h" || called === "svg" ? 1 : 0).forEach((argument) => visit(argument, module));
    return;
  }
  if (node.type === "BinaryExpression" && /^([!=]==?|in|instanceof)$/.test(node.operator)) return;
  if (node.type === "SwitchCase") {
    node.consequent.forEach((statement) => visit(statement, module));
    return;
  }
  const parts = partsOf(node);
  if (parts !== null) {
    const key = parts.join("").trim();
    if (isRead(key)) found[key] ??= `page/${module}`;
    inside(node, module);
    return;
  }
  for (const child of Object.values(node).flat()) if (child?.type !== undefined) visit(child, module);
}

/** Sentences in the holes of another one. */
function inside(node, module) {
  if (node.type === "TemplateLiteral") {
    for (const hole of node.expressions) if (wordsOf(hole) === null) visit(hole, module);
  } else if (node.type === "BinaryExpression") {
    for (const side of [node.left, node.right]) {
      if (partsOf(side) !== null) inside(side, module);
      else if (wordsOf(side) === null) visit(side, module);
    }
  }
}

function partsOf(node) {
  if (node.type === "Literal") return typeof node.value === "string" ? [escaped(node.value)] : null;
  if (node.type === "TemplateLiteral")
    return node.quasis.flatMap((text, i) => [escaped(text.value.cooked), ...(node.expressions[i] ? [holeOf(node.expressions[i])] : [])]);
  if (node.type === "BinaryExpression" && node.operator === "+") {
    const [left, right] = [partsOf(node.left), partsOf(node.right)];
    if (left === null && right === null) return null;
    return [...(left ?? [holeOf(node.left)]), ...(right ?? [holeOf(node.right)])];
  }
  return null;
}

function holeOf(node) {
  const words = wordsOf(node);
  if (words !== null) return `{${words.join("|")}}`;
  if (node.type === "CallExpression") return TYPED.get(nameOf(node.callee)) ?? "{}";
  return node.type === "MemberExpression" && nameOf(node) === "length" ? "{n}" : "{}";
}

function wordsOf(node) {
  if (node.type === "Literal" && typeof node.value === "string") return node.value.length <= 24 ? [escaped(node.value)] : null;
  if (node.type !== "ConditionalExpression") return null;
  const [yes, no] = [wordsOf(node.consequent), wordsOf(node.alternate)];
  return yes === null || no === null ? null : [...yes, ...no];
}

function escaped(text) {
  return text.replaceAll("{", "(").replaceAll("}", ")").replaceAll("|", "/");
}

function isRead(key) {
  if (/^[<.]|^(import|assert|Bearer) |sans-serif|'none'|@@|\n/.test(key)) return false;
  const literal = key.replace(/\{[^}]*\}/g, " ");
  if (/^[a-z-]+$|^[\w.\-/:#%?=&]*[/#?=&][\w.\-/:#%?=&]*$/.test(key.replace(/\{[^}]*\}/g, "x"))) return false;
  return /[A-Za-z] [A-Za-z{]|\} [a-z]|[a-z] \{/.test(key) ? /[A-Za-z]{2,}/.test(literal) : /^[A-Z][a-z]{2,}$/.test(key);
}
