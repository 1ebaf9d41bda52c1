"""Collects what the page shows, from the documented tables and views and from the rooms that measure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestr8_sqlite.budget.listing import Fate, Skill, list_skills
from orchestr8_sqlite.budget.rules import Overflow, Rule, read_rules
from orchestr8_sqlite.budget.skills import read_skills
from orchestr8_sqlite.evaluation.overlaps import find_alike
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.diff import differences
from orchestr8_sqlite.inspection.asking import SCENARIO, Asked, ask_all, read_questions
from orchestr8_sqlite.inspection.data import (
    ChangedAnswer,
    Dangling,
    Edge,
    Inspection,
    ShownClient,
    ShownFinding,
    ShownFragment,
    ShownLibrary,
    ShownListing,
    ShownPair,
    ShownRequest,
    ShownReview,
    ShownRoot,
    Since,
)
from orchestr8_sqlite.inspection.views import VIEWS
from orchestr8_sqlite.library.rules import SAID
from orchestr8_sqlite.usage.logs import read_logs
from orchestr8_sqlite.usage.report import facts_of, report_of

CONTEXTS = (32_000, 64_000, 128_000, 200_000, 272_000, 400_000, 1_000_000, 2_000_000)
"""Sizes of a context, in tokens, for which the listings of clients are made; the client's usual one is added."""

LETTERS = {Fate.WHOLE: "w", Fate.CUT: "c", Fate.NAME: "n", Fate.DROPPED: "d"}
MANUAL, NO_SKILL = "m", "-"

ROOTS = "SELECT name, owner, namespace, location, version FROM root ORDER BY ordinal"
FRAGMENTS = """
SELECT f.uri, f.path, f.category, f.title, f.description, f.token_estimate, f.size, f.version,
       (SELECT count(*) FROM scenario s WHERE s.fragment_id = f.id),
       EXISTS (SELECT 1 FROM skill_file b WHERE b.path = 'SKILL.md' AND b.fragment_id = f.id),
       p.root, p.path, p.git_commit, p.sha256
  FROM fragment f JOIN provenance p ON p.uri = f.uri ORDER BY f.uri
"""
TAGS = "SELECT f.uri, t.tag FROM tag t JOIN fragment f ON f.id = t.fragment_id ORDER BY t.fragment_id, t.ordinal"
NAMES = "SELECT path, name, description FROM fragment ORDER BY uri"
COPIES = """
SELECT f.uri, o.uri FROM near_copy a JOIN near_copy b ON b.first_id = a.first_id
  JOIN fragment f ON f.id = a.fragment_id JOIN fragment o ON o.id = b.fragment_id WHERE f.uri < o.uri ORDER BY 1, 2
"""
REFERENCES = "SELECT from_uri, to_uri, target, kind, line FROM reference_detail ORDER BY from_uri, ordinal"
TRUST = "SELECT DISTINCT code FROM finding"
DIAGNOSTICS = """
SELECT severity, code, root, path, line, field, message, fix FROM diagnostic
 ORDER BY CASE severity WHEN 'error' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, code, root, path, line, id
"""
REVIEWS = "SELECT root, path, rule, reason, reviewer, until, state FROM review ORDER BY root, path, rule"
FILES = """
SELECT s.root, s.path, f.uri
  FROM skill_file b JOIN source s ON s.id = b.source_id JOIN fragment f ON f.id = b.fragment_id
 UNION ALL
SELECT s.root, s.path, f.uri FROM fragment f JOIN source s ON s.id = f.source_id
"""
"""Files that a fragment is read from or that belong to its skill; of a file that is both, the fragment comes last."""

URIS = "SELECT uri FROM fragment ORDER BY uri"
LEVELS = {"error": "high", "warning": "medium", "info": "low"}


