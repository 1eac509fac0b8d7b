// Elements as values, and updates of the page: h() ──▶ patch() changes only the differences.
// All text is written into text nodes. No module writes HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "rect", "line", "path", "circle"]);

/** An element. Properties: attributes (false or null: none), on… handlers, key; children: elements, texts, lists. */
export function h(tag, props, ...children) {
  return { tag, props: props || {}, children: flat(children, []), key: props ? props.key : undefined };
}

/** An element that make() creates. It stays unchanged while memo has the same value. */
export function lazy(key, memo, make) {
  return { key, memo, make };
}

function flat(children, found) {
  for (const one of children) {
    if (one === null || one === undefined || one === false || one === "") continue;
    if (Array.isArray(one)) flat(one, found);
    else found.push(typeof one === "object" ? one : { text: String(one) });
  }
  return found;
}

const shown = new WeakMap(); // by parent: the elements from which its children were made

let room = Infinity; // lazy elements that this update may still make
let isWhole = true;

/**
 * Update the children of a node to match these. The focused element keeps the focus. At most `most` lazy elements are
 * made: the others stay as they are, or are left out, and the next call with the same elements makes more of them.
 * Returns whether all were made.
 */
export function patch(parent, children, most = Infinity) {
  const focused = document.activeElement;
  [room, isWhole] = [most, true];
  patchChildren(parent, shown.get(parent) || [], (shown.set(parent, flat(children, [])), shown.get(parent)));
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  return isWhole;
}

/** Whether the update may make one more lazy element. */
function hasRoom() {
  if (room <= 0) isWhole = false;
  else room -= 1;
  return isWhole;
}

/** Remove from the list the new elements for which the update has no room. */
function leaveOut(wanted, pairs = []) {
  let kept = 0;
  wanted.forEach((one, place) => {
    if (one.make && !pairs[place] && !hasRoom()) return;
    [wanted[kept], pairs[kept]] = [one, pairs[place]];
    kept += 1;
  });
  wanted.length = kept;
}

function patchChildren(parent, old, wanted) {
  if (!old.length) {
    if (parent.firstChild) parent.textContent = "";
    const part = document.createDocumentFragment();
    leaveOut(wanted);
    for (const one of wanted) part.append(make(one));
    parent.append(part);
    return;
  }
  const byKey = new Map();
  const unkeyed = [];
  for (const one of old) {
    if (one.key === undefined) unkeyed.push(one);
    else byKey.set(one.key, one);
  }
  let place = 0;
  const pairs = wanted.map((one) => {
    let before;
    if (one.key === undefined) before = unkeyed[place++];
    else {
      before = byKey.get(one.key);
      byKey.delete(one.key);
    }
    return before && !isSame(before, one) ? (before.node.remove(), undefined) : before;
  });
  for (const one of byKey.values()) one.node.remove();
  for (const one of unkeyed.slice(place)) one.node.remove();
  leaveOut(wanted, pairs);
  let next = parent.firstChild;
  wanted.forEach((one, number) => {
    const before = pairs[number];
    const node = before ? update(before, one) : make(one);
    if (node === next) next = next.nextSibling;
    else if (next && node === next.nextSibling) next = node.nextSibling; // the node between them gets its place later
    else parent.insertBefore(node, next);
  });
}

function isSame(one, other) {
  const [a, b] = [one.made || one, other];
  if (b.make) return Boolean(one.make);
  return a.tag === b.tag && (a.text === undefined) === (b.text === undefined) && Boolean(one.make) === Boolean(b.make);
}

function make(one) {
  if (one.make) {
    one.made = one.make();
    return (one.node = make(one.made));
  }
  if (one.text !== undefined) return (one.node = document.createTextNode(one.text));
  const node = SVG_TAGS.has(one.tag) ? document.createElementNS(SVG, one.tag) : document.createElement(one.tag);
  for (const name in one.props) set(node, name, one.props[name]);
  leaveOut(one.children);
  for (const child of one.children) node.append(make(child));
  return (one.node = node);
}

function update(old, one) {
  if (one.make) {
    if (old.memo === one.memo) {
      one.made = old.made;
      return (one.node = old.node);
    }
    if (!hasRoom()) {
      [one.memo, one.made] = [old.memo, old.made];
      return (one.node = old.node);
    }
    one.made = one.make();
    if (one.made.tag !== old.made.tag) {
      const node = make(one.made);
      old.node.replaceWith(node);
      return (one.node = node);
    }
    return (one.node = update(old.made, one.made));
  }
  const node = (one.node = old.node);
  if (one.text !== undefined) {
    if (one.text !== old.text) node.data = one.text;
    return node;
  }
  for (const name in old.props) if (!(name in one.props)) set(node, name, null);
  for (const name in one.props) if (one.props[name] !== old.props[name]) set(node, name, one.props[name]);
  patchChildren(node, old.children, one.children);
  return node;
}

function set(node, name, value) {
  if (name === "key") return;
  if (name.startsWith("on")) node[name] = value;
  else if (name === "value") {
    if (node !== document.activeElement) node.value = value ?? "";
  } else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}
