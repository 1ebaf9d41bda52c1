"""Documents: a fragment by its id, and texts handed out together, as Markdown and JSON, within one token budget."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from orchestr8_sqlite.answers.sections import Sections, cut_note, fair_shares, share_out, shorten
from orchestr8_sqlite.errors import RequestError, UnknownResource
from orchestr8_sqlite.index.catalog import Catalog, FragmentRow
from orchestr8_sqlite.model.parameters import storable
from orchestr8_sqlite.model.requests import SCHEME
from orchestr8_sqlite.model.uris import fragment_uri
from orchestr8_sqlite.text.fences import FENCE_TOKENS, fenced, holds_fence
from orchestr8_sqlite.text.tokens import HEADROOM, compact_json, estimate_tokens, fits, sent_tokens
from orchestr8_sqlite.text.wording import SUGGESTIONS, counted, nearest, one_line

URIS_NAMED = "SELECT uri FROM fragment WHERE name = :name ORDER BY uri"

NOTE_FRAME = 5
"""Tokens around a note in JSON."""


class Document(NamedTuple):
    """A text under the URI or name it was asked by; `tail` are lines about it, which outlast a cut.

    `source` says in a few tokens where it comes from; the JSON tells it, the text does not. `cut_off` says what a cut
    left out. `is_answer` tells whether the text is an answer of ours, no text of a library.
    """

    uri: str
    body: str
    tail: str = ""
    source: str = ""
    cut_off: str = ""
    is_answer: bool = False

    @property
    def note(self) -> str:
        """Return what is said of the body, as paragraphs of their own."""
        return "\n\n".join(filter(None, (self.cut_off, self.tail)))

    @property
    def text(self) -> str:
        """Return the body in a fence, and what is said of it."""
        if self.is_answer and not self.body:
            return self.note
        return f"{fenced(self.body)}\n{self.note}" if self.note else fenced(self.body)

    @property
    def tokens(self) -> int:
        """Return how many tokens the body has, and what is said of it."""
        return sent_tokens(self.body) + (sent_tokens(self.note) + NOTE_FRAME if self.note else 0)

    @property
    def head(self) -> str:
        """Return the line above the text where it stands among others."""
        return f"## {one_line(self.uri, 200)}\n"

    def followed_by(self, neighbours: Sequence[str]) -> "Document":
        """Return the document with a last line that names *neighbours*; itself where there are none."""
        return self.with_line(f"Related: {' '.join(neighbours)}") if neighbours else self

    def with_line(self, line: str) -> "Document":
        """Return the document with *line* as a further paragraph of its tail."""
        return self._replace(tail=f"{self.tail}\n\n{line}" if self.tail else line)

    def cutter(self) -> "Callable[[float], tuple[Document, float]]":
        """Return what cuts the document at sections to so many tokens, with a line that says what is left out.

        It tells the most tokens that are left. The tail is cut to at most half of them.
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
    """Documents in both forms."""

    text: str
    content: dict[str, Any]

    def fits(self, max_tokens: int) -> bool:
        """Tell whether both forms keep a promise of *max_tokens*."""
        return fits(self.text, max_tokens) and fits(compact_json(self.content), max_tokens)


def uri_of(catalog: Catalog, asked: str) -> str:
    """Return the URI that *asked* is, or that of the only fragment with that name.

    Raises:
        UnknownResource: No fragment has the name; the sentence lists the nearest.
        RequestError: Several have it; the sentence lists their URIs.
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
        UnknownResource: There is none; the sentence names the nearest.
    """
    found = catalog.fragment(path)
    if found is None:
        raise UnknownResource(f"There is no {one_line(fragment_uri(path), 200)}.{_hint(catalog, path)}")
    return found


def _hint(catalog: Catalog, path: str) -> str:
    """Return what to ask for instead of *path*."""
    similar = nearest(path, catalog.similar_paths(path))
    hint = " Nearest: " + ", ".join(map(fragment_uri, similar)) + "." if similar else ""
    return f"{hint} Or search: {SCHEME}://match?query=…."


def hand_out(documents: Sequence[Document], max_tokens: int | None) -> Handout:
    """Return *documents* in both forms, each within *max_tokens* where a budget is given.

    What is too long is cut at section boundaries; where even that is too much, the last documents are left out. The
    least that JSON takes are 4 tokens, for a list of none.
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
    """Return for how many of the documents at most, none of *most* itself, there is room."""
    return max(0, bisect_left(range(1, most), True, key=lambda count: not of_first(count).fits(max_tokens)))


def _handout(documents: Sequence[Document], note: str) -> Handout:
    content: dict[str, Any] = {"documents": [_entry(document) for document in documents]}
    alone = len(documents) == 1 and not note  # what was left out could be any other
    if alone and _stands_alone(documents[0]):
        return Handout(documents[0].body, content)
    parts = [document.text if alone else document.head + document.text for document in documents]
    return Handout("\n\n".join([*parts, note] if note else parts), content | ({"note": note} if note else {}))


def _entry(document: Document) -> dict[str, str]:
    entry = {"uri": document.uri, "text": document.body}
    said = {"note": document.note, "source": document.source}
    return entry | {name: text for name, text in said.items() if text}


def _stands_alone(document: Document) -> bool:
    """Tell whether a text needs no fence: nothing of ours is beside it, nor anything in it that looks so."""
    return not document.note and (document.is_answer or not holds_fence(document.body))
