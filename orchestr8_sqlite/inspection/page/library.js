// The library as a map of its tokens: what it is made of, by category, folder, tag, owner or source.

const GROUPINGS = { category: "category", folder: "folder", source: "source", owner: "owner", tag: "first tag" };
const GROUPS = 40; // drawn at most; the smallest share one place
const WIDER = 1.9; // times as wide as high: titles need room to the right

function showLibrary(data, parameters) {
  const names = Object.keys(GROUPINGS);
  const by = names.includes(parameters.by)
    ? parameters.by
    : names.find((name) => groupsOf(data, name).length > 1) || names[0];
  const groups = groupsOf(data, by);
  const tokens = data.library.tokens;
  const filter = (group) => (by === "tag" ? { list: `first~${group.name}` } : { [by]: group.name });
  const columns = [
    {
      head: GROUPINGS[by],
      by: (group) => group.name,
      cell: (group) => link("fragments", filter(group), group.name || "(none)"),
    },
    {
      head: "fragments",
      kind: "number",
      by: (group) => group.fragments.length,
      cell: (group) => countLink(group.fragments.length, "fragments", filter(group)),
    },
    { head: "tokens", kind: "number", by: (group) => group.tokens, cell: (group) => number(group.tokens) },
    { head: "share", kind: "number wide", cell: (group) => share(group.tokens, tokens) },
    { head: "", kind: "bar", cell: (group) => bar([[group.tokens, "plain", ""]], groups[0].tokens) },
  ];
  const values = Object.entries(GROUPINGS);
  return [
    totals(data),
    choice("Grouped by", "library", { ...parameters, by }, "by", values),
    treemap(groups, by, filter),
    table(`Tokens by ${GROUPINGS[by]}`, columns, groups),
  ];
}

/** Return the groups, the largest first, each with its fragments. */
function groupsOf(data, by) {
  const named = new Map();
  for (const fragment of data.fragments) {
    const name = by === "tag" ? fragment.tags[0] || "" : FACETS[by](fragment, data)[0];
    if (!named.has(name)) named.set(name, { name, fragments: [], tokens: 0 });
    const group = named.get(name);
    group.fragments.push(fragment);
    group.tokens += fragment.tokens;
  }
  return [...named.values()].sort((one, other) => other.tokens - one.tokens);
}

function totals(data) {
  const { library, fragments } = data;
  const sizes = fragments.map((fragment) => fragment.tokens).sort((one, other) => one - other);
  const middle = sizes.length ? sizes[Math.floor(sizes.length / 2)] : 0;
  const met = data.requests.filter((request) => request.is_met).length;
  const entries = [
    ["fragments", countLink(library.fragments, "fragments")],
    ["tokens", number(library.tokens)],
    ["tokens of the median", number(middle)],
    ["scenarios", countLink(library.scenarios, "coverage")],
    ["requests asked", countLink(data.requests.length, "search")],
    ["of them met", link("search", { met: "yes" }, share(met, data.requests.length), { class: "count" })],
    ["references", countLink(data.edges.length, "references")],
    ["findings", countLink(data.findings.length, "findings")],
  ];
  return figures(entries);
}

/** Return the map; it is drawn for the width that it gets, and again when that changes. */
function treemap(groups, by, filter) {
  const said = el("p", { class: "readout", "aria-hidden": "true" }, "Point at a place to read it; click to open it.");
  const frame = el("div", { class: "map" });
  let width = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth === width || !frame.clientWidth) return;
    width = frame.clientWidth;
    frame.replaceChildren(mapOf(groups, by, filter, width, said));
  }).observe(frame);
  const names = [...new Set(groups.flatMap((group) => group.fragments.map((fragment) => fragment.category)))].sort();
  const colours = by === "category" ? null : legend(names.map((name) => [`c-${name}`, name]));
  return el("div", {}, frame, said, colours);
}

