"""Answers, fuzzed: searches and reads of a small index, and the rendering of any text."""

import math
import random
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from answers import DOCUMENT_HEAD, HEAD, read_texts
from markdown_it import MarkdownIt

from orchestr8_sqlite.answers.documents import Document, hand_out
from orchestr8_sqlite.answers.render import render
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS, Candidate, LookupResult, MatchRequest, Mode, Ranker, Tier
from orchestr8_sqlite.service.service import MAX_URIS, Service
from orchestr8_sqlite.settings import Settings
from orchestr8_sqlite.text.tokens import compact_json, estimate_tokens
from torture import Wrong
from torture.fuzz_inputs import (
    MARKDOWN,
    RESOURCES,
    SEPARATOR,
    Judge,
    Target,
    check_sentence,
    check_text,
    nasty_pieces,
    pick,
    require,
    shipped_files,
    take,
    uri_of,
    with_options,
)

BUDGETS = (1, 20, 50, 120, 300, 1000, 3000, 20_000)
INDEX = "index.db"
FILES = 20
"""Files of resources/ that the index is built of."""


def lay_out(folder: Path) -> None:
    """Build a small index of everything that a library may hold."""
    from nasty import STRUCTURES
    from support import build, markdown, write_files

    library = folder / "library"
    paths = [path for path in sorted(RESOURCES.rglob("*.md")) if path.name != "SKILL.md"]
    files = {str(path.relative_to(RESOURCES)): path.read_bytes() for path in paths[:: len(paths) // FILES]}
    forged = {
        f"guides/nasty/{number}.md": markdown("useWhen: [Retrying]", one) for number, one in enumerate(STRUCTURES)
    }
    write_files(library, {**files, **forged})
    skill = next(RESOURCES.rglob("SKILL.md")).parent
    shutil.copytree(skill, library / "skills" / skill.name, dirs_exist_ok=True)
    build(library, folder / INDEX)


def open_service(folder: Path) -> Service:
    """Return what answers from the index that was laid out."""
    return Service(Settings(folder / INDEX, "info", 10))


def search(folder: Path) -> Judge:
    """Ask the index anything."""
    from torture.injection import check_answer  # the others need not wait for what this imports

    service = open_service(folder)

    def judge(data: bytes) -> None:
        options, text = take(data, 5)
        query, *tags = text.split(SEPARATOR)
        raw: dict[str, object] = {
            "query": query,
            "mode": pick([mode.value for mode in Mode], options[0]),
            "ranker": pick([ranker.value for ranker in Ranker], options[1]),
            "maxTokens": pick(BUDGETS, options[2]),
            "minScore": options[3] % 30,
            "explain": options[4] % 4 == 0,
            "maxResults": 1 + options[4] % 20,
        }
        if options[3] > 200:
            raw["categories"] = pick([*CATEGORY_FOLDERS, "skills,guides"], options[4])
        if tags:
            raw["tags"] = tags
        try:
            answer = service.search(make_request(raw), whole=bool(options[0] & 8))
        except RequestError as refused:
            check_sentence(str(refused))
            return
        check_answer(answer, raw)
        if answer.content["matches"]:
            budget = make_request(raw).max_tokens
            require(estimate_tokens(compact_json(answer.content)) <= budget, "JSON beyond its budget", raw)
        check_text(answer.text)
        check_result(answer.result)

    return judge


def check_result(result: LookupResult | None) -> None:
    """Raise Wrong where the matches are not those that were asked for, best first."""
    assert result is not None
    asked, found = result.request, result.candidates
    require(len(found) <= asked.max_results and len({one.uri for one in found}) == len(found), "too many matches")
    require([one.score for one in found] == sorted((one.score for one in found), reverse=True), "not the best first")
    if asked.categories:
        require({one.category for one in found} <= set(asked.categories), "matches of other categories", asked)
    if result.confident:
        require(result.total >= len(found), "more matches than there are", result.total)
        require(all(one.score >= asked.min_score for one in found), "matches below the bound", asked)
    for one in found if asked.explain else ():
        points = sum(part.points for part in result.parts.get(one.fragment_id, ()))
        is_told = one.fragment_id in result.parts
        require(not is_told or math.isclose(points, one.score, abs_tol=0.11), "parts that do not add up", one, points)


def read(folder: Path) -> Judge:
    """Read any URI, alone and with others, and any skill."""
    service = open_service(folder)

    def judge(data: bytes) -> None:
        options, text = take(data, 2)
        uris, budget = text.split(SEPARATOR), pick((None, *BUDGETS), options[1])
        uris[0] = uri_of(options[0] >> 3, uris[0])
        try:
            if options[0] % 4 == 0:
                check_text(service.read(uris[0]).text)
            elif options[0] % 4 == 1:
                answer = service.load_skill(uris[0], uris[1:], max_tokens=budget)
                require(budget is None or estimate_tokens(answer.text) <= budget, "beyond its budget", uris, budget)
            else:
                _load(service, uris, budget, related=options[0] % 8 > 4)
        except RequestError as refused:
            for line in str(refused).split("\n"):
                check_sentence(line)
            require(str(folder) not in str(refused), "tells a path", str(refused))

    return judge


def _load(service: Service, uris: list[str], budget: int | None, *, related: bool) -> None:
    answer = service.load(uris, max_tokens=budget, related=related, shown=related)
    check_text(answer.text)
    require(budget is None or estimate_tokens(answer.text) <= budget, "beyond its budget", uris, budget)
    listed = [one["uri"] for one in answer.content["documents"]]
    asked = iter(uris)
    in_order = all(any(_stands_for(text, uri) for text in asked) for uri in listed)
    require(in_order and len(set(listed)) == len(listed), "other texts than were asked for", listed, uris)
    if budget is None and not related:
        all_given = all(any(_stands_for(text, uri) for uri in listed) for text in uris)
        require(all_given, "fewer texts than were asked for", listed, uris)
        texts = [service.read(uri) for uri in listed]
        same = [
            one["text"] == alone.text or alone.data
            for one, alone in zip(answer.content["documents"], texts, strict=True)
        ]
        require(all(same), "another text than alone", uris)


def _stands_for(text: str, uri: str) -> bool:
    """Tell whether *text* is *uri*, or its name with blanks around it."""
    return uri == text or ("://" not in text and uri.rpartition("/")[2] == text.strip())


def hand_over(_: Path) -> Judge:
    """Show texts beside each other and cut; read back they are those texts."""
    parser = MarkdownIt()

    def judge(data: bytes) -> None:
        options, text = take(data, 2)
        bodies = text.encode("utf-8", "replace").decode().replace("\r", "\n").split(SEPARATOR)[:MAX_URIS]
        budget = pick((None, *BUDGETS), options[1])
        documents = [Document(f"orchestr8://skills/{number}", body) for number, body in enumerate(bodies)]
        if options[0] % 2:
            documents = [document.followed_by(["orchestr8://skills/neighbour"]) for document in documents]
        handout = hand_out(documents, budget)
        require(budget is None or handout.fits(budget) or not handout.content["documents"], "beyond its budget", budget)
        shown = handout.content["documents"]
        if len(bodies) > 1 and shown:
            check_read_back(handout.text, [(one["uri"], one["text"]) for one in shown], DOCUMENT_HEAD)
            kinds = [token.type for token in parser.parse(handout.text) if token.level == 0]
            require(kinds.count("fence") == kinds.count("heading_open") == len(shown), "Markdown of others", kinds)
        for one, body in zip(shown, bodies, strict=False):
            check_cut(one["text"], body)
        check_full(bodies, budget or 3000)

    return judge


def check_read_back(text: str, expected: list[tuple[str, str]], head: re.Pattern[str]) -> None:
    """Raise Wrong where an answer, by its text alone, holds other texts than *expected* (URI, text)."""
    try:
        found = read_texts(text, head)
    except (AssertionError, StopIteration) as problem:
        raise Wrong(f"the answer cannot be read back ({problem}): {text!r}") from None
    require([one.uri for one in found] == [uri for uri, _ in expected], "read back as other texts", text)
    for one, (_, body) in zip(found, expected, strict=True):
        require(_unindented(one.body) == _unindented(body), "read back as another text", one.body, body)


def _unindented(text: str) -> list[str]:
    return [line.strip() if line.strip().startswith("~~~~") else line for line in text.splitlines()]


def check_cut(text: str, body: str) -> None:
    """Raise Wrong where what is left of a text has lines that it has not, or in another order."""
    lines = iter(body.split("\n"))
    kept = text.split("\n") if text else []
    require(all(any(line.rstrip() == one.rstrip() for one in lines) for line in kept), "lines of no text", text, body)


def check_full(bodies: list[str], budget: int) -> None:
    """Raise Wrong where an answer in full mode is not read back as the texts of its matches."""
    candidates = tuple(
        Candidate(number, f"orchestr8://skills/{number}", "skill", "a", "A", estimate_tokens(body), 50.0 - number, None)
        for number, body in enumerate(bodies)
    )
    request = MatchRequest("retry", Mode.FULL, max_tokens=budget)
    rendering = render(LookupResult(request, ("retry",), Tier.INDEX, candidates, len(candidates)), bodies.__getitem__)
    require(estimate_tokens(rendering.text) <= budget, "beyond its budget", budget, rendering.text)
    if not rendering.text.startswith(("## ", "[left out: ")):
        return
    shown = [(match["uri"], match["text"]) for match in rendering.content["matches"] if "text" in match]
    for uri, text in shown:
        check_cut(text, bodies[int(uri.rpartition("/")[2])])
    check_read_back(rendering.text, shown, HEAD)


def _queries() -> Iterable[str]:
    titles = [content.decode().partition("title: ")[2].partition("\n")[0] for content in shipped_files()[::5]]
    yield from (*nasty_pieces(), *titles)
    yield from (f"retry {piece}{SEPARATOR}api" for piece in nasty_pieces()[::3])


def _names() -> Iterable[bytes]:
    skill = next(RESOURCES.rglob("SKILL.md")).parent
    files = [f"skill://{skill.name}/{path.relative_to(skill)}" for path in skill.rglob("*") if path.is_file()]
    paths = sorted(RESOURCES.rglob("*.md"))[::9]
    uris = [f"orchestr8://{path.relative_to(RESOURCES).with_suffix('')}" for path in paths]
    several = [SEPARATOR.join(uris[at : at + 3]) for at in range(0, len(uris), 3)]
    whole = (*files, *uris, *several, skill.name, f"{skill.name}{SEPARATOR}*", "orchestr8://", "orchestr8://skills")
    yield from (bytes([number % 8, number % 256]) + text.encode() for number, text in enumerate(whole))
    yield from with_options(nasty_pieces(), 2)


def _bodies() -> Iterable[str]:
    from nasty import nasty_text

    yield from map(nasty_text, map(random.Random, range(40)))
    yield from (SEPARATOR.join((piece, f"# A\n{piece}\n# B\n{piece}")) for piece in nasty_pieces())
    yield from (SEPARATOR.join(one.decode()[:500] for one in shipped_files()[at : at + 2]) for at in range(0, 200, 10))


OPERATORS = (
    *(" AND ", " OR ", " NOT ", "NEAR(", "*", "^", "title:", '"', "{title}:", " -", "(", ")", SEPARATOR, "retry"),
    *("kubernetes", "postgres index", "typescript", "test", "api", "c++", "再試行", "helmm", "setUserId", "how do I "),
    *("oauth token",),
)
NAMES = (
    *("orchestr8://", "skill://", "match?query=", "&mode=full", "skills/", "agents", "SKILL.md", "scripts/", "*"),
    *(SEPARATOR,),
)
FENCES = (
    *("~~~~", "\n~~~~\n", "\u2028", "\x85", "    ", "\t", SEPARATOR, "## Skill: orchestr8://skills/0 · 50\n"),
    *("[cut: 1 section", *MARKDOWN),
)

TARGETS = (
    Target("searches", search, lambda: with_options(_queries(), 5), OPERATORS, 256, lay_out),
    Target("reads", read, _names, NAMES, 256, lay_out),
    Target("rendering", hand_over, lambda: with_options(_bodies(), 2), FENCES, 1024),
)
