// The library's own requests, what the ranker answers to each, and what every answer's score is made of. A served page
// also asks the server what somebody types.

const LISTED = 60; // requests shown at once

// How a word was met → class of its part of the bar, and what it means; model/requests.py names them.
const HOW = {
  exact: "the word itself",
  stem: "another inflection",
  typo: "a typo of it",
  joined: "two words written as one",
  synonym: "another name",
  related: "what may meet the need",
  term: "a term the assistant adds",
  part: "part of a word",
  name: "share of the name",
  learnt: "what the best have in common",
  focus: "how much of the fragment is met",
};

function showSearch(data, parameters, redraw) {
  const side = el("div", { class: "side wider" });
  const found = el("div", {});
  const update = () => {
    const within = requestsOf(data, parameters);
    const typed = within.filter(matcher(parameters.q));
    const rows = typed.filter((request) => allows(parameters, request));
    const chosen = isLive(data, parameters) ? null : data.requests[parameters.request] || rows[0];
    side.replaceChildren(...requestFacets(parameters, typed), requestList(parameters, rows, chosen));
    if (!isLive(data, parameters))
      found.replaceChildren(...(chosen ? answerOf(data, chosen) : [note("No request has all of these words.")]));
  };
  const box = filterBox("Filter the library's requests by their words", parameters.q || "", (text) => {
    parameters.q = text;
    delete parameters.request;
    delete parameters.ask;
    redraw(update);
  });
  update();
  if (isLive(data, parameters)) showLive(data, parameters.ask, found);
  return [data.isServed ? askBox(parameters) : null, box, said(data, parameters), el("div", { class: "split" }, side, found)];
}

function isLive(data, { ask, request }) {
  return data.isServed && ask != null && request == null;
}

/** Return the box for a request of one's own; its address can be kept, and asks again. */
function askBox(parameters) {
  const box = el("input", {
    type: "search",
    id: "ask",
    "data-key": "ask",
    value: parameters.ask || "",
    autocomplete: "off",
    spellcheck: "false",
  });
  const submit = (event) => {
    event.preventDefault();
    location.hash = address("search", { ask: box.value.trim() || null });
  };
  return el(
    "form",
    { class: "filter", submit },
    el("label", { for: "ask" }, "Ask this library"),
    box,
    el("button", { type: "submit" }, "Search"),
  );
}

/** Show in a node what the server answers to a request, or why it does not. */
async function showLive(data, text, node) {
  node.replaceChildren(el("p", { role: "status" }, "Asking …"));
  node.replaceChildren(...(await askServer(data, text)));
}

async function askServer(data, text) {
  const sent = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ query: text }) };
  const answer = await fetch("inspect/search", sent).catch(() => null);
  if (!answer?.ok) return [el("p", { role: "alert" }, answer ? await answer.text() : "The server does not answer.")];
  const { generation, request } = await answer.json();
  if (generation !== data.library.generation) {
    const again = el("button", { type: "button", click: () => location.reload() }, "Load the page again");
    return [el("p", { role: "alert" }, "The index was replaced since this page was loaded. ", again)];
  }
  request.outcome = outcomeOf(request);
  return answerOf(data, request);
}

/** Return the requests of one fragment, of those that another takes, or of a pair, when the address names such. */
function requestsOf(data, parameters) {
  const { fragment, taker, pair } = parameters;
  if (data.pairs[pair]) return data.pairs[pair].lost.map((place) => data.requests[place]);
  if (data.byPath.has(fragment)) return data.at.asked[data.byPath.get(fragment).place];
  const place = data.byPath.get(taker)?.place;
  if (place == null) return data.requests;
  return data.requests.filter(
    (request) => !request.is_met && request.confident && request.answers[0]?.fragment === place,
  );
}

function said(data, { fragment, taker, pair }) {
  const of = data.byPath.get(fragment) || data.byPath.get(taker);
  if (!of && !data.pairs[pair]) return null;
  const what = of
    ? [
        fragment ? "Requests that should find " : "Requests of others that find first ",
        link("fragments", { fragment: of.path }, of.title),
      ]
    : ["Requests that ", link("overlaps", { pair }, "this pair"), " loses to each other"];
  return el("p", { class: "found" }, ...what, " – ", link("search", {}, "show all"));
}

const REQUEST_FACETS = {
  outcome: (request) => request.outcome,
  origin: (request) => request.origin,
  met: (request) => (request.is_met ? "yes" : "no"),
  tier: (request) => request.tier,
  reading: (request) => readingOf(request),
};

function readingOf(request) {
  const hows = new Set(request.answers.flatMap((answer) => answer.parts.map((part) => part[2])));
  if (Object.keys(request.read_as).length) return "typo";
  return hows.has("synonym") ? "synonym" : hows.has("related") ? "related" : "as written";
}

function allows(parameters, request, except) {
  return Object.entries(REQUEST_FACETS).every(
    ([name, value]) => name === except || parameters[name] == null || value(request) === parameters[name],
  );
}

function requestFacets(parameters, rows) {
  const kept = { ...parameters };
  delete kept.request;
  delete kept.ask;
  const of = (name, title, names) => {
    const counts = tally(rows.filter((request) => allows(parameters, request, name)).map(REQUEST_FACETS[name]));
    return facet(title, "search", kept, name, counts, names);
  };
  const others = [of("origin", "From"), of("tier", "Tier"), of("reading", "Read by")];
  return [
    narrowing(of("outcome", "Outcome", OUTCOMES), el("details", {}, el("summary", {}, "More facets"), ...others)),
  ];
}

