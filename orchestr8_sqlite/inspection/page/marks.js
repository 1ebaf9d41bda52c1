// Marks that several views draw: bars, tables and the way to a fragment.

const ROWS = 100; // of a table at first: the browser lays out thousands of rows for longer than a filter may take

/** Return a bar of parts, each [value, class, what it says]; `most` is the value of the whole width. */
function bar(parts, most, label) {
  const drawn = [];
  let x = 0;
  for (const [value, kind, title] of parts) {
    const width = most ? (100 * value) / most : 0;
    if (width > 0) drawn.push(draw("rect", { x, width, height: 10, class: kind }, draw("title", {}, title)));
    x += Math.max(0, width);
  }
  const spoken = label ? { role: "img", "aria-label": plain(label) } : { "aria-hidden": "true" };
  return draw("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", ...spoken }, ...drawn);
}

/** Return names and their figures in a row. */
function figures(entries) {
  const items = entries.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  return el("dl", { class: "figures" }, ...items);
}

/** Return what the parts of bars mean, as pairs of a class and a text. */
function legend(entries) {
  const items = entries.map(([kind, text]) =>
    el(
      "li",
      {},
      draw(
        "svg",
        { viewBox: "0 0 10 10", "aria-hidden": "true" },
        draw("rect", { width: 10, height: 10, class: kind }),
      ),
      text,
    ),
  );
  return el("ul", { class: "legend" }, ...items);
}

/** Return a fragment's title as a link to all that is known of it, or to another view of it, with its id below. */
function fragmentLink(fragment, view = "fragments") {
  const title = link(view, { fragment: fragment.path }, fragment.title || fragment.path);
  return el("span", { class: "entry" }, title, el("span", { class: "id" }, fragment.path));
}

/** Return what a URI names: a link if the library has it. */
function uriLink(data, uri) {
  if (uri == null) return el("span", { class: "none" }, "nothing fits");
  const fragment = data.byUri.get(uri);
  return fragment ? fragmentLink(fragment) : el("span", { class: "id" }, uri);
}

/**
 * Return a table that sorts by its heads and shows more rows on demand.
 *
 * A column has a `head`, a `cell` that returns what a row shows, and maybe `by`, the value to sort by; `kind` is number,
 * wide (left out on phones) or bar.
 */
function table(caption, columns, rows, empty) {
  if (!rows.length) return note(empty || "None.");
  const body = el("tbody", {});
  const more = el("button", { type: "button", class: "more", click: () => show(ROWS) });
  const heads = columns.map((column) => headOf(column, (order) => sortBy(column, order)));
  let shown = 0;
  let sorted = rows;

  function show(further) {
    const next = sorted.slice(shown, shown + further);
    body.append(
      ...next.map((row) =>
        el("tr", {}, ...columns.map((column) => el("td", { class: column.kind }, column.cell(row)))),
      ),
    );
    shown += next.length;
    more.hidden = shown >= sorted.length;
    more.textContent = `Show ${number(Math.min(ROWS, sorted.length - shown))} more of ${number(sorted.length)}`;
  }

  function sortBy(column, order) {
    sorted = [...rows].sort((one, other) => order * compared(column.by(one), column.by(other)));
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[columns.indexOf(column)].setAttribute("aria-sort", order > 0 ? "ascending" : "descending");
    body.replaceChildren();
    shown = 0;
    show(ROWS);
  }

  show(ROWS);
  const head = el("thead", {}, el("tr", {}, ...heads));
  const whole = el("table", {}, el("caption", { class: "unseen" }, caption), head, body);
  return el("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" }, whole, more);
}

function headOf(column, sort) {
  const head = el("th", { scope: "col", class: column.kind });
  if (!column.by) head.append(column.head || el("span", { class: "unseen" }, "as a bar"));
  else {
    const first = column.kind?.startsWith("number") ? -1 : 1; // of numbers the largest matter
    const next = () => (head.getAttribute("aria-sort") === (first > 0 ? "ascending" : "descending") ? -first : first);
    head.append(el("button", { type: "button", click: () => sort(next()) }, column.head));
  }
  return head;
}

function compared(one, other) {
  return typeof one === "number" ? one - other : String(one).localeCompare(String(other), "en");
}

/** Return a box to type a filter in; `changed` gets its text at every key, null if it is empty. */
function filterBox(label, value, changed) {
  const typed = (event) => changed(event.target.value || null);
  const box = el("input", {
    type: "search",
    id: "filter",
    "data-key": "filter",
    value,
    autocomplete: "off",
    spellcheck: "false",
    input: typed,
  });
  return el("div", { class: "filter" }, el("label", { for: "filter" }, label), box);
}

/** Return values of a parameter with their counts; following one sets it, following it again takes it back. */
function facet(title, view, parameters, name, counts, names) {
  if (!counts.length && parameters[name] == null) return null;
  const item = ([value, count]) => {
    const on = parameters[name] === value;
    const marks = { "aria-current": on ? "true" : null, "data-key": `${name}=${value}` };
    const text = names?.[value] ?? value;
    const chosen = link(
      view,
      { ...parameters, [name]: on ? null : value },
      [el("span", {}, text || "(none)"), el("span", {}, number(count))],
      marks,
    );
    return el("li", {}, chosen);
  };
  const listed =
    parameters[name] != null && !counts.some(([value]) => value === parameters[name])
      ? [[parameters[name], 0], ...counts]
      : counts;
  const [first, rest] = [listed.slice(0, 12), listed.slice(12, 200)];
  const unfold = (event) => event.target.querySelector("ul") ?? event.target.append(el("ul", {}, ...rest.map(item))); // only when looked at
  const others = rest.length ? el("details", { toggle: unfold }, el("summary", {}, `${rest.length} more`)) : null;
  return el(
    "section",
    { class: "facet" },
    el("h3", { class: "label" }, title),
    el("ul", {}, ...first.map(item)),
    others,
  );
}

/** Return facets beside what they narrow down; folded above it where there is no room beside. */
function narrowing(...facets) {
  const fits = matchMedia("(min-width: 46.01rem)").matches;
  return el("details", { class: "side", open: fits }, el("summary", { class: "fold" }, "Narrow down"), ...facets);
}

/** Return the squares that stand for requests, coloured by what became of each. */
function squares(requests) {
  const per = 8; // in a line
  const count = requests.length;
  const columns = Math.min(per, count);
  const marks = requests.map((request, place) => {
    const [x, y] = [(place % per) * 11, Math.floor(place / per) * 11];
    const said = draw("title", {}, `${request.text}: ${OUTCOMES[request.outcome]}`);
    const square = draw(
      "rect",
      { x, y, width: 9, height: 9, rx: 1.5, class: request.outcome, "data-request": request.place },
      said,
    );
    const cross = request.outcome === "lost" || request.outcome === "refused"; // not by colour alone
    return cross ? [square, draw("path", { d: `M${x + 2.5} ${y + 2.5}l4 4m0-4l-4 4`, class: "cross" })] : square;
  });
  const [width, height] = [columns * 11, Math.ceil(count / per) * 11];
  const label = tally(requests.map((request) => OUTCOMES[request.outcome]))
    .map(([text, times]) => `${times} ${text}`)
    .join(", ");
  const open = (event) => {
    const place = event.target.closest("[data-request]")?.getAttribute("data-request");
    if (place) location.hash = address("search", { request: place });
  };
  return draw(
    "svg",
    {
      class: "squares",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": label,
      click: open,
    },
    ...marks.flat(),
  );
}
