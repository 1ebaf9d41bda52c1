"""Texts as sentences hold them: on one line, numbers with their noun."""

ITEM_LENGTH = 90


def one_line(text: str, length: int = ITEM_LENGTH) -> str:
    """Return *text* on one line, cut at a word to at most *length* characters."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    return (cut.rpartition(" ")[0] or cut) + "…"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return *count* with its noun: `1 section`, `1,200 sections`; *many* is *one* with an s where it is not given."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
