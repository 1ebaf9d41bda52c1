#!/usr/bin/env python3
"""Find statements in PostgreSQL migrations that block traffic, fail, break running code or lose data.

Standard library only, Python 3.11+. Reads SQL files with a tokenizer of its own (nested comments, strings,
dollar quotes, DO blocks); connects to nothing.

    python3 review_sql.py FILE|FOLDER... [--wrapped] [--small t1,t2] [--json]     (- is standard input)

A comment `-- reviewed: RULE why` in or above a statement silences that rule for it.
Exit codes: 0 nothing dangerous, 1 at least one finding of level danger, 2 a file cannot be read as SQL.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<comment>--[^\n]*)|(?P<block>/\*)|(?P<meta>(?<![^\s;])\\(?!g)[^\n]*)|(?P<estring>[eE]'(?:[^'\\]|\\.|'')*')"
    r"|(?P<string>'(?:[^']|'')*')|(?P<name>\"(?:[^\"]|\"\")*\")|(?P<dollar>\$(?:[A-Za-z_]\w*)?\$)|(?P<end>;)"
    r"|(?P<word>[^\W\d][\w$]*)|(?P<open>['\"])|(?P<other>\d+|.)",
    re.DOTALL,
)
NAME = r'(?:IF (?:NOT )?EXISTS )?(?:ONLY )?((?:[\w$]+|"(?:[^"]|"")+")(?: \. (?:[\w$]+|"(?:[^"]|"")+"))?)'
TABLE = re.compile(
    rf"^CREATE (?:UNIQUE )?INDEX (?:CONCURRENTLY )?.*?\bON {NAME}|^(?:WITH .*?\) )?(?:UPDATE|DELETE FROM|INSERT INTO|MERGE INTO) {NAME}|"
    rf"^(?:ALTER|DROP|TRUNCATE|LOCK|VACUUM|CREATE)(?: UNLOGGED| FOREIGN| GLOBAL| LOCAL| TEMP| TEMPORARY| FULL)* "
    rf"(?:TABLE |(?:MATERIALIZED )?VIEW |SCHEMA |TYPE |DOMAIN |INDEX (?:CONCURRENTLY )?|(?:TRIGGER|POLICY) .*? ON |(?:OR REPLACE )?RULE .*? (?:TO|(?<!AS )ON) )?{NAME}"
)
COLUMN = r'(?!\d|TRUE\b|FALSE\b)[\w$"]+(?: \. [\w$"]+)*'
EVERY_ROW = rf"{COLUMN} (?:IS NULL|= {COLUMN})"
"""A condition that may hold for each row: no constant in it."""
NEW_COLUMN = (
    r"\bADD (?:COLUMN )?(?:IF NOT EXISTS )?(?!(?:COLUMN|CONSTRAINT|CHECK|UNIQUE|PRIMARY|FOREIGN|EXCLUDE|IF|NOT)\b)\S"
)
TIMEOUT = re.compile(
    r"\s*SET\s+(?P<local>LOCAL\s+)?(?:SESSION\s+)?(?P<name>lock_timeout|statement_timeout)\s*(?:=|TO)\s*'?\s*(?P<value>\w+)"
    r"|\s*SELECT\s+(?:pg_catalog\s*\.\s*)?set_config\s*\(\s*'(?P<key>lock_timeout|statement_timeout)'\s*,\s*'\s*(?P<to>\w+)",
    re.IGNORECASE,
)
STEADY = (
    r"(?:NOW|CURRENT_\w+|LOCALTIME\w*|TRANSACTION_TIMESTAMP|STATEMENT_TIMESTAMP|TIMEZONE|CAST|COALESCE|LOWER|UPPER|MD5|CONCAT|"
    r"ARRAY\w*|JSONB?_\w+|TO_\w+|MAKE_\w+|DATE_TRUNC|DATE_PART|EXTRACT|TIMESTAMPTZ?|INTERVAL|NUMERIC|VARCHAR|REPEAT|ROW|INT4RANGE)"
)
SET_NOT_NULL = r"\bALTER (?:COLUMN )?(\S+) SET NOT NULL|\bADD (?:CONSTRAINT \S+ )?NOT NULL (\S+)(?![^,]*NOT VALID)"
NEW_KEY = r"(ALTER|CREATE|CREATE UNLOGGED) TABLE\b"
NEW_TABLE = r"CREATE ((UNLOGGED|((GLOBAL|LOCAL) )?TEMP(ORARY)?) )?TABLE\b|CREATE (MATERIALIZED VIEW|FOREIGN TABLE)\b"
PARTITION_OF = rf"^CREATE (?:UNLOGGED )?TABLE [^,]*?\bPARTITION OF {NAME}"
NEW_COLUMN_KEY = rf"{NEW_COLUMN}(?![^,]*(?<!SET )\bDEFAULT\b)[^,]*\bREFERENCES\b"
VOLATILE = r"(?:RANDOM|GEN_RANDOM_UUID|UUID_GENERATE_V\w+|UUIDV[47]|CLOCK_TIMESTAMP|TIMEOFDAY|NEXTVAL) \("


def plain(name: str) -> str:
    """Return *name* as the server compares it: in small letters unless it is quoted."""
    return ".".join(part[1:-1] if part[0] == '"' else part.lower() for part in name.split(" . "))


def in_schema(name: str) -> str:
    """Return *name* with its schema: public where none is written."""
    return plain(name if " . " in name else f"public . {name}")


@dataclass
class Statement:
    """One statement: its first line, its words in upper case with literals left out, the comments with it.

    Inside parentheses a comma is written ; and WHERE small: what parts and filters the statement itself stands out.
    """

    line: int
    text: str
    comments: str
    body: str = ""
    body_line: int = 0
    raw: str = ""

    @property
    def tables(self) -> list[str]:
        """The tables that it changes, with their schema."""
        match = TABLE.search(self.text)
        found = [name for name in match.groups() if name] if match else []
        if re.match(r"(DROP|TRUNCATE|LOCK)\b", self.text):
            found += re.findall(rf" , {NAME}", self.text)
        elif self.text.startswith("WITH "):
            found += re.findall(rf"\( (?:DELETE FROM|UPDATE|INSERT INTO|MERGE INTO) {NAME}", self.text)
        is_schema = re.match(r"(ALTER|DROP) SCHEMA\b", self.text)
        return [plain(name) if is_schema else in_schema(name) for name in found]

    @property
    def referenced(self) -> set[str]:
        """The other tables that its foreign keys name."""
        found = re.findall(rf"\bREFERENCES {NAME}", self.text) if re.match(NEW_KEY, self.text) else []
        return {in_schema(name) for name in found}.difference(self.tables)

    @property
    def table(self) -> str:
        """The first of the tables, as it is shown."""
        return next(iter(self.tables), "").removeprefix("public.")


@dataclass(frozen=True)
class Rule:
    """A pattern over the words of a statement; what it does; what to do instead."""

    name: str
    level: str
    pattern: re.Pattern[str]
    effect: str
    instead: str
    old_table: bool = True


def rule(name: str, level: str, pattern: str, effect: str, instead: str, *, old_table: bool = True) -> Rule:
    return Rule(name, level, re.compile(pattern), effect, instead, old_table)


# fmt: off
RULES = (
    rule("index-blocks-writes", "danger", r"^CREATE (UNIQUE )?INDEX (?!CONCURRENTLY)(?![^(]*\bON ONLY )",
        "no INSERT, UPDATE, DELETE while it builds", "CREATE INDEX CONCURRENTLY, outside a transaction"),
    rule("index-on-only", "caution", r"^CREATE (UNIQUE )?INDEX (?!CONCURRENTLY)(?=[^(]*\bON ONLY )",
        "instant for a partitioned table; an ordinary table gets no writes while it builds",
        "relkind must be p; then CONCURRENTLY on each partition, ALTER INDEX ... ATTACH PARTITION"),
    rule("drop-index-blocks", "caution", r"^DROP INDEX (?!CONCURRENTLY)",
        "waits for every query on the table and blocks the next", "DROP INDEX CONCURRENTLY", old_table=False),
    rule("reindex-blocks", "danger", r"^REINDEX (?!.*CONCURRENTLY)", "no writes while it builds",
        "REINDEX ... CONCURRENTLY", old_table=False),
    rule("set-not-null-scans", "danger", r"\bALTER (COLUMN |DOMAIN )?\S+ SET NOT NULL|"
        r"^ALTER TABLE .*\bADD (CONSTRAINT \S+ )?NOT NULL \S+(?![^,]*NOT VALID)|"
        rf"{NEW_COLUMN}(?![^,]*\) STORED\b)[^,]*(\bNOT NULL (?=[^,]*\bGENERATED ALWAYS AS \()|\bGENERATED ALWAYS AS \([^,]*\) (VIRTUAL )?NOT NULL\b)",
        "scans the table, nobody reads or writes meanwhile",
        "CHECK (c IS NOT NULL) NOT VALID, VALIDATE, then SET NOT NULL; 18+: ADD NOT NULL c NOT VALID, VALIDATE"),
    rule("foreign-key-scans", "danger", 
        r"^ALTER TABLE .*\bFOREIGN KEY\b(?![^,]*NOT (VALID|ENFORCED))|"
        r"^ALTER TABLE .*\bALTER CONSTRAINT (?![^,]*\bNOT ENFORCED)[^,]*\bENFORCED\b|"
        rf"{NEW_COLUMN}(?=[^,]*(?<!SET )\bDEFAULT\b)[^,]*\bREFERENCES\b", "scans the table, no writes on both tables", "ADD CONSTRAINT ... NOT VALID, later VALIDATE CONSTRAINT"),
    rule("check-scans", "danger", 
        rf"^ALTER (TABLE|DOMAIN) .*\bADD (CONSTRAINT \S+ )?CHECK \((?![^,]*NOT (VALID|ENFORCED))|{NEW_COLUMN}[^,]*\bCHECK \((?![^,]*NOT ENFORCED)",
        "scans the table, nobody reads or writes", "ADD CONSTRAINT ... NOT VALID, later VALIDATE CONSTRAINT"),
    rule("unique-builds-index", "danger", 
        rf"\bADD (CONSTRAINT \S+ )?(UNIQUE|PRIMARY KEY) (?!USING INDEX)|{NEW_COLUMN}[^,]*\b(UNIQUE|PRIMARY KEY)\b",
        "builds an index, nobody reads or writes",
        "CREATE UNIQUE INDEX CONCURRENTLY, then ADD CONSTRAINT ... USING INDEX"),
    rule("exclude-builds-index", "danger", r"\bADD (CONSTRAINT \S+ )?EXCLUDE\b",
        "builds an index, nobody reads or writes", "maintenance window: there is no concurrent way"),
    rule("type-rewrites", "danger", r"\bALTER (COLUMN )?\S+ (SET DATA )?TYPE\b",
        "rewrites table and indexes, nobody reads or writes; free for a longer or unlimited varchar and a larger numeric precision",
        "new column, trigger or double write, backfill, switch"),
    rule("column-rewrites", "danger",
        rf"\bADD (COLUMN )?(?!CONSTRAINT|GENERATED)[^,]*?(DEFAULT [^,]*{VOLATILE}|\b(BIG|SMALL)?SERIAL\b|"
        r"GENERATED \w+( \w+)? AS (IDENTITY|\(.*\) STORED))|\bSET EXPRESSION AS\b", "every row is rewritten, nobody reads or writes",
        "add it nullable, set the default, backfill in batches"),
    rule("column-may-rewrite", "caution",
        rf"\bADD (COLUMN )?(?!CONSTRAINT)[^,]*?DEFAULT (?:\w+ \. )?(?!{STEADY} |{VOLATILE})[A-Z_]\w* \(",
        "every row is rewritten if the function is volatile, as functions are unless they say otherwise",
        "look at provolatile in pg_proc; volatile: as column-rewrites"),
    rule("not-null-without-default", "danger",
        r"\bADD (COLUMN )?(?!CONSTRAINT|NOT NULL)(?=[^,]*NOT NULL)(?![^,]*(DEFAULT|GENERATED|SERIAL|NOT VALID))",
        "fails if the table has rows: column contains null values", "a constant DEFAULT (no rewrite since 11)"),
    rule("table-rewrites", "danger",
        r"^(VACUUM (\( ([\w ]+ ; )*)?FULL|CLUSTER\b|REPACK (?!.*CONCURRENTLY))|^ALTER TABLE .* SET (UNLOGGED|LOGGED|TABLESPACE|ACCESS METHOD)",
        "rewrites the table, nobody reads or writes", "REPACK (CONCURRENTLY) (19+), pg_repack, or a maintenance window", old_table=False),
    rule("refresh-blocks-reads", "caution", r"^REFRESH MATERIALIZED VIEW (?!CONCURRENTLY)",
        "nobody reads the view meanwhile", "CONCURRENTLY (needs a unique index)", old_table=False),
    rule("lock-table", "danger", r"^LOCK (?!.*(ACCESS SHARE|ROW SHARE))", "blocks others until commit", "row locks"),
    rule("attach-scans", "caution", r"\bATTACH PARTITION\b",
        "scans the new partition unless a CHECK proves its range", "add that CHECK NOT VALID and VALIDATE it before",
        old_table=False),
    rule("detach-blocks", "caution", r"\bDETACH PARTITION (?!.*\bCONCURRENTLY)", "nobody reads or writes the parent meanwhile",
        "DETACH PARTITION ... CONCURRENTLY, outside a transaction", old_table=False),
    rule("drops-object", "caution", r"^DROP (VIEW|FUNCTION|PROCEDURE|ROUTINE|AGGREGATE|SEQUENCE|EXTENSION|DOMAIN)\b",
        "code of the release still running fails if it uses it", "release without use first"),
    rule("drops-data", "danger", r"^(DROP (FOREIGN TABLE|TABLE|SCHEMA|DATABASE|MATERIALIZED VIEW|TYPE|OWNED)|TRUNCATE)\b",
        "data is gone at once; running code that uses it fails; DROP of a table with a foreign key locks the referenced one too",
        "release without use first, rename or dump, drop a release later"),
    rule("drops-column", "danger",
        r"^ALTER TABLE .*\bDROP (COLUMN )?(?!CONSTRAINT|DEFAULT|NOT NULL|EXPRESSION|IDENTITY)"
        r"(IF EXISTS )?(?!CONSTRAINT)\S+(?<!\bDEFAULT)(?<!\bNOT)(?<!\bEXPRESSION)(?<!\bIDENTITY)|"
        r"^ALTER TYPE .*\bDROP ATTRIBUTE\b",
        "data is gone; running code that selects it fails", "stop reading and writing it one release earlier"),
    rule("cascade", "danger", r"^(DROP|TRUNCATE|ALTER).*\b(?<!DELETE )(?<!UPDATE )CASCADE(?= ,|$)", "removes dependants that are not named here",
        "name them: drop views, keys and tables one by one", old_table=False),
    rule("all-rows", "danger", r"^(WITH .*\) )?(DELETE FROM|UPDATE) (?!.*\bWHERE\b(?! (TRUE|1 = 1)$))|"
        r"^WITH .*\( (DELETE FROM|UPDATE) (?!.*\bwhere\b)",
        "touches every row in one transaction: long locks, bloat, or all data lost",
        "batches of 1,000-10,000 rows by key, each committed"),
    rule("backfill-in-one", "caution",
        rf"^(?!.*\b(LIMIT|VALUES)\b)(UPDATE|DELETE FROM .*\bUSING) .*\bWHERE {EVERY_ROW}( AND {EVERY_ROW})*$",
        "this can be every row (a new column, a join), in one transaction", "batches of 1,000-10,000 rows by key, each committed"),
    rule("row-security-hides", "caution", r"^ALTER TABLE .*\b(ENABLE|FORCE) ROW LEVEL SECURITY\b",
        "without a policy others than the owner see no row", "CREATE POLICY before it, in the same transaction"),
    rule("rename-breaks-code", "danger", r"^ALTER (TABLE|VIEW|MATERIALIZED VIEW|SCHEMA|TYPE|FUNCTION|SEQUENCE) .*\bRENAME (?!CONSTRAINT)|"
        r"^ALTER (TABLE|VIEW|TYPE|FUNCTION) .*\bSET SCHEMA\b",
        "code of the release still running fails", "add the new name, write both, move readers, drop the old"),
    rule("enum-value-too-early", "note", r"^ALTER TYPE .* ADD VALUE", "cannot be used before the transaction commits",
        "its own migration", old_table=False),
    rule("not-read", "note", r"^\\ (I|IR|INCLUDE|INCLUDE_RELATIVE)\b|\\ GEXEC\b|^EXECUTE (?!FUNCTION|PROCEDURE)",
        "SQL of another file or made at run time: not reviewed here", "review it by itself", old_table=False),
)
# fmt: on
OUTSIDE = re.compile(
    r"^(CREATE (UNIQUE )?INDEX|DROP INDEX|REINDEX\b.*) CONCURRENTLY|DETACH PARTITION .*CONCURRENTLY|^VACUUM|^ALTER SYSTEM|^(CREATE|DROP) DATABASE"
)
CONCURRENT_INDEX = re.compile(r"^(CREATE (UNIQUE )?INDEX|DROP INDEX|REINDEX\b.*) CONCURRENTLY|^REINDEX \( .*CONCURRENTLY")
LOCKS_TABLE = re.compile(
    r"^(ALTER TABLE|DROP TABLE|TRUNCATE|CREATE (OR REPLACE )?(CONSTRAINT )?TRIGGER|DROP TRIGGER|"
    r"(CREATE|ALTER|DROP) POLICY|(CREATE|DROP) (OR REPLACE )?RULE|CREATE (UNIQUE )?INDEX (?!CONC)|"
    r"DROP INDEX (?!CONC)|LOCK)\b"
)

CHANGES_ROWS = re.compile(r"(WITH .*\) )?(UPDATE|DELETE|MERGE)\b(?!.* WHERE \S+ = \S+$)")  # more than one row of a key
COPIES_ROWS = re.compile(
    r"(?!.*\bVALUES\b)((WITH .*\) )?INSERT INTO .* SELECT .*\bFROM\b|CREATE (TABLE|MATERIALIZED VIEW) .*\bAS\b.* SELECT .*\bFROM\b)"
)

ROUTINE = re.compile(r"CREATE (OR REPLACE )?(FUNCTION|PROCEDURE)\b")


def skip_block(sql: str, start: int) -> int:
    """Return where the comment that begins at *start* ends; comments nest."""
    depth = 0
    for mark in re.finditer(r"/\*|\*/", sql[start:]):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return start + mark.end()
    raise ValueError(f"line {sql.count(chr(10), 0, start) + 1}: comment is not closed")


def unquoted(text: str) -> str:
    """Return what the string literal *text* says."""
    inner = text[text.index("'") + 1 : -1].replace("''", "'")
    return re.sub(r"\\(.)", lambda one: {"n": "\n", "t": "\t"}.get(one[1], one[1]), inner) if text[0] in "eE" else inner


def statements(sql: str, line: int = 1) -> Iterator[Statement]:
    """Yield the statements of *sql*, whose first line has number *line*."""
    words: list[str] = []
    comments, body, body_line, first, place, depth, begun = "", "", 0, 0, 0, 0, 0
    atomic = 0  # open BEGIN ATOMIC and CASE of a function whose body is no string
    while place < len(sql):
        match = TOKEN.match(sql, place)
        assert match
        kind, text, here = match.lastgroup, match[0], line
        end = match.end()
        if kind == "block":
            end = skip_block(sql, place)
        elif kind == "dollar":
            closing = sql.find(text, end)
            if closing < 0:
                raise ValueError(f"line {here}: {text} is not closed")
            end = closing + len(text)
            if words[-1:] != ["LANGUAGE"]:
                body, body_line = sql[match.end() : closing], here
        elif kind == "open":
            raise ValueError(f"line {here}: {text} is not closed")
        if kind == "end" and not atomic and words:
            yield Statement(first, " ".join(words), comments, body, body_line, sql[begun:place])
            if words[0] == "COPY" and "STDIN" in words:
                end = max(end, sql.find("\n\\.", end) + 3)
            words, comments, body, depth = [], "", "", 0
        elif kind == "meta" and re.match(r"\\(i|ir|include|include_relative)\b", text):
            yield Statement(here, text.replace("\\", "\\ ").upper(), comments)
        elif kind in ("comment", "block"):
            comments += sql[place:end] + "\n"
        elif kind not in ("space", "meta", "end"):
            if text == "`":
                raise ValueError(f"line {here}: a backtick is no PostgreSQL, but MySQL or a template")
            first, begun = (first, begun) if words else (here, place)
            literal = {"string": "''", "estring": "''", "dollar": "$$"}.get(str(kind), text)
            literal = literal.upper() if kind == "word" else literal
            if kind == "name":  # one word for the patterns, whatever it is named
                literal = re.sub(r"[\s,]", "_", literal)
            depth += {"(": 1, ")": -1}.get(literal, 0)
            words.append({",": ";", "WHERE": "where"}.get(literal, literal) if depth > 0 else literal)
            if kind in ("string", "estring") and words[0] == "DO" and words[-2] != "LANGUAGE":
                body, body_line = body + unquoted(text), body_line if body else here
            elif kind == "word" and atomic and words[-2] not in ("AS", "."):  # there CASE and END are names
                atomic += {"CASE": 1, "END": -1}.get(literal, 0)
            elif literal == "ATOMIC" and words[-2:-1] == ["BEGIN"] and ROUTINE.match(" ".join(words[:4])):
                atomic = 1
        line += sql.count("\n", place, end)
        place = end
    if words:
        yield Statement(first, " ".join(words), comments, body, body_line, sql[begun:place])


class Review:
    """Findings of one file, statement after statement."""

    def __init__(self, path: str, *, wrapped: bool, small: set[str], promised: dict[tuple[str, str], set[str]]) -> None:
        self.path, self.inside, self.block, self.told = path, wrapped, False, False
        self.timeouts: dict[str, bool] = {}  # those in force: whether for this transaction only
        self.new = set(small)
        self.promised = promised  # columns that a CHECK proves NOT NULL, by table and constraint
        self.validated: set[tuple[str, str]] = set()
        self.locked: set[str] = set()  # tables that the transaction keeps locked
        self.filled: set[tuple[str, str]] = set()  # columns that are NOT NULL and new, with a default
        self.findings: list[dict[str, Any]] = []
        self.count = 0

    def add(self, one: Statement, name: str, level: str, effect: str, instead: str) -> None:
        if not re.search(rf"reviewed:\s*{name}\b", one.comments):
            table = next((each for each in one.tables if each not in self.new), one.table).removeprefix("public.")
            place = {"file": self.path, "line": one.line, "level": level, "rule": name, "table": table}
            self.findings.append(
                place | {"effect": effect, "instead": instead, "statement": one.text[:90].replace(";", ",")}
            )

    def read(self, sql: str, line: int = 1) -> None:
        for one in statements(sql, line):
            self._context(one)
            self.count += 1
            if one.text.startswith("DO "):
                self._do(one)
            for each in RULES:
                proven = each.name == "set-not-null-scans" and self._is_proven(one)
                if each.pattern.search(one.text) and not proven and not (each.old_table and self._is_new(one)):
                    self.add(one, each.name, each.level, each.effect, each.instead)
            self._transaction(one)
            self._defaults(one)

    def _do(self, one: Statement) -> None:
        """Read a DO block: a part of the open transaction, or a transaction of its own."""
        before = self.inside, self.block
        self.inside = self.block = True
        self.read(re.sub(r"(?i)\b(begin|then|else|loop)\b", r"\1;", one.body), one.body_line)
        self.inside, self.block = before
        if not self.inside:
            self._end()

    def _end(self) -> None:
        """Forget what lasts until the transaction ends."""
        self.locked = set()
        self.timeouts = {name: local for name, local in self.timeouts.items() if not local}

    def _is_new(self, one: Statement) -> bool:
        return bool(one.tables) and self.new.issuperset(one.tables)

    def _is_proven(self, one: Statement) -> bool:
        """Say whether validated constraints spare the scan for every column that becomes NOT NULL."""
        columns = {plain(name) for pair in re.findall(SET_NOT_NULL, one.text) for name in pair if name}
        proofs = [self.promised[key] for key in self.validated if key[0] in one.tables and key in self.promised]
        return bool(columns) and columns <= set().union(*proofs)

    def _checks(self, one: Statement) -> None:
        """Keep in mind which CHECK proves which columns NOT NULL, and which of them were validated."""
        if not one.text.startswith("ALTER TABLE") or not one.tables:
            return
        table = one.tables[0]
        for name, terms in re.findall(r"\bADD (?:CONSTRAINT (\S+) )?CHECK \( ([^,]*) \) NOT VALID", one.text):
            parts = [re.fullmatch(r"(?:\( )*(\S+) IS NOT NULL(?: \))*", term) for term in terms.split(" AND ")]
            columns = {plain(part[1]) for part in parts if part}
            if all(parts):
                by_server = "_".join([table.split(".")[-1], *(columns if len(columns) == 1 else ()), "check"])
                self.promised[table, plain(name) if name else by_server] = columns
        for action, name in re.findall(r"\b(VALIDATE|DROP) CONSTRAINT (?:IF EXISTS )?(\S+)", one.text):
            key = table, plain(name)
            if action == "VALIDATE":
                self.validated.add(key)
            else:
                self.promised.pop(key, None)
                self.validated.discard(key)

    def _context(self, one: Statement) -> None:
        if re.match(NEW_TABLE, one.text):
            self.new.update(one.tables)
        self._checks(one)
        if match := TIMEOUT.match(one.raw):
            name = (match["name"] or match["key"]).lower()
            if re.fullmatch(r"0+[a-z]*|default", match["value"] or match["to"], re.IGNORECASE):
                self.timeouts.pop(name, None)
            elif self.inside or not match["local"]:  # SET LOCAL outside of a transaction does nothing
                self.timeouts[name] = bool(match["local"])
        elif re.match(r"RESET ALL|DISCARD ALL", one.text):
            self.timeouts.clear()
        elif re.match(r"RESET (LOCK|STATEMENT)_TIMEOUT", one.text):
            self.timeouts.pop(one.text.split()[1].lower(), None)
        if self.block and one.text.startswith(("BEGIN", "END")):
            return  # of the block, not of the transaction
        if re.match(r"BEGIN\b|START TRANSACTION\b", one.text):
            self.inside = True
        elif re.match(r"(COMMIT|ROLLBACK|END|ABORT)( TRANSACTION| WORK)?( AND (NO )?CHAIN)?$", one.text):
            self.inside = self.block or one.text.endswith(" AND CHAIN")
            self._end()

    def _defaults(self, one: Statement) -> None:
        """Judge a default that a new column loses again: the old release inserts rows without that column."""
        if not one.text.startswith("ALTER TABLE") or self._is_new(one):
            return
        for dropped in re.finditer(r"\bALTER (?:COLUMN )?(\S+) DROP DEFAULT\b", one.text):
            if (one.table, dropped[1]) in self.filled:
                self.add(
                    one,
                    "default-dropped-too-early",
                    "danger",
                    "inserts of the release still running leave the new column out and fail: null value violates not-null",
                    "keep the default (Django: db_default), drop it one release later",
                )
        for found in re.finditer(rf"{NEW_COLUMN}*(?=[^,]*\bNOT NULL\b)(?=[^,]*\bDEFAULT\b)", one.text):
            self.filled.add((one.table, found[0].split()[-1]))

    def _transaction(self, one: Statement) -> None:
        """Judge what matters only together with the statements before, in one transaction."""
        if self.inside and OUTSIDE.search(one.text):
            self.add(
                one,
                "not-in-transaction",
                "danger",
                "fails: cannot run inside a transaction block",
                "its own migration without transaction",
            )
        own = self.locked.intersection(one.tables)
        if self.inside and self.locked and "VALIDATE CONSTRAINT" in one.text and (own or not self._is_new(one)):
            self.add(
                one,
                "validates-under-lock",
                "danger" if own else "caution",
                "the lock of the statements before is held while it scans",
                "VALIDATE in its own transaction",
            )
        elif self.inside and own:
            if re.match(r"(WITH .*\) )?(UPDATE|DELETE|MERGE|INSERT INTO .* SELECT)", one.text):
                self.add(
                    one,
                    "backfill-under-lock",
                    "danger",
                    "the table stays locked until the data are changed",
                    "backfill in its own transactions, in batches",
                )
        elif self.inside and self.locked and re.match(COPIES_ROWS, one.text):
            self.add(
                one,
                "backfill-under-lock",
                "caution",
                f"{' and '.join(sorted(self.locked))} stays locked until the rows are copied",
                "copy in its own transaction",
            )
        elif self.inside and self.locked and re.match(CHANGES_ROWS, one.text) and not self._is_new(one):
            self.add(
                one,
                "backfill-under-lock",
                "caution",
                f"{' and '.join(sorted(self.locked))} stays locked until the rows are changed",
                "change them in their own transactions, in batches",
            )
        if self.timeouts and CONCURRENT_INDEX.search(one.text) and not self._is_new(one):
            self.add(
                one,
                "timeout-at-concurrent-index",
                "caution",
                f"{' and '.join(sorted(self.timeouts))} cuts its waits for older transactions and leaves an INVALID index",
                "SET lock_timeout = 0; SET statement_timeout = 0 before it",
            )
        others = one.referenced - self.new
        if others and re.search(NEW_COLUMN_KEY, one.text):
            self.add(
                one,
                "locks-referenced-table",
                "caution",
                f"writes on {' and '.join(sorted(others))} wait until the transaction ends",
                "a short transaction: nothing slow after it",
            )
        others |= {in_schema(name) for name in re.findall(PARTITION_OF, one.text)} - self.new
        locked = others | (set(one.tables) - self.new if LOCKS_TABLE.search(one.text) else set())
        if locked:
            if self.inside and not re.search(r"^[^,]* VALIDATE CONSTRAINT [^,]*$", one.text):  # reads and writes go on
                self.locked |= locked
            if not self.told and "lock_timeout" not in self.timeouts:
                self.told = True
                self.add(
                    one,
                    "no-lock-timeout",
                    "caution",
                    "waits behind a long query, and all later queries wait behind it",
                    "SET lock_timeout = '2s' first, and retry",
                )


def sql_files(names: list[str]) -> Iterator[str]:
    for name in names:
        found = sorted(path for path in Path(name).rglob("*") if path.suffix.lower() == ".sql")
        yield from map(str, found) if Path(name).is_dir() else [name]


def read_sql(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8: convert it first (iconv -f UTF-16 or CP1252 -t UTF-8)") from None


def show(findings: list[dict[str, Any]], read: str, most: int) -> None:
    for one in findings[:most]:
        print(f"{one['file']}:{one['line']}: {one['level']} {one['rule']} {one['table']}\n    {one['statement']}")
        print(f"    {one['effect']} -> {one['instead']}")
    if len(findings) > most:
        print(f"... {len(findings) - most} more findings: --most {len(findings)} or --json")
    levels = [one["level"] for one in findings]
    print(f"{read}: " + ", ".join(f"{levels.count(level)} {level}" for level in ("danger", "caution", "note")))


def main() -> int:
    parser = argparse.ArgumentParser(description="Find dangerous statements in PostgreSQL migrations.")
    parser.add_argument("paths", nargs="+", help="SQL files, folders of *.sql, or - for standard input")
    parser.add_argument("--wrapped", action="store_true", help="the migration tool runs each file in a transaction")
    parser.add_argument("--small", default="", help="comma-separated tables so small that locks do not matter")
    parser.add_argument("--most", type=int, default=20, help="findings shown (default 20)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    findings: list[dict[str, Any]] = []
    files, count, promised = 0, 0, dict[tuple[str, str], set[str]]()
    small = {in_schema(table.strip().replace(".", " . ")) for table in args.small.split(",") if table.strip()}
    for name in sql_files(args.paths):
        review = Review(name, wrapped=args.wrapped, small=small, promised=promised)
        try:
            review.read(read_sql(name))
        except (OSError, ValueError) as error:
            print(f"cannot read {name}: {error}", file=sys.stderr)
            return 2
        files, count = files + 1, count + review.count
        findings += review.findings
    if not files:
        print("cannot read: no *.sql files in that folder", file=sys.stderr)
        return 2
    findings.sort(key=lambda one: ("danger", "caution", "note").index(one["level"]))
    if args.json:
        print(json.dumps({"files": files, "statements": count, "findings": findings}, indent=1))
    else:
        show(findings, f"{files} files, {count} statements", args.most)
    return int(any(one["level"] == "danger" for one in findings))


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
