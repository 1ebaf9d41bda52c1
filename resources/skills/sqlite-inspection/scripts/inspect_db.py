#!/usr/bin/env python3
"""Print what an unknown SQLite file holds, without changing its content.

Standard library only, Python 3.11+. A file in WAL mode may get -wal and -shm
companions, even read-only: work on a copy, or use --immutable on an idle copy.

    python3 inspect_db.py FILE [--check quick|full] [--no-counts] [--immutable] [--json]

Exit codes: 0 ok, 1 damage found, 2 the file cannot be read, or --check could not look at all of it.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sqlite3
import struct
import sys
from pathlib import Path
from urllib.parse import quote

MAGIC = b"SQLite format 3\x00"
OF_THE_APP = re.compile(r"no such (collation|function|module|tokenizer)|unknown (function|tokenizer)")
GAP = r"(?:\s|/\*[\s\S]*?\*/|--[^\n]*\n)*"
NAMED = r"""(?:"(?:[^"]|"")*"|`(?:[^`]|``)*`|'(?:[^']|'')*'|\[[^]]*\]|[^\s"`'\[/]+)"""
MODULE = re.compile(rf"CREATE VIRTUAL TABLE{GAP}{NAMED}{GAP}USING{GAP}[\"`'\[]?(\w+)", re.IGNORECASE)
ENCODINGS = {1: "utf-8", 2: "utf-16le", 3: "utf-16be"}


def read_header(path: Path) -> dict:
    """Facts from the first 100 bytes and the companion files; opens no database."""
    size = path.stat().st_size
    with path.open("rb") as handle:
        head = handle.read(100)
    if size == 0:
        return {"file_bytes": 0, "empty": True}
    if len(head) < 100 or head[:16] != MAGIC:
        raise ValueError("no SQLite header: encrypted, truncated or another format")
    page_size = struct.unpack(">H", head[16:18])[0]
    page_size = 65536 if page_size == 1 else page_size
    facts = {
        "file_bytes": size,
        "page_size": page_size,
        "partial_page": size % page_size != 0,
        "missing_bytes": max(0, struct.unpack(">I", head[28:32])[0] * page_size - size),
        "encoding": ENCODINGS.get(struct.unpack(">I", head[56:60])[0], "unset"),
        "user_version": struct.unpack(">i", head[60:64])[0],
        "application_id": struct.unpack(">I", head[68:72])[0],
    }
    for suffix in ("-wal", "-shm", "-journal"):
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            facts[suffix] = companion.stat().st_size
    return facts


def connect(path: Path, immutable: bool) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.resolve()))}?mode=ro"
    if immutable:
        uri += "&immutable=1"
    connection = sqlite3.connect(uri, uri=True, timeout=5)
    connection.text_factory = lambda text: text.decode(errors="replace")  # names of old programs may be Latin-1
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("BEGIN")  # one snapshot for every query below
    return connection


def name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def sizes(connection: sqlite3.Connection) -> dict[str, int]:
    """Bytes for each table and index; empty if dbstat is not compiled in."""
    try:
        rows = connection.execute(
            "SELECT name, sum(pgsize) FROM dbstat WHERE aggregate = TRUE GROUP BY name"
        ).fetchall()
    except sqlite3.DatabaseError:
        return {}
    return dict(rows)


def check_all(connection: sqlite3.Connection, pragma: str, tables: list[dict]) -> tuple[list[str], list[str]]:
    """Return what is damaged, and what needs a collation or function that only the application has."""
    try:
        return [row[0] for row in connection.execute(f"PRAGMA {pragma}(20)")], []
    except sqlite3.DatabaseError as error:
        if not OF_THE_APP.search(str(error)):
            return [str(error)], []
    found, unchecked = [], ["free pages"]  # table by table: what can be looked at
    for table in (entry["name"] for entry in tables if entry["type"] in ("table", "shadow")):
        try:
            found += [row[0] for row in connection.execute(f"PRAGMA {pragma}({name(table)})") if row[0] != "ok"]
        except sqlite3.DatabaseError as error:
            (unchecked if OF_THE_APP.search(str(error)) else found).append(f"{table} ({error})")
    return found or ["ok"], unchecked


