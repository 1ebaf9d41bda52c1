"""The harness that injects faults counts what became of them, and tells losses from survivals."""

import re
import sys
from pathlib import Path

import pytest
from torture import Case, Lost, Skipped, Tried, Wrong
from torture.run import judge, main, summary, table


def case(outcome: Exception | None, fault: str = "kill") -> Case:
    def run(_: Path) -> None:
        if outcome is not None:
            raise outcome

    return Case(fault, "a name", run)


def test_outcomes_are_counted_by_fault_and_skipped_cases_were_not_tried() -> None:
    outcomes = [None, None, Lost("gone"), Wrong("mixed"), Skipped("no compiler"), ValueError("a bug")]
    verdicts = [judge(case(outcome)) for outcome in outcomes]
    assert table(verdicts).splitlines()[2].split() == ["kill", "5", "5", "2", "2", "1", "1"]
    assert "5 faults injected" in summary(verdicts)
    assert "2 survived, 2 lost, 1 wrong answers; 1 skipped." in summary(verdicts)


def test_a_case_that_tried_many_inputs_counts_as_one_with_all_of_them() -> None:
    verdicts = [judge(Case("fuzzed", "a name", lambda _: Tried(1234, "all is well"))), judge(case(None, "fuzzed"))]
    assert table(verdicts).splitlines()[2].split() == ["fuzzed", "2", "1,235", "2", "0", "0", "0"]


@pytest.mark.parametrize(("outcome", "code"), [(None, 0), (Lost("x"), 1), (Wrong("x"), 1), (Skipped("x"), 1)])
def test_anything_lost_or_nothing_tried_is_a_failure(
    outcome: Exception | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torture.run.modules", lambda _: ["build_kills"])
    monkeypatch.setattr("torture.build_kills.cases", lambda *_, **__: iter([case(outcome)]))
    monkeypatch.setattr(sys, "argv", ["run"])
    assert main() == code


def test_class_of_faults_that_does_not_exist_is_refused_with_those_that_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run", "--only", "kill"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert re.search("no module with cases: kill; there are .*build_kills", capsys.readouterr().err)
