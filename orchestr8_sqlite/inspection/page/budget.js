// What clients' own listings of skills would show of the library, at each size of the model's context.

// Letter of a listing → class and name; data.py explains the letters.
const FATES = {
  w: ["kept", "kept whole"],
  c: ["cut", "cut"],
  n: ["bare", "left as a bare name"],
  d: ["dropped", "dropped"],
  m: ["manual", "left to people"],
};

function showBudget(data, parameters, redraw) {
  const kinds = ["skills", "fragments"].filter((kind) => data.clients.some((client) => client.listings[kind]));
  const kind = kinds.includes(parameters.of) ? parameters.of : kinds[0];
  if (!kind) return [note("The library has nothing that a client could list.")];
  const sizes = contextsOf(data, kind);
  const said = el("output", { for: "context" });
  const found = el("div", {});
  const slider = el("input", {
    type: "range",
    id: "context",
    min: 0,
    max: sizes.length - 1,
    step: 1,
    value: sizes.indexOf(Number(parameters.context) || usualOf(data, sizes)),
  });
  const update = () => {
    const context = sizes[slider.value];
    said.textContent = `${number(context)} tokens`;
    slider.setAttribute("aria-valuetext", said.textContent);
    found.replaceChildren(clientTable(data, kind, context));
  };
  slider.addEventListener("input", () => {
    parameters.context = String(sizes[slider.value]);
    redraw(update);
  });
  if (sizes.length) update();
  else found.replaceChildren(clientTable(data, kind, 0));
  const names = { skills: "Agent Skills", fragments: "all fragments, as if each were a skill" };
  return [
    kinds.length > 1
      ? choice(
          "Of",
          "budget",
          { ...parameters, of: kind },
          "of",
          kinds.map((one) => [one, names[one]]),
        )
      : note(`Counted: ${names[kind]}.`),
    sizes.length
      ? el("div", { class: "slider" }, el("label", { for: "context" }, "Context of the model"), slider, said)
      : null,
    legend(Object.values(FATES)),
    found,
    note(
      "A skill without its description cannot be matched to a request. Clients whose room does not depend on the context stay as they are when you move the slider.",
    ),
    section("Where the rules are from", sourceTable(data)),
  ];
}

function contextsOf(data, kind) {
  const sizes = data.clients.flatMap((client) => (client.listings[kind] || []).map((listing) => listing.context));
  return [...new Set(sizes.filter((size) => size != null))].sort((one, other) => one - other);
}

function usualOf(data, sizes) {
  const usual = data.clients.map((client) => client.usual).find((size) => sizes.includes(size));
  return usual || sizes[0];
}

/** Return a client's listing at a context, or at the largest one below it. */
function listingAt(client, kind, context) {
  const listings = client?.listings[kind] || [];
  return listings.findLast((listing) => listing.context == null || listing.context <= context) || listings[0];
}

function clientTable(data, kind, context) {
  const rows = data.clients
    .filter((client) => client.listings[kind])
    .map((client) => {
      const listing = listingAt(client, kind, context);
      const fates = Object.fromEntries(Object.keys(FATES).map((letter) => [letter, 0]));
      for (const letter of listing.fates) if (letter in fates) fates[letter]++;
      return { client, listing, fates, total: Object.values(fates).reduce((sum, count) => sum + count, 0) };
    });
  const list = (row, letter) => ({ list: ["fate", row.client.id, kind, row.listing.context ?? "", letter].join("~") });
  const fate = (letter, head) => ({
    head,
    kind: "number",
    by: (row) => row.fates[letter],
    cell: (row) => countLink(row.fates[letter], "fragments", list(row, letter)),
  });
  const parts = (row) =>
    Object.entries(FATES).map(([letter, [name, text]]) => [row.fates[letter], name, `${row.fates[letter]} ${text}`]);
  const columns = [
    {
      head: "client",
      by: (row) => row.client.title,
      cell: (row) =>
        el(
          "span",
          { class: "entry" },
          row.client.title,
          el("span", { class: "id" }, row.client.is_known ? roomOf(row) : "no rule is published"),
        ),
    },
    {
      head: "",
      kind: "bar wide",
      cell: (row) =>
        bar(
          parts(row),
          row.total,
          parts(row)
            .filter(([count]) => count)
            .map(([, , text]) => text)
            .join(", "),
        ),
    },
    fate("w", "kept"),
    fate("c", "cut"),
    fate("n", "name only"),
    fate("d", "dropped"),
    {
      head: "tokens a message",
      kind: "number wide",
      by: (row) => row.listing.tokens,
      cell: (row) => number(row.listing.tokens),
    },
  ];
  return table("What clients list", columns, rows);
}

function roomOf({ client, listing }) {
  return listing.room == null ? "no limit" : `room for ${number(listing.room)} ${client.counts}`;
}

function sourceTable(data) {
  const columns = [
    { head: "client", cell: (client) => `${client.title} ${client.version}` },
    { head: "looked at", kind: "date", cell: (client) => client.checked },
    { head: "sources", cell: (client) => client.sources.map((source) => el("span", { class: "id" }, source)) },
  ];
  return table("Sources of the rules", columns, data.clients);
}
