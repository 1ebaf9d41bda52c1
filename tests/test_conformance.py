"""How the outcome of the conformance suite is judged. The suite itself is run by `make conformance`."""

from collections.abc import Mapping

import pytest
from conformance.run import (
    BEGIN,
    DOCUMENT,
    END,
    Ending,
    Expectations,
    Outcome,
    find_problems,
    judge,
    render_table,
    scenario_of,
)

EXPECTED = Expectations(
    passed={"ping": "", "tools-call": "`load`"},
    inapplicable={"audio": "there is no sound here"},
    inapplicable_but_passes={"guess": "nothing is guessed"},
)
AS_EXPECTED = {
    "ping": Ending(Outcome.PASSED),
    "tools-call": Ending(Outcome.PASSED),
    "audio": Ending(Outcome.FAILED, ("no tool",)),
    "guess": Ending(Outcome.PASSED),
}


def check(name: str, status: str, message: str = "") -> Mapping[str, str]:
    return {"id": name, "status": status, "errorMessage": message}


def test_endings_as_expected_are_no_problem() -> None:
    assert find_problems(EXPECTED, {"2025-11-25": AS_EXPECTED}) == []


@pytest.mark.parametrize(
    ("scenario", "ending", "problem"),
    [
        ("ping", Ending(Outcome.FAILED, ("no answer",)), "ping failed: no answer"),
        ("ping", Ending(Outcome.SKIPPED), "ping was skipped: no reason given"),
        ("audio", Ending(Outcome.PASSED), "audio passed: move it out of [inapplicable]"),
        ("guess", Ending(Outcome.FAILED, ("no guess",)), "guess failed: no guess"),
        ("new", Ending(Outcome.PASSED), "new is not in scenarios.toml; it passed"),
        (
            "audio",
            Ending(Outcome.INVALID, ("bad id",)),
            "audio met a message that breaks the schema of its revision: bad id",
        ),
    ],
)
def test_other_ending_is_a_problem(scenario: str, ending: Ending, problem: str) -> None:
    assert find_problems(EXPECTED, {"2026-07-28": {**AS_EXPECTED, scenario: ending}}) == [f"2026-07-28: {problem}"]


def test_scenario_that_no_revision_has_is_a_problem() -> None:
    ended = {name: ending for name, ending in AS_EXPECTED.items() if name != "audio"}
    assert find_problems(EXPECTED, {"2026-07-28": ended}) == ["audio is not in the suite"]
    assert find_problems(EXPECTED, {"2026-07-28": ended, "2025-11-25": AS_EXPECTED}) == []


def test_scenario_fails_by_a_failure_or_a_warning_and_says_why() -> None:
    good = check("a", "SUCCESS")
    assert judge([good, check("b", "FAILURE", "no b")]) == Ending(Outcome.FAILED, ("no b",))
    assert judge([good, check("b", "WARNING")]) == Ending(Outcome.FAILED, ("b",))
    assert judge([good, check("b", "INFO"), check("c", "SKIPPED")]) == Ending(Outcome.PASSED)


def test_scenario_whose_messages_alone_were_valid_has_not_passed() -> None:
    assert judge([check("wire-schema-valid", "SUCCESS"), check("a", "SKIPPED")]) == Ending(Outcome.SKIPPED)


def test_message_that_breaks_its_schema_is_told_apart_from_a_failure() -> None:
    ending = judge([check("a", "FAILURE", "no a"), check("wire-schema-valid", "FAILURE", "no id")])
    assert ending == Ending(Outcome.INVALID, ("no a", "no id"))


def test_folder_of_a_report_names_its_scenario() -> None:
    assert scenario_of("server-server-stateless-2026-11-22T05-06-04-967Z") == "server-stateless"
    assert scenario_of("server-json-schema-2020-12-2026-11-22T05-06-04-967Z") == "json-schema-2020-12"


def test_table_shows_each_revision_and_what_answers_or_why_not() -> None:
    table = render_table(EXPECTED, {"2025-11-25": AS_EXPECTED, "2026-07-28": {"audio": Ending(Outcome.FAILED)}})
    assert table.splitlines() == [
        "| scenario | 2025-11-25 | 2026-07-28 | |",
        "|---|---|---|---|",
        "| `ping` | passed | – |  |",
        "| `tools-call` | passed | – | `load` |",
        "| `audio` | not applicable | not applicable | there is no sound here |",
        "| `guess` | not applicable | – | nothing is guessed |",
    ]


def test_document_has_one_place_for_the_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert (text.count(BEGIN), text.count(END)) == (1, 1)
