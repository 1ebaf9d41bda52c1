"""An index database → the three JSON files of the original design, for tools that read them.

Source: shared/seeds/index-lookup.md, "Three Index Types".
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from orchestr8_sqlite.index.catalog import Catalog

SCENARIOS = """
SELECT s.scenario_id, s.text, f.uri, f.category, f.token_estimate
  FROM scenario s JOIN fragment f ON f.id = s.fragment_id ORDER BY f.uri, s.ordinal
"""
POSTINGS = """
SELECT k.text, s.scenario_id
  FROM posting p
  JOIN keyword k ON k.id = p.keyword_id
  JOIN scenario s ON s.fragment_id = p.fragment_id AND s.ordinal = p.ordinal
  JOIN fragment f ON f.id = p.fragment_id
 ORDER BY k.text, f.uri, s.ordinal
"""
QUICK = """
SELECT q.query, f.uri, f.token_estimate FROM quick_lookup q JOIN fragment f ON f.id = q.fragment_id
 WHERE q.ranker = 'classic' AND q.rank <= :uris ORDER BY q.query, q.rank
"""
NEWEST_SOURCE = "SELECT max(mtime_ns) FROM source"
RELEVANCE = 100
QUICK_URIS = 5


def export_json(catalog: Catalog, folder: Path) -> list[Path]:
    """Write `usewhen-index.json`, `keyword-index.json` and `quick-lookup.json` into *folder* and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    version = catalog.meta["schema_version"]
    by_keyword: dict[str, list[str]] = defaultdict(list)
    by_scenario: dict[str, list[str]] = defaultdict(list)
    for keyword, scenario_id in catalog.db.execute(POSTINGS):
        by_keyword[keyword].append(scenario_id)
        by_scenario[scenario_id].append(keyword)
    documents = {
        "usewhen-index.json": _use_when(catalog, version, by_scenario),
        "keyword-index.json": _keywords(version, by_keyword),
        "quick-lookup.json": _quick(catalog, version),
    }
    paths = []
    for name, document in documents.items():
        path = folder / name
        path.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        paths.append(path)
    return paths


def _use_when(catalog: Catalog, version: str, keywords: Mapping[str, list[str]]) -> dict[str, object]:
    index = {
        scenario_id: {
            "scenario": text,
            "keywords": keywords[scenario_id],
            "uri": uri,
            "category": category,
            "estimatedTokens": tokens,
            "relevance": RELEVANCE,
        }
        for scenario_id, text, uri, category, tokens in catalog.db.execute(SCENARIOS)
    }
    fragments = int(catalog.meta["fragments"])
    newest = catalog.db.execute(NEWEST_SOURCE).fetchone()[0]
    return {
        "version": version,
        "generated": datetime.fromtimestamp(newest // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "totalFragments": fragments,
        "index": index,
        "stats": {
            "totalScenarios": len(index),
            "avgScenariosPerFragment": _average(len(index), fragments),
            "avgKeywordsPerScenario": _average(sum(map(len, keywords.values())), len(index)),
            "indexSizeBytes": len(json.dumps(index, ensure_ascii=False).encode()),
        },
    }


def _keywords(version: str, scenarios: Mapping[str, list[str]]) -> dict[str, object]:
    return {
        "version": version,
        "keywords": scenarios,
        "stats": {
            "totalKeywords": len(scenarios),
            "avgScenariosPerKeyword": _average(sum(map(len, scenarios.values())), len(scenarios)),
        },
    }


def _quick(catalog: Catalog, version: str) -> dict[str, object]:
    queries: dict[str, tuple[list[str], list[int]]] = defaultdict(lambda: ([], []))
    for query, uri, tokens in catalog.db.execute(QUICK, {"uris": QUICK_URIS}):
        queries[query][0].append(uri)
        queries[query][1].append(tokens)
    common = {query: {"uris": uris, "tokens": sum(tokens)} for query, (uris, tokens) in queries.items()}
    return {"version": version, "commonQueries": common}


def _average(total: int, count: int) -> float:
    return round(total / count, 1) if count else 0.0
