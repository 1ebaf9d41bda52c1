"""What both doors, MCP and CLI, offer: search, load, and reading of any URI, as text.

A `Service` may be used from several threads: each opens the index for itself, and a replaced
index file is noticed at the next request.
"""

import difflib
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cachetools import TTLCache

from orchestr8_sqlite.catalog import Catalog, FragmentRow, PromptRow
from orchestr8_sqlite.errors import RequestError, UnknownResource
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import CATEGORY_FOLDERS, SCHEME, LookupResult, MatchRequest
from orchestr8_sqlite.prompts import fill_prompt
from orchestr8_sqlite.render import one_line, render
from orchestr8_sqlite.sections import cut_to_budget, fair_shares, shorten
from orchestr8_sqlite.settings import Settings
from orchestr8_sqlite.tokens import HEADROOM, estimate_tokens
from orchestr8_sqlite.uris import Listing, Match, Read, fragment_uri, parse_uri

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 15 * 60
LIST_TOKENS = 3000
PAGE = 500
SUGGESTIONS = 3
MAX_URIS = 20
SEPARATOR = "\n\n---\n\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of an answer and its token estimate; `result` where the answer is a search."""

    text: str
    tokens: int
    result: LookupResult | None = None


class Service:
    """Answers requests from one index file. Close it when done."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.database
        self._threads = threading.local()
        self._catalogs: list[Catalog] = []
        self._lock = threading.Lock()
        self._results: TTLCache[tuple[MatchRequest, str], LookupResult] = TTLCache(settings.cache_size, ANSWER_SECONDS)

    @property
    def catalog(self) -> Catalog:
        """Return this thread's open index, opened again where the file was replaced.

        Raises:
            CatalogError: There is no usable index at the path.
        """
        catalog: Catalog | None = getattr(self._threads, "catalog", None)
        if catalog is not None and catalog.is_current():
            return catalog
        fresh = Catalog.open(self._path)
        if catalog is not None:
            logger.info("index replaced", extra={"generation": fresh.generation})
            catalog.close()
        self._threads.catalog = fresh
        with self._lock:
            self._catalogs = [kept for kept in self._catalogs if kept is not catalog] + [fresh]
        return fresh

    def close(self) -> None:
        """Close the index in all threads; none may be using it."""
        for catalog in self._catalogs:
            catalog.close()

    def search(self, request: MatchRequest) -> Answer:
        """Return the answer to *request* in its mode, from memory where the same was asked before."""
        started = time.perf_counter()
        catalog = self.catalog
        key = request, catalog.generation
        with self._lock:
            result = self._results.get(key)
        cached = result is not None
        if result is None:
            result = find(catalog, request)
            with self._lock:
                self._results[key] = result
        text = render(result, catalog.body)
        answer = Answer(text, estimate_tokens(text), result)
        logger.info(
            "query",
            extra={
                "query": request.query,
                "tier": "cache" if cached else result.tier.value,
                "latency_ms": round((time.perf_counter() - started) * 1000, 2),
                "results": len(result.candidates),
                "tokens": answer.tokens,
            },
        )
        return answer

    def read(self, uri: str) -> Answer:
        """Return what *uri* asks for: a fragment, a search, or a list.

        Raises:
            RequestError: The URI is not acceptable.
            UnknownResource: There is no such fragment; the sentence names the nearest.
        """
        match parse_uri(uri):
            case Match(request):
                return self.search(request)
            case Listing(None):
                text = self._registry()
            case Listing(str(category)):
                text = self._category_list(category)
            case Read(path):
                text = self.catalog.body(self.fragment(path).id)
        return Answer(text, estimate_tokens(text))

    def load(self, uris: Sequence[str], *, max_tokens: int | None = None, related: bool = False) -> Answer:
        """Return the texts of several URIs, each under its URI where there is more than one.

        Args:
            max_tokens: Kept over all of them: what is too long is cut at section boundaries.
            related: Add a line with the URIs of the neighbours of each fragment.
        """
        if not 1 <= len(uris) <= MAX_URIS:
            raise RequestError(f"Give 1 to {MAX_URIS} URIs, not {len(uris)}.")
        texts = {uri: self._text(uri, related=related) for uri in uris}
        if max_tokens is not None:
            heads = sum(estimate_tokens(_head(uri)) for uri in texts) if len(texts) > 1 else 0
            sizes = [estimate_tokens(text) for text in texts.values()]
            shares = fair_shares(sizes, max_tokens / HEADROOM - heads)
            texts = {uri: _cut(uri, text, share) for (uri, text), share in zip(texts.items(), shares, strict=True)}
        text = next(iter(texts.values()))
        if len(texts) > 1:
            text = SEPARATOR.join(f"{_head(uri)}{text}" for uri, text in texts.items())
        if max_tokens is not None:
            text = shorten(text, max_tokens)
        return Answer(text, estimate_tokens(text))

    def _text(self, uri: str, *, related: bool) -> str:
        text = self.read(uri).text
        neighbours = self._neighbours(uri) if related else []
        return f"{text}\n\nRelated: {' '.join(neighbours)}" if neighbours else text

    def prompt(self, name: str, values: Mapping[str, str]) -> tuple[PromptRow, str]:
        """Return the prompt *name* and its text with *values* put in.

        Raises:
            UnknownResource: There is no such prompt; the sentence names the nearest.
            RequestError: A required argument is missing.
        """
        prompt = self.catalog.prompt(name)
        if prompt is None:
            names = [known.name for known in self.catalog.prompts(limit=PAGE)]
            nearest = difflib.get_close_matches(name, names, n=SUGGESTIONS, cutoff=0.3) or names[:SUGGESTIONS]
            raise UnknownResource(
                f"There is no prompt {one_line(repr(name), 80)}. Nearest: {', '.join(nearest) or 'none'}."
            )
        return prompt, fill_prompt(prompt, values)

    def fragment(self, path: str) -> FragmentRow:
        """Return the fragment with the id *path*.

        Raises:
            UnknownResource: There is none; the sentence names the nearest.
        """
        found = self.catalog.fragment(path)
        if found is None:
            uri = fragment_uri(path)
            similar = difflib.get_close_matches(path, self.catalog.similar_paths(path), n=SUGGESTIONS, cutoff=0.3)
            hint = " Nearest: " + ", ".join(map(fragment_uri, similar)) + "." if similar else ""
            raise UnknownResource(f"There is no {one_line(uri, 200)}.{hint} Or search: {SCHEME}://match?query=….")
        return found

    def _neighbours(self, uri: str) -> list[str]:
        target = parse_uri(uri)
        return self.catalog.neighbours(self.fragment(target.id).id) if isinstance(target, Read) else []

    def _registry(self) -> str:
        lines = ["# Registry"]
        for category, count in self.catalog.category_counts().items():
            lines.append(f"- {SCHEME}://{CATEGORY_FOLDERS[category]} ({count:,})")
        lines.append(f"Search all: {SCHEME}://match?query=… · one category: {SCHEME}://<category>/match?query=…")
        lines.append(
            "Parameters: mode=index|catalog|full, categories, tags, maxResults, maxTokens, minScore, ranker, explain"
        )
        return "\n".join(lines)

    def _category_list(self, category: str) -> str:
        folder = CATEGORY_FOLDERS[category]
        count = self.catalog.category_counts().get(category, 0)
        lines = [
            f"# {folder}: {count:,} fragments",
            f"Read: {SCHEME}://{folder}/<name> · search: {SCHEME}://{folder}/match?query=…",
        ]
        used = sum(map(estimate_tokens, lines))
        for row in self.catalog.fragments(category, limit=PAGE):
            name = row.uri.removeprefix(f"{SCHEME}://{folder}/")
            line = f"- {name} (~{row.token_estimate}): {one_line(row.title, 60)}"
            used += estimate_tokens(line) + 1
            if used > LIST_TOKENS:
                break
            lines.append(line)
        left_out = count - (len(lines) - 2)
        if left_out:
            lines.append(f"… and {left_out:,} more; search to find them.")
        return "\n".join(lines)


def _head(uri: str) -> str:
    return f"## {one_line(uri, 200)}\n"


def _cut(uri: str, text: str, share: float) -> str:
    def note(sections: int, tokens: int) -> str:
        return f"[cut: {sections} sections, ~{tokens} tokens left out; whole text: load {uri}]"

    return cut_to_budget(text, (), share, note)
