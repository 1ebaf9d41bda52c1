"""The one JSON value that the page reads: what it shows of an index, view by view.

Fragments, roots and requests are lists, and everything else names their items by place, from 0: a `fragment` of 3 is
`fragments[3]`. Tokens are estimates. Texts are the library's own and untrusted. Optional values are `null`, never
missing; a whole view that was not asked for (`since`, `usage`) is `null`.
"""

from typing import Any, TypedDict

ShownPart = tuple[str | None, str, str, list[str], float]
"""A part of a score: word, form, how, fields, points; as `Part` in model/requests.py describes them."""

Edge = tuple[int, int, str, int]
"""A reference between fragments: from, to, kind (uri, related, link, fragment or code), line."""

Dangling = tuple[int, str, str, int]
"""A reference to what the library lacks: from, the target as written, kind, line."""


class View(TypedDict):
    """How to get the content of a view without the page: statements for `sql` and the command, if there is one."""

    id: str
    title: str
    question: str
    sql: list[str]
    command: str


class ShownLibrary(TypedDict):
    """The index as a whole.

    `least_coverage` is the share of a request, 0 to 1, that an answer must cover. `scenarios` counts all of the library
    and `asked` those of them in `requests`: a large library has a sample asked, spread evenly.
    """

    file: str
    generation: str
    schema: str
    built_by: str
    language: str
    fragments: int
    tokens: int
    scenarios: int
    asked: int
    keywords: int
    prompts: int
    least_coverage: float


class ShownRoot(TypedDict):
    """A folder or source that was read; empty texts where it has none."""

    name: str
    owner: str
    namespace: str
    location: str
    version: str


class ShownFragment(TypedDict):
    """One fragment, in the order of the URIs.

    `path` is its id (skills/retry) and `file` its file below the root. `commit` is that of the git checkout or null,
    `sha256` the digest of the file. `is_skill`: an Agent Skill. `size` is in bytes; `scenarios` counts them.
    """

    uri: str
    path: str
    category: str
    title: str
    description: str
    tags: list[str]
    tokens: int
    size: int
    scenarios: int
    version: str | None
    is_skill: bool
    root: int
    file: str
    commit: str | None
    sha256: str


class ShownAnswer(TypedDict):
    """One place in an answer, best first. The points of the parts add up to the score; `copies` share the place."""

    fragment: int
    score: float
    scenario: str | None
    copies: list[int]
    parts: list[ShownPart]


class ShownRequest(TypedDict):
    """A request of the library itself, and what the ranker answers.

    `origin` is scenario, queries (front matter) or queries.jsonl. A scenario was asked while its own line was hidden
    from the index. `expected` are the fragments that should answer; none if the request must be refused. `rank` is the
    place, from 1, of the first of these in the answer (a near-copy counts), null if it is not listed there at all.
    `is_met` tells whether the answer is as wanted: one of these comes first, or nothing fits and none is expected. If
    `confident` is false, nothing fits and `answers` are the closest. `coverage` is the share of the request, 0 to 1,
    that they cover. `read_as` maps words that were taken for typos to their correction. `uncovered` are words that are
    not in the library or not in the answers. `total` counts all fragments that match.
    """

    text: str
    terms: list[str]
    origin: str
    expected: list[int]
    rank: int | None
    is_met: bool
    confident: bool
    coverage: float
    read_as: dict[str, str]
    uncovered: list[str]
    tier: str
    total: int
    answers: list[ShownAnswer]


class LiveAnswer(TypedDict):
    """The answer to a request that was typed into a served page; its places are those of this generation.

    Its origin is live, and nothing is expected of it.
    """

    generation: str
    request: ShownRequest


class ShownPair(TypedDict):
    """Two fragments that compete, the first by URI first.

    `cosine` is that of names and descriptions, 0 unless they are nearly the same. `is_copy`: the texts are near-copies,
    so they share one place in answers. `lost` are the requests of either that the other one answers first.
    """

    first: int
    later: int
    cosine: float
    is_copy: bool
    lost: list[int]


class ShownListing(TypedDict):
    """What a client lists at one size of the model's context.

    `context` is null where the client's room does not depend on it. `room` is in what the client counts, null if there
    is no limit or none is known. `tokens` is what the listing takes of every message. `fates` has a letter for each
    fragment, in order: w whole, c cut, n name only, d dropped, m left to people by its author, - not a skill.
    """

    context: int | None
    room: int | None
    tokens: int
    fates: str


class ShownClient(TypedDict):
    """A client's rule and its listings.

    `listings` maps `skills` (the Agent Skills; missing if there are none) and `fragments` (each as if it were one) to
    the listings by growing context. `usual` is the usual context, null where it does not matter. `counts` is tokens or
    characters. If `is_known` is false, the client's rule is not known and everything counts as listed.
    """

    id: str
    title: str
    version: str
    checked: str
    sources: list[str]
    counts: str
    is_known: bool
    usual: int | None
    listings: dict[str, list[ShownListing]]


class ShownReview(TypedDict):
    """An entry of reviews.toml; its state is accepted, expired, changed or unused. `fragment` may be null."""

    root: str
    path: str
    rule: str
    reason: str
    reviewer: str
    until: str
    state: str
    fragment: int | None


class ShownFinding(TypedDict):
    """A diagnostic of the build.

    `severity` is error, warning or info. `level` is high, medium or low if it concerns trust, else null. `fragment` is
    the fragment of the file, if there is one. `review` is the place in `reviews` of the entry that accepts it.
    """

    severity: str
    level: str | None
    code: str
    root: str
    path: str
    line: int | None
    field: str | None
    message: str
    fix: str
    fragment: int | None
    review: int | None


class ShownDifference(TypedDict):
    """What came (added), went (removed) or changed; `kind` is fragment, prompt, diagnostic or review.

    `name` is a URI, a prompt's name or a diagnostic's text, `parts` what changed of it, `tokens` before and after.
    `fragment` is null unless this index has the fragment.
    """

    change: str
    kind: str
    name: str
    parts: list[str]
    tokens: tuple[int | None, int | None]
    fragment: int | None


class ChangedAnswer(TypedDict):
    """A request that the other index answers otherwise: the URI that came first there and here, null if nothing fits.

    `better` is 1 if it is met only now, -1 if it was met only there, else 0.
    """

    request: int
    before: str | None
    after: str | None
    better: int


class Since(TypedDict):
    """How this index differs from an older one, whose own requests are not asked."""

    file: str
    generation: str
    differences: list[ShownDifference]
    answers: list[ChangedAnswer]


class Inspection(TypedDict):
    """All that the page shows. `rules` maps the code of each finding to what it means. `usage` is as `usage --json`.

    If `is_asked` is false, the library has not been asked its own requests: `requests` is empty, and `pairs` lacks
    those that lose requests to each other.
    """

    is_asked: bool
    views: list[View]
    library: ShownLibrary
    roots: list[ShownRoot]
    fragments: list[ShownFragment]
    requests: list[ShownRequest]
    pairs: list[ShownPair]
    clients: list[ShownClient]
    edges: list[Edge]
    dangling: list[Dangling]
    findings: list[ShownFinding]
    rules: dict[str, str]
    reviews: list[ShownReview]
    since: Since | None
    usage: dict[str, Any] | None
