"""Requests that nothing fitted → a draft of queries.jsonl, for an author to judge.

Each line is one of a library's queries.jsonl, which `eval --queries` reads too: no documents, since nothing fitted. An
author names the fragment that ought to answer, writes it, or drops the line. What else stands there, nobody reads but
the author: how often it was asked, the words that the answer did not cover, and the closest fragments.
"""

import json
from collections.abc import Sequence
from hashlib import sha256

from orchestr8_sqlite.model.requests import SCHEME
from orchestr8_sqlite.usage.report import Gap

ID_LENGTH = 8


def draft_of(gaps: Sequence[Gap]) -> list[str]:
    """Return a line for each of *gaps* with a text, but for those that were only asked of some fragments."""
    judged = (gap for gap in gaps if gap.has_text and gap.filtered < gap.times)
    return [json.dumps(_query(gap), ensure_ascii=False) for gap in judged]


def _query(gap: Gap) -> dict[str, object]:
    text = gap.query or ""
    return {
        "id": f"gap-{sha256(text.casefold().encode()).hexdigest()[:ID_LENGTH]}",
        "text": text,
        "documents": [],
        **({"terms": [*gap.terms]} if gap.terms else {}),
        "asked": gap.times,
        "uncovered": [*gap.words],
        "closest": [uri.removeprefix(f"{SCHEME}://") for uri in gap.closest],
    }
