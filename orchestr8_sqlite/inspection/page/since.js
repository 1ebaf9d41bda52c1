// How this index differs from an older one, and which of the library's requests find something else now.

function showSince(data, parameters) {
  if (!data.since) return [note("Compare with an older index: orchestr8-sqlite inspect --since OLDER.db")];
  const { differences, answers } = data.since;
  const passes = (one, except) =>
    ["change", "kind"].every((name) => name === except || parameters[name] == null || one[name] === parameters[name]);
  const rows = differences.filter((one) => passes(one));
  const facets = ["change", "kind"].map((name) =>
    facet(
      name === "kind" ? "Kind" : "Change",
      "since",
      parameters,
      name,
      tally(differences.filter((one) => passes(one, name)).map((one) => one[name])),
    ),
  );
  const shown = parameters.better == null ? answers : answers.filter((one) => String(one.better) === parameters.better);
  const counts = tally(answers.map((one) => String(one.better)));
  const names = { 1: "found only now", 0: "as good as before", "-1": "found only before" };
  return [
    el("p", { class: "lead" }, `Since ${data.since.file}, generation `, el("code", {}, data.since.generation), "."),
    el(
      "div",
      { class: "split" },
      narrowing(...facets),
      el(
        "div",
        {},
        el("p", { class: "found", role: "status" }, el("b", {}, counted(rows.length, "difference"))),
        differenceTable(data, rows),
      ),
    ),
    section(
      "Requests with another first answer",
      el(
        "div",
        { class: "split" },
        narrowing(facet("Outcome", "since", parameters, "better", counts, names)),
        answerTable(data, shown),
      ),
    ),
  ];
}

function differenceTable(data, rows) {
  const tokens = ([before, after]) =>
    [...new Set([before, after].filter((count) => count != null))].map(number).join(" → ");
  const growth = (one) => (one.tokens[1] ?? 0) - (one.tokens[0] ?? 0);
  const columns = [
    {
      head: "change",
      by: (one) => one.change,
      cell: (one) => el("span", { class: `severity ${one.change}` }, one.change),
    },
    {
      head: "what",
      by: (one) => one.name,
      cell: (one) =>
        one.fragment == null
          ? el("span", {}, one.kind === "fragment" ? "" : `${one.kind}: `, one.name)
          : fragmentLink(data.fragments[one.fragment]),
    },
    { head: "parts", kind: "wide", cell: (one) => one.parts.join(", ") },
    { head: "tokens", kind: "number", by: growth, cell: (one) => tokens(one.tokens) },
  ];
  return table("Differences", columns, rows, "Nothing differs.");
}

function answerTable(data, rows) {
  const request = (one) => data.requests[one.request];
  const columns = [
    { head: "request", by: (one) => request(one).text, cell: (one) => requestLink(request(one)) },
    { head: "came first", cell: (one) => uriLink(data, one.before) },
    { head: "comes first", cell: (one) => uriLink(data, one.after) },
  ];
  return table("Requests with another first answer", columns, rows, "Every request has the first answer that it had.");
}
