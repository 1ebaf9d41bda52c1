"""The records that flow from a request to its answer.

None can be changed: a stage makes new records, it never edits those of the stage before.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

SCHEME = "orchestr8"

CATEGORY_FOLDERS = {
    "agent": "agents",
    "skill": "skills",
    "example": "examples",
    "pattern": "patterns",
    "guide": "guides",
    "workflow": "workflows",
    "best-practice": "best-practices",
}
"""Category → folder name, which is also the first segment of a URI."""

CATEGORIES = {folder: category for category, folder in CATEGORY_FOLDERS.items()}


class Mode(StrEnum):
    """How much an answer says about each match."""

    INDEX = "index"
    CATALOG = "catalog"
    FULL = "full"


COUNTED = 1_000
"""Matches are counted up to here; this many means that many or more."""


class Ranker(StrEnum):
    """Which rules order the matches."""

    DEFAULT = "default"
    CLASSIC = "classic"


class Tier(StrEnum):
    """Which stage of the lookup produced an answer."""

    QUICK = "quick"
    INDEX = "index"
    FUZZY = "fuzzy"


class PromptArgument(NamedTuple):
    """One argument that a prompt asks its user for."""

    name: str
    description: str
    required: bool


class MatchRequest(NamedTuple):
    """A validated question; `parameters.make_request` is the only place that makes one from outside input."""

    query: str
    mode: Mode = Mode.CATALOG
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    max_results: int = 15
    max_tokens: int = 3000
    min_score: float = 10.0
    ranker: Ranker = Ranker.DEFAULT
    explain: bool = False
    agent_skills: bool = False

    @property
    def is_filtered(self) -> bool:
        """Tell whether only some of the fragments may answer; `agent_skills` admits folders with a SKILL.md alone."""
        return bool(self.categories or self.tags or self.agent_skills)


class Candidate(NamedTuple):
    """One fragment that answers a request, with the evidence that matched best."""

    fragment_id: int
    uri: str
    category: str
    name: str
    title: str
    token_estimate: int
    score: float
    scenario: str | None
    tags: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Return the URI without its scheme, as people and files name a document."""
        return self.uri.removeprefix(f"{SCHEME}://")


class Part(NamedTuple):
    """One part of a score: `points` for a `word` of the request, met by the `form` that stands in `fields`.

    `how` says as what: exact (inflected or not), typo, joined, synonym, related, part of a word. The share of the
    name (`name`) and what the best answers have in common (`learnt`) belong to no single word.
    """

    word: str | None
    form: str
    how: str
    fields: tuple[str, ...]
    points: float


class Statement:
    """One SQL statement that finds what an answer lists; its parameters are made when somebody asks for them."""

    def __init__(self, sql: str, make_parameters: Callable[[], Mapping[str, object]]) -> None:
        self.sql = sql
        self._make_parameters = make_parameters

    @cached_property
    def parameters(self) -> Mapping[str, object]:
        """Return what the statement is run with."""
        return self._make_parameters()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statement) and (self.sql, self.parameters) == (other.sql, other.parameters)

    def __hash__(self) -> int:
        return hash(self.sql)


class LookupResult(NamedTuple):
    """The answer to a request before it becomes text: candidates best first, and how they were found.

    `total` counts the fragments that match under the request's filters, listed or not, up to COUNTED.
    Where `confident` is false nothing fits: the candidates are the closest there is, and cover only the share
    `coverage` of the request.
    `read_as` maps words that were taken for typos to what they were read as. `uncovered` holds the words that the
    index does not know or, where nothing fits, that the candidates do not cover; `nearest_tags` is what the index
    knows instead. `parts` explains the score of each candidate by its fragment, where the request asks for it.
    `statement` finds the same candidates.
    """

    request: MatchRequest
    keywords: tuple[str, ...]
    tier: Tier
    candidates: tuple[Candidate, ...]
    total: int
    uncovered: tuple[str, ...] = ()
    nearest_tags: tuple[str, ...] = ()
    read_as: Mapping[str, str] = MappingProxyType({})
    confident: bool = True
    coverage: float = 1.0
    parts: Mapping[int, tuple[Part, ...]] = MappingProxyType({})
    statement: Statement | None = None

    @property
    def counted_total(self) -> str:
        """Return the total as answers print it."""
        return f"{self.total}+" if self.total >= COUNTED else str(self.total)