def inspect(path: Path, *, since: Path | None = None, logs: Sequence[Path] = (), is_asked: bool = True) -> Inspection:
    """Return what the page shows of the index at *path*.

    Args:
        is_asked: Whether to ask the library its own requests, which takes most of the time.
        since: An older index to compare it with.
        logs: Log files of servers, as `usage` reads them.

    Raises:
        CatalogError: An index is missing or not usable.
        RequestError: A log is not one in JSON.
    """
    with Catalog.open(path) as catalog:
        places = {uri: place for place, (uri,) in enumerate(catalog.rows(URIS))}
        usage = _read_usage(logs, places) if logs else None
        asked = ask_all(catalog, read_questions(catalog), since) if is_asked else []
        requests = [request for request, _ in asked]
        roots = _read_roots(catalog)
        reviews, findings = _read_findings(catalog, places)
        edges, dangling = _read_references(catalog, places)
        return {
            "is_asked": is_asked,
            "views": VIEWS,
            "library": _read_library(catalog, requests),
            "roots": roots,
            "fragments": _read_fragments(catalog, [root["name"] for root in roots]),
            "requests": requests,
            "pairs": _find_pairs(catalog, places, requests),
            "clients": [_read_client(rule, catalog, places) for rule in read_rules().values()],
            "edges": edges,
            "dangling": dangling,
            "findings": findings,
            "rules": {code: SAID[code] for code in sorted({one["code"] for one in findings}) if code in SAID},
            "reviews": reviews,
            "since": _compare(since, catalog, places, asked) if since else None,
            "usage": usage,
        }


def _read_library(catalog: Catalog, requests: Sequence[ShownRequest]) -> ShownLibrary:
    meta = catalog.meta
    (tokens,) = catalog.rows("SELECT coalesce(sum(token_estimate), 0) FROM fragment")[0]
    return {
        "file": catalog.path.name,
        "generation": catalog.generation,
        "schema": meta["schema_version"],
        "built_by": meta["built_by"],
        "language": catalog.language,
        "fragments": catalog.size,
        "tokens": tokens,
        "scenarios": int(meta["scenarios"]),
        "asked": sum(request["origin"] == SCENARIO for request in requests),
        "keywords": int(meta["keywords"]),
        "prompts": int(meta["prompts"]),
        "least_coverage": catalog.least_coverage,
    }


def _read_roots(catalog: Catalog) -> list[ShownRoot]:
    return [
        {"name": name, "owner": owner, "namespace": namespace, "location": location, "version": version}
        for name, owner, namespace, location, version in catalog.rows(ROOTS)
    ]


def _read_fragments(catalog: Catalog, roots: Sequence[str]) -> list[ShownFragment]:
    tags: dict[str, list[str]] = defaultdict(list)
    for uri, tag in catalog.rows(TAGS):
        tags[uri].append(tag)
    rows = catalog.rows(FRAGMENTS)
    return [
        {
            "uri": uri,
            "path": path,
            "category": category,
            "title": title,
            "description": description,
            "tags": tags[uri],
            "tokens": tokens,
            "size": size,
            "scenarios": scenarios,
            "version": version,
            "is_skill": bool(is_skill),
            "root": roots.index(source[0]),
            "file": source[1],
            "commit": source[2],
            "sha256": source[3],
        }
        for uri, path, category, title, description, tokens, size, version, scenarios, is_skill, *source in rows
    ]


def _find_pairs(catalog: Catalog, places: Mapping[str, int], requests: Sequence[ShownRequest]) -> list[ShownPair]:
    """Return the pairs that `lint --overlap` names, and near-copies; those described most alike come first."""
    names = catalog.rows(NAMES)
    by_path = {path: place for place, (path, *_) in enumerate(names)}
    cosines = {(by_path[one.first], by_path[one.later]): one.cosine for one in find_alike(names)}
    copies = {(places[first], places[later]) for first, later in catalog.rows(COPIES)}
    lost = _lost(requests)
    mutual = {(one, other) for one, other in lost if one < other and (other, one) in lost}
    pairs: list[ShownPair] = [
        {
            "first": first,
            "later": later,
            "cosine": cosines.get((first, later), 0.0),
            "is_copy": (first, later) in copies,
            "lost": sorted(lost.get((first, later), []) + lost.get((later, first), [])),
        }
        for first, later in {*cosines, *copies, *mutual}
    ]
    return sorted(pairs, key=lambda one: (-one["cosine"], -len(one["lost"]), one["first"], one["later"]))


def _lost(requests: Iterable[ShownRequest]) -> dict[tuple[int, int], list[int]]:
    """Return by (fragment, the one that comes first instead) the scenarios of the former that were answered so."""
    lost: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, request in enumerate(requests):
        if request["origin"] == SCENARIO and request["confident"] and request["answers"] and not request["is_met"]:
            lost[request["expected"][0], request["answers"][0]["fragment"]].append(number)
    return lost


