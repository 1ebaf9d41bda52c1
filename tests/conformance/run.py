"""Runs the official conformance suite against the server and checks the table in docs/protocol.md.

With --write the table is written instead. It exits 1 where a scenario ends otherwise than scenarios.toml says.
"""

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml
from environments import NODE_FOLDER, ROOT, MissingProgram, node_command

from conformance.server import serving

REVISIONS = ("2025-11-25", "2026-07-28")
SKILLS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory")
"""Scenarios of the skills extension, which no revision requires: the suite runs them by name, if it is forced to."""

REQUIREMENTS = NODE_FOLDER / "node_modules" / "@modelcontextprotocol" / "conformance" / "requirements"
DOCUMENT = ROOT / "docs" / "protocol.md"
BEGIN, END = "<!-- written by tests/conformance/run.py from here -->", "<!-- to here -->"
WIRE_CHECK = "wire-schema-valid"
"""The check, part of every scenario, that each message on the wire fits the schema of its revision."""


class Outcome(StrEnum):
    """How a scenario ended; a warning is a failure too."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "was skipped"
    INVALID = "met a message that breaks the schema of its revision"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one scenario, and what the suite complained of."""

    outcome: Outcome
    complaints: tuple[str, ...] = ()


Endings = Mapping[str, Mapping[str, Ending]]
"""Revision → scenario → how it ended."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """What scenarios.toml says: scenario → what answers, or why it does not apply."""

    passed: Mapping[str, str]
    inapplicable: Mapping[str, str]
    inapplicable_but_passes: Mapping[str, str]

    def problem(self, scenario: str, ending: Ending) -> str | None:
        """Return what is wrong with that ending; None where it is as expected."""
        passes = ending.outcome is Outcome.PASSED
        if scenario in self.passed or scenario in self.inapplicable_but_passes:
            return (
                None if passes else f"{scenario} {ending.outcome}: {'; '.join(ending.complaints) or 'no reason given'}"
            )
        if scenario not in self.inapplicable:
            return f"{scenario} is not in scenarios.toml; it {ending.outcome}"
        if ending.outcome is Outcome.INVALID:
            return f"{scenario} {ending.outcome}: {'; '.join(ending.complaints)}"
        return f"{scenario} passed: move it out of [inapplicable]" if passes else None


def main() -> int:
    """Run both revisions, then check or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/protocol.md")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)  # a refused host is what the suite wants to see, and no warning
    try:
        endings = {revision: run_suite(revision) for revision in REVISIONS}
    except MissingProgram as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    expectations = read_expectations(Path(__file__).parent / "scenarios.toml")
    problems = [*find_problems(expectations, endings), *_renew_table(expectations, endings, write=options.write)]
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    for revision, ended in endings.items():
        passed = sum(ending.outcome is Outcome.PASSED for ending in ended.values())
        sys.stdout.write(f"{revision}: {passed} of {len(ended)} scenarios passed\n")
    return int(bool(problems))


def read_expectations(path: Path) -> Expectations:
    """Return what the file at *path* expects of each scenario."""
    sections = tomllib.loads(path.read_text(encoding="utf-8"))
    return Expectations(sections["passed"], sections["inapplicable"], sections["inapplicable-but-passes"])


def run_suite(revision: str) -> dict[str, Ending]:
    """Return how each scenario of *revision* ended against a server over a library of its own."""
    suite = node_command("conformance")
    endings = dict.fromkeys(_scenarios(revision), Ending(Outcome.FAILED, ("the suite left no report",)))
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as url:
        found = Path(folder, "found")
        by_name = [["--scenario", scenario, "--spec-version", revision, "--force"] for scenario in SKILLS]
        for chosen in (["--requirements", revision], *by_name):
            command = [*suite, "server", "--url", url, *chosen, "--output-dir", str(found)]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600, check=False)
        for report in found.glob("server-*/checks.json"):
            endings[scenario_of(report.parent.name)] = judge(json.loads(report.read_text(encoding="utf-8")))
    return endings


def scenario_of(folder: str) -> str:
    """Return the scenario whose report stands in *folder*: server-<scenario>-<date>T<hour>-<minute>-<second>-<ms>Z."""
    return folder.removeprefix("server-").rsplit("-", 6)[0]


def judge(checks: Sequence[Mapping[str, str]]) -> Ending:
    """Return how a scenario with these checks ended; that its messages are valid is not enough to pass."""
    faults = [check for check in checks if check["status"] in {"FAILURE", "WARNING"}]
    complaints = tuple(check.get("errorMessage") or check["id"] for check in faults)
    if any(check["id"] == WIRE_CHECK for check in faults):
        return Ending(Outcome.INVALID, complaints)
    if faults:
        return Ending(Outcome.FAILED, complaints)
    passed = any(check["status"] == "SUCCESS" and check["id"] != WIRE_CHECK for check in checks)
    return Ending(Outcome.PASSED if passed else Outcome.SKIPPED)


def find_problems(expectations: Expectations, endings: Endings) -> list[str]:
    """Return a sentence for each scenario that ended otherwise than expected, or that no revision has."""
    problems = [
        f"{revision}: {problem}"
        for revision, ended in endings.items()
        for scenario, ending in ended.items()
        if (problem := expectations.problem(scenario, ending))
    ]
    run = set().union(*endings.values())
    return problems + [f"{scenario} is not in the suite" for scenario in _named(expectations) if scenario not in run]


def render_table(expectations: Expectations, endings: Endings) -> str:
    """Return the table of all scenarios in the order of scenarios.toml."""
    lines = [f"| scenario | {' | '.join(endings)} | |", f"|---|{'---|' * len(endings)}---|"]
    for scenario, remark in _named(expectations).items():
        cells = [_cell(expectations, ended.get(scenario), scenario) for ended in endings.values()]
        lines.append(f"| `{scenario}` | {' | '.join(cells)} | {remark} |")
    return "\n".join(lines)


def _cell(expectations: Expectations, ending: Ending | None, scenario: str) -> str:
    if ending is None:
        return "–"
    return ending.outcome if scenario in expectations.passed else "not applicable"


def _named(expectations: Expectations) -> dict[str, str]:
    return {**expectations.passed, **expectations.inapplicable, **expectations.inapplicable_but_passes}


def _scenarios(revision: str) -> Iterable[str]:
    """Return the scenarios that are run against a server of *revision*, those without score too."""
    requirements = yaml.safe_load((REQUIREMENTS / f"{revision}.yaml").read_text(encoding="utf-8"))
    unscored = [entry["scenario"] for entry in requirements["not_scored"] if entry["leg"] == "server"]
    return [*requirements["server"], *unscored, *SKILLS]


def _renew_table(expectations: Expectations, endings: Endings, *, write: bool) -> list[str]:
    """Write or compare the table in the document; return the problem, if any."""
    old = DOCUMENT.read_text(encoding="utf-8")
    head, rest = old.split(BEGIN)
    new = f"{head}{BEGIN}\n\n{render_table(expectations, endings)}\n\n{END}{rest.split(END)[1]}"
    if write:
        DOCUMENT.write_text(new, encoding="utf-8")
        return []
    return [] if new == old else [f"{DOCUMENT.name} shows another table; run: make conformance WRITE=--write"]


if __name__ == "__main__":
    sys.exit(main())
