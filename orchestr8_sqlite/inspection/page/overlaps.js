// Pairs of fragments that compete for the same requests, side by side.

function showOverlaps(data, parameters) {
  if (!data.pairs.length) return [note("No two fragments are near-copies or answer each other's requests.")];
  const rows = [...data.pairs].sort((one, other) => other.lost.length - one.lost.length || other.cosine - one.cosine);
  const chosen = data.pairs[parameters.pair] || rows[0];
  const columns = [
    {
      head: "pair",
      by: (pair) => data.fragments[pair.first].title,
      cell: (pair) => pairNames(data, pair, pair === chosen),
    },
    {
      head: "requests lost",
      kind: "number",
      by: (pair) => pair.lost.length,
      cell: (pair) => countLink(pair.lost.length, "search", { pair: pair.place }),
    },
    {
      head: "alike",
      kind: "number",
      by: (pair) => pair.cosine,
      cell: (pair) => (pair.cosine ? pair.cosine.toFixed(2) : "–"),
    },
    { head: "", kind: "wide", cell: (pair) => (pair.is_copy ? el("span", { class: "tag" }, "near-copies") : null) },
  ];
  return [sideBySide(data, chosen), section("All pairs", table("Pairs that compete", columns, rows))];
}

function pairNames(data, pair, current) {
  const [first, later] = [data.fragments[pair.first], data.fragments[pair.later]];
  const names = link("overlaps", { pair: pair.place }, `${first.title} ↔ ${later.title}`, {
    "aria-current": current ? "true" : null,
    "data-key": `pair=${pair.place}`,
  });
  return el("span", { class: "entry" }, names, el("span", { class: "id" }, `${first.path} ↔ ${later.path}`));
}

function pairLink(data, pair, one) {
  const other = data.fragments[pair.first === one.place ? pair.later : pair.first];
  const why = [
    pair.is_copy ? "near-copies" : "",
    pair.cosine ? `names and descriptions ${pair.cosine.toFixed(2)} alike` : "",
    pair.lost.length ? counted(pair.lost.length, "request") + " lost" : "",
  ];
  return [link("overlaps", { pair: pair.place }, other.title), ` ${why.filter(Boolean).join(", ")}`];
}

function sideBySide(data, pair) {
  const [first, later] = [data.fragments[pair.first], data.fragments[pair.later]];
  const words = (one) => new Set(wordsOf(`${one.title} ${one.description}`));
  const common = [...words(first)].filter((word) => words(later).has(word));
  const card = (one, other) => {
    const lost = pair.lost
      .map((place) => data.requests[place])
      .filter((request) => request.expected.includes(one.place));
    return el(
      "article",
      { class: "card" },
      el("h3", {}, link("fragments", { fragment: one.path }, marked(one.title, common))),
      el("p", { class: "id" }, one.path),
      el("p", {}, ...marked(one.description || "No description.", common)),
      el(
        "p",
        {},
        ...one.tags.map((tag) => [el("span", { class: other.tags.includes(tag) ? "tag both" : "tag" }, tag), " "]),
      ),
      el("p", { class: "quiet" }, `${number(one.tokens)} tokens, ${counted(one.scenarios, "scenario")}`),
      lost.length
        ? [
            el("h4", {}, "Its requests that the other one answers first"),
            el("ul", {}, ...lost.slice(0, 12).map((request) => el("li", {}, requestLink(request)))),
          ]
        : null,
    );
  };
  return el("div", { class: "pair" }, card(first, later), card(later, first));
}

function wordsOf(text) {
  return text.toLowerCase().match(/[\p{L}\p{N}]{5,}/gu) || [];
}

/** Return a text with the words that another one has too marked. */
function marked(text, common) {
  return text
    .split(/([\p{L}\p{N}]{5,})/u)
    .map((part) => (common.includes(part.toLowerCase()) ? el("mark", {}, part) : part));
}