def _read_client(rule: Rule, catalog: Catalog, places: Mapping[str, int]) -> ShownClient:
    kinds = {"skills": read_skills(catalog, whole=False), "fragments": read_skills(catalog, whole=True)}
    sizes = sorted({*CONTEXTS, rule.context or CONTEXTS[0]}) if rule.share is not None else [None]
    return {
        "id": rule.id,
        "title": rule.title,
        "version": rule.version,
        "checked": rule.checked.isoformat(),
        "sources": [*rule.sources],
        "counts": rule.counts,
        "is_known": rule.overflow is not Overflow.UNKNOWN,
        "usual": None if rule.share is None else rule.context,
        "listings": {
            kind: [_list(rule, skills, size, places) for size in sizes] for kind, skills in kinds.items() if skills
        },
    }


def _list(rule: Rule, skills: Sequence[Skill], context: int | None, places: Mapping[str, int]) -> ShownListing:
    listing = list_skills(rule, skills, context)
    fates = [NO_SKILL] * len(places)
    for skill in skills:
        fates[places[skill.uri]] = MANUAL
    for entry in listing.entries:
        fates[places[entry.skill.uri]] = LETTERS[entry.fate]
    return {"context": context, "room": listing.room, "tokens": listing.tokens, "fates": "".join(fates)}


def _read_references(catalog: Catalog, places: Mapping[str, int]) -> tuple[list[Edge], list[Dangling]]:
    edges: list[Edge] = []
    dangling: list[Dangling] = []
    for from_uri, to_uri, target, kind, line in catalog.rows(REFERENCES):
        if to_uri is None:
            dangling.append((places[from_uri], target, kind, line))
        else:
            edges.append((places[from_uri], places[to_uri], kind, line))
    return edges, dangling


def _read_findings(catalog: Catalog, places: Mapping[str, int]) -> tuple[list[ShownReview], list[ShownFinding]]:
    owners = {(root, path): places[uri] for root, path, uri in catalog.rows(FILES)}
    reviews: list[ShownReview] = [
        {
            "root": root,
            "path": path,
            "rule": rule,
            "reason": reason,
            "reviewer": reviewer,
            "until": until,
            "state": state,
            "fragment": owners.get((root, path)),
        }
        for root, path, rule, reason, reviewer, until, state in catalog.rows(REVIEWS)
    ]
    accepted = {
        (one["root"], one["path"], one["rule"]): place
        for place, one in enumerate(reviews)
        if one["state"] == "accepted"
    }
    trust = {code for (code,) in catalog.rows(TRUST)}
    findings: list[ShownFinding] = [
        {
            "severity": severity,
            "level": LEVELS[severity] if code in trust else None,
            "code": code,
            "root": root,
            "path": path,
            "line": line,
            "field": field,
            "message": message,
            "fix": fix,
            "fragment": owners.get((root, path)),
            "review": accepted.get((root, path, code)),
        }
        for severity, code, root, path, line, field, message, fix in catalog.rows(DIAGNOSTICS)
    ]
    return reviews, findings


def _compare(since: Path, catalog: Catalog, places: Mapping[str, int], asked: Iterable[Asked]) -> Since:
    changed: list[ChangedAnswer] = []
    uris = [*places]
    for number, (request, before) in enumerate(asked):
        first = request["answers"][0] if request["confident"] and request["answers"] else None
        after = first and uris[first["fragment"]]
        if before is not None and before.first != after:
            better = request["is_met"] - before.is_met
            changed.append({"request": number, "before": before.first, "after": after, "better": better})
    with Catalog.open(since) as old:
        return {
            "file": since.name,
            "generation": old.generation,
            "differences": [
                {
                    "change": one.change,
                    "kind": one.kind,
                    "name": one.name,
                    "parts": [*one.parts],
                    "tokens": one.tokens,
                    "fragment": places.get(one.name) if one.kind == "fragment" else None,
                }
                for one in differences(old, catalog)
            ],
            "answers": changed,
        }


def _read_usage(logs: Sequence[Path], places: Mapping[str, int]) -> dict[str, Any]:
    log = read_logs(logs)
    return facts_of(log, report_of(log, places.keys()))
