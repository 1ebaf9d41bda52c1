"""How many of some keywords a text holds, told without reading all of it word by word."""

from collections.abc import Collection

from orchestr8_sqlite.keywords import iterate_keywords


def count_held(text: str, wanted: Collection[str], more_than: int = 0) -> int:
    """Return how many of the different keywords *wanted* the text holds.

    Where these are no more than *more_than*, it is any number up to that.
    """
    possible = _possible(text, wanted)
    if len(possible) <= max(more_than, 0):
        return len(possible)
    lines = [line for line in text.split("\n") if _possible(line, possible)]
    return len(set(possible).intersection(iterate_keywords("\n".join(lines))))


def _possible(text: str, wanted: Collection[str]) -> Collection[str]:
    """Return a superset of the *wanted* that *text* holds.

    The keywords of ASCII text stand in it letter by letter, but for capitals and apostrophes.
    """
    if not text.isascii():
        return wanted
    folded = text.lower()
    if "'" in folded:
        folded = folded.replace("'", "")
    return [keyword for keyword in wanted if keyword in folded]
