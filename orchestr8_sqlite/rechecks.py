"""Checks of what an update has written: the rows that it has touched must agree with each other."""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection

from orchestr8_sqlite.errors import CheckError

LEFT_BEHIND = """
SELECT f.path FROM json_each(:numbers) one CROSS JOIN fragment f ON f.id = one.value
UNION ALL
SELECT 'reference' FROM json_each(:numbers) one CROSS JOIN reference r ON r.target_id = one.value
UNION ALL
SELECT p.name FROM json_each(:numbers) one
 CROSS JOIN (SELECT 'body' AS name, fragment_id AS id FROM fragment_body UNION ALL
             SELECT 'topic', fragment_id FROM topic UNION ALL
             SELECT 'text', rowid FROM fragment_text UNION ALL
             SELECT 'scenario', fragment_id FROM scenario UNION ALL
             SELECT 'tag', fragment_id FROM tag UNION ALL
             SELECT 'capability', fragment_id FROM capability UNION ALL
             SELECT 'pointer', fragment_id FROM pointer UNION ALL
             SELECT 'reference', fragment_id FROM reference UNION ALL
             SELECT 'skill', fragment_id FROM skill UNION ALL
             SELECT 'file', fragment_id FROM skill_file) p ON p.id = one.value
"""
"""What of fragments is there, or points to one."""

LACKING = """
SELECT count(*) FROM json_each(:numbers) one
 WHERE NOT (EXISTS (SELECT 1 FROM fragment f JOIN source s ON s.id = f.source_id WHERE f.id = one.value)
            AND EXISTS (SELECT 1 FROM fragment_body WHERE fragment_id = one.value)
            AND EXISTS (SELECT 1 FROM topic WHERE fragment_id = one.value)
            AND EXISTS (SELECT 1 FROM fragment_text WHERE rowid = one.value))
"""
MISCOUNTED_KEYWORDS = """
SELECT count(*) FROM json_each(:keywords) one CROSS JOIN keyword k ON k.text = one.value
 WHERE k.scenario_count <> (SELECT count(*) FROM posting WHERE keyword_id = k.id)
    OR NOT EXISTS (SELECT 1 FROM field_block WHERE keyword_id = k.id)
"""
SETS = """
SELECT k.id, k.scenario_count, b.bits
  FROM json_each(:keywords) one CROSS JOIN keyword k ON k.text = one.value
  LEFT JOIN posting_block b ON b.keyword_id = k.id
"""
MISCOUNTED_TERMS = """
SELECT count(*) FROM json_each(:stems) one LEFT JOIN term t ON t.stem = one.value
 WHERE coalesce(t.field_count, 0)
       <> (SELECT coalesce(sum(length(fields)), 0) FROM evidence WHERE stem = one.value)
    OR coalesce(t.fragment_count - t.field_count, 0)
       <> (SELECT coalesce(sum(length(counts)), 0) FROM body_evidence WHERE stem = one.value)
"""


def check_fragments(db: sqlite3.Connection, gone: Collection[int], written: Collection[int]) -> None:
    """Raise CheckError where anything is left of the fragments *gone*, or lacks of those *written*."""
    left = db.execute(LEFT_BEHIND, {"numbers": json.dumps(list(gone))}).fetchone()
    _require(left is None, "something is left of a fragment that is gone")
    lacking = db.execute(LACKING, {"numbers": json.dumps(list(written))}).fetchone()[0]
    _require(lacking == 0, f"{lacking} fragments that were written are not there whole")


def check_words(db: sqlite3.Connection, keywords: Collection[str], stems: Collection[str]) -> None:
    """Raise CheckError where *keywords* or the terms of *stems* do not have as many postings as they say."""
    miscounted = db.execute(MISCOUNTED_KEYWORDS, {"keywords": json.dumps(list(keywords))}).fetchone()[0]
    _require(miscounted == 0, f"{miscounted} keywords have another number of postings than they say")
    in_sets = Counter[tuple[int, int]]()
    for id_, count, bits in db.execute(SETS, {"keywords": json.dumps(list(keywords))}):
        in_sets[id_, count] += int.from_bytes(bits or b"", "big").bit_count()
    miscounted = sum(count != found for (_, count), found in in_sets.items())
    _require(miscounted == 0, f"{miscounted} keywords have another number of scenarios in their sets")
    miscounted = db.execute(MISCOUNTED_TERMS, {"stems": json.dumps(list(stems))}).fetchone()[0]
    _require(miscounted == 0, f"{miscounted} terms have another number of fragments than they say")


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise CheckError(f"The updated index failed a check and was not put in place: {problem}. Please report this.")
