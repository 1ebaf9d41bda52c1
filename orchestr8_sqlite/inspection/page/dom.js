// Nodes. Texts of a library are untrusted: they enter the page as text nodes, and links lead only to places in it.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element; attributes that are functions listen, false and null ones are left out. */
function el(name, attributes, ...children) {
  return furnish(document.createElement(name), attributes, children);
}

/** Return an element of a drawing. */
function draw(name, attributes, ...children) {
  return furnish(document.createElementNS(SVG, name), attributes, children);
}

function furnish(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value !== false && value != null) node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(
    ...children
      .flat(Infinity)
      .filter((child) => child != null && child !== false)
      .map(asNode),
  );
  return node;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(plain(String(child)));
}

// Controls that reorder or hide text would let a title pass for another one; they are shown by their number instead.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;

/** Return a text with its invisible characters made visible. */
function plain(text) {
  return text.replace(HIDDEN, (sign) => `[U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
}

/** Return the address of a view, which the page writes after the #. */
function address(view, parameters) {
  const given = Object.entries(parameters || {}).filter(([, value]) => value != null);
  return given.length ? `#${view}?${new URLSearchParams(given)}` : `#${view}`;
}

/** Return a link to a view; `key` finds it again after the view is drawn anew, to give the focus back. */
function link(view, parameters, text, attributes) {
  return el("a", { href: address(view, parameters), ...attributes }, text);
}

/** Return a count as a link to what it counts, or as text if there is nothing. */
function countLink(count, view, parameters) {
  return count ? link(view, parameters, number(count), { class: "count" }) : el("span", { class: "none" }, "0");
}

function number(value) {
  return value.toLocaleString("en");
}

function share(part, whole) {
  return whole ? `${((100 * part) / whole).toFixed(part && part < whole / 10 ? 1 : 0)} %` : "–";
}

/** Return "1 fragment" or "3 fragments". */
function counted(count, noun, plural) {
  return `${number(count)} ${count === 1 ? noun : plural || `${noun}s`}`;
}

function clip(text, length) {
  return text.length > length ? `${text.slice(0, Math.max(1, length - 1))}…` : text;
}

/** Return how often each key occurs, the most frequent first. */
function tally(keys) {
  const counts = new Map();
  for (const key of keys) counts.set(key, (counts.get(key) || 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
}

function section(title, ...children) {
  return el("section", {}, el("h3", {}, title), ...children);
}

function note(text) {
  return el("p", { class: "quiet" }, text);
}

/** Return the choice between a few values of a parameter as links, the chosen one marked. */
function choice(label, view, parameters, name, values) {
  const chosen = parameters[name] ?? values[0][0];
  const items = values.map(([value, text]) => {
    const current = value === chosen ? "true" : null;
    const key = `${name}=${value}`;
    return link(view, { ...parameters, [name]: value }, text, { "aria-current": current, "data-key": key });
  });
  return el("div", { class: "choice", role: "group", "aria-label": label }, el("span", {}, label), ...items);
}
