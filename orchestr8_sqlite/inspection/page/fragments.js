// All fragments with facets and an instant filter, and one fragment with all that is known of it.

// Lists that other views count and link to; each returns the fragments it has and how the page calls them.
const LISTS = {
  orphans: (data) => [data.fragments.filter((one) => !data.at.pointed[one.place].length), "that nothing points to"],
  hubs: (data) => [data.fragments.filter((one) => data.at.pointed[one.place].length), "that others point to"],
  ends: (data) => [data.fragments.filter((one) => !data.at.points[one.place].length), "pointing nowhere"],
  to: (data, ...path) => [neighbours(data, path.join("~"), "pointed", 0), `pointing to ${path.join("~")}`],
  from: (data, ...path) => [neighbours(data, path.join("~"), "points", 1), `that ${path.join("~")} points to`],
  missing: (data, ...target) => [
    data.fragments.filter((one) => data.at.dangling[one.place].some((to) => to[1] === target.join("~"))),
    `pointing to ${target.join("~")}, which is missing`,
  ],
  dangling: (data) => [
    data.fragments.filter((one) => data.at.dangling[one.place].length),
    "pointing to what is missing",
  ],
  first: (data, ...tag) => [
    data.fragments.filter((one) => (one.tags[0] || "") === tag.join("~")),
    `with the first tag ${tag.join("~") || "(none)"}`,
  ],
  unloaded: (data) => [uris(data, data.usage?.neverLoaded), "never loaded"],
  fate: (data, client, kind, context, letter) => {
    const listing = listingAt(
      data.clients.find((one) => one.id === client),
      kind,
      Number(context),
    );
    return [
      data.fragments.filter((one) => listing?.fates[one.place] === letter),
      `${FATES[letter]?.[1]} by ${client}${context ? ` at ${number(Number(context))} tokens` : ""}`,
    ];
  },
};

function neighbours(data, path, list, end) {
  const edges = data.at[list][data.byPath.get(path)?.place] || [];
  return distinct(edges, end).map((place) => data.fragments[place]);
}

function uris(data, names) {
  return (names || []).map((uri) => data.byUri.get(uri)).filter(Boolean);
}

const FACETS = {
  category: (one) => [one.category],
  folder: (one) => [one.path.split("/").slice(0, -1).slice(0, 2).join("/")],
  tag: (one) => one.tags,
  owner: (one, data) => [data.roots[one.root].owner],
  source: (one, data) => [data.roots[one.root].name],
  size: (one) => [
    one.tokens < 300
      ? "under 300"
      : one.tokens < 1000
        ? "300 to 999"
        : one.tokens < 3000
          ? "1,000 to 2,999"
          : "3,000 and more",
  ],
  scenarios: (one) => [
    one.scenarios === 0 ? "none" : one.scenarios < 4 ? "1 to 3" : one.scenarios < 8 ? "4 to 7" : "8 and more",
  ],
};

function showFragments(data, parameters, redraw) {
  const fragment = data.byPath.get(parameters.fragment);
  if (fragment) return showFragment(data, fragment);
  const side = narrowing();
  const found = el("div", {});
  const update = () => {
    const [base, name] = listOf(data, parameters.list);
    const typed = base.filter(matcher(parameters.q));
    const rows = typed.filter((one) => fits(data, parameters, one));
    side.replaceChildren(side.firstChild, ...facetsOf(data, parameters, typed));
    found.replaceChildren(heading(rows, name, parameters), fragmentTable(data, rows));
  };
  const box = filterBox("Filter by words of title, id, description or tag", parameters.q || "", (text) => {
    parameters.q = text;
    redraw(update);
  });
  update();
  return [box, el("div", { class: "split" }, side, found)];
}

function listOf(data, name) {
  const [key, ...rest] = (name || "").split("~");
  return Object.hasOwn(LISTS, key) ? LISTS[key](data, ...rest) : [data.fragments, ""];
}

