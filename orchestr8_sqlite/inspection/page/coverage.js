// Whether each fragment's scenarios find it when that line is hidden from the index, and who takes what is lost.

const SHOWN_FIRST = ["first", "lower", "lost", "refused"];

function showCoverage(data, parameters) {
  const scenarios = data.requests.filter((request) => request.origin === "scenario");
  if (!scenarios.length) return [note("The library has no scenarios (useWhen lines) to ask.")];
  const counts = Object.fromEntries(tally(scenarios.map((request) => request.outcome)));
  const parts = SHOWN_FIRST.filter((name) => counts[name]).map((name) => [
    counts[name],
    name,
    `${counts[name]} ${OUTCOMES[name]}`,
  ]);
  const rows = data.fragments.map((fragment) => rowOf(data, fragment)).filter((row) => row.asked.length);
  const entry = (name) => [
    name,
    [
      countLink(counts[name] || 0, "search", { origin: "scenario", outcome: name }),
      ` ${OUTCOMES[name]}, ${share(counts[name] || 0, scenarios.length)}`,
    ],
  ];
  const sampled = data.library.asked < data.library.scenarios;
  return [
    sampled
      ? note(`Of ${number(data.library.scenarios)} scenarios, ${number(data.library.asked)} were asked, spread evenly.`)
      : null,
    el("div", { class: "tall" }, bar(parts, scenarios.length, parts.map(([, , text]) => text).join(", "))),
    legend(SHOWN_FIRST.map(entry)),
    coverageTable(data, rows),
    section("Who takes what others should answer", takers(data, scenarios)),
  ];
}

function rowOf(data, fragment) {
  const asked = data.at.asked[fragment.place].filter((request) => request.origin === "scenario");
  const met = asked.filter((request) => request.is_met).length;
  const lost = asked.filter((request) => !request.is_met);
  const to = tally(
    lost.filter((request) => request.answers.length && request.confident).map((request) => request.answers[0].fragment),
  );
  return { fragment, asked, met, to, missed: lost.length };
}

function coverageTable(data, rows) {
  rows.sort((one, other) => other.missed - one.missed || one.fragment.place - other.fragment.place);
  const path = (row) => row.fragment.path;
  const columns = [
    { head: "fragment", by: (row) => row.fragment.title, cell: (row) => fragmentLink(row.fragment) },
    { head: "scenarios", cell: (row) => squares(row.asked) },
    {
      head: "first",
      kind: "number",
      by: (row) => row.met,
      cell: (row) => countLink(row.met, "search", { fragment: path(row), origin: "scenario", met: "yes" }),
    },
    {
      head: "missed",
      kind: "number",
      by: (row) => row.missed,
      cell: (row) => countLink(row.missed, "search", { fragment: path(row), origin: "scenario", met: "no" }),
    },
    {
      head: "lost to",
      kind: "wide",
      cell: (row) =>
        row.to
          .slice(0, 3)
          .map(([id, times]) =>
            el(
              "span",
              { class: "line" },
              link("fragments", { fragment: data.fragments[id].path }, data.fragments[id].title),
              times > 1 ? ` ${times}` : "",
            ),
          ),
    },
  ];
  return table("Scenarios of each fragment", columns, rows);
}

function takers(data, scenarios) {
  const missed = scenarios.filter((request) => !request.is_met && request.confident && request.answers.length);
  const rows = tally(missed.map((request) => request.answers[0].fragment));
  const columns = [
    { head: "fragment", by: ([id]) => data.fragments[id].title, cell: ([id]) => fragmentLink(data.fragments[id]) },
    {
      head: "taken",
      kind: "number",
      by: ([, times]) => times,
      cell: ([id, times]) => countLink(times, "search", { taker: data.fragments[id].path, origin: "scenario" }),
    },
    { head: "", kind: "bar", cell: ([, times]) => bar([[times, "lost", ""]], rows[0][1]) },
  ];
  return table(
    "Fragments that come first where others should",
    columns,
    rows,
    "No scenario of one fragment finds another one first.",
  );
}
