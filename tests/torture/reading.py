"""Answers to searches, read back by their text alone."""

from answers import CATALOG_LINE, HEAD, INDEX_LINE, read_list, read_texts

from orchestr8_sqlite.model import LookupResult, Mode
from orchestr8_sqlite.service import Answer
from orchestr8_sqlite.tokens import estimate_tokens
from torture import Wrong

BEGINNINGS = ("#", "1.", "[left out: ")
"""Of answers that list anything; others are a few lines that say why not."""


def check_answer(answer: Answer, raw: dict[str, object]) -> None:
    """Raise Wrong where *answer* does not read back as what was found."""
    result = answer.result
    assert result is not None
    if estimate_tokens(answer.text) > result.request.max_tokens:
        raise Wrong(f"{raw} costs more than its budget")
    if not result.confident or not result.candidates or not answer.text.startswith(BEGINNINGS):
        if len(answer.text.splitlines()) > 1 + 20:
            raise Wrong(f"{raw}: {answer.text!r}")
        return
    try:
        read = read_back(answer.text, result)
    except (AssertionError, StopIteration) as problem:
        raise Wrong(f"{raw}: {problem}") from None
    found = [candidate.uri for candidate in result.candidates]
    if result.request.mode is Mode.FULL:
        listed = set(read) <= set(found) and len(set(read)) == len(read)
    else:
        listed = read == found[: len(read)]
    if not listed:
        raise Wrong(f"{raw} lists {read} instead of {found}")


def read_back(text: str, result: LookupResult) -> list[str]:
    """Return the URIs that an answer lists, by its text alone."""
    if result.request.mode is Mode.FULL:
        return [one.uri for one in read_texts(text, HEAD)]
    return read_list(text, INDEX_LINE if result.request.mode is Mode.INDEX else CATALOG_LINE)
