"""What both MCP and CLI offer: search, load, prompts, and reading any URI.

You can use a `Service` from several threads. Each request reads one version of the index from start to end; the next
request notices a replaced file. Modules that a search does not need are imported on first use.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from orchestr8_sqlite.answers.render import count_tokens, render
from orchestr8_sqlite.errors import CatalogError, RequestError, UnknownResource
from orchestr8_sqlite.index.catalog import Catalog, FragmentRow
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Mode
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.service.memory import Memory
from orchestr8_sqlite.service.snapshots import Snapshots, edition_of
from orchestr8_sqlite.settings import Settings
from orchestr8_sqlite.text.tokens import estimate_tokens
from orchestr8_sqlite.text.wording import counted, one_line

if TYPE_CHECKING:
    from orchestr8_sqlite.answers.documents import Document
    from orchestr8_sqlite.answers.prompts import PromptRow
    from orchestr8_sqlite.answers.provenance import Source

ANSWER_SECONDS = 15 * 60
"""Seconds to keep a finished answer. Source: shared/DESIGN.md, section 6."""

MARKDOWN = "text/markdown"
PARTIAL_TOKENS = 40
"""Tokens of what is said of an answer that lacks a shard, in the larger form."""

MAX_URIS = 20

P = ParamSpec("P")
R = TypeVar("R")


class Answer(NamedTuple):
    """The text of an answer and its token estimate.

    `content` is the same answer as JSON, for tools. `result` is set for a search. A binary file has `data` and no text.
    `sources` say where the texts come from. `loaded` has the URIs of the fragments among them.
    """

    text: str
    tokens: int
    result: LookupResult | None = None
    content: Mapping[str, Any] = MappingProxyType({})
    mime_type: str = MARKDOWN
    data: bytes | None = None
    sources: "tuple[Source, ...]" = ()
    loaded: tuple[str, ...] = ()


def _request(method: Callable[Concatenate["Service", P], R]) -> Callable[Concatenate["Service", P], R]:
    """Return *method* wrapped to run as a request, or as part of the request that calls it."""

    @wraps(method)
    def answered(self: "Service", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.snapshots.snapshot():
            try:
                return method(self, *args, **kwargs)
            except UnknownResource as problem:
                if not self.catalog.missing:
                    raise
                said = _partial(self.catalog)
                raise CatalogError(f"{said} So it is not known whether this is right: {problem}") from None

    return answered


class Service:
    """Answers requests from one index file. Close it when done."""

    def __init__(self, settings: Settings) -> None:
        self.place = settings.database
        self.cache_size = settings.cache_size
        self._answers: Memory[Answer] = Memory(settings.cache_size, ANSWER_SECONDS)
        self._forgetting: list[Callable[[], None]] = [self._answers.forget]
        self.snapshots = Snapshots(settings.database, self._forget, settings.denied)

    @property
    def catalog(self) -> Catalog:
        """Return the version of the index that the current request reads.

        Raises:
            CatalogError: There is no usable index at the path.
        """
        return self.snapshots.catalog

    def when_replaced(self, forget: Callable[[], None]) -> None:
        """Call *forget*, from any thread, whenever the index turns out to have been replaced."""
        self._forgetting.append(forget)

    def close(self) -> None:
        """Close the index; no request may be running."""
        self.snapshots.close()

    @_request
    def generation(self) -> str:
        """Return the generation of the current index.

        Raises:
            CatalogError: There is no usable index at the path.
        """
        return self.catalog.generation

    @_request
    def search(self, request: MatchRequest, *, whole: bool = False) -> Answer:
        """Return the answer to *request* in its mode, from the cache if the same was asked before.

        Args:
            whole: Whether `result` also has the details of each match that the mode's text leaves out.
        """
        described = whole or request.mode is Mode.CATALOG

        def answer(catalog: Catalog) -> Answer:
            result = find(catalog, request, lists=described, scenarios=described)
            rendering = render(_with_room(result, catalog), catalog.body)
            text, content = _say_partial(rendering.text, rendering.content, catalog)
            return Answer(text, count_tokens(text), result, content)

        return self._kept((request, described), answer)

    @_request
    def read(self, uri: str) -> Answer:
        """Return what *uri* asks for: a fragment, a search, a list, or a file of a skill.

        Raises:
            RequestError: The URI is not acceptable.
            UnknownResource: There is no such fragment; the message names the nearest.
        """
        from orchestr8_sqlite.answers.bundles import file_below
        from orchestr8_sqlite.answers.documents import find_fragment
        from orchestr8_sqlite.answers.listings import category_list, registry
        from orchestr8_sqlite.answers.skill_files import is_skill_uri, read_skill_file
        from orchestr8_sqlite.model.uris import Listing, Match, Read, parse_uri

        if is_skill_uri(uri):
            file = read_skill_file(self.catalog, uri)
            return _file_answer(file.uri, file.content)._replace(loaded=self._fragments_at([uri]))
        target = parse_uri(uri)
        if isinstance(target, Match):
            return self.search(target.request)
        catalog = self.catalog
        loaded: tuple[str, ...] = ()
        match target:
            case Listing(None):
                text = registry(catalog)
            case Listing(str(category)):
                text = category_list(catalog, category)
            case Read(path):
                fragment = catalog.fragment(path)
                if fragment is None and (content := file_below(catalog, path)) is not None:
                    return _file_answer(path, content)
                fragment = fragment or find_fragment(catalog, path)
                text, loaded = catalog.body(fragment.id), (fragment.uri,)
        return Answer(text, estimate_tokens(text), loaded=loaded)

    @_request
    def load(
        self,
        uris: Sequence[str],
        *,
        files: Sequence[str] = (),
        max_tokens: int | None = None,
        related: bool = False,
        shown: bool = False,
    ) -> Answer:
        """Return the texts at *uris*, each below its URI if there are several.

        An Agent Skill comes with the list of its files. The entry of a URI that cannot be loaded says why.

        Args:
            files: Paths of files of the skill, if *uris* is a single one; `*` for all.
            max_tokens: Budget for all texts together; long ones are cut at section boundaries.
            related: Add a line with the URIs of each fragment's neighbours.
            shown: Add a line that says where each text comes from.

        Raises:
            RequestError: None of the URIs can be loaded; the message has a line for each.
        """
        from orchestr8_sqlite.answers.documents import hand_out
        from orchestr8_sqlite.answers.provenance import trace

        if not 1 <= len(uris) <= MAX_URIS:
            raise RequestError(f"Give 1 to {MAX_URIS} URIs, not {len(uris)}.")
        if files and len(uris) != 1:
            raise RequestError("'files' are those of one skill; load it alone.")
        documents, sources = trace(self.catalog, self._documents(uris, files), shown=shown)
        if related:
            documents = [one if one.is_answer else one.followed_by(self._neighbours(one.uri)) for one in documents]
        handout = hand_out(documents, max_tokens)
        given = documents[: len(handout.content["documents"])]
        loaded = self._fragments_at(one.uri for one in given if not one.is_answer)
        tokens = estimate_tokens(handout.text)
        return Answer(handout.text, tokens, content=handout.content, sources=sources, loaded=loaded)

    @_request
    def search_skills(self, request: MatchRequest) -> Answer:
        """Return the Agent Skills that answer *request*, best first, with their names and descriptions."""
        from orchestr8_sqlite.answers.bundles import list_skills

        def answer(catalog: Catalog) -> Answer:
            result = find(catalog, request)
            text, content = _say_partial(*list_skills(catalog, _with_room(result, catalog)), catalog)
            return Answer(text, estimate_tokens(text), result, content)

        return self._kept(("skills", request), answer)

    @_request
    def load_skill(self, name: str, files: Sequence[str] = (), *, max_tokens: int | None = None) -> Answer:
        """Return the instructions of the skill *name*, the list of its files, and the texts of those in *files*.

        Args:
            files: Paths as in the list, `*` for all; for binary files only the URI is given.
            max_tokens: Budget for all texts together.

        Raises:
            UnknownResource: There is no such skill; the message names the nearest.
            RequestError: Several skills have the name, or the skill has no such file.
        """
        from orchestr8_sqlite.answers.bundles import documents_of, find_bundle
        from orchestr8_sqlite.answers.documents import hand_out
        from orchestr8_sqlite.answers.provenance import trace

        catalog = self.catalog
        bundle = find_bundle(catalog, name)
        documents, _ = trace(catalog, documents_of(catalog, bundle, files))
        handout = hand_out(documents, max_tokens)
        loaded = (bundle.skill.uri,)
        return Answer(handout.text, estimate_tokens(handout.text), content=handout.content, loaded=loaded)

    @_request
    def suggest(self, prompt: str) -> tuple[str, ...]:
        """Return a line for each fragment that *prompt* is surely about, two at most; none for most prompts."""
        from orchestr8_sqlite.answers.suggestions import suggestion_line
        from orchestr8_sqlite.ranking.suggestion import find_suggestions

        return tuple(map(suggestion_line, find_suggestions(self.catalog, prompt)))

    @_request
    def prompt(self, name: str, values: Mapping[str, str]) -> "tuple[PromptRow, str]":
        """Return the prompt *name* and its text, filled with *values*.

        Raises:
            UnknownResource: There is no such prompt; the message names the nearest.
            RequestError: A required argument is missing.
        """
        from orchestr8_sqlite.answers.prompts import fill_prompt, find_prompt

        prompt = find_prompt(self.catalog, name)
        return prompt, fill_prompt(prompt, values)

    def _forget(self) -> None:
        for forget in self._forgetting:
            forget()

    def _documents(self, asked: Sequence[str], files: Sequence[str]) -> "list[Document]":
        """Return the texts at the distinct URIs and names in *asked*, or why one cannot be loaded."""
        from orchestr8_sqlite.answers.documents import Document, uri_of

        documents: dict[str, list[Document]] = {}
        problems: list[RequestError] = []
        for name in dict.fromkeys(asked):
            uri = name
            try:
                uri = uri_of(self.catalog, name)
                if uri not in documents:
                    documents[uri] = self._texts_at(uri, files)
            except RequestError as problem:
                problems.append(problem)
                documents[uri] = [Document(uri, "", f"Not loaded: {problem}", is_answer=True)]
        if len(problems) == len(documents):
            raise problems[0] if len(problems) == 1 else RequestError("\n".join(map(str, problems)))
        return [text for texts in documents.values() for text in texts]

    def _texts_at(self, uri: str, files: Sequence[str]) -> "list[Document]":
        """Return the text at *uri*; for an Agent Skill, also the list of its files and those in *files*."""
        from orchestr8_sqlite.answers.bundles import bundle_at, documents_of
        from orchestr8_sqlite.answers.documents import Document

        bundle = bundle_at(self.catalog, uri)
        if bundle is not None:
            return documents_of(self.catalog, bundle, files)
        if files:
            raise RequestError(f"{one_line(uri, 200)} is not an Agent Skill and has no files; leave 'files' out.")
        answer = self.read(uri)
        return [Document(uri, _whole_text(uri, answer), is_answer=answer.result is not None)]

    def _neighbours(self, uri: str) -> list[str]:
        from orchestr8_sqlite.answers.skill_files import is_skill_uri

        fragment = None if is_skill_uri(uri) else self._fragment_at(uri)
        return self.catalog.neighbours(fragment.id) if fragment else []

    def _fragments_at(self, uris: Iterable[str]) -> tuple[str, ...]:
        """Return the URIs, as the index has them, of those of *uris* that are fragments."""
        found = (self._fragment_at(uri) for uri in uris)
        return tuple(dict.fromkeys(fragment.uri for fragment in found if fragment))

    def _fragment_at(self, uri: str) -> FragmentRow | None:
        from orchestr8_sqlite.answers.skill_files import fragment_of, is_skill_uri
        from orchestr8_sqlite.model.uris import Read, parse_uri

        if is_skill_uri(uri):
            path = fragment_of(self.catalog, uri)
        else:
            path = target.id if isinstance(target := parse_uri(uri), Read) else None
        return None if path is None else self.catalog.fragment(path)

    def _kept(self, key: Hashable, make: Callable[[Catalog], Answer]) -> Answer:
        """Return the cached answer for *key* and this version of the index, or make it now."""
        catalog = self.catalog
        whole = edition_of(catalog), key
        kept = self._answers.recall(whole)
        if kept is not None:
            return kept
        answer = make(catalog)
        return answer if catalog.missing else self._answers.remember(whole, answer)


def _partial(catalog: Catalog) -> str:
    """Return a sentence about the shards that have not answered."""
    return f"Partial: {counted(len(catalog.missing), 'database')} of the library did not answer."


def _with_room(result: LookupResult, catalog: Catalog) -> LookupResult:
    """Return *result* for an answer with room for that sentence, if there is need for it."""
    if not catalog.missing:
        return result
    request = result.request
    return result._replace(request=request._replace(max_tokens=max(1, request.max_tokens - PARTIAL_TOKENS)))


def _say_partial(text: str, content: Mapping[str, Any], catalog: Catalog) -> tuple[str, Mapping[str, Any]]:
    """Return an answer in both forms, with that sentence if there is need for it."""
    if not catalog.missing:
        return text, content
    said = _partial(catalog)
    return f"{said}\n{text}", {**content, "note": " ".join(filter(None, (said, content.get("note"))))}


def _file_answer(path: str, content: bytes) -> Answer:
    from orchestr8_sqlite.answers.mediatypes import as_text, served_type

    text = as_text(content)
    mime_type = served_type(path, text)
    if text is None:
        return Answer("", 0, mime_type=mime_type, data=content)
    return Answer(text, estimate_tokens(text), mime_type=mime_type)


def _whole_text(uri: str, answer: Answer) -> str:
    if answer.data is None:
        return answer.text
    return (
        f"[{answer.mime_type}, {counted(len(answer.data), 'byte')}: no text; read {one_line(uri, 200)} as a resource]"
    )
