// A view is plain data (`h`). `render` makes the document match a view and keeps focus, scroll and open
// menus. Text becomes text nodes only, so that no name from a training script turns into markup.

/**
 * @typedef {{tag: string, props: Record<string, any>, children: (VNode|string)[]}} VNode
 * @typedef {VNode|string|number|null|undefined|false} Leaf
 * @typedef {Leaf|(Leaf|(Leaf|(Leaf|Leaf[])[])[])[]} Child
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * A node of a view. Props: attributes; `on…` handlers; `style` as an object of CSS properties; `key` for list
 * items. `opaque` leaves the children to another module (a chart).
 * @param {string} tag @param {Record<string, any>|null} [props] @param {...Child} children @returns {VNode}
 */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: flatten(children) };
}

/**
 * Control characters, and characters that change the direction of the text after them. In a name they could
 * change how the words beside the name read.
 */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A text without characters that could mislead the reader. @param {string} text */
export const plain = (text) => text.replace(UNSEEN, "\ufffd");

/** @param {Child[]} children @returns {(VNode|string)[]} */
function flatten(children) {
  /** @type {(VNode|string)[]} */
  const out = [];
  for (const child of children) {
    if (Array.isArray(child)) out.push(...flatten(child));
    else if (child !== null && child !== undefined && child !== false && child !== "")
      out.push(typeof child === "number" ? String(child) : typeof child === "string" ? plain(child) : child);
  }
  return out;
}

/** All text of a view, for tests. @param {VNode|string|null} node @returns {string} */
export function textOf(node) {
  if (node === null) return "";
  return typeof node === "string" ? node : node.children.map(textOf).join(" ");
}

/** The view that each element was last drawn from. @type {WeakMap<Node, VNode>} */
const drawn = new WeakMap();

/** Make `parent` hold exactly `children`. @param {Element} parent @param {Child[]} children */
export function render(parent, children) {
  reconcile(parent, flatten(children));
}

/** @param {VNode|string|undefined} node @returns {string} */
function identity(node) {
  if (node === undefined) return "";
  if (typeof node === "string") return "#";
  return node.props.key === undefined ? node.tag : `${node.tag}/${node.props.key}`;
}

/** The identity of the view that `node` was drawn from. @param {ChildNode} node */
const identityOf = (node) => (node.nodeType === Node.TEXT_NODE ? "#" : identity(drawn.get(node)));

/**
 * Make the children of `parent` match. Nodes that stay are not moved: a node that is taken out and put back
 * loses focus, selection and a click in progress.
 * @param {Element} parent @param {(VNode|string)[]} wanted
 */
function reconcile(parent, wanted) {
  const existing = [...parent.childNodes];
  const places = pair(existing.map(identityOf), wanted.map(identity));
  const kept = new Set(places);
  existing.forEach((node, i) => !kept.has(i) && node.remove());
  const staying = longestRise(places);
  /** @type {Node|null} */
  let next = null;
  for (let i = wanted.length - 1; i >= 0; i -= 1) {
    const want = /** @type {VNode|string} */ (wanted[i]);
    const place = places[i] ?? -1;
    /** @type {Node} */
    let node;
    if (place < 0) {
      node = create(want, parent);
      parent.insertBefore(node, next);
    } else {
      node = /** @type {ChildNode} */ (existing[place]);
      if (!staying.has(place)) move(parent, node, next);
      if (typeof want !== "string") update(/** @type {Element} */ (node), want);
      else if (node.nodeValue !== want) node.nodeValue = want;
    }
    next = node;
  }
}

/**
 * For each wanted node the index of the existing node that becomes it; -1: a new node. Keyed nodes match by
 * key, all others in their order.
 * @param {string[]} there @param {string[]} wanted
 */
export function pair(there, wanted) {
  /** @type {number[]} */
  const places = wanted.map(() => -1);
  let first = 0;
  while (first < wanted.length && there[first] === wanted[first]) places[first] = first++;
  let [end, last] = [there.length, wanted.length];
  while (end > first && last > first && there[end - 1] === wanted[last - 1]) places[--last] = --end;
  /** @type {Map<string, number[]>} */
  const free = new Map();
  for (let i = first; i < end; i += 1) {
    const id = there[i] ?? "";
    free.set(id, [...(free.get(id) ?? []), i]);
  }
  let nextFree = first;
  for (let i = first; i < last; i += 1) {
    const id = wanted[i] ?? "";
    const keyed = id.includes("/");
    const at = (free.get(id) ?? []).findIndex((place) => keyed || place >= nextFree);
    if (at < 0) continue;
    const [place = -1] = free.get(id)?.splice(at, 1) ?? [];
    places[i] = place;
    if (!keyed) nextFree = place + 1;
  }
  return places;
}

/** The longest increasing subsequence. Only nodes outside it must move. @param {number[]} places */
export function longestRise(places) {
  /** The smallest end of an increasing sequence, by length. @type {number[]} */
  const ends = [];
  /** @type {Map<number, number|undefined>} */
  const predecessor = new Map();
  for (const place of places) {
    if (place < 0) continue;
    let length = ends.length;
    while (length > 0 && /** @type {number} */ (ends[length - 1]) > place) length -= 1;
    predecessor.set(place, ends[length - 1]);
    ends[length] = place;
  }
  /** @type {Set<number>} */
  const rise = new Set();
  for (let place = ends.at(-1); place !== undefined; place = predecessor.get(place)) rise.add(place);
  return rise;
}

/**
 * Move a node. Browsers with `moveBefore` do it without taking the node out.
 * @param {Element} parent @param {Node} node @param {Node|null} next
 */
function move(parent, node, next) {
  if (typeof parent.moveBefore === "function") parent.moveBefore(node, next);
  else /** @type {Element} */ (parent).insertBefore(node, next);
}

/** @param {VNode|string} want @param {Element} parent @returns {Node} */
function create(want, parent) {
  if (typeof want === "string") return document.createTextNode(want);
  const inSvg = want.tag === "svg" || (parent.namespaceURI === SVG && parent.tagName !== "foreignObject");
  const element = inSvg ? document.createElementNS(SVG, want.tag) : document.createElement(want.tag);
  update(element, want);
  return element;
}

/** @param {Element} element @param {VNode} want */
function update(element, want) {
  const oldProps = drawn.get(element)?.props ?? {};
  for (const name of Object.keys(oldProps))
    if (!(name in want.props)) setProp(element, name, oldProps[name], undefined);
  for (const [name, value] of Object.entries(want.props)) setProp(element, name, oldProps[name], value);
  drawn.set(element, want);
  if (!want.props.opaque) reconcile(element, want.children);
  if ("value" in want.props && element instanceof HTMLSelectElement) element.value = String(want.props.value);
}

/** @param {Element} element @param {string} name @param {any} before @param {any} value */
function setProp(element, name, before, value) {
  if (name === "key" || name === "opaque" || (name === "value" && element.tagName === "SELECT")) return;
  if (name.startsWith("on")) {
    /** @type {any} */ (element)[name] = value ?? null;
  } else if (name === "style") {
    const style = /** @type {HTMLElement} */ (element).style;
    for (const key of Object.keys(before ?? {})) if (!(key in (value ?? {}))) style.removeProperty(key);
    for (const [key, text] of Object.entries(value ?? {}))
      if (before?.[key] !== text) style.setProperty(key, String(text));
  } else if (value === undefined || value === null || value === false) {
    element.removeAttribute(name);
  } else if (before !== value) {
    element.setAttribute(name, value === true ? "" : plain(String(value)));
  }
}