function fits(data, parameters, one, except) {
  return Object.entries(FACETS).every(
    ([name, values]) => name === except || parameters[name] == null || values(one, data).includes(parameters[name]),
  );
}

function facetsOf(data, parameters, rows) {
  return Object.entries(FACETS)
    .map(([name, values]) => {
      const counts = tally(rows.filter((one) => fits(data, parameters, one, name)).flatMap((one) => values(one, data)));
      const tells = counts.length > 1 || parameters[name] != null;
      return tells ? facet(name[0].toUpperCase() + name.slice(1), "fragments", parameters, name, counts) : null;
    })
    .filter(Boolean);
}

function heading(rows, name, parameters) {
  const tokens = rows.reduce((sum, one) => sum + one.tokens, 0);
  const said = el(
    "p",
    { class: "found", role: "status" },
    el("b", {}, counted(rows.length, "fragment")),
    name ? ` ${name}` : "",
    `, ${number(tokens)} tokens `,
  );
  if (Object.values(parameters).some(Boolean)) said.append(link("fragments", {}, "show all"));
  return said;
}

function fragmentTable(data, rows) {
  const met = (one) => data.at.asked[one.place].filter((request) => request.is_met).length;
  const columns = [
    { head: "fragment", by: (one) => one.title, cell: fragmentLink },
    {
      head: "category",
      kind: "wide",
      by: (one) => one.category,
      cell: (one) => link("fragments", { category: one.category }, one.category),
    },
    { head: "tokens", kind: "number", by: (one) => one.tokens, cell: (one) => number(one.tokens) },
    { head: "scenarios", kind: "number wide", by: (one) => one.scenarios, cell: (one) => number(one.scenarios) },
    {
      head: "met",
      kind: "number",
      by: met,
      cell: (one) => countLink(met(one), "search", { fragment: one.path, met: "yes" }),
    },
    {
      head: "pointed to",
      kind: "number wide",
      by: (one) => data.at.pointed[one.place].length,
      cell: (one) => countLink(data.at.pointed[one.place].length, "fragments", { list: `to~${one.path}` }),
    },
    {
      head: "findings",
      kind: "number wide",
      by: (one) => data.at.findings[one.place].length,
      cell: (one) => countLink(data.at.findings[one.place].length, "findings", { fragment: one.path }),
    },
  ];
  return table("Fragments", columns, rows, "No fragment has all of these words and values.");
}

function showFragment(data, one) {
  const root = data.roots[one.root];
  const { asked, pairs, findings } = data.at;
  const facts = [
    ["id", el("code", {}, one.uri)],
    ["category", link("fragments", { category: one.category }, one.category)],
    ["tags", one.tags.length ? one.tags.map((tag) => [link("fragments", { tag }, tag, { class: "tag" }), " "]) : "–"],
    ["size", `${number(one.tokens)} tokens, ${number(one.size)} bytes`],
    ["file", el("code", {}, `${root.name}/${one.file}`)],
    root.owner ? ["owner", link("fragments", { owner: root.owner }, root.owner)] : null,
    root.location ? ["from", `${root.location} ${root.version}`] : null,
    one.commit ? ["commit", el("code", {}, one.commit)] : null,
    one.version ? ["version", one.version] : null,
    ["SHA-256", el("code", {}, one.sha256)],
    one.is_skill ? ["Agent Skill", "yes"] : null,
  ].filter(Boolean);
  return [
    el("p", {}, link("fragments", {}, "← All fragments")),
    el("h3", { class: "title" }, one.title || one.path),
    el("p", { class: "lead" }, one.description || "No description."),
    el("dl", { class: "facts" }, ...facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    section(`Requests that it should answer (${asked[one.place].length})`, requestTable(data, asked[one.place])),
    section("References", neighbourhood(data, one)),
    pairs[one.place].length
      ? section("Competes with", ...pairs[one.place].map((pair) => el("p", {}, pairLink(data, pair, one))))
      : null,
    findings[one.place].length ? section("Findings", findingTable(data, findings[one.place])) : null,
  ];
}