function requestList(parameters, rows, chosen) {
  const items = rows.slice(0, LISTED).map((request) => {
    const marks = { "aria-current": request === chosen ? "true" : null, "data-key": `request=${request.place}` };
    return el("li", {}, requestLink(request, { ...parameters, request: request.place }, marks));
  });
  const rest = rows.length > LISTED ? note(`… and ${number(rows.length - LISTED)} more: filter them.`) : null;
  return el(
    "section",
    { class: "requests" },
    el("h3", { class: "label" }, el("span", { role: "status" }, counted(rows.length, "request"))),
    el("ul", {}, ...items),
    rest,
  );
}

/** Return a request as a link, with a mark of what became of it. */
function requestLink(request, parameters, marks) {
  const mark = draw(
    "svg",
    { viewBox: "0 0 10 10", class: "dot", role: "img", "aria-label": OUTCOMES[request.outcome] },
    draw("circle", { cx: 5, cy: 5, r: 4, class: request.outcome }),
  );
  return link("search", parameters || { request: request.place }, [mark, request.text], marks);
}

function requestTable(data, requests) {
  const columns = [
    { head: "request", by: (request) => request.text, cell: (request) => requestLink(request) },
    { head: "outcome", kind: "wide", by: (request) => request.outcome, cell: (request) => OUTCOMES[request.outcome] },
    {
      head: "comes first",
      cell: (request) =>
        request.confident && request.answers.length
          ? data.fragments[request.answers[0].fragment].title
          : "nothing fits",
    },
  ];
  return table("Requests", columns, requests, "No request names it.");
}

function answerOf(data, request) {
  const most = Math.max(1e-9, ...request.answers.map((answer) => answer.score));
  const used = new Set(request.answers.flatMap((answer) => answer.parts.map((part) => part[2])));
  const kinds = Object.entries(HOW).filter(([how]) => used.has(how));
  return [
    el("h3", { class: "title" }, request.text),
    request.terms.length
      ? el("p", {}, "With the terms ", ...request.terms.map((term) => [el("span", { class: "tag" }, term), " "]))
      : null,
    el("p", { class: `verdict ${request.outcome}` }, verdict(data, request)),
    ...readings(request),
    request.answers.length ? legend(kinds.map(([how, text]) => [`h-${how}`, text])) : null,
    el("ol", { class: "answers" }, ...request.answers.map((answer) => answerItem(data, request, answer, most))),
    request.answers.length
      ? note(
          `${counted(request.total, "fragment")} match, found by tier ${request.tier}. A bar is as long as the score; its parts add up to it.`,
        )
      : null,
  ].filter(Boolean);
}

function verdict(data, request) {
  const expected = request.expected.map((id) => [
    link("fragments", { fragment: data.fragments[id].path }, data.fragments[id].title),
    " ",
  ]);
  const covers = `. The answer covers ${share(request.coverage, 1)} of it; ${share(data.library.least_coverage, 1)} are needed.`;
  if (request.origin === LIVE) return [el("b", {}, OUTCOMES[request.outcome]), covers];
  const wanted = request.expected.length ? ["Should find ", ...expected, "– "] : ["Nothing should fit – "];
  const place = request.outcome === "lower" ? `, at place ${request.rank}` : "";
  return [...wanted, el("b", {}, OUTCOMES[request.outcome], place), covers];
}

/** Return what was made of words that the library does not have as they are written. */
function readings(request) {
  const lines = Object.entries(request.read_as).map(([typed, read]) => [
    el("q", {}, typed),
    " was read as ",
    el("q", {}, read),
  ]);
  const hows = new Map();
  for (const answer of request.answers) {
    for (const [word, form, how] of answer.parts)
      if (word && (how === "synonym" || how === "related" || how === "joined"))
        hows.set(`${word} ${form}`, [word, form, how]);
  }
  for (const [word, form, how] of [...hows.values()].slice(0, 6))
    lines.push([el("q", {}, word), ` also asked for `, el("q", {}, form), ` (${HOW[how]})`]);
  if (request.uncovered.length) lines.push(["Not covered: ", request.uncovered.join(", ")]);
  return lines.length ? [el("ul", { class: "readings" }, ...lines.map((line) => el("li", {}, ...line)))] : [];
}

function answerItem(data, request, answer, most) {
  const fragment = data.fragments[answer.fragment];
  const parts = [...answer.parts].sort(
    (one, other) => Object.keys(HOW).indexOf(one[2]) - Object.keys(HOW).indexOf(other[2]),
  );
  const drawn = parts.map((part) => [part[4], `h-${part[2]}`, partText(part)]);
  const copies = answer.copies.map((id) => [
    " ",
    link("fragments", { fragment: data.fragments[id].path }, data.fragments[id].path),
  ]);
  const items = parts.map((part) =>
    el("tr", {}, el("td", {}, partText(part)), el("td", { class: "number" }, part[4].toFixed(2))),
  );
  return el(
    "li",
    { class: request.expected.includes(answer.fragment) ? "wanted" : "" },
    el("div", { class: "answer" }, fragmentLink(fragment), el("span", { class: "score" }, answer.score.toFixed(1))),
    bar(drawn, most, `${parts.length} parts of the score ${answer.score.toFixed(1)}, listed below`),
    answer.scenario ? note(`“${answer.scenario}”`) : null,
    copies.length ? el("p", { class: "quiet" }, "near-copies:", ...copies) : null,
    el(
      "details",
      {},
      el("summary", {}, counted(parts.length, "part")),
      el("table", { class: "parts" }, el("tbody", {}, ...items)),
    ),
  );
}

function partText([word, form, how, fields]) {
  const met = word ? (form && form !== word ? `${word} as ${form}` : word) : form;
  return `${met || HOW[how]}${word ? `, ${HOW[how]}` : met ? ` (${HOW[how]})` : ""}${fields.length ? ` in ${fields.join(", ")}` : ""}`;
}
