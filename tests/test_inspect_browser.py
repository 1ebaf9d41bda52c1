"""The inspection page in a browser: from disk and from a server, clicked through, typed into, on a desk and a phone.

Playwright drives the Chromium or Chrome of this machine. axe-core comes from a package registry, into
tests/node_modules. Where one of them is missing the tests are skipped, but not in CI.
"""

import itertools
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from browsed import LIBRARY
from environments import NODE_FOLDER, MissingProgram, node_programs
from playwright.sync_api import Browser, CDPSession, Error, Locator, expect, sync_playwright
from support import GARDENING, brought, build, markdown, write_files
from test_usage import load, minutes, search, write
from web_servers import TOKEN, WebServer, web_server

from orchestr8_sqlite.inspection.assembly import render_page
from orchestr8_sqlite.inspection.collecting import inspect
from orchestr8_sqlite.inspection.data import Inspection

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OFFLINE = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
TABS = (
    *("Library", "Fragments", "Search", "Coverage", "Overlaps"),
    *("References", "Findings", "Budget", "Changes", "Usage"),
)
PATIENCE = 60
"""Seconds that a server may take to collect what a page shows."""

DESK, PHONE = (1280, 900), (360, 740)
RETRY, BACKOFF = "orchestr8://skills/retry", "orchestr8://patterns/backoff"
LONG = "Explains a part of the matter at length. " * 12
"""Thirty of these are more than the least context has room for, and much less than the largest."""

FILES = {
    **LIBRARY,
    **GARDENING,
    **{
        f"skills/long{number}.md": markdown(
            f"description: '{number} {LONG}'\ntags: [part{number}]\nuseWhen: [Reading part {number}]"
        )
        for number in range(30)
    },
    "skills/kube.md": markdown("title: Kube\ntags: [kubernetes]\nuseWhen: [rolling back a helm release]"),
    "skills/helm.md": markdown("title: Helm\ntags: [helm, kubernetes]\nuseWhen: [upgrading a chart]"),
    "queries.jsonl": '{"text": "a call that is flakky", "documents": ["skills/retry"]}\n'
    '{"text": "kubernetes probes", "documents": ["skills/retry"]}\n'
    '{"text": "how do I bake bread", "documents": []}\n',
}
OVERRIDE, HIDDEN = "\u202e", "\u2066"
HOSTILE = {
    "agents/script.md": markdown("title: '<script>window.hacked = 1</script>'\ndescription: '</script><script>1'"),
    "skills/image.md": markdown(
        "title: '<img src=x onerror=\"window.hacked = 1\">'\ndescription: '[go](javascript:window.hacked=1)'\n"
        'tags: ["<b>bold</b>", "javascript:window.hacked=1"]\n'
        'useWhen: ["<svg onload=window.hacked=1>", "&lt;b&gt; <i>x"]'
    ),
    "skills/turned.md": markdown(
        f'title: "safe{OVERRIDE}dm.exe"\ndescription: "a{HIDDEN}b"\nuseWhen: [Turning around]'
    ),
    "patterns/javascript:alert(1).md": markdown("title: 'javascript:alert(1)'", "# A\n\n[x](javascript:alert) ${1}\n"),
    "queries.jsonl": '{"text": "<img src=x onerror=window.hacked=1>", "documents": []}\n',
    **GARDENING,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def data(folder: Path) -> Inspection:
    """Return what the page shows of FILES, since a library without backoff.md, after a few searches."""
    older = {path: text for path, text in FILES.items() if path != "patterns/backoff.md"}
    old = build(write_files(folder / "old" / "library", older), folder / "old.db")
    index = build(write_files(folder / "new" / "library", FILES), folder / "index.db")
    log = write(
        folder / "server.log",
        search(minutes(0), "retry", BACKOFF, RETRY),
        load(minutes(1), RETRY),
        search(minutes(2), "zeppelins", confident=False, uncovered=["zeppelins"]),
    )
    return inspect(index, since=old, logs=[log])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = brought(find_browser)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=OFFLINE)
        yield started
        started.close()


