"""Measures when `suggest` speaks, and writes the tables of docs/suggest.md.

Everyday prompts are sentences of conversations with an assistant that are about no fragment: the rule was chosen on
tests/prompts/chosen.txt, and tests/prompts/unseen.txt was written afterwards. Judged requests are those of
docs/ranking.md, and the shipped library's own. Needs the judged sets beside the checkout (../shared, or the folder in
ORCHESTR8_SHARED), and takes a minute.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from judged import JudgedSet, open_set

from orchestr8_sqlite.evaluation.judgements import ALL, NO_ANSWER, JudgedQuery
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.ranking.suggestion import find_suggestions
from orchestr8_sqlite.settings import bundled_index

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "suggest.md"
BEGIN, END = "<!-- written by bench/suggestions.py from here -->", "<!-- to here -->"
PROMPTS = ROOT / "tests" / "prompts"
OWN_QUERIES = """
SELECT q.id, q.text, (SELECT json_group_object(f.uri, 1) FROM library_answer a JOIN fragment f ON f.id = a.fragment_id
                       WHERE a.query_id = q.id)
  FROM library_query q WHERE q.origin = 'queries.jsonl'
"""
RUNS = 15
PROMPT = json.dumps({"prompt": "undo my last commit but keep the changes", "hook_event_name": "UserPromptSubmit"})


def main() -> None:
    """Measure, print, and write the tables into the document."""
    with tempfile.TemporaryDirectory() as folder:
        sets = [open_set(name, Path(folder)).plain for name in ("orchestr8", "skills")]
        sets.append(bundled_set())
        text = "\n\n".join([spoken(sets), cost(sets), speed(sets)])
        for judged in sets:
            judged.catalog.close()
    sys.stdout.write(text + "\n")
    head, rest = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)
    DOCUMENT.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


def bundled_set() -> JudgedSet:
    """Return the shipped library with the requests that its authors judged."""
    catalog = Catalog.open(bundled_index())
    queries, qrels = [], {}
    for id_, text, answers in catalog.db.execute(OWN_QUERIES):
        qrels[str(id_)] = json.loads(answers)
        queries.append(JudgedQuery(str(id_), text, ALL if qrels[str(id_)] else NO_ANSWER))
    names = {uri: uri for (uri,) in catalog.db.execute("SELECT uri FROM fragment")}
    return JudgedSet("shipped", catalog, queries, qrels, names)


def everyday(name: str) -> list[str]:
    """Return the everyday prompts of a file."""
    return (PROMPTS / name).read_text(encoding="utf-8").splitlines()


def spoken(sets: Sequence[JudgedSet]) -> str:
    """Return the table of prompts that are about no fragment, and get a suggestion all the same."""
    table = {}
    for judged in sets:
        foreign = [query.text for query in judged.queries if query.stratum == NO_ANSWER]
        groups = {
            "everyday, chosen on": everyday("chosen.txt"),
            "everyday, unseen": everyday("unseen.txt"),
            "requests without answer": foreign,
        }
        table[judged.name] = {
            name: _share(sum(bool(find_suggestions(judged.catalog, text)) for text in texts), len(texts))
            for name, texts in groups.items()
        }
    return _table("suggestion for", table)


def cost(sets: Sequence[JudgedSet]) -> str:
    """Return the table of requests that have an answer: how many a search answers, and how many get a suggestion."""
    table = {}
    for judged in sets:
        answered = [
            query for query in judged.answerable if find(judged.catalog, make_request({"query": query.text})).confident
        ]
        said = {query.id: find_suggestions(judged.catalog, query.text) for query in judged.answerable}
        spoke = [id_ for id_, found in said.items() if found]
        right = [id_ for id_ in spoke if any(judged.qrels[id_].get(judged.names[one.uri], 0) for one in said[id_])]
        whole = len(judged.answerable)
        table[judged.name] = {
            "search answers": _share(len(answered), whole),
            "suggestion": _share(len(spoke), whole),
            "a right one among them": _share(len(right), len(spoke)),
        }
    return _table("requests with an answer", table)


def speed(sets: Sequence[JudgedSet]) -> str:
    """Return the table of medians of a whole run, from start to end of the process, of `suggest` and of `search`."""
    table: dict[str, dict[str, str]] = {}
    for judged in sets:
        index = ["--db", str(judged.catalog.path)]
        commands = {"suggest": ["suggest", *index], "search": ["search", "undo my last commit", *index]}
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(RUNS):
            for name, arguments in commands.items():
                times[name].append(_run([sys.executable, "-m", "orchestr8_sqlite", *arguments]))
        table[judged.name] = {f"{name}, ms": f"{statistics.median(one) * 1000:.0f}" for name, one in times.items()}
    return _table("whole process, median", table)


def _run(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, input=PROMPT, text=True, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.1f} %)"


def _table(head: str, rows: Mapping[str, Mapping[str, str]]) -> str:
    columns = next(iter(rows.values()))
    lines = [f"| {' | '.join((head, *columns))} |", f"|---{'|--:' * len(columns)}|"]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(row.values())} |" for name, row in rows.items())])


if __name__ == "__main__":
    main()
