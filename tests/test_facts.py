"""Facts that age are listed with home, source and a date, and the list says what is due and what is stale."""

import subprocess
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from content import facts
from content.facts import LISTED, RESOURCES, contradicted, due, is_newest, newest_version, problems, read_facts

HEAD = "file\tsnippet\tkind\tvalue\tsource\tchecked\trecheck\n"
UV = "agents/python.md\tuv 0.13\tversion\t0.13\tpypi:uv\t2026-11-25\t2027-02-28\n"
NODE = "agents/node.md\t22 until April\tsupport\tApril 2027\thttps://example.com/\t\t2027-01-31\n"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/python.md").write_text("Use uv 0.13.\nuv 1 is not out.\n")
    return tmp_path


def test_each_fact_of_the_shipped_library_stands_on_one_line_of_its_home() -> None:
    assert not list(problems(read_facts(LISTED.read_text(encoding="utf-8")), RESOURCES))


def test_no_fact_is_listed_twice_or_checked_in_the_future() -> None:
    listed = read_facts(LISTED.read_text(encoding="utf-8"))
    assert len({(fact.file, fact.snippet) for fact in listed}) == len(listed)
    assert all(fact.checked is None or fact.checked <= datetime.now(UTC).date() for fact in listed)


def test_a_fact_that_its_file_states_is_no_problem(library: Path) -> None:
    assert not list(problems(read_facts(HEAD + UV), library))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("uv 0.13", "uv 0.12", "0 lines have 'uv 0.12'"),
        ("uv 0.13", "uv", "2 lines have 'uv'"),
        ("python.md", "gone.md", "agents/gone.md: 0 lines"),
        ("\tversion\t", "\tversoin\t", "the kind 'versoin' is none of"),
        ("pypi:uv", "a blog", "the source 'a blog' is neither"),
        ("2027-02-28", "2026-11-25", "is to be checked again before it was checked"),
    ],
)
def test_a_wrong_field_is_named(library: Path, old: str, new: str, said: str) -> None:
    found = list(problems(read_facts(HEAD + UV.replace(old, new, 1)), library))
    assert len(found) == 1
    assert said in found[0]


def test_facts_are_due_on_their_day_and_the_longest_overdue_come_first() -> None:
    listed = read_facts(HEAD + UV + NODE)
    assert [fact.file for fact in due(listed, date(2027, 2, 28))] == ["agents/node.md", "agents/python.md"]
    assert [fact.file for fact in due(listed, date(2027, 1, 31))] == ["agents/node.md"]
    assert not due(listed, date(2027, 1, 30))


@pytest.mark.parametrize(
    ("value", "newest", "expected"),
    [
        ("2.3", "2.3.9", True),
        ("2.3", "2.30.0", False),
        ("2", "3.0", False),
        ("19.3.1", "19.3.2", False),
        ("0.8.7", "0.8.7", True),
    ],
)
def test_a_version_is_compared_as_far_as_the_fragment_gives_it(value: str, newest: str, expected: bool) -> None:
    assert is_newest(value, newest) is expected


def test_a_package_that_moved_on_and_a_registry_that_is_silent_are_reported() -> None:
    listed = read_facts(HEAD + UV + NODE)
    assert list(contradicted(listed, lambda _: "0.14.2")) == ["pypi:uv is at 0.14.2; agents/python.md says 0.13"]
    assert list(contradicted(listed, lambda _: None)) == [
        "pypi:uv: no answer (offline?); agents/python.md says 0.13"
    ]  # fmt: skip
    assert not list(contradicted(listed, lambda _: "0.13.9"))


def test_what_came_with_a_version_is_not_compared_with_the_newest_one() -> None:
    assert not list(contradicted(read_facts(HEAD + UV.replace("version", "change")), lambda _: "0.14.2"))


@pytest.mark.parametrize(
    ("printed", "code", "expected"),
    [
        ("uv (0.13.9)\n", 0, "0.13.9"),
        ("14.0.0-rc.7\n", 0, "14.0.0-rc.7"),
        ("uv (0.13.9)\n", 1, None),
        ("\n", 0, None),
    ],
)
def test_the_newest_version_is_what_the_client_prints_first(
    monkeypatch: pytest.MonkeyPatch, printed: str, code: int, expected: str | None
) -> None:
    answer = subprocess.CompletedProcess([], code, printed, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    assert newest_version("pypi:uv") == expected


def test_a_missing_client_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(facts.ASKS, "npm", lambda name: ["no-such-program-anywhere", name])
    assert newest_version("npm:react") is None
