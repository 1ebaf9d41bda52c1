"""Reads judged requests in the forms in which teams already have them.

BEIR folder    `queries.jsonl` with `_id` and `text`; `qrels/test.tsv` with query, document and grade below a heading;
               the documents of its `corpus.jsonl` are those of the index, under the same names
trigger file   a JSON list of objects with `query` and `should_trigger`, for one skill
evals file     a JSON object with `skill_name` and `evals`, each with a `prompt` that the skill is for
folder         every trigger and evals file below it

Source: github.com/beir-cellar/beir, "Load your custom dataset"; github.com/anthropics/skills, skill-creator, its
schemas of evals.json and trigger evals.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.evaluation.judgements import ALL, ELSEWHERE, JudgedQuery
from orchestr8_sqlite.index.catalog import Catalog

SPLITS = ("qrels/test.tsv", "qrels/dev.tsv", "qrels/train.tsv", "qrels.tsv")
NAMED = ("*eval*.json", "*trigger*.json")
TRIGGERS = "triggers"
"""The stratum of requests that a skill is for."""

SKILLS = "SELECT name, path, metadata FROM fragment"

Judged = tuple[list[JudgedQuery], dict[str, dict[str, int]]]


def read_collection(path: Path, catalog: Catalog) -> Judged:
    """Return the queries and judgements at *path*, a file or folder in one of the forms above.

    Raises:
        RequestError: It has none of these forms, names a skill that the index lacks, or has no query with an answer.
    """
    if (path / "queries.jsonl").is_file():
        queries, qrels = _read_beir(path)
    else:
        queries, qrels = _read_triggers(path, catalog)
    if all(query.stratum == ELSEWHERE for query in queries):
        raise RequestError(f"{path.name} holds no query that has an answer.")
    return queries, qrels


def _read_beir(folder: Path) -> Judged:
    """Return the queries that have judgements, and these."""
    split = next((folder / name for name in SPLITS if (folder / name).is_file()), None)
    if split is None:
        raise RequestError(f"{folder.name} has queries.jsonl but no judgements; they belong in {SPLITS[0]}.")
    qrels: dict[str, dict[str, int]] = defaultdict(dict)
    for number, line in enumerate(split.read_text(encoding="utf-8").splitlines(), start=1):
        fields = line.split("\t")
        try:
            qrels[fields[0]][fields[-2]] = int(fields[-1])
        except (ValueError, IndexError):
            if number > 1 and line.strip():
                raise RequestError(f"{split.name}:{number}: expected query, document and grade between tabs.") from None
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    asked = [_beir_query(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    return [query for query in asked if query.id in qrels], dict(qrels)


def _beir_query(number: int, line: str) -> JudgedQuery:
    try:
        value = json.loads(line)
        return JudgedQuery(str(value["_id"]), str(value["text"]), ALL)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RequestError(f'queries.jsonl:{number}: expected {{"_id": …, "text": …}}.') from None


def _read_triggers(path: Path, catalog: Catalog) -> Judged:
    """Return the requests of the trigger and evals files at *path*; a folder's other JSON files do not count."""
    skills: dict[str, list[str]] = defaultdict(list)
    rows = catalog.rows(SKILLS)
    declared = ((json.loads(metadata).get("name"), document) for _, document, metadata in rows)
    called = {(name, document) for name, document in declared if isinstance(name, str)}
    for name, document in sorted({(name, document) for name, document, _ in rows} | called):
        skills[name.casefold()].append(document)
    queries: list[JudgedQuery] = []
    qrels = {}
    for file in _files(path):
        cases = _read_cases(file)
        if cases is None:
            if file == path:
                raise RequestError(
                    f"{path.name} is neither a list of queries with should_trigger nor evals of a skill."
                )
            continue
        named, asked = cases
        documents = _documents(file, named, skills)
        for number, (text, triggers) in enumerate(asked, start=1):
            id_ = f"{file.parent.name}/{file.name}:{number}:{len(queries)}"
            queries.append(JudgedQuery(id_, text, TRIGGERS if triggers else ELSEWHERE))
            qrels[id_] = dict.fromkeys(documents, int(triggers))
    return queries, qrels


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    yield from sorted({file for pattern in NAMED for file in path.rglob(pattern) if file.is_file()})


def _read_cases(file: Path) -> tuple[str, list[tuple[str, bool]]] | None:
    """Return the skill that a file names, maybe none, and (request, whether it triggers); None for another form."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None
    is_named = isinstance(value, dict)
    cases = value.get("evals") if is_named else value
    if not isinstance(cases, list) or not cases:
        return None
    asked = []
    for case in cases:
        text = (case.get("query") or case.get("prompt")) if isinstance(case, dict) else None
        triggers = case.get("should_trigger", is_named or None) if isinstance(case, dict) else None
        if not isinstance(text, str) or not isinstance(triggers, bool):
            return None
        asked.append((text, triggers))
    named = value.get("skill_name") if is_named else None
    return named if isinstance(named, str) else "", asked


def _documents(file: Path, named: str, skills: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the fragments with the skill's name: what the file says, else the name of its folders or its own.

    Raises:
        RequestError: The index has no skill of such a name.
    """
    candidates = [named] if named else [*(folder.name for folder in file.absolute().parents[:2]), file.stem]
    for name in candidates:
        if documents := skills.get(name.casefold()):
            return documents
    what = f"names the skill {named!r}" if named else "names no skill, and lies in no skill's folder"
    raise RequestError(f"{file.name} {what}: the index has none of that name.")