def find_browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise MissingProgram(f"no browser is installed: {', '.join(BROWSERS)}")
    return found


@pytest.fixture
def file(folder: Path, data: Inspection) -> Path:
    return write_page(folder / "report.html", data)


def write_page(path: Path, data: Any) -> Path:  # noqa: ANN401 - or what is none, to see it refused
    path.write_text(render_page(data), encoding="utf-8")
    return path


class Opened:
    """A page that was opened from disk; `complaints` are what the browser said, and what the page asked for."""

    def __init__(self, browser: Browser, file: Path, size: tuple[int, int] = DESK, scheme: Any = "light") -> None:  # noqa: ANN401
        width, height = size
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on("request", lambda request: self.complaints.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("#view:not([aria-busy])")
        assert self.complaints.pop(0) == file.as_uri()

    def tab(self, name: str) -> Locator:
        self.page.get_by_role("tab", name=re.compile(f"^{name}")).click()
        expect(self.panel.get_by_role("heading", level=2)).to_have_text(name)
        return self.panel

    @property
    def panel(self) -> Locator:
        return self.page.get_by_role("tabpanel")

    def go(self, address: str) -> Locator:
        self.page.evaluate("address => { location.hash = address }", address)
        self.page.wait_for_timeout(50)
        return self.panel

    def close(self) -> None:
        """End; nothing may have been said or asked for."""
        assert self.complaints == []
        self.context.close()


@pytest.fixture
def opened(browser: Browser, file: Path) -> Iterator[Opened]:
    page = Opened(browser, file)
    yield page
    page.close()


looks = pytest.mark.parametrize(("size", "scheme"), [*itertools.product((DESK, PHONE), ("light", "dark"))], ids=str)


@looks
def test_every_view_opens_from_disk_in_silence_and_fits_the_window(
    browser: Browser, file: Path, size: tuple[int, int], scheme: str
) -> None:
    opened = Opened(browser, file, size, scheme)
    for name in TABS:
        opened.tab(name)
        assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    opened.close()


@looks
def test_axe_finds_nothing_in_any_view(browser: Browser, file: Path, size: tuple[int, int], scheme: str) -> None:
    brought(node_programs)
    axe = (NODE_FOLDER / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    opened = Opened(browser, file, size, scheme)
    opened.page.evaluate(axe)
    for address in (*opened.page.evaluate("[...document.querySelectorAll('[role=tab]')].map(tab => tab.id)"), DETAIL):
        opened.go(address.removeprefix("tab-"))
        found: list[dict[str, Any]] = opened.page.evaluate("async () => (await axe.run()).violations")
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == [], address
    opened.close()


DETAIL = "fragments?fragment=skills%2Fretry"


def test_tabs_are_reached_by_one_key_and_chosen_by_arrows(opened: Opened) -> None:
    keys, page = opened.page.keyboard, opened.page
    keys.press("Tab")
    expect(page.get_by_role("link", name="Skip to the view")).to_be_focused()
    keys.press("Tab")
    for key, name in (("ArrowDown", "Fragments"), ("ArrowUp", "Library"), ("ArrowUp", "Usage"), ("Home", "Library")):
        keys.press(key)
        expect(page.get_by_role("tab", selected=True)).to_contain_text(name)
        expect(page.get_by_role("tab", selected=True)).to_be_focused()
        expect(opened.panel.get_by_role("heading", level=2)).to_have_text(name)
    keys.press("Tab")
    assert opened.panel.evaluate("panel => panel.contains(document.activeElement)")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_skip_link_leads_into_the_view(opened: Opened) -> None:
    opened.tab("Budget")
    opened.page.keyboard.press("Home")
    opened.page.get_by_role("link", name="Skip to the view").focus()
    opened.page.keyboard.press("Enter")
    expect(opened.panel.get_by_role("heading", level=2)).to_be_focused()


def test_count_leads_to_the_list_that_it_counts(opened: Opened) -> None:
    row = opened.tab("Library").get_by_role("row", name=re.compile("^guide "))
    row.get_by_role("link", name="22", exact=True).click()  # two of the library, and the gardening
    expect(opened.panel.get_by_role("status")).to_contain_text("22 fragments")
    expect(opened.panel.locator("tbody tr")).to_have_count(22)
    expect(opened.panel.get_by_role("heading", level=2)).to_be_focused()


def test_map_groups_by_what_is_chosen_and_opens_what_is_clicked(opened: Opened) -> None:
    panel = opened.tab("Library")
    panel.get_by_role("link", name="first tag").click()
    expect(panel.get_by_role("link", name="first tag")).to_be_focused()
    panel.get_by_role("row", name=re.compile("^kubernetes ")).get_by_role("link", name="1", exact=True).click()
    expect(panel.get_by_role("status")).to_contain_text("1 fragment with the first tag kubernetes")
    opened.page.go_back()
    map_ = panel.locator(".map svg")
    map_.click(position={"x": 30, "y": 60})
    expect(panel.get_by_role("link", name="← All fragments")).to_be_visible()


def test_filter_narrows_as_is_typed_and_its_address_can_be_kept(opened: Opened) -> None:
    panel = opened.tab("Fragments")
    expect(panel.get_by_role("status")).to_contain_text("58 fragments")
    panel.get_by_role("searchbox").fill("longer waits")
    expect(panel.get_by_role("status")).to_contain_text("1 fragment")
    expect(panel.locator("tbody tr")).to_contain_text(["patterns/backoff"])
    opened.page.wait_for_url(re.compile("q=longer"))
    opened.page.reload()
    opened.complaints.clear()
    expect(panel.get_by_role("status")).to_contain_text("1 fragment")
    expect(panel.get_by_role("searchbox")).to_have_value("longer waits")


def test_facets_count_what_the_other_ones_leave(opened: Opened) -> None:
    panel = opened.tab("Fragments")
    panel.get_by_text(re.compile(r"^\d+ more$")).click()
    expect(panel.get_by_role("link", name="part29 1")).to_be_visible()
    panel.get_by_role("link", name="retry 2").click()
    expect(panel.get_by_role("status")).to_contain_text("2 fragments")
    expect(panel.get_by_role("link", name="retry 2")).to_have_attribute("aria-current", "true")
    panel.get_by_role("link", name="pattern 1").click()
    expect(panel.locator("tbody tr")).to_contain_text(["patterns/backoff"])
    expect(panel.get_by_role("link", name="skill 1")).to_be_visible()
    panel.get_by_role("link", name="pattern 1").click()
    expect(panel.get_by_role("status")).to_contain_text("2 fragments")


def test_table_sorts_by_its_head_numbers_from_the_largest(opened: Opened) -> None:
    panel = opened.tab("Fragments")
    panel.get_by_role("button", name="pointed to").click()
    expect(panel.get_by_role("columnheader", name="pointed to")).to_have_attribute("aria-sort", "descending")
    expect(panel.locator("tbody tr").first).to_contain_text("patterns/backoff")


def test_search_shows_what_became_of_misspelt_words_and_other_names(opened: Opened) -> None:
    panel = opened.tab("Search")
    panel.get_by_role("searchbox").fill("flakky")
    expect(panel.locator(".requests a")).to_have_count(1)
    expect(panel.locator(".readings")).to_contain_text("flakky was read as flaky")
    expect(panel.locator(".verdict")).to_contain_text("found first")
    panel.get_by_role("searchbox").fill("probes kubernetes")
    expect(panel.locator(".readings")).to_contain_text("another name")


def test_bars_of_an_answer_are_as_long_as_its_score(opened: Opened) -> None:
    panel = opened.tab("Search")
    panel.get_by_role("searchbox").fill("retrying with backoff")
    answers = panel.locator(".answers > li")
    scores = [float(text) for text in answers.locator(".score").all_inner_texts()]
    lengths = [
        sum(float(rect.get_attribute("width") or 0) for rect in answer.locator("svg.bar rect").all())
        for answer in answers.all()
    ]
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)
    assert lengths == pytest.approx([100 * score / scores[0] for score in scores], abs=0.7)


def test_request_that_nothing_fits_is_shown_as_such(opened: Opened) -> None:
    panel = opened.tab("Search")
    panel.get_by_role("searchbox").fill("bake bread")
    expect(panel.locator(".verdict")).to_contain_text("Nothing should fit – refused, as it should be")


def test_missed_scenario_names_who_takes_it_and_can_be_read(opened: Opened) -> None:
    rows = opened.tab("Coverage").get_by_role("region", name="Scenarios of each fragment")
    row = rows.get_by_role("row", name=re.compile("^Kube "))
    expect(row.get_by_role("cell").last).to_have_text("Helm")
    row.get_by_role("link", name="1", exact=True).click()
    expect(opened.panel.locator(".requests a")).to_have_text(["rolling back a helm release"])
    expect(opened.panel.locator(".answers > li").first).to_contain_text("Helm")


def test_near_copies_stand_side_by_side(opened: Opened) -> None:
    cards = opened.go("overlaps").locator("article")
    opened.panel.get_by_role("link", name="Twin ↔ Twin").click()
    expect(cards).to_have_count(2)
    expect(cards.first).to_contain_text("guides/one")
    expect(cards.last).to_contain_text("guides/two")
    expect(cards.first.locator("mark").first).to_be_visible()


def test_references_show_neighbours_and_dead_ends(opened: Opened) -> None:
    panel = opened.tab("References")
    graph = panel.get_by_role("group", name="Neighbours of Backoff")
    graph.get_by_role("link", name="Retry calls").click()
    expect(panel.get_by_role("group", name="Neighbours of Retry calls")).to_contain_text("Backoff")
    dead = panel.get_by_role("region", name="References to what the library lacks")
    expect(dead.get_by_role("row", name=re.compile("^patterns.jitter"))).to_contain_text("skills/retry line 17")
    dead.get_by_role("row", name=re.compile("^patterns.jitter")).get_by_role("link", name="1", exact=True).click()
    expect(opened.panel.get_by_role("status")).to_contain_text("1 fragment pointing to patterns/jitter")


def test_findings_narrow_down_to_a_kind_with_its_rule(opened: Opened) -> None:
    panel = opened.tab("Findings")
    panel.get_by_role("link", name="override-instructions 1").click()
    expect(panel.get_by_role("status")).to_contain_text("1 finding")
    expect(panel.locator("tbody tr")).to_contain_text(["library/agents/bare.md:3"])
    expect(panel.locator(".lead")).not_to_be_empty()


def test_slider_shows_what_a_larger_context_keeps(opened: Opened) -> None:
    panel = opened.go("budget?of=fragments")
    row = panel.get_by_role("row", name=re.compile("^Claude Code"))
    slider = panel.get_by_role("slider")
    slider.press("Home")
    expect(panel.locator("output")).to_have_text("32,000 tokens")
    assert row.get_by_role("cell").all_inner_texts()[4] != "0"
    slider.press("End")
    expect(panel.locator("output")).to_have_text("2,000,000 tokens")
    assert row.get_by_role("cell").all_inner_texts()[2:6] == ["58", "0", "0", "0"]
    expect(slider).to_be_focused()
    slider.press("Home")
    row.get_by_role("link").last.click()
    expect(opened.panel.get_by_role("status")).to_contain_text("left as a bare name by claude-code at 32,000 tokens")


def test_changes_show_what_came_and_who_answers_now(opened: Opened) -> None:
    panel = opened.tab("Changes")
    panel.get_by_role("link", name=re.compile("^added ")).click()
    panel.get_by_role("link", name="fragment 1").click()
    expect(panel.get_by_role("region", name="Differences")).to_contain_text("patterns/backoff")
    answers = panel.get_by_role("region", name="Requests with another first answer")
    expect(answers.get_by_role("row", name=re.compile("Retrying with backoff")).first).to_be_visible()


def test_usage_shows_loads_and_requests_in_vain(opened: Opened) -> None:
    panel = opened.tab("Usage")
    loads = panel.get_by_role("region", name="Loads of each fragment")
    expect(loads.get_by_role("row", name=re.compile("^Retry calls"))).to_contain_text("1")
    expect(panel.get_by_role("region", name="Requests that nothing fitted")).to_contain_text("zeppelins")
    panel.get_by_role("link", name="57", exact=True).click()  # of 58 one was loaded
    expect(opened.panel.get_by_role("status")).to_contain_text("57 fragments never loaded")


def test_every_view_says_how_to_ask_without_the_page(opened: Opened, data: Inspection) -> None:
    for view in data["views"]:
        panel = opened.tab(view["title"])
        panel.get_by_text("Ask this without the page").click()
        shown = panel.locator(".how pre").all_inner_texts()
        assert shown == [f"orchestr8-sqlite {view['command']}", *view["sql"]]
        assert panel.locator(".how pre").first.is_visible()


def test_view_that_was_not_asked_for_says_how_to_get_it(browser: Browser, data: Inspection, tmp_path: Path) -> None:
    page = Opened(browser, write_page(tmp_path / "bare.html", {**data, "since": None, "usage": None}))
    expect(page.tab("Changes")).to_contain_text("inspect --since")
    expect(page.tab("Usage")).to_contain_text("inspect --log")
    page.close()


def test_library_without_anything_is_shown_in_every_view(browser: Browser, tmp_path: Path) -> None:
    data = inspect(build(write_files(tmp_path / "library", {"guides/a.md": "# A\n"}), tmp_path / "index.db"))
    page = Opened(browser, write_page(tmp_path / "small.html", data))
    for name in TABS:
        page.tab(name)
    page.close()


def test_paper_has_the_view_and_no_tabs(opened: Opened) -> None:
    opened.tab("Coverage")
    opened.page.emulate_media(media="print")
    expect(opened.page.get_by_role("tablist")).to_be_hidden()
    expect(opened.panel.get_by_role("table").first).to_be_visible()


def test_hostile_texts_stay_texts(browser: Browser, tmp_path: Path) -> None:
    data = inspect(build(write_files(tmp_path / "library", HOSTILE), tmp_path / "index.db"))
    page = Opened(browser, write_page(tmp_path / "hostile.html", data))
    titles = "javascript:alert(1)", "<script>window.hacked = 1</script>", "safe[U+202E]dm.exe"
    panel = page.tab("Fragments")
    for title in titles:
        expect(panel.get_by_role("link", name=title, exact=True)).to_be_visible()
    fragments = [f"fragments?fragment={one['path']}" for one in data["fragments"]]
    requests = [f"search?request={place}" for place in range(len(data["requests"]))]
    for address in (*(view["id"] for view in data["views"]), *fragments, *requests, "fragments?tag=<b>bold</b>"):
        page.go(address)
        assert page.page.evaluate("typeof hacked") == "undefined"
        assert (
            page.page.evaluate("document.querySelectorAll('img, iframe, object, form, #view script, #view b b').length")
            == 0
        )
        assert page.page.evaluate("[...document.links].every(link => link.getAttribute('href').startsWith('#'))")
        assert not {OVERRIDE, HIDDEN} & {*page.page.content().partition('id="data"')[0]}
    page.close()


def test_address_that_names_nothing_shows_the_first_view(opened: Opened) -> None:
    for address in (
        "nothing",
        "constructor",
        "%zz?%zz",
        "search?request=99999&pair=x",
        "fragments?fragment=none&list=__proto__",
    ):
        opened.go(address)
    expect(opened.panel.get_by_role("status")).to_contain_text("58 fragments")
    opened.go("nothing")
    expect(opened.panel.get_by_role("heading", level=2)).to_have_text("Library")


def test_data_that_cannot_be_read_is_said(browser: Browser, file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    text = file.read_text(encoding="utf-8")
    broken.write_text(re.sub(r'(id="data">)[^<]*', r"\1AAAA", text), encoding="utf-8")
    page = browser.new_page()
    page.goto(broken.as_uri())
    expect(page.get_by_role("alert")).to_contain_text("The data of this page cannot be read")
    page.close()


def test_filter_of_2300_fragments_costs_less_than_half_of_drawing_them_bare(
    browser: Browser, data: Inspection, tmp_path: Path
) -> None:
    """A page that drew all rows at each letter would cost more; bench/inspection.py measures in milliseconds."""
    times = 2300 // len(data["fragments"]) + 1
    many = [
        {**one, "path": f"{one['path']}-{number}", "uri": f"{one['uri']}-{number}"}
        for number in range(times)
        for one in data["fragments"]
    ]
    page = Opened(browser, write_page(tmp_path / "large.html", {**data, "fragments": many, "clients": []}))
    page.tab("Fragments")
    devtools = page.page.context.new_cdp_session(page.page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})  # processor time, whatever else the machine does
    acts = [partial(page.page.evaluate, TYPING, text) for text in ("l", "lo", "lon", "long", "")]
    acts.append(partial(page.page.evaluate, BARE, len(many)))
    *typed, bare = (
        min(spent) for spent in zip(*([_spent_by(devtools, act) for act in acts] for _ in range(5)), strict=True)
    )
    assert 0 < max(typed) <= bare / 2, (typed, bare)
    page.close()


def _spent_by(devtools: CDPSession, act: Callable[[], object]) -> float:
    """Return the seconds of processor time that a page takes for script, styles and layout while *act* runs."""
    begun = _spent(devtools)
    act()
    return _spent(devtools) - begun


def _spent(devtools: CDPSession) -> float:
    told: list[dict[str, Any]] = devtools.send("Performance.getMetrics")["metrics"]
    metrics: dict[str, float] = {one["name"]: one["value"] for one in told}
    return sum(metrics[f"{work}Duration"] for work in ("Script", "RecalcStyle", "Layout"))


TYPING = """text => {
  const box = document.getElementById("filter");
  box.value = text;
  box.dispatchEvent(new Event("input"));
  document.body.getBoundingClientRect(); // lays out what changed
}"""
BARE = """rows => {
  const table = document.body.appendChild(document.createElement("table"));
  for (let row = 0; row < rows; row++) {
    const line = table.insertRow();
    for (let cell = 0; cell < 6; cell++) line.insertCell().textContent = `${row} ${cell}`;
  }
  table.getBoundingClientRect();
  table.remove();
}"""


class Visit:
    """A browser that shows the page of a server; `complaints` are what it said."""

    def __init__(
        self,
        browser: Browser,
        server: WebServer,
        address: str = "",
        password: str = TOKEN,
        size: tuple[int, int] = DESK,
    ) -> None:
        login: Any = {"username": "librarian", "password": password}
        width, height = size
        self.context = browser.new_context(http_credentials=login, viewport={"width": width, "height": height})
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.answer = self.page.goto(f"http://127.0.0.1:{server.port}/inspect{address}")

    @property
    def panel(self) -> Locator:
        return self.page.get_by_role("tabpanel")

    def wait(self) -> None:
        """Wait until all data are there."""
        self.page.wait_for_selector("#view:not([aria-busy])", timeout=1000 * PATIENCE)
        expect(self.page.locator("#state")).to_be_empty(timeout=1000 * PATIENCE)

    def ask(self, text: str) -> Locator:
        """Type a request, send it, and return what is shown."""
        self.page.get_by_role("searchbox", name="Ask this library").fill(text)
        self.page.keyboard.press("Enter")
        return self.panel

    def close(self) -> None:
        """End; nothing may have been said."""
        assert self.complaints == []
        self.context.close()


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[WebServer]:
    index = build(write_files(folder / "served" / "library", FILES), folder / "served.db")
    with web_server("--db", index, token=TOKEN) as server:
        yield server


def test_browser_without_the_token_gets_nothing(browser: Browser, served: WebServer) -> None:
    context = browser.new_context()
    with pytest.raises(Error, match="ERR_INVALID_AUTH_CREDENTIALS"):
        context.new_page().goto(f"http://127.0.0.1:{served.port}/inspect")
    context.close()
    visit = Visit(browser, served, password="another-horse-battery-staple")
    assert visit.answer is not None
    assert visit.answer.status == 401
    assert (
        visit.page.locator("body").inner_text() == "The password is the server's token; the user name does not matter."
    )
    visit.context.close()


def test_every_view_of_a_server_opens_in_silence_and_fills_in(browser: Browser, served: WebServer) -> None:
    visit = Visit(browser, served)
    visit.wait()
    for name in TABS:
        visit.page.get_by_role("tab", name=re.compile(f"^{name}")).click()
        expect(visit.panel.get_by_role("heading", level=2)).to_have_text(name)
    visit.page.get_by_role("tab", name=re.compile("^Coverage")).click()
    rows = visit.panel.get_by_role("region", name="Scenarios of each fragment").get_by_role("row")
    expect(rows).to_have_count(59)  # and the head
    visit.close()


def test_request_that_is_not_the_librarys_own_is_answered_with_its_parts(browser: Browser, served: WebServer) -> None:
    visit = Visit(browser, served, "#search")
    visit.wait()
    panel = visit.ask("the helm release must roll back")
    first = panel.locator(".answers > li").first
    expect(first).to_contain_text("Kube")
    expect(first.locator("svg.bar rect")).not_to_have_count(0)
    first.locator("summary").click()
    expect(first.locator("table.parts")).to_contain_text("helm")
    expect(panel.locator(".verdict")).to_contain_text("answered")
    visit.page.reload()
    visit.wait()
    expect(panel.locator(".answers > li").first).to_contain_text("Kube")
    visit.ask("teapots for zebras")
    expect(panel.locator(".verdict")).to_contain_text("nothing fits")
    visit.close()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=str)
