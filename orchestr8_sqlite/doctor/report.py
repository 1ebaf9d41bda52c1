"""The result of a check: a verdict, what was found, and what to do about it."""

from dataclasses import dataclass
from enum import Enum


class CheckVerdict(Enum):
    """How a check ended."""

    OK = "ok"
    PROBLEM = "problem"
    OMITTED = "-"  # there was nothing to check


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report; `advice` says what to do, and is empty if there is nothing to do."""

    name: str
    verdict: CheckVerdict
    finding: str
    advice: str = ""


def ok(name: str, finding: str, advice: str = "") -> Check:
    """Return a check that found what it should."""
    return Check(name, CheckVerdict.OK, finding, advice)


def problem(name: str, finding: str, advice: str) -> Check:
    """Return a check that found a problem."""
    return Check(name, CheckVerdict.PROBLEM, finding, advice)


def omitted(name: str, finding: str, advice: str = "") -> Check:
    """Return a check that had nothing to check."""
    return Check(name, CheckVerdict.OMITTED, finding, advice)