function mapOf(groups, by, filter, width, said) {
  const height = Math.round(Math.min(560, Math.max(320, width * 0.52)));
  const most = groups.slice(0, GROUPS);
  const rest = groups.slice(GROUPS).flatMap((group) => group.fragments);
  const children = [
    ...most,
    ...(rest.length ? [{ name: `${groups.length - GROUPS} smaller groups`, fragments: rest, isRest: true }] : []),
  ];
  const root = d3
    .hierarchy({ children: children.map((group) => ({ group, children: group.fragments })) })
    .sum((item) => item.tokens || 0);
  d3
    .treemap()
    .size([width / WIDER, height])
    .paddingTop(18)(root.sort((one, other) => isRest(one) - isRest(other) || other.value - one.value));
  root.each((node) =>
    Object.assign(node, {
      x0: Math.round(node.x0 * WIDER),
      x1: Math.round(node.x1 * WIDER),
      y0: Math.round(node.y0),
      y1: Math.round(node.y1),
    }),
  );
  const leaves = root.leaves().filter((leaf) => leaf.data.path);
  const map = draw("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "group",
    "aria-label": `Map of tokens by ${GROUPINGS[by]}; the table below has the same figures`,
  });
  map.append(
    ...ground(leaves),
    ...(root.children || []).map((node) => groupLabel(node, filter)).filter(Boolean),
    ...leaves.map(leafLabel).filter(Boolean),
  );
  const find = (event) => {
    const box = map.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return leaves.find((leaf) => leaf.x0 <= x && x < leaf.x1 && leaf.y0 <= y && y < leaf.y1)?.data;
  };
  map.addEventListener("pointermove", (event) => {
    const fragment = find(event);
    map.classList.toggle("over", Boolean(fragment));
    if (fragment)
      said.replaceChildren(asNode(`${fragment.title} · ${fragment.path} · ${number(fragment.tokens)} tokens`));
  });
  map.addEventListener("click", (event) => {
    const fragment = event.target.closest("a") ? null : find(event);
    if (fragment) location.hash = address("fragments", { fragment: fragment.path });
  });
  return map;
}

function isRest(node) {
  return Number(Boolean(node.data.group?.isRest));
}

/** Return one path for each category: thousands of separate shapes would take the browser much longer. */
function ground(leaves) {
  const paths = new Map();
  for (const leaf of leaves) {
    const outline = `M${leaf.x0} ${leaf.y0}H${leaf.x1}V${leaf.y1}H${leaf.x0}Z`;
    paths.set(leaf.data.category, (paths.get(leaf.data.category) || "") + outline);
  }
  return [...paths].map(([category, d]) => draw("path", { d, class: `c-${category}` }));
}

function groupLabel(node, filter) {
  const [width, group] = [node.x1 - node.x0, node.data.group];
  if (width < 24) return null;
  const whole = `${group.name || "(none)"}  ${number(node.value)}`;
  const text = draw(
    "text",
    { x: node.x0 + 3, y: node.y0 + 13, class: "group" },
    clip(width > whole.length * 8 ? whole : group.name || "(none)", Math.floor(width / 8)),
  );
  if (group.isRest) return text;
  return draw("a", { href: address("fragments", filter(group)) }, text);
}

/** Return a leaf's title in as many lines as its place has room for. */
function leafLabel(leaf) {
  const letters = Math.floor((leaf.x1 - leaf.x0 - 5) / 6.4);
  const lines = Math.min(4, Math.floor((leaf.y1 - leaf.y0 - 3) / 12));
  if (letters < 6 || lines < 1) return null;
  const label = draw("text", { y: leaf.y0 + 11, class: "leaf", "aria-hidden": "true" });
  const folded = foldLines(leaf.data.title, letters, lines);
  label.append(...folded.map((line, place) => draw("tspan", { x: leaf.x0 + 3, dy: place ? 12 : 0 }, line)));
  return label;
}

function foldLines(text, letters, most) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    const last = lines[lines.length - 1];
    if (!last || last.length + word.length < letters) lines[lines.length - 1] = last ? `${last} ${word}` : word;
    else lines.push(word);
  }
  if (lines.length > most) lines[most - 1] += "…";
  return lines.slice(0, most).map((line) => clip(line, letters));
}
