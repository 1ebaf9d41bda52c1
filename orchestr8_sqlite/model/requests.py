"""The records that flow from a request to its answer.

All are immutable: a stage makes new records and never edits those of the stage before.
"""

from collections.abc import Mapping
from enum import StrEnum
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

AGENT_SKILL = "agent-skill"
"""In a category filter, stands for the fragments with a SKILL.md, whatever their category."""


class Mode(StrEnum):
    """How much an answer says about each match."""

    INDEX = "index"
    CATALOG = "catalog"
    FULL = "full"


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


DEFAULT_TOKENS = 3000
"""Default budget of an answer, in tokens."""

DEFAULT_SCORE = 10.0
"""Default score that a match must reach."""


class MatchRequest(NamedTuple):
    """A validated request; only `parameters.make_request` makes one from outside input."""

    query: str
    mode: Mode = Mode.CATALOG
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    max_results: int = 15
    max_tokens: int = DEFAULT_TOKENS
    min_score: float = DEFAULT_SCORE
    ranker: Ranker = Ranker.DEFAULT
    explain: bool = False
    agent_skills: bool = False
    terms: tuple[str, ...] = ()
    """Names under which an expert would look this up, supplied by the caller."""

    @property
    def is_filtered(self) -> bool:
        """Tell whether only some fragments may answer; `agent_skills` admits those with a SKILL.md."""
        return bool(self.categories or self.tags or self.agent_skills)


class Candidate(NamedTuple):
    """One fragment that answers a request, with the evidence that matched best.

    `copies` are the URIs of its near-copies, which have no place of their own in the answer.
    """

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
    copies: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Return the URI without its scheme: the document's name for people and in files."""
        return self.uri.removeprefix(f"{SCHEME}://")


class Part(NamedTuple):
    """One part of a score: `points` for a `word` of the request that matched as `form` in `fields`.

    `how` is exact, stem (another inflection), typo, joined, synonym, related, term (`word` is from a term that the
    caller added) or part (of a word). Three more have no `word`: `name`, for the share of the name that matched,
    `learnt`, for what the best answers have in common, and `focus`, for how much of the fragment is met.
    """

    word: str | None
    form: str
    how: str
    fields: tuple[str, ...]
    points: float


class Statement(NamedTuple):
    """One SQL statement as it ran, with its parameters by name."""

    sql: str
    parameters: Mapping[str, object]


class LookupResult(NamedTuple):
    """The answer to a request before it becomes text: candidates, best first, and how they were found.

    `total` counts all fragments that match under the request's filters, listed or not, each near-copy too.
    If `confident` is false, nothing fits: the candidates are the closest, and cover only the share `coverage` of the
    request.
    `read_as` maps each word that was taken for a typo to its correction. `uncovered` has the words that the index does
    not know, those of the terms if there are any, or, if nothing fits, those that the candidates do not cover;
    `nearest_tags` are similar tags that the index has.
    `parts` explains each candidate's score, by fragment, if the request asks for it.
    `language` is the library's language, if the library does not know half of the request's words.
    `statements` are the SQL statements that ran, first the one that found the candidates.
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
    language: str = ""
    parts: Mapping[int, tuple[Part, ...]] = MappingProxyType({})
    statements: tuple[Statement, ...] = ()
