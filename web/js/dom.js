// A view is plain data (`h`), and `render` makes the document match it while keeping focus, scroll and open menus.
// Text becomes text nodes only, so nothing a training script is called can turn into markup.

/**
 * @typedef {{tag: string, props: Record<string, any>, children: (VNode|string)[]}} VNode
 * @typedef {VNode|string|number|null|undefined|false} Leaf
 * @typedef {Leaf|(Leaf|(Leaf|(Leaf|Leaf[])[])[])[]} Child
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * A node of a view. Props: attributes; `on…` handlers; `style` an object of CSS properties; `key` for list items;
 * `opaque` leaves the children to someone else (a chart).
 * @param {string} tag
 * @param {Record<string, any>|null} [props]
 * @param {...Child} children
 * @returns {VNode}
 */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: flatten(children) };
}

/**
 * Control characters, and those that turn the direction of what follows: a name with them could make the words beside it
 * say something else.
 */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A text as it may be shown. @param {string} text */
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

/** What each element was last drawn from. @type {WeakMap<Node, VNode>} */
const drawn = new WeakMap();

/** Make `parent` hold exactly `children`. @param {Element} parent @param {Child[]} children */
export function render(parent, children) {
  reconcile(parent, flatten(children));
}

/** @param {VNode|string|undefined} node @returns {string} */
function identity(node) {
  if (node === undefined) return "";
  return typeof node === "string" ? "#" : `${node.tag}/${node.props.key ?? ""}`;
}

/** @param {Element} parent @param {(VNode|string)[]} wanted */
function reconcile(parent, wanted) {
  /** @type {Map<string, Node>} */
  const keyed = new Map();
  for (const node of parent.childNodes) {
    const was = drawn.get(node);
    if (was?.props.key !== undefined) keyed.set(identity(was), node);
  }
  let at = parent.firstChild;
  for (const want of wanted) {
    const id = identity(want);
    let node = typeof want !== "string" && want.props.key !== undefined ? (keyed.get(id) ?? null) : at;
    const same = node !== null && (node.nodeType === 3 ? id === "#" : identity(drawn.get(node)) === id);
    if (node !== null && same) {
      if (node !== at) parent.insertBefore(node, at);
      else at = at.nextSibling;
      if (typeof want === "string") {
        if (node.nodeValue !== want) node.nodeValue = want;
      } else update(/** @type {Element} */ (node), want);
    } else {
      parent.insertBefore(create(want, parent), at);
    }
  }
  while (at !== null) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
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
  const before = drawn.get(element)?.props ?? {};
  for (const name of Object.keys(before)) if (!(name in want.props)) setProp(element, name, before[name], undefined);
  for (const [name, value] of Object.entries(want.props)) setProp(element, name, before[name], value);
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
    for (const [key, text] of Object.entries(value ?? {})) if (before?.[key] !== text) style.setProperty(key, String(text));
  } else if (value === undefined || value === null || value === false) {
    element.removeAttribute(name);
  } else if (before !== value) {
    element.setAttribute(name, value === true ? "" : plain(String(value)));
  }
}
