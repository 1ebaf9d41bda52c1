// What a server's log says: what is searched and loaded, and what is asked for in vain.

function showUsage(data, parameters) {
  const { usage } = data;
  if (!usage) return [note("Count a server's log: orchestr8-sqlite inspect --log LOG")];
  const entries = [
    ["requests", number(usage.requests)],
    ["searches", number(usage.searches)],
    ["answered", number(usage.answered)],
    ["nothing fitted", number(usage.weak + usage.nothing)],
    ["led to a load", usage.rate == null ? "–" : share(usage.rate, 1)],
    ["loads", number(usage.loads)],
    ["never loaded", countLink(uris(data, usage.neverLoaded).length, "fragments", { list: "unloaded" })],
  ];
  const damaged = Object.entries(usage.damaged).map(([file, lines]) =>
    note(`${file}: ${counted(lines, "damaged line")} left out.`),
  );
  return [
    usage.first
      ? note(`From ${usage.first.slice(0, 10)} to ${usage.last.slice(0, 10)}, ${counted(usage.sessions, "session")}.`)
      : null,
    figures(entries),
    ...damaged,
    section("By week", weekTable(usage.weeks)),
    section("Asked for in vain", gapTable(data, usage.gaps)),
    section("Words that no answer covered", wordTable(usage.uncovered)),
    section("Loaded and listed", useTable(data, usage.fragments)),
  ];
}

function weekTable(weeks) {
  const most = Math.max(0, ...weeks.map((week) => week.searches));
  const parts = (week) => [
    [week.answered, "first", `${week.answered} answered`],
    [week.weak, "lower", `${week.weak} weak`],
    [week.nothing, "lost", `${week.nothing} without anything close`],
  ];
  const columns = [
    { head: "week", by: (week) => week.week, cell: (week) => week.week },
    { head: "searches", kind: "number", by: (week) => week.searches, cell: (week) => number(week.searches) },
    {
      head: "",
      kind: "bar",
      cell: (week) =>
        bar(
          parts(week),
          most,
          parts(week)
            .map(([, , text]) => text)
            .join(", "),
        ),
    },
    { head: "loads", kind: "number", by: (week) => week.loads, cell: (week) => number(week.loads) },
  ];
  return [
    legend([
      ["first", "answered"],
      ["lower", "weak"],
      ["lost", "without anything close"],
    ]),
    table("Use by week", columns, weeks),
  ];
}

function gapTable(data, gaps) {
  const columns = [
    {
      head: "request",
      by: (gap) => gap.query || "",
      cell: (gap) => [
        gap.query ?? "(no text in the log)",
        gap.terms.length ? el("span", { class: "id" }, gap.terms.join(", ")) : null,
      ],
    },
    { head: "times", kind: "number", by: (gap) => gap.times, cell: (gap) => number(gap.times) },
    { head: "not covered", kind: "wide", cell: (gap) => gap.uncovered.join(", ") },
    { head: "closest", cell: (gap) => gap.closest.slice(0, 2).map((uri) => uriLink(data, uri)) },
  ];
  return table("Requests that nothing fitted", columns, gaps, "Every request found something.");
}

function wordTable(words) {
  const columns = [
    { head: "word", by: (word) => word.word, cell: (word) => word.word || "(no word)" },
    { head: "requests", kind: "number", by: (word) => word.times, cell: (word) => number(word.times) },
    { head: "such as", cell: (word) => word.queries.slice(0, 2).map((query) => el("span", { class: "line" }, query)) },
  ];
  return table("Words that no answer covered", columns, words);
}

function useTable(data, fragments) {
  const most = Math.max(0, ...fragments.map((use) => use.loads));
  const columns = [
    { head: "fragment", by: (use) => use.uri, cell: (use) => uriLink(data, use.uri) },
    { head: "loads", kind: "number", by: (use) => use.loads, cell: (use) => number(use.loads) },
    { head: "", kind: "bar", cell: (use) => bar([[use.loads, "plain", ""]], most) },
    { head: "listed", kind: "number", by: (use) => use.listed, cell: (use) => number(use.listed) },
  ];
  return table("Loads of each fragment", columns, fragments);
}
