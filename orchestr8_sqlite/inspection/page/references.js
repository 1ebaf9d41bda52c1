// What points to what: hubs, orphans, dead ends, and one fragment among its neighbours.

const NEIGHBOURS = 14; // drawn on each side

function showReferences(data, parameters) {
  const { pointed, points } = data.at;
  const hubs = data.fragments
    .filter((one) => pointed[one.place].length)
    .sort((one, other) => pointed[other.place].length - pointed[one.place].length);
  const orphans = data.fragments.filter((one) => !pointed[one.place].length);
  const silent = data.fragments.filter((one) => !points[one.place].length);
  const chosen = data.byPath.get(parameters.fragment) || hubs[0] || data.fragments[0];
  const entries = [
    ["references", number(data.edges.length)],
    ["pointed to", countLink(hubs.length, "fragments", { list: "hubs" })],
    ["orphans", countLink(orphans.length, "fragments", { list: "orphans" })],
    ["pointing nowhere", countLink(silent.length, "fragments", { list: "ends" })],
    ["with dead ends", countLink(LISTS.dangling(data)[0].length, "fragments", { list: "dangling" })],
  ];
  return [
    figures(entries),
    chosen ? section(link("fragments", { fragment: chosen.path }, chosen.title), neighbourhood(data, chosen)) : null,
    section("Hubs", hubTable(data, hubs)),
    section("Dead ends", deadTable(data)),
  ];
}

function hubTable(data, hubs) {
  const { pointed, points } = data.at;
  const most = hubs.length ? pointed[hubs[0].place].length : 0;
  const columns = [
    { head: "fragment", by: (one) => one.title, cell: (one) => fragmentLink(one, "references") },
    {
      head: "pointed to by",
      kind: "number",
      by: (one) => pointed[one.place].length,
      cell: (one) => countLink(pointed[one.place].length, "fragments", { list: `to~${one.path}` }),
    },
    { head: "", kind: "bar", cell: (one) => bar([[pointed[one.place].length, "plain", ""]], most) },
    {
      head: "points to",
      kind: "number wide",
      by: (one) => points[one.place].length,
      cell: (one) => countLink(points[one.place].length, "fragments", { list: `from~${one.path}` }),
    },
  ];
  return table("Hubs", columns, hubs, "No fragment points to another.");
}

function deadTable(data) {
  const targets = new Map();
  for (const [from, target, , line] of data.dangling)
    targets.set(target, [...(targets.get(target) || []), [from, line]]);
  const rows = [...targets].sort((one, other) => other[1].length - one[1].length);
  const columns = [
    { head: "missing target", by: ([target]) => target, cell: ([target]) => el("code", {}, target) },
    {
      head: "times",
      kind: "number",
      by: ([, from]) => from.length,
      cell: ([target, from]) => countLink(from.length, "fragments", { list: `missing~${target}` }),
    },
    {
      head: "from",
      cell: ([, from]) =>
        from
          .slice(0, 4)
          .map(([id, line]) =>
            el(
              "span",
              { class: "line" },
              link("fragments", { fragment: data.fragments[id].path }, data.fragments[id].path),
              ` line ${line}`,
            ),
          ),
    },
  ];
  return table("References to what the library lacks", columns, rows, "Every reference leads to a fragment.");
}

/** Return a fragment between those that point to it and those it points to; drawn for the width that it gets. */
function neighbourhood(data, one) {
  const [before, after] = [distinct(data.at.pointed[one.place], 0), distinct(data.at.points[one.place], 1)];
  if (!before.length && !after.length) return note("Nothing points to it, and it points to nothing.");
  const frame = el("div", { class: "graph" });
  let width = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth === width || !frame.clientWidth) return;
    width = frame.clientWidth;
    frame.replaceChildren(graphOf(data, one, before, after, width));
  }).observe(frame);
  const more = Math.max(0, before.length - NEIGHBOURS) + Math.max(0, after.length - NEIGHBOURS);
  return el("div", {}, frame, more ? note(`… and ${number(more)} more.`) : null);
}

function distinct(edges, end) {
  return [...new Set(edges.map((edge) => edge[end]))];
}

function graphOf(data, one, before, after, width) {
  const sides = [before.slice(0, NEIGHBOURS), after.slice(0, NEIGHBOURS)];
  const height = Math.max(3, sides[0].length, sides[1].length) * 24 + 44;
  const middle = 22 + (height - 22) / 2;
  const letters = Math.floor((width * 0.36 - 9) / 7.2);
  const drawn = sides.flatMap((ids, side) => {
    const x = side ? width * 0.64 : width * 0.36;
    const first = middle - ((ids.length - 1) * 24) / 2;
    return ids.map((id, place) => neighbour(data, id, [x, first + place * 24, side], [width / 2, middle], letters));
  });
  const heads = [
    ["pointed to by", width * 0.36, "end"],
    ["points to", width * 0.64, "start"],
  ].map(([text, x, anchor]) => draw("text", { x, y: 12, "text-anchor": anchor, class: "quiet" }, text));
  return draw(
    "svg",
    {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": plain(`Neighbours of ${one.title}`),
    },
    ...heads,
    ...drawn.map(([line]) => line),
    draw("circle", { cx: width / 2, cy: middle, r: 6, class: `c-${one.category} node` }),
    ...drawn.map(([, label]) => label),
  );
}

function neighbour(data, id, [x, y, side], [cx, cy], letters) {
  const one = data.fragments[id];
  const bend = (x + cx) / 2;
  const line = draw("path", { d: `M${x} ${y}C${bend} ${y} ${bend} ${cy} ${cx} ${cy}`, class: "edge" });
  const text = draw(
    "text",
    { x: x + (side ? 9 : -9), y: y + 4, "text-anchor": side ? "start" : "end" },
    clip(one.title, letters),
  );
  const label = draw(
    "a",
    { href: address("references", { fragment: one.path }) },
    draw("circle", { cx: x, cy: y, r: 4, class: `c-${one.category} node` }),
    text,
  );
  return [line, label];
}
