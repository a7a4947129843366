/** A keyed DOM differ: describe elements with `h` and `s`, put them in place with `patch`. */

import { keepingFocus } from "./focus.js";
import { unlessPressed } from "./press.js";

const SVG_SPACE = "http://www.w3.org/2000/svg";
const SAFE_LINK = /^(?:https?:|\/|\.|#|\?)/i;
const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,/;
const properties = new Set(["checked", "disabled", "hidden", "value"]);
const described = new WeakMap();
const memories = new WeakMap();
const answering = new WeakSet();

/**
 * Describes an HTML element. `props`: attributes (null leaves one out), and
 * `key` (stays the same node), `class`, `style` (properties), `on` (listeners), `draw(node)` (fills the node
 * instead of `children`), `hook(node)` (called after each update). A button or a form that is pressed or sent is deaf
 * until what its listener returns, if it is a promise, is settled: a second press repeats no request, and undoes none.
 */
export function h(tag, props, ...children) {
  return { tag, svg: false, props: props ?? {}, children: children.flat(Infinity) };
}

/** Describes an SVG element. */
export function s(tag, props, ...children) {
  return { tag, svg: true, props: props ?? {}, children: children.flat(Infinity) };
}

/** The text of described elements, which must not `draw` their own. */
export function textOf(children) {
  return children.map((child) => (present(child) ? (child.tag ? textOf(child.children) : String(child)) : "")).join("");
}

/**
 * Replaces the children of `parent` by the described ones: at once, or, while a control of the page is pressed, once it is
 * released. A node whose key is kept stays in the page, with its focus.
 */
export function patch(parent, ...children) {
  const redraw = () => keepingFocus(parent, () => patchChildren(parent, children.flat(Infinity)));
  unlessPressed(parent, redraw, { isDrawn, hearsClicks });
}

function isDrawn(node) {
  return described.has(node);
}

function hearsClicks(node) {
  return Boolean(described.get(node)?.on.click);
}

/** The state of a view between renderings of `element`, such as an open confirmation. Starts as `initial`. */
export function memory(element, initial) {
  if (!memories.has(element)) memories.set(element, { ...initial });
  return memories.get(element);
}

function present(child) {
  return child !== null && child !== undefined && child !== false && child !== "";
}

function patchChildren(parent, children) {
  const wanted = named(children);
  if (!isInPlace(parent, wanted)) arrange(parent, wanted);
  let node = parent.firstChild;
  for (const { description } of wanted) {
    const next = node.nextSibling;
    update(node, description);
    node = next;
  }
}

/** Whether the children of `parent` are those that are wanted, in their order. */
function isInPlace(parent, wanted) {
  if (parent.childNodes.length !== wanted.length) return false;
  let node = parent.firstChild;
  for (const { name } of wanted) {
    if (described.get(node)?.name !== name) return false;
    node = node.nextSibling;
  }
  return true;
}

/** Keeps, moves, makes and removes children of `parent`, so that they are those that are wanted. */
function arrange(parent, wanted) {
  const kept = new Map();
  for (const node of parent.childNodes) {
    const name = described.get(node)?.name;
    if (name !== undefined) kept.set(name, node);
  }
  const staying = new Set(wanted.map(({ name }) => kept.get(name)));
  for (const node of [...parent.childNodes]) if (!staying.has(node)) node.remove();
  wanted.forEach(({ name, description }, place) => {
    const node = kept.get(name) ?? create(description, name);
    const current = parent.childNodes[place] ?? null;
    if (current !== node) put(parent, node, current);
  });
}

function named(children) {
  const used = new Set();
  const wanted = [];
  children.forEach((description, place) => {
    if (!present(description)) return;
    let name = nameOf(description, place);
    while (used.has(name)) name += " again";
    used.add(name);
    wanted.push({ name, description });
  });
  return wanted;
}

function nameOf(description, place) {
  if (typeof description !== "object") return `text ${place}`;
  const { key } = description.props;
  return key === undefined ? `${description.tag} at ${place}` : `${description.tag} key ${key}`;
}

function put(parent, node, before) {
  if (node.parentNode === parent && parent.moveBefore) parent.moveBefore(node, before);
  else parent.insertBefore(node, before);
}

function create(description, name) {
  let node;
  if (typeof description !== "object") node = document.createTextNode("");
  else if (description.svg) node = document.createElementNS(SVG_SPACE, description.tag);
  else node = document.createElement(description.tag);
  described.set(node, { name, attributes: {}, style: {}, on: {} });
  return node;
}

function update(node, description) {
  if (typeof description !== "object") {
    setText(node, String(description));
    return;
  }
  const before = described.get(node);
  const { key, class: classes, style, on, draw, hook, ...rest } = description.props;
  const attributes = classes ? { ...rest, class: classes } : rest;
  updateAttributes(node, before.attributes, attributes);
  updateStyle(node, before.style, style ?? {});
  listen(node, before, on ?? {});
  before.attributes = attributes;
  before.style = style ?? {};
  if (draw) draw(node);
  else patchChildren(node, description.children);
  hook?.(node);
}

function setText(node, text) {
  if (node.data === text) return;
  if (node.data && text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
  else node.data = text;
}

function updateAttributes(node, before, after) {
  for (const name of Object.keys(before)) {
    if (!(name in after)) setAttribute(node, name, null);
  }
  for (const [name, value] of Object.entries(after)) {
    if (before[name] !== value) setAttribute(node, name, value);
  }
}

function setAttribute(node, name, value) {
  if (name.startsWith("on") || name === "style" || name === "srcdoc") throw new Error(`attribute ${name}`);
  if (properties.has(name)) node[name] = value ?? (name === "value" ? "" : false);
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if ((name === "href" || name === "src") && !isSafe(name, value)) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : String(value));
}

/** Whether an address runs no code. A `data:` address may hold only a raster image. */
function isSafe(name, address) {
  return SAFE_LINK.test(address) || (name === "src" && PICTURE.test(address));
}

function updateStyle(node, before, after) {
  for (const name of Object.keys(before)) if (!(name in after)) node.style.removeProperty(name);
  for (const [name, value] of Object.entries(after)) {
    if (before[name] !== value) node.style.setProperty(name, String(value));
  }
}

function listen(node, before, handlers) {
  for (const type of Object.keys(handlers)) {
    if (!(type in before.on)) node.addEventListener(type, (event) => hear(node, type, event));
  }
  before.on = Object.fromEntries(Object.keys(before.on).map((type) => [type, undefined]));
  Object.assign(before.on, handlers);
}

function hear(node, type, event) {
  const isAct = type === "submit" || (type === "click" && node.localName === "button");
  if (isAct && answering.has(node)) {
    event.preventDefault();
    return;
  }
  const work = described.get(node).on[type]?.(event);
  if (!isAct || !(work instanceof Promise)) return;
  answering.add(node);
  work.finally(() => answering.delete(node));
}
