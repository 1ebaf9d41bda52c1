"""Datasette itself, 0.65 and 1.0, started from an exported folder: every page that it lists is there and right.

Each version has an environment of its own below tests/datasettes, which is made again when the locked versions change.
Where that cannot be done the tests are skipped, but not in CI.
"""

import html
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import pytest
from browsed import BACKED, QUERIES, RETRIED, build_browsed
from environments import cached_environment
from support import brought

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.datasette.folder import export_datasette

HOME = Path(__file__).parent / "datasettes"
RUNNING = re.compile(r"Uvicorn running on (http://\S+)")
OPENER = build_opener(ProxyHandler({}))
SECONDS = 30

pytestmark = pytest.mark.slow


class Page(NamedTuple):
    """An answer of a server."""

    status: int
    text: str


class Site:
    """A running Datasette at *address*."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, path: str, **parameters: str) -> Page:
        """Return the page at *path*."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        try:
            with OPENER.open(f"{self.address}{path}{query}", timeout=SECONDS) as answer:
                return Page(answer.status, answer.read().decode())
        except HTTPError as problem:
            with problem:
                return Page(problem.code, problem.read().decode())

    def rows(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        """Return the rows of a table or a stored query as JSON."""
        page = self.get(f"{path}.json", _shape="array", **parameters)
        assert page.status == 200, (path, page.text[:500])
        rows: list[dict[str, Any]] = json.loads(page.text)
        return rows

    def database(self) -> dict[str, Any]:
        """Return what Datasette says of the library."""
        said: dict[str, Any] = json.loads(self.get("/library.json").text)
        return said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for Datasette, exported from an index that is then gone."""
    place = tmp_path_factory.mktemp("datasette")
    index = build_browsed(place)
    with Catalog.open(index) as catalog:
        export_datasette(catalog, place / "browse")
    index.unlink()
    return place / "browse"


@pytest.fixture(scope="module", params=["stable", "alpha"])
def site(request: pytest.FixtureRequest, folder: Path) -> Iterator[Site]:
    """Return a Datasette of each version, started as `export` says."""
    home = HOME / str(request.param)
    programs = brought(lambda: cached_environment(home / ".venv", home / "requirements.txt"))
    with running([str(programs / "datasette"), str(folder), "--port", "0"]) as address:
        yield Site(address)


@contextmanager
def running(command: list[str]) -> Iterator[str]:
    """Run a server and yield the address that it names."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "DATASETTE_SECRET")}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    said: list[str] = []
    try:
        for line in process.stderr:
            said.append(line)
            if found := RUNNING.search(line):
                yield found[1]
                break
        else:
            raise AssertionError("".join(said))
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


def names(entries: list[Any]) -> list[str]:
    """Return the names of what a version lists as names, or as objects."""
    return [entry if isinstance(entry, str) else entry["name"] for entry in entries]


def test_every_table_and_view_that_is_listed_can_be_opened(site: Site) -> None:
    said = site.database()
    listed = [*names(said["tables"]), *names(said["views"])]
    assert {"fragment", "tag", "scenario", "source", "rank_stem", "fragment_detail", "finding"} <= set(listed)
    assert "score_evidence" not in listed
    pages = {name: (site.get(f"/library/{name}").status, site.get(f"/library/{name}.json").status) for name in listed}
    denied = {"fragment_vocabulary"}  # 1.0 opens no fts5vocab table
    assert {name: status for name, status in pages.items() if status != (200, 200) and name not in denied} == {}


def test_tables_of_the_ranking_are_hidden(site: Site) -> None:
    hidden = {table["name"]: table["hidden"] for table in site.database()["tables"]}
    assert hidden["rank_stem"]
    assert hidden["posting"]
    assert hidden.get("fragment_text", True)  # 1.0 lists some tables of the full text
    assert not hidden["fragment"]


def test_first_pages_say_what_the_library_is_and_where_to_begin(site: Site) -> None:
    for path in ("/", "/library"):
        page = site.get(path).text
        assert "Library library" in page
        assert "6 fragments" in page
        for begin in re.findall(r'<a href="(library/[^"]+)">', page):
            assert site.get(f"/{html.unescape(begin)}").status == 200


def test_table_tells_what_it_and_its_columns_mean(site: Site) -> None:
    page = site.get("/library/tag").text
    assert "The tags of each fragment." in page
    assert "NFKC, casefolded" in page


def test_file_is_opened_as_one_that_never_changes_with_its_rows_counted(site: Site) -> None:
    said = json.loads(site.get("/-/databases.json").text)  # a list in 0.65
    [library] = said if isinstance(said, list) else said["databases"]
    assert (library["name"], library["is_mutable"]) == ("library", False)
    assert {table["name"]: table["count"] for table in site.database()["tables"]}["fragment"] == 6


def test_every_facet_counts_its_values_and_leads_to_the_rows(site: Site, folder: Path) -> None:
    shown = json.loads((folder / "datasette.json").read_text(encoding="utf-8"))["databases"]["library"]["tables"]
    faceted = {name: options["facets"] for name, options in shown.items() if "facets" in options}
    assert faceted["diagnostic"] == ["severity", "code", "root"]
    for name, columns in faceted.items():
        page = site.get(f"/library/{name}").text
        if site.rows(f"/library/{name}"):
            assert set(re.findall(r'id="facet-(\w+)"', page)) >= set(columns), name
    [address] = re.findall(r'href="[^"]*(/library/diagnostic\?severity=error)"', site.get("/library/diagnostic").text)
    assert "2 rows" in site.get(address).text


def test_foreign_keys_show_the_label_of_the_fragment_they_lead_to(site: Site) -> None:
    [row] = [one for one in site.rows("/library/tag", _labels="on") if one["tag"] == "http"]
    assert row["fragment_id"]["label"] == "skills/retry"


@pytest.mark.parametrize("name", QUERIES)
def test_stored_query_answers(site: Site, name: str) -> None:
    asked = QUERIES[name]
    found = [tuple(row.values()) for row in site.rows(f"/library/{name}", **asked.parameters)]
    assert [row[: len(wanted)] for row, wanted in zip(found, asked.rows, strict=False)] == asked.rows
    page = site.get(f"/library/{name}", **asked.parameters)
    assert page.status == 200
    assert page.text.count("<tr") >= len(asked.rows) + 1


def test_example_on_the_page_of_a_stored_query_leads_to_rows(site: Site) -> None:
    page = site.get("/library/coverage").text
    [example] = re.findall(r'For example: <a href="(\?[^"]+)">', page)
    assert "<td" in site.get(f"/library/coverage{html.unescape(example)}").text


def test_search_shows_the_passage(site: Site) -> None:
    [row] = site.rows("/library/search", words="paragraph calls")
    assert (row["uri"], row["title"]) == (RETRIED, "Retry [calls]")
    assert "A [paragraph] that is long" in row["found"]


@pytest.mark.parametrize(
    ("table", "column", "wanted"),
    [
        ("fragment", "uri", RETRIED),
        ("fragment_body", "fragment_id", 6),
        ("fragment_searched", "name", "retry"),
    ],
)
def test_table_searches_the_full_text(site: Site, table: str, column: str, wanted: object) -> None:
    assert [row[column] for row in site.rows(f"/library/{table}", _search="paragraph calls")] == [wanted]
    assert 'name="_search"' in site.get(f"/library/{table}").text


def test_keywords_are_searched_by_any_three_letters(site: Site) -> None:
    assert [row["text"] for row in site.rows("/library/keyword", _search="koff")] == ["backoff"]


def test_uris_lead_to_the_page_that_reads_the_fragment(site: Site) -> None:
    page = site.get("/library/search", words="paragraph").text
    address = f"/library/read?fragment={RETRIED.replace(':', '%3A')}"
    assert f'<a href="{address}">{RETRIED}</a>' in page
    assert "A paragraph that is long" in site.get(address).text


def test_cells_of_stored_queries_lead_on(site: Site) -> None:
    led = {
        "tags": ("/library/tag?tag=retry", "2 rows"),
        "kinds-of-problems": ("/library/diagnostic?code=encoding", "byte 0xe9 is not UTF-8"),
        "front-matter": ("/library/front-matter-value?field=allowed-tools", "Bash, Read"),
    }
    for name, (address, wanted) in led.items():
        assert f'href="{address}"' in site.get(f"/library/{name}").text
        assert wanted in site.get(address).text


def test_text_of_a_fragment_is_whole_and_harmless(site: Site) -> None:
    page = site.get("/library/read", fragment="retry").text
    assert "&lt;b&gt;The end&lt;/b&gt;." in page
    assert "<b>The end" not in page
    assert f">{BACKED}</a> first." in page


def test_long_texts_are_cut_in_tables(site: Site) -> None:
    assert "The end" not in site.get("/library/fragment_body").text


def test_view_that_is_not_shown_can_be_asked_in_sql(site: Site) -> None:
    sql = "SELECT points FROM score_evidence WHERE keyword = 'k8s'"
    page = site.get("/library/-/query.json", sql=sql, _shape="array")
    if page.status != 200:  # 0.65 has another address
        page = site.get("/library.json", sql=sql, _shape="array")
    assert json.loads(page.text) == [{"points": 20}]
