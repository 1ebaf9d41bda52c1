"""The synonym files, the shipped one and those of libraries → rows (words, form, how)."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.keywords import extract_keywords
from orchestr8_sqlite.tiers.expansion import MAX_WORDS

FILE_NAME = "synonyms.txt"


def read_synonyms(roots: Sequence[Path]) -> list[tuple[str, str, str]]:
    """Return (words, form, `synonym` or `related`) of the shipped file and of each root's own, sorted.

    Raises:
        LibraryError: A line is not of the form that the shipped file describes.
    """
    texts = [(FILE_NAME, files("orchestr8_sqlite").joinpath(FILE_NAME).read_text(encoding="utf-8"))]
    for root in roots:
        path = root / FILE_NAME
        if path.is_file():
            try:
                texts.append((f"{root.name}/{FILE_NAME}", path.read_text(encoding="utf-8-sig")))
            except UnicodeDecodeError:
                raise LibraryError(f"{path} is not UTF-8; save it as UTF-8.") from None
    rows = {(words, form): how for name, text in texts for words, form, how in _parse(name, text)}
    return sorted((words, form, how) for (words, form), how in rows.items())


def _parse(name: str, text: str) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if "=" in line:
            names = [_words(part) for part in line.split("=")]
            pairs = [(one, other, "synonym") for one in names for other in names if one != other]
        else:
            left, _, right = line.partition("~")
            pairs = [(_words(left), _words(part), "related") for part in right.split(",")]
        if not pairs or not all(words and form for words, form, _ in pairs):
            raise LibraryError(f"{name}:{number}: expected 'a = b' or 'a ~ b, c', found {line.strip()!r}.")
        yield from ((words, form, how) for words, form, how in pairs if " " not in form)


def _words(text: str) -> str:
    """Return *text* as the keywords of a request: the whole of a joined word, else one to three words."""
    keywords = extract_keywords(text)
    words = text.split()
    return keywords[0] if keywords and len(words) == 1 else " ".join(keywords[:MAX_WORDS])
