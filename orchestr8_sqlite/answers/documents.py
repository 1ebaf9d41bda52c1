"""Finds fragments by id or name, and renders documents as Markdown and JSON within one token budget."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from orchestr8_sqlite.answers.sections import Sections, cut_note, fair_shares, share_out, shorten
from orchestr8_sqlite.errors import RequestError, UnknownResource
from orchestr8_sqlite.index.catalog import Catalog, FragmentRow
from orchestr8_sqlite.index.gathering import gathered
from orchestr8_sqlite.model.parameters import storable
from orchestr8_sqlite.model.requests import SCHEME
from orchestr8_sqlite.model.uris import fragment_uri
from orchestr8_sqlite.text.fences import FENCE_TOKENS, fenced, holds_fence
from orchestr8_sqlite.text.tokens import HEADROOM, compact_json, estimate_tokens, fits, sent_tokens
from orchestr8_sqlite.text.wording import SUGGESTIONS, counted, nearest, one_line

URIS_NAMED = gathered(
    "SELECT uri FROM fragment WHERE name = :name ORDER BY uri",
    order=[1],
)

NOTE_FRAME = 5
"""Tokens around a note in JSON."""


class Document(NamedTuple):
    """A text and the URI or name it was requested by; `tail` has lines about it, which are kept when the body is cut.

    `source` says in a few tokens where the text comes from, and `unreviewed` what was found in that file and nobody has
    accepted; only the JSON includes them. `cut_off` says what a cut left out. `is_answer` is true if we wrote the text,
    rather than a library's author.
    """

    uri: str
    body: str
    tail: str = ""
    source: str = ""
    unreviewed: tuple[str, ...] = ()
    cut_off: str = ""
    is_answer: bool = False

    @property
    def note(self) -> str:
        """Return our remarks about the body, as separate paragraphs."""
        return "\n\n".join(filter(None, (self.cut_off, self.tail)))

    @property
    def text(self) -> str:
        """Return the body in a fence, followed by the note."""
        if self.is_answer and not self.body:
            return self.note
        return f"{fenced(self.body)}\n{self.note}" if self.note else fenced(self.body)

    @property
    def tokens(self) -> int:
        """Return the number of tokens of the body and the note."""
        return sent_tokens(self.body) + (sent_tokens(self.note) + NOTE_FRAME if self.note else 0)

    @property
    def head(self) -> str:
        """Return the heading that is put above the text if there are several."""
        return f"## {one_line(self.uri, 200)}\n"

    def followed_by(self, neighbours: Sequence[str]) -> "Document":
        """Return the document with a last line that names *neighbours*; unchanged if there are none."""
        return self.with_line(f"Related: {' '.join(neighbours)}") if neighbours else self

    def with_line(self, line: str) -> "Document":
        """Return the document with *line* as a further paragraph of its tail."""
        return self._replace(tail=f"{self.tail}\n\n{line}" if self.tail else line)

    def cutter(self) -> "Callable[[float], tuple[Document, float]]":
        """Return a function that cuts the document at sections to a number of tokens, and notes what is left out.

        It also returns an upper bound of the tokens used. The tail is cut to at most half of the given tokens.
        """
        sections = cache(lambda: Sections(self.body, (), cut_note(self.uri), sent_tokens))

        def cut(share: float) -> tuple[Document, float]:
            tail = shorten(self.tail, share / 2) if self.tail else ""
            used = NOTE_FRAME + (sent_tokens(tail) + 2 if tail else 0)
            whole = sent_tokens(self.body)
            if whole <= share - used:
                return self._replace(tail=tail), whole + used
            kept = sections().cut(share - used)
            return self._replace(body=kept.text, tail=tail, cut_off=kept.note), kept.tokens + used

        return cut


class Handout(NamedTuple):
    """Documents as Markdown and as JSON."""

    text: str
    content: dict[str, Any]

    def fits(self, max_tokens: int) -> bool:
        """Tell whether both forms stay within *max_tokens*."""
        return fits(self.text, max_tokens) and fits(compact_json(self.content), max_tokens)


def uri_of(catalog: Catalog, asked: str) -> str:
    """Return *asked* if it is a URI, else the URI of the only fragment with that name.

    Raises:
        UnknownResource: No fragment has the name; the message lists the nearest.
        RequestError: Several fragments have it; the message lists their URIs.
    """
    if "://" in asked:
        return asked
    name = storable(asked).strip()
    uris = [row[0] for row in catalog.rows(URIS_NAMED, {"name": name})]
    if len(uris) > 1:
        named = ", ".join(uris[:SUGGESTIONS])
        raise RequestError(f"{len(uris)} fragments are named {one_line(name)!r}; give the URI of one: {named}.")
    if not uris:
        raise UnknownResource(f"There is no {one_line(name)!r}.{_hint(catalog, name)}")
    return str(uris[0])


def find_fragment(catalog: Catalog, path: str) -> FragmentRow:
    """Return the fragment with the id *path*.

    Raises:
        UnknownResource: There is no such fragment; the message names the nearest.
    """
    found = catalog.fragment(path)
    if found is None:
        raise UnknownResource(f"There is no {one_line(fragment_uri(path), 200)}.{_hint(catalog, path)}")
    return found


def _hint(catalog: Catalog, path: str) -> str:
    """Return a hint about what to request instead of *path*."""
    similar = nearest(path, catalog.similar_paths(path))
    hint = " Nearest: " + ", ".join(map(fragment_uri, similar)) + "." if similar else ""
    return f"{hint} Or search: {SCHEME}://match?query=…."


def hand_out(documents: Sequence[Document], max_tokens: int | None) -> Handout:
    """Return *documents* in both forms, each form within *max_tokens* if a budget is given.

    Long texts are cut at section boundaries; if that is not enough, the last documents are left out. JSON needs at
    least 4 tokens, for an empty list.
    """
    if max_tokens is None:
        return _handout(documents, "")
    sizes = [document.tokens for document in documents]
    cutters = cache(lambda document: document.cutter())

    def of_first(count: int) -> Handout:
        left_out = len(documents) - count
        note = f"[left out: {counted(left_out, 'text')}; load fewer at once or raise maxTokens]" if left_out else ""
        empty = _handout([document._replace(body="", tail="") for document in documents[:count]], note)
        fences = FENCE_TOKENS * count
        frame = max(estimate_tokens(empty.text) + fences, estimate_tokens(compact_json(empty.content)))
        room = max_tokens / HEADROOM - frame
        shares = fair_shares(sizes[:count], room)
        shown = share_out(documents[:count], sizes[:count], shares, room, cutters)
        return _handout(shown, note)

    for count in (len(documents), _most(of_first, len(documents), max_tokens)):
        handout = of_first(count)
        if handout.fits(max_tokens):
            return handout
    note = shorten(handout.text, max_tokens / 2)
    short = Handout(note, {"documents": [], "note": note})
    return short if note and short.fits(max_tokens) else Handout("", {"documents": []})


def _most(of_first: Callable[[int], Handout], most: int, max_tokens: int) -> int:
    """Return how many of the first documents fit, fewer than *most*."""
    return max(0, bisect_left(range(1, most), True, key=lambda count: not of_first(count).fits(max_tokens)))


def _handout(documents: Sequence[Document], note: str) -> Handout:
    content: dict[str, Any] = {"documents": [_entry(document) for document in documents]}
    alone = len(documents) == 1 and not note  # if any was left out, name the one that is shown
    if alone and _stands_alone(documents[0]):
        return Handout(documents[0].body, content)
    parts = [document.text if alone else document.head + document.text for document in documents]
    return Handout("\n\n".join([*parts, note] if note else parts), content | ({"note": note} if note else {}))


def _entry(document: Document) -> dict[str, Any]:
    entry: dict[str, Any] = {"uri": document.uri, "text": document.body}
    said = {"note": document.note, "source": document.source, "unreviewed": [*document.unreviewed]}
    return entry | {name: value for name, value in said.items() if value}


def _stands_alone(document: Document) -> bool:
    """Tell whether a text needs no fence: we add nothing to it, and no line of it looks like our fence."""
    return not document.note and (document.is_answer or not holds_fence(document.body))