def inspect(path: Path, check: str, counts: bool, immutable: bool) -> dict:
    report: dict = {"path": str(path), "library": sqlite3.sqlite_version}
    report["header"] = read_header(path)
    report["tables"], report["indexes"] = [], []
    if report["header"].get("empty"):
        return report
    if sqlite3.sqlite_version_info < (3, 37):
        raise sqlite3.NotSupportedError("PRAGMA table_list needs SQLite 3.37 or newer")
    connection = connect(path, immutable)
    try:
        for pragma in ("page_size", "page_count", "freelist_count", "journal_mode", "auto_vacuum", "schema_version"):
            report[pragma] = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
        user_version, application_id, encoding = (
            connection.execute(f"PRAGMA {pragma}").fetchone()[0]
            for pragma in ("user_version", "application_id", "encoding")
        )  # newer than the header where they are still in -wal
        report["header"] |= {"user_version": user_version, "application_id": application_id & 0xFFFFFFFF}
        report["header"]["encoding"] = encoding.lower()
        bytes_of = sizes(connection)
        report["dbstat"] = bool(bytes_of)
        # type is table, view, shadow (owned by a virtual table) or virtual
        listed = connection.execute("PRAGMA main.table_list").fetchall()
        sql_of = dict(connection.execute("SELECT name, sql FROM sqlite_schema"))
        for _, table, kind, columns, without_rowid, strict in sorted(listed, key=lambda r: r[1]):
            if table in ("sqlite_schema", "sqlite_master"):
                continue
            entry = {
                "name": table,
                "type": kind,
                "columns": columns,
                "without_rowid": bool(without_rowid),
                "strict": bool(strict),
                "bytes": bytes_of.get(table),
            }
            if kind == "virtual":
                module = MODULE.match(sql_of.get(table) or "")
                entry["using"] = module[1] if module else "?"
            if counts and kind in ("table", "virtual"):
                try:
                    query = f"SELECT count(*) FROM main.{name(table)}"
                    entry["rows"] = connection.execute(query).fetchone()[0]
                except sqlite3.DatabaseError as error:
                    entry["rows_error"] = str(error)
            if kind == "view":
                try:
                    connection.execute(f"SELECT * FROM main.{name(table)} LIMIT 0")
                except sqlite3.DatabaseError as error:
                    entry["broken"] = str(error)
            report["tables"].append(entry)
        for entry in report["tables"]:
            if entry["type"] in ("view", "virtual"):
                continue
            query = f"PRAGMA main.index_list({name(entry['name'])})"
            for _, index, unique, origin, partial in connection.execute(query).fetchall():
                if origin == "pk" and entry["without_rowid"]:
                    continue  # the table itself
                query = f"PRAGMA main.index_info({name(index)})"
                cols = [r[2] or "<expression>" for r in connection.execute(query)]
                report["indexes"].append(
                    {
                        "name": index,
                        "table": entry["name"],
                        "columns": cols,
                        "unique": bool(unique),
                        "origin": origin,
                        "partial": bool(partial),
                        "bytes": bytes_of.get(index),
                    }
                )
        if check != "none":
            pragma = "quick_check" if check == "quick" else "integrity_check"
            report["foreign_key_violations"] = None
            report["check"], report["unchecked"] = check_all(connection, pragma, report["tables"])
            for entry in report["tables"]:
                if OF_THE_APP.search(entry.get("rows_error", "")):
                    report["unchecked"].append(f"{entry['name']} ({entry['rows_error']})")
            try:
                broken = connection.execute("PRAGMA foreign_key_check").fetchmany(1000)
                report["foreign_key_violations"] = len(broken)
            except sqlite3.DatabaseError as error:
                if not OF_THE_APP.search(str(error)):
                    report["check"].append(str(error))
                report["unchecked"].append(f"foreign keys ({error})")
    finally:
        connection.close()
    return report


def largest(rows: list[dict], most: int) -> list[dict]:
    """Return all rows in their order, or the largest ones first where there are more than *most*."""
    return rows if len(rows) <= most else sorted(rows, key=lambda row: -(row["bytes"] or 0))[:most]


