// The page: tabs, addresses, and which view is drawn. An address is #view?name=value and may be kept or sent.

const SHOW = {
  library: showLibrary,
  fragments: showFragments,
  search: showSearch,
  coverage: showCoverage,
  overlaps: showOverlaps,
  references: showReferences,
  findings: showFindings,
  budget: showBudget,
  since: showSince,
  usage: showUsage,
};

const panel = document.getElementById("view");

/** Return the view and the parameters that the address names; the first view for any other address. */
function placeOf(data) {
  const [view, query] = location.hash.slice(1).split(/\?(.*)/s);
  const known = data.views.some((one) => one.id === view);
  return known ? [view, Object.fromEntries(new URLSearchParams(query))] : [data.views[0].id, {}];
}

function makeTabs(data) {
  const counts = {
    fragments: data.fragments.length,
    search: data.is_asked ? data.requests.length : null,
    overlaps: data.is_asked ? data.pairs.length : null,
    references: data.edges.length,
    findings: data.findings.length,
    since: data.since?.differences.length,
    usage: data.usage?.searches,
  };
  const tabs = data.views.map((view) =>
    el(
      "button",
      { type: "button", role: "tab", id: `tab-${view.id}`, "aria-controls": "view", click: () => open(view.id) },
      el("span", {}, view.title),
      counts[view.id] == null ? null : el("span", { class: "quiet" }, number(counts[view.id])),
    ),
  );
  const list = document.getElementById("tabs");
  list.replaceChildren(...tabs);
  list.onkeydown = (event) => {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -tabs.length, End: tabs.length };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const from = tabs.indexOf(document.activeElement);
    const step = steps[event.key];
    const to = Math.abs(step) > 1 ? (step < 0 ? 0 : tabs.length - 1) : (from + step + tabs.length) % tabs.length;
    tabs[to].focus();
    open(data.views[to].id);
  };
}

function open(view) {
  location.hash = address(view);
}

/** Draw the view that the address names, and give the focus back to what had it, or to the view's head. */
function show(data, drawn) {
  const [id, parameters] = placeOf(data);
  const focused = document.activeElement;
  const key = panel.contains(focused) ? focused.dataset.key || "" : null;
  const isOther = drawn.view !== id || key === "";
  drawn.view = id;
  const view = data.views.find((one) => one.id === id);
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.id === `tab-${id}`;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen) tab.scrollIntoView({ block: "nearest", inline: "center" });
  }
  panel.setAttribute("aria-labelledby", `tab-${id}`);
  const redraw = redrawing(id, parameters);
  const body = SHOW[id](data, parameters, redraw).filter(Boolean);
  panel.replaceChildren(
    el("h2", { tabindex: "-1" }, view.title),
    el("p", { class: "question" }, view.question),
    ...body,
    howTo(view),
  );
  document.title = `${view.title} · ${plain(data.library.file)}`;
  if (key == null) return;
  const again = key && panel.querySelector(`[data-key="${CSS.escape(key)}"]`);
  const target = again || panel.querySelector("h2");
  target.focus({ preventScroll: !isOther });
  target.setSelectionRange?.(target.value.length, target.value.length);
  if (isOther) scrollTo(0, 0);
}

/** Return what draws a part of a view again while somebody types, and keeps the address up to date. */
function redrawing(view, parameters) {
  let later = 0;
  return (update) => {
    update();
    clearTimeout(later); // browsers refuse many changes of an address in a row
    later = setTimeout(() => history.replaceState(null, "", address(view, parameters)), 300);
  };
}

function howTo(view) {
  const command = `orchestr8-sqlite ${view.command}`;
  const statements = view.sql.map((sql) => el("pre", { tabindex: "0" }, sql));
  return el(
    "details",
    { class: "how" },
    el("summary", {}, "Ask this without the page"),
    el("p", {}, "The command:"),
    el("pre", { tabindex: "0" }, command),
    el("p", {}, "In SQL, for ", el("code", {}, "orchestr8-sqlite sql"), " or ", el("code", {}, "sqlite3"), ":"),
    ...statements,
  );
}

/** Show the data: the page's head, its tabs, and the view that the address names. */
function begin(data, drawn) {
  const { library } = data;
  document.getElementById("name").replaceChildren(asNode(library.file));
  document
    .getElementById("about")
    .replaceChildren(
      asNode(
        `${counted(library.fragments, "fragment")}, ${number(library.tokens)} tokens · generation ${library.generation.slice(0, 12)} · built by ${library.built_by}`,
      ),
    );
  document.getElementById("state").textContent = data.is_asked ? "" : ASKING;
  drawn.data = data;
  makeTabs(data);
  show(data, drawn);
}

const ASKING = "The library is being asked its own requests: Search, Coverage and Overlaps fill in by themselves.";

async function main() {
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done))); // what stands there already shows first
  const data = await readData();
  const drawn = {};
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the part after # names views
    panel.querySelector("h2").focus();
  });
  addEventListener("hashchange", () => show(drawn.data, drawn));
  begin(data, drawn);
  panel.removeAttribute("aria-busy");
  if (!data.is_asked) begin(await fetchData("inspect/data?asked"), drawn);
}

main().catch((problem) => {
  document.getElementById("state").textContent = "";
  panel.replaceChildren(el("p", { role: "alert" }, `The data of this page cannot be read: ${problem.message}`));
  panel.removeAttribute("aria-busy");
  throw problem;
});
