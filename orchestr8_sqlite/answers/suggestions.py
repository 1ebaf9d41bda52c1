"""A suggested fragment → the line that a client adds to a prompt."""

from orchestr8_sqlite.model.requests import Candidate
from orchestr8_sqlite.text.wording import one_line

REASON_LENGTH = 100


def suggestion_line(candidate: Candidate) -> str:
    """Return what to load, and why: the scenario that matched best, else the title."""
    reason = one_line(candidate.scenario or candidate.title, REASON_LENGTH)
    return f"May help, read it with `load`: {candidate.uri} ({reason})"
