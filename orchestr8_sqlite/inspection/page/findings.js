// What a build reports, what of it should not be obeyed, and who has accepted it.

const FINDING_FACETS = {
  severity: (finding) => finding.severity,
  level: (finding) => finding.level ?? "not about trust",
  code: (finding) => finding.code,
  review: (finding) => (finding.review == null ? "open" : "accepted"),
};

function showFindings(data, parameters) {
  if (!data.findings.length && !data.reviews.length) return [note("The build found nothing to report.")];
  const of = data.byPath.get(parameters.fragment);
  const within = of ? data.at.findings[of.place] : data.findings;
  const passes = (finding, except) =>
    Object.entries(FINDING_FACETS).every(
      ([name, value]) => name === except || parameters[name] == null || value(finding) === parameters[name],
    );
  const rows = within.filter((finding) => passes(finding));
  const titles = { severity: "Severity", level: "Trust", code: "Kind", review: "Review" };
  const facets = Object.entries(titles).map(([name, title]) =>
    facet(
      title,
      "findings",
      parameters,
      name,
      tally(within.filter((finding) => passes(finding, name)).map(FINDING_FACETS[name])),
    ),
  );
  const rule = Object.hasOwn(data.rules, parameters.code ?? "")
    ? el("p", { class: "lead" }, data.rules[parameters.code])
    : null;
  const head = el(
    "p",
    { class: "found", role: "status" },
    el("b", {}, counted(rows.length, "finding")),
    of ? [" in ", link("fragments", { fragment: of.path }, of.title)] : "",
    " ",
    Object.keys(parameters).length ? link("findings", {}, "show all") : null,
  );
  return [
    el("div", { class: "split" }, narrowing(...facets), el("div", {}, head, rule, findingTable(data, rows))),
    section("Reviews", reviewTable(data)),
  ];
}

function findingTable(data, findings) {
  const where = (finding) => `${finding.root}/${finding.path}${finding.line == null ? "" : `:${finding.line}`}`;
  const place = (finding) =>
    finding.fragment == null
      ? where(finding)
      : link("fragments", { fragment: data.fragments[finding.fragment].path }, where(finding));
  const columns = [
    {
      head: "severity",
      by: (finding) => ["error", "warning", "info"].indexOf(finding.severity),
      cell: (finding) => el("span", { class: `severity ${finding.severity}` }, finding.severity),
    },
    {
      head: "finding",
      by: (finding) => finding.code,
      cell: (finding) => [
        link("findings", { code: finding.code }, finding.code),
        el("p", {}, finding.message),
        el("p", { class: "quiet" }, finding.fix),
        el("p", { class: "narrow where" }, place(finding)),
      ],
    },
    { head: "where", kind: "wide", by: where, cell: (finding) => el("span", { class: "where" }, place(finding)) },
    {
      head: "accepted by",
      kind: "wide",
      cell: (finding) => (finding.review == null ? null : data.reviews[finding.review].reviewer),
    },
  ];
  return table("Findings", columns, findings, "No finding has these values.");
}

function reviewTable(data) {
  const file = (review) => `${review.root ? `${review.root}/` : ""}${review.path}`;
  const columns = [
    {
      head: "state",
      by: (review) => review.state,
      cell: (review) => el("span", { class: `severity ${review.state}` }, review.state),
    },
    {
      head: "file",
      by: file,
      cell: (review) =>
        review.fragment == null
          ? file(review)
          : link("fragments", { fragment: data.fragments[review.fragment].path }, file(review)),
    },
    {
      head: "accepted kind",
      by: (review) => review.rule,
      cell: (review) => link("findings", { code: review.rule }, review.rule),
    },
    { head: "reason", cell: (review) => review.reason },
    { head: "reviewer", by: (review) => review.reviewer, cell: (review) => review.reviewer },
    { head: "until", kind: "date", by: (review) => review.until, cell: (review) => review.until },
  ];
  return table("Reviews", columns, data.reviews, "Nobody has accepted a finding: there is no reviews.toml.");
}