def test_box_for_requests_fits_the_window_and_axe_finds_nothing(
    browser: Browser, served: WebServer, size: tuple[int, int]
) -> None:
    brought(node_programs)
    visit = Visit(browser, served, "#search", size=size)
    visit.wait()
    expect(visit.ask("retrying").locator(".answers > li").first).to_be_visible()
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.page.evaluate((NODE_FOLDER / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = visit.page.evaluate("async () => (await axe.run()).violations")
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
    visit.close()


def test_typo_in_what_is_typed_shows_its_repair(browser: Browser, served: WebServer) -> None:
    visit = Visit(browser, served, "#search")
    visit.wait()
    expect(visit.ask("retry a flakky call").locator(".readings")).to_contain_text("flakky was read as flaky")
    visit.close()


def test_hostile_request_stays_text(browser: Browser, served: WebServer) -> None:
    visit = Visit(browser, served, "#search")
    visit.wait()
    hostile = "retry <img src=x onerror='window.hacked = 1'>"
    expect(visit.ask(hostile).locator("h3.title")).to_have_text(hostile)
    assert visit.page.evaluate("window.hacked") is None
    visit.close()


def test_replaced_index_is_said_and_shown_once_the_page_is_loaded_again(browser: Browser, folder: Path) -> None:
    library = write_files(folder / "replaced" / "library", FILES)
    index = build(library, folder / "replaced.db")
    with web_server("--db", index) as server:
        visit = Visit(browser, server, "#search")
        visit.wait()
        before = visit.page.locator("#about").inner_text()
        caching = {"skills/caching.md": markdown("title: Caching\nuseWhen: [Keeping what was computed]")}
        build(write_files(library, caching), index)
        panel = visit.ask("keeping what was computed")
        expect(panel).to_contain_text("The index was replaced since this page was loaded")
        visit.page.get_by_role("button", name="Load the page again").click()
        expect(panel.locator(".answers > li").first).to_contain_text("Caching", timeout=1000 * PATIENCE)
        assert visit.page.locator("#about").inner_text() != before
        visit.close()


def test_server_that_is_gone_is_said(browser: Browser, folder: Path) -> None:
    with web_server("--db", build(write_files(folder / "gone" / "library", LIBRARY), folder / "gone.db")) as server:
        visit = Visit(browser, server, "#search")
        visit.wait()
        server.end()
        expect(visit.ask("retry")).to_contain_text("The server does not answer.")
        visit.context.close()
