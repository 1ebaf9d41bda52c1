"""What is fuzzed: code that reads bytes, inputs to begin with, and the words that its grammar has."""

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from torture import Wrong

T = TypeVar("T")

Judge = Callable[[bytes], None]
"""Hands an input to the product; raises Wrong where what comes back is not what a naive reader expects."""

RESOURCES = Path(__file__).parents[2] / "resources"
SEPARATOR = "\x1e"
"""Stands between the texts of an input that holds several."""

FIELDS = (
    *("---\n", "title: ", "description: ", "tags: ", "useWhen:\n  - ", "capabilities: ", "name: ", "version: ", "id: "),
    *("category: ", "estimatedTokens: ", "metadata:\n  ", "arguments:\n  - name: ", "required: ", "relatedSkills: "),
    *("- ", "[a, b]", "{a: b}", "&a ", "*a", "<<: ", "!!binary ", "!t ", "|\n", ">-\n", "? ", "'", '"', "\\u", "~"),
    *("1e9",),
)
"""What front matter is written with."""

MARKDOWN = (
    *("# ", "\n## ", "```\n", "~~~~\n", "\n- ", "> ", "[a](b.md)", "![", "**→ Fragment:** `a.md`", "<!-- ", "-->", "`"),
    *("| a | b |", "orchestr8://skills/retry", "## Related\n- ", "## When to use\n- ", "## Capabilities\n- "),
)


INSIDE = ("Traceback (most recent", "sqlite3.", "fts5: ", "orchestr8_sqlite")
"""What no refusal says, and hardly any input, which a refusal may quote."""


class Target(NamedTuple):
    """Code to be fuzzed.

    `prepare` is called once in the fuzzing process and returns what judges each input. `lay_out` has written to the
    folder what that needs, in another process, whose code counts nothing. `longest` is in bytes.
    """

    name: str
    prepare: Callable[[Path], Judge]
    seeds: Callable[[], Iterable[bytes]]
    words: Sequence[str]
    longest: int = 2048
    lay_out: Callable[[Path], object] = lambda _: None


def require(holds: object, what: str, *seen: object) -> None:
    """Raise Wrong, with what was seen, where what must hold does not."""
    if not holds:
        raise Wrong(" ".join([what, *(repr(one)[:300] for one in seen)]))


def pick(choices: Sequence[T], byte: int) -> T:
    """Return the choice that a byte of an input stands for."""
    return choices[byte % len(choices)]


def take(data: bytes, count: int) -> tuple[bytes, str]:
    """Return the first *count* bytes of an input, which choose options, and the text that the others are."""
    options, rest = data[:count].ljust(count, b"\0"), data[count:]
    try:
        return options, rest.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return options, rest.decode("utf-8", "replace")


BEGINNINGS = (
    *("", "orchestr8://", "orchestr8://skills/", "orchestr8://match?query=", "orchestr8://agents/match?query=a&tags="),
    *("skill://", "@srv:orchestr8://_fragments/guides/"),
)
"""What URIs begin with; what comes behind would hardly be a URI else."""


def uri_of(byte: int, text: str) -> str:
    """Return *text* behind the beginning of a URI that the byte stands for, by its highest bit percent-encoded."""
    return pick(BEGINNINGS, byte & 127) + (quote(text, safe="/", errors="replace") if byte & 128 else text)


def with_options(texts: Iterable[str], count: int) -> Iterable[bytes]:
    """Yield inputs that *texts* stand in behind *count* bytes that choose options."""
    choice = random.Random(0)
    for text in texts:
        yield choice.randbytes(count) + text.encode("utf-8", "surrogatepass")


def shipped_files() -> list[bytes]:
    """Return the Markdown files of resources/, in the order of their paths."""
    return [path.read_bytes() for path in sorted(RESOURCES.rglob("*.md"))]


def nasty_pieces() -> list[str]:
    """Return queries and texts that somebody would write to break something."""
    from nasty import NASTY, QUERIES  # whose imports the fuzzing process need not wait for

    return [*QUERIES, *NASTY]


def check_sentence(said: str) -> None:
    """Raise Wrong where what was refused is not refused in one sentence."""
    require(said.strip() and len(said.splitlines()) == 1, "refused in no sentence:", said)
    require(not any(sign in said for sign in INSIDE), "tells of its inside:", said)
    check_text(said)


def check_text(said: str) -> None:
    """Raise Wrong where a text cannot be sent."""
    require(not any("\ud800" <= one <= "\udfff" for one in said), "holds halves of pairs:", said)


def check_line(said: str, what: str) -> None:
    """Raise Wrong where a field takes more than one line."""
    require(len(said.splitlines()) <= 1, f"{what} has several lines:", said)
    check_text(said)