def plain(text: str) -> str:
    return text.encode("unicode_escape").decode() if not text.isprintable() else text


def damaged(report: dict) -> bool:
    failed = any("malformed" in table.get("rows_error", "") for table in report["tables"])
    return failed or report.get("check", ["ok"]) != ["ok"]


def show(report: dict, most: int) -> None:
    head = report["header"]
    print(f"file        {report['path']}  {head['file_bytes']} bytes")
    if head.get("empty"):
        print("empty file: a valid database without tables")
        return
    print(
        f"pages       {report['page_count']} x {report['page_size']} bytes, "
        f"{report['freelist_count']} free; encoding {head['encoding']}"
    )
    print(
        f"journal     {report['journal_mode']}  user_version {head['user_version']}  "
        f"application_id {head['application_id']:#x}  library {report['library']}"
    )
    for suffix in ("-wal", "-shm", "-journal"):
        if suffix in head:
            print(f"companion   {suffix} {head[suffix]} bytes")
    if head["missing_bytes"] or head["partial_page"]:
        print(f"note        truncated, or pages are still in -wal: {head['missing_bytes']} bytes missing")
    if not report["dbstat"]:
        print("note        dbstat not compiled in: no sizes per table")
    print(f"\n{'table':<32} {'type':<8} {'rows':>10} {'bytes':>12}  notes")
    tables, indexes = (largest(report[kind], most) for kind in ("tables", "indexes"))
    for t in tables:
        notes = [t["using"]] if "using" in t else []
        notes += [key for key in ("strict", "without_rowid") if t[key]]
        notes += [t[key] for key in ("rows_error", "broken") if key in t]
        rows = "-" if t.get("rows") is None else t["rows"]
        size = "-" if t["bytes"] is None else t["bytes"]
        print(f"{plain(t['name']):<32} {t['type']:<8} {rows:>10} {size:>12}  {', '.join(notes)}")
    hidden = len(report["tables"]) + len(report["indexes"]) - len(tables) - len(indexes)
    print(f"\n{'index':<40} {'bytes':>12}  on")
    for i in indexes:
        flags = " unique" * i["unique"] + " partial" * i["partial"]
        size = "-" if i["bytes"] is None else i["bytes"]
        print(f"{plain(i['name']):<40} {size:>12}  {plain(i['table'])}({plain(', '.join(i['columns']))}){flags}")
    if hidden:
        print(f"\n... the {hidden} smallest tables and indexes are left out: --max {len(report['tables'])} or --json")
    if "check" in report:
        print(f"\ncheck       {'; '.join(report['check'])}")
        if report["unchecked"]:
            print(f"not checked {plain(', '.join(report['unchecked']))}")
        if report["foreign_key_violations"] is not None:
            print(f"foreign keys {report['foreign_key_violations']} violations (stops at 1000)")
    else:
        print("\ncheck       not made: damage may be there; --check quick")


def lacking(path: Path) -> str:
    """Say of a file that cannot be read how much of it is missing."""
    try:
        missing = read_header(path).get("missing_bytes")
    except (OSError, ValueError):
        return ""
    return f" (truncated: {missing} bytes missing, get a whole copy)" if missing else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Inspect a SQLite file without changing its content.")
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--check",
        choices=("none", "quick", "full"),
        default="none",
        help="quick skips comparing indexes with tables (default: none)",
    )
    parser.add_argument(
        "--no-counts", action="store_true", help="skip count(*), which reads every table or its smallest index"
    )
    parser.add_argument(
        "--immutable", action="store_true", help="ignore -wal and locks; only for a copy that nobody writes"
    )
    parser.add_argument("--max", type=int, default=60, help="tables and indexes shown, the largest (default 60 each)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        report = inspect(args.file, args.check, not args.no_counts, args.immutable)
    except (OSError, ValueError, sqlite3.Error) as error:
        print(f"cannot inspect {args.file}: {error}{lacking(args.file)}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        show(report, args.max)
    return 1 if damaged(report) else 2 if report.get("unchecked") else 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
