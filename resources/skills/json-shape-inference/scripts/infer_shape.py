#!/usr/bin/env python3
"""Say what shape unknown JSON has: every path with its types, presence and values, and what will surprise a parser.

Standard library only, Python 3.11+. JSON Lines and arrays of any size are streamed, also below keys: {"data": [...]}.

    python3 infer_shape.py FILE [--by KEY] [--lines | --document] [--paths 50] [--json | --schema]

Exit codes: 0 read to the end, 1 some lines are no JSON, 2 the file cannot be read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import signal
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, cast

FORMAT = re.compile(
    r"(?P<empty>\s*)|(?P<code>0\d+)|(?P<integer>[+-]?\d{1,15})|(?P<long>\d{16,})|(?P<decimal>[+-]?\d+[.,]\d+)|(?P<date>\d{4}-\d\d-\d\d)"
    r"|(?P<zoned>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))"
    r"|(?P<offset>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d))"
    r"|(?P<local>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)|(?P<boolean>true|false|yes|no)"
    r"|(?P<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})|(?P<missing>null|none|nan|n/?a|undefined|-)"
    r"|(?P<url>https?://\S+)|(?P<email>[^\s@]+@[^\s@]+\.\w+)|(?P<ip>(?:\d{1,3}\.){3}\d{1,3})"
    r"|(?P<json>(?:\{\s*[\x22}]|\[\s*[\x22\]{\d]).*[\]}])|(?P<base64>[A-Za-z0-9+/]{60,}={0,2})",
    re.IGNORECASE | re.DOTALL,
)
DATA_KEY = re.compile(
    r"\d+|[0-9a-f]{16,}|[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d(-\d\d)?|.*@.*\..*|https?:.*", re.IGNORECASE
)
KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
HINTS = {
    "integer": "number in a string",
    "decimal": "number in a string",
    "boolean": "true or false in a string",
    "json": "JSON in a string: decode twice",
}
SECRET = re.compile(r"passw|secret|token|api_?key|authorization|cookie|private_?key|credential", re.IGNORECASE)
SPACE = re.compile(r"[ \t\n\r]*")
VALUES, MAP, CHUNK, LIMIT = 40, 200, 1 << 20, 1 << 28


@lru_cache(maxsize=1 << 15)
def format_of(value: str) -> str:
    found = FORMAT.fullmatch(value)
    return (found.lastgroup if found else None) or "text"


class Place:
    """What was seen at one path."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self.keys: dict[str, Place] = {}
        self.items: Place | None = None
        self.formats: Counter[str] = Counter()
        self.values: Counter[Any] = Counter()
        self.overflow = self.mapped = self.split = self.hidden = False
        self.low, self.high = float("inf"), float("-inf")
        self.big = self.broken = self.empty = self.longest = 0
        self.again = 0  # values of a key that its object had before

    def see(self, kind: str, record: int) -> None:
        self.kinds[kind] += 1
        self.first.setdefault(kind, record)

    def add(self, value: Any, record: int) -> None:
        """Take a decoded value with all that is in it."""
        kind = KINDS.get(type(value), "null")
        self.see(kind, record)
        if kind == "object":
            for key, one in value.items():
                self.key(key).add(one, record)
        elif kind == "array":
            items = self.below()
            self.empty += not value
            self.longest = max(self.longest, len(value))
            for one in value:
                items.add(one, record)
        elif kind != "null":
            self.measure(value, kind)

    def present(self) -> int:
        """Return how often the place was there: an object that repeats a key has it once."""
        return self.kinds.total() - self.again

    def key(self, name: str) -> Place:
        """Return the place below a key; more than MAP keys are taken for data and share one."""
        if self.mapped:
            self.keys["*"].hidden = self.keys["*"].hidden or bool(SECRET.search(name))
        if (found := self.keys.get("*" if self.mapped else name)) is None:
            found = self.keys[name] = Place()
            if len(self.keys) > MAP:
                self.fold()
                return self.keys["*"]
        return found

    def fold(self) -> None:
        """Put what is below all keys together."""
        whole = Place()
        whole.hidden = any(SECRET.search(name) for name in self.keys)
        for one in self.keys.values():
            whole.merge(one)
        self.keys, self.mapped = {"*": whole}, True

    def below(self) -> Place:
        self.items = self.items or Place()
        return self.items

    def measure(self, value: Any, kind: str) -> None:
        if kind == "string":
            self.longest = max(self.longest, len(value))
            self.broken += "\ufffd" in value
            self.formats[format_of(value) if len(value) < 5000 else "text"] += 1
            if value[:60] in self.values or len(self.values) < VALUES:
                self.values[value[:60]] += 1
            else:
                self.overflow = True
        elif kind != "boolean":
            self.big += kind == "integer" and abs(value) > 2**53
            if abs(value) < 1e300:
                self.low, self.high = min(self.low, value), max(self.high, value)

    def merge(self, other: Place) -> None:
        for mine, more in ((self.kinds, other.kinds), (self.formats, other.formats), (self.values, other.values)):
            cast("Counter[Any]", mine).update(more)
        for kind, record in other.first.items():
            self.first[kind] = min(record, self.first.get(kind, record))
        for name, one in other.keys.items():
            self.key(name).merge(one)
        if other.items:
            self.below().merge(other.items)
        self.overflow = self.overflow or other.overflow or len(self.values) > VALUES
        self.hidden = self.hidden or other.hidden
        self.low, self.high, self.longest = (
            min(self.low, other.low),
            max(self.high, other.high),
            max(self.longest, other.longest),
        )
        self.big, self.broken, self.empty = self.big + other.big, self.broken + other.broken, self.empty + other.empty
        self.again += other.again

    def settle(self) -> None:
        """Fold objects whose keys are data: ids or dates, many keys but few in each object, or equal things below."""
        names = list(self.keys)
        if len(names) > 2 and not self.mapped and not self.split:
            rare = max(one.kinds.total() for one in self.keys.values()) <= self.kinds["object"] / 5
            shapes = Counter(tuple(sorted(one.keys)) for one in self.keys.values())
            alike, often = shapes.most_common(1)[0]
            same = len(names) > 4 and len(alike) > 1 and often >= 0.8 * len(names)
            if all(DATA_KEY.fullmatch(name) for name in names) or (len(names) > 20 and rare) or same:
                self.fold()
        for one in [*self.keys.values(), *([self.items] if self.items else [])]:
            one.settle()

    def notes(self, of: int) -> Iterator[str]:
        """Yield what a program that reads this place must expect."""
        kinds = [kind for kind in self.kinds if kind != "null"]
        if len(kinds) > 1 and set(kinds) != {"integer", "number"}:
            rare = min(kinds, key=lambda kind: self.kinds[kind])
            yield f"MIXED: {self.kinds[rare]} {rare}, first in record {self.first[rare]}"
        if self.mapped:
            yield "keys are data: a map, not a record"
        if of and self.kinds.total() <= of / 100:
            yield f"RARE key, first in record {min(self.first.values())}"
        if self.empty and self.empty == self.kinds["array"]:
            yield "always empty: type of items unknown"
        seen: dict[str, str] = {}
        for name in self.keys:
            if (other := seen.setdefault(re.sub(r"[_\s-]", "", name).casefold(), name)) != name:
                yield f"two spellings: {other}, {name}"
        yield from self.value_notes()

    def value_notes(self) -> Iterator[str]:
        strings = self.kinds["string"]
        if self.formats["code"]:
            yield "leading zeros: a code, keep as text"
        for name, hint in HINTS.items():
            if self.formats[name] and self.formats[name] >= strings / 2:
                yield hint
        if few := sum(self.formats[name] for name in ("integer", "decimal") if self.formats[name] < strings / 2):
            yield f"{few} of {strings} strings are numbers"
        if 0 < self.formats["json"] < strings / 2:
            yield f"{self.formats['json']} of {strings} strings are JSON: decode twice"
        if (self.formats["zoned"] or self.formats["offset"]) and self.formats["local"]:
            yield "times with and without zone"
        for name, hint in (("empty", "are empty"), ("missing", "stand for null")):
            if self.formats[name] and self.formats[name] < strings:
                yield f"{self.formats[name]} strings {hint}"
        if self.big:
            yield f"{self.big} above 2^53: JavaScript rounds them"
        if self.broken:
            yield f"{self.broken} with broken characters"
        for factor, unit in ((1, "seconds"), (1000, "milliseconds"), (10**6, "microseconds"), (10**9, "nanoseconds")):
            if 1e9 * factor < self.low <= self.high < 2.2e9 * factor:
                yield f"epoch {unit}?"

    def content(self, hidden: bool) -> str:
        """Describe the values: range, format, enumeration or examples, no text where it may be secret."""
        parts = []
        if self.low <= self.high:
            parts.append(f"{plain(self.low)}..{plain(self.high)}")
        if (strings := self.kinds["string"]) and (self.overflow or self.values.total() < 2 * len(self.values)):
            common, count = self.formats.most_common(1)[0]
            share = f" {100 * count // strings}%" if count < strings else ""
            example = next((one for one in self.values if isinstance(one, str) and one.strip()), "")
            shown = "hidden" if hidden else f"e.g. {example[:30]!r}"
            parts.append(f"{common}{share}, up to {self.longest} characters, {shown}")
        elif strings and not hidden:
            words = [f"{value[:20]} x{n}" for value, n in self.values.most_common() if isinstance(value, str)]
            parts.append(", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else ""))
        if self.kinds["array"]:
            parts.append(f"up to {self.longest} items, {self.empty} empty")
        return "; ".join(parts)


def visible(text: str) -> str:
    """Escape what a terminal obeys or cannot be encoded, such as half of a surrogate pair."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", lambda found: ascii(found[0])[1:-1], text)


def plain(value: float) -> str:
    return str(value) if isinstance(value, int) and abs(value) < 10**20 else f"{value:.6g}"


class Reader:
    """Decode values one after the other from text of any length."""

    def __init__(self, handle: IO[str], shape: Shape) -> None:
        self.shape, self.decoder = shape, shape.decoder
        self.handle, self.text, self.at, self.gone, self.ended = handle, "", 0, 0, False
        self.record = self.repeated = self.document = 0

    @property
    def here(self) -> int:
        """Return the number of the record being read: an item of an array, else a document; from 1."""
        return self.record or self.document

    def more(self) -> None:
        chunk = self.handle.read(max(CHUNK, len(self.text) - self.at))
        self.gone += self.at
        self.text, self.at, self.ended = self.text[self.at :] + chunk, 0, not chunk
        if len(self.text) > LIMIT:
            raise ValueError(f"one value has more than {LIMIT >> 20} million characters")

    def peek(self) -> str:
        """Return the next character that is no space, or nothing at the end."""
        while True:
            self.at = cast("re.Match[str]", SPACE.match(self.text, self.at)).end()
            if self.at < len(self.text) or self.ended:
                return self.text[self.at : self.at + 1]
            self.more()

    def take(self, wanted: str) -> str:
        if (found := self.peek()) not in wanted or not found:
            what = repr(found) if found else "the end: cut off?"
            raise ValueError(f"expected one of {wanted} at character {self.gone + self.at}, found {what}")
        self.at += 1
        return found

    def value(self) -> Any:
        self.peek()
        repeated, constants = self.shape.repeated, self.shape.constants.copy()
        while True:
            self.shape.repeated, self.shape.constants = repeated, constants.copy()  # a value at the end of the text is read again
            try:
                value, end = self.decoder.raw_decode(self.text, self.at)
                if end + 2 * isinstance(value, int | float) < len(self.text) or self.ended:  # "1." is no whole number
                    self.at = end
                    return value
            except json.JSONDecodeError as error:
                if self.ended or not (error.pos > len(self.text) - 12 or error.msg.startswith("Unterminated")):
                    at_end = error.msg.startswith("Unterminated") or error.pos >= len(self.text.rstrip())
                    cut = ", the end: cut off?" if self.ended and at_end else ""
                    raise ValueError(f"{error.msg} at character {self.gone + error.pos}{cut}") from None
            self.more()

    def into(self, place: Place, by: str) -> None:
        """Add the next value; objects are entered, arrays taken item by item, so that memory stays small."""
        start = self.peek()
        if start == "{":
            place.see("object", self.here)
            self.take("{")
            names: set[str] = set()
            twice = False
            while self.peek() == '"' and isinstance(name := self.value(), str):
                self.take(":")
                place.key(name).again += name in names
                twice = twice or name in names
                names.add(name)
                self.into(place.key(name), by)
                if self.take(",}") == "}":
                    self.repeated += twice
                    return
            self.take('"' if names else "}")
        elif start == "[":
            place.see("array", self.here)
            self.take("[")
            count = 0
            while self.peek() != "]":
                self.record += 1
                count += 1
                add(place.below(), self.value(), self.record, by)
                if self.peek() != "]" and self.take(",") and self.peek() == "]":
                    raise ValueError(f"comma before ] at character {self.gone + self.at}")
            self.take("]")
            place.longest, place.empty = max(place.longest, count), place.empty + (not count)
        else:
            place.add(self.value(), self.here)


def add(place: Place, value: Any, record: int, by: str) -> None:
    """Add a record, with --by below the value of that key."""
    if by and isinstance(value, dict):
        place.see("object", record)
        place.split = True
        place = place.key(f"{by}={value[by]}" if isinstance(value.get(by), str | int) else f"{by}?")
    place.add(value, record)


class Shape:
    """The whole file."""

    def __init__(self, path: Path, by: str) -> None:
        self.path, self.by, self.root, self.records, self.repeated = path, by, Place(), 0, 0
        self.bad: list[tuple[int, str]] = []
        self.constants: Counter[str] = Counter()
        self.mode = ""
        self.decoder = json.JSONDecoder(object_pairs_hook=self.pairs, parse_constant=self.constant)

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        self.repeated += len(found) < len(pairs)
        return found

    def constant(self, name: str) -> float:
        self.constants[name] += 1
        return float(name.replace("Infinity", "inf"))

    def read(self, lines: bool | None) -> None:
        with open_text(self.path) as handle:
            if lines if lines is not None else looks_like_lines(self.path):
                self.read_lines(handle)
            else:
                self.read_document(handle)
        if not self.root.kinds:
            hint = "; values over several lines? try --document" if len(self.bad) > 1 else ""
            raise ValueError(f"no JSON value; line {self.bad[0][0]}: {self.bad[0][1]}{hint}" if self.bad else "the file is empty")
        self.root.settle()

    def read_lines(self, handle: IO[str]) -> None:
        self.mode = "JSON Lines"
        for number, line in enumerate(handle, 1):
            if not (line := line.strip().lstrip("\x1e")):
                continue
            try:
                value = self.decoder.decode(line)
            except (ValueError, RecursionError) as error:
                self.bad.append((number, getattr(error, "msg", None) or str(error)))
                continue
            self.records += 1
            add(self.root, value, number, self.by)

    def read_document(self, handle: IO[str]) -> None:
        reader = Reader(handle, self)
        if (start := reader.peek()) == "<":
            raise ValueError("this is XML or HTML, not JSON")
        if start and start not in '{["-0123456789tfnNI':
            raise ValueError(
                f"begins with {reader.text[reader.at : reader.at + 12]!r}: not JSON (prefix, JSONP, YAML?)"
            )
        while reader.peek():
            reader.document += 1
            reader.into(self.root, self.by)
        values = reader.document
        self.mode = "one document" if values == 1 else f"{values} documents one after the other"
        self.records, self.repeated = reader.record or values, self.repeated + reader.repeated

    def problems(self) -> list[str]:
        found = [f"line {number} is no JSON: {why}" for number, why in self.bad[:3]]
        if self.bad:
            hint = ": values over several lines? try --document" if len(self.bad) > self.records else ""
            found.append(f"{len(self.bad)} of {len(self.bad) + self.records} lines are no JSON{hint}")
        if self.repeated:
            found.append(f"{self.repeated} objects repeat a key: most parsers keep the last value")
        return found + [
            f"{count} x {name}: not JSON, strict parsers refuse the file" for name, count in self.constants.items()
        ]


def open_text(path: Path) -> IO[str]:
    if path.exists() and not path.is_file():
        raise ValueError("not a file that can be read twice")
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as handle:
        head = handle.read(4)
    if head.startswith((b"PK\x03\x04", b"PAR1", b"\x1f\x8b", b"SQLi")):
        raise ValueError("a binary file, not JSON")
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return cast("IO[str]", opener(path, "rt", encoding=encoding, errors="replace"))


def looks_like_lines(path: Path) -> bool:
    """Tell JSON Lines from a document: the first line is a whole value and something follows."""
    if path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        return True
    with open_text(path) as handle:
        try:
            json.loads(handle.readline(1 << 24).lstrip("\x1e"))
        except (ValueError, RecursionError):
            return False
        return any(line.strip() for line, _ in zip(handle, range(100), strict=False))


def walk(place: Place, path: str, of: int, hidden: bool = False) -> Iterator[dict[str, Any]]:
    """Yield a row for each path, in the order of the file."""
    hidden = hidden or place.hidden or bool(SECRET.search(path))
    row = {"path": path or ".", "kinds": dict(place.kinds), "present": place.present(), "of": of}
    yield row | {"content": place.content(hidden), "notes": list(place.notes(of))}
    for name, one in place.keys.items():
        plain = re.fullmatch(r"[A-Za-z_]\w*|\*", name)
        yield from walk(
            one,
            f"{path}.{name}" if plain else f"{path}[{json.dumps(name, ensure_ascii=False)}]",
            0 if place.mapped else place.kinds["object"],
            hidden,
        )
    if place.items:
        yield from walk(place.items, f"{path}[]", 0, hidden)


def schema(place: Place) -> dict[str, Any]:
    """Return JSON Schema 2020-12 of what was seen; only what every object has is required."""
    kinds = sorted(set(place.kinds) - ({"integer"} if "number" in place.kinds else set()))
    found: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
    if place.mapped:
        found["additionalProperties"] = schema(place.keys["*"])
    elif place.keys:
        found["properties"] = {name: schema(one) for name, one in place.keys.items()}
        found["required"] = [n for n, one in place.keys.items() if one.present() == place.kinds["object"]]
    if place.items:
        found["items"] = schema(place.items)
    formats = {"zoned": "date-time", "date": "date", "uuid": "uuid"}
    if len(place.formats) == 1 and (name := formats.get(next(iter(place.formats)))):
        found["format"] = name
    return found


def show(shape: Shape, most: int) -> None:
    unit = "items of outer arrays" if shape.mode == "one document" else "records"
    print(f"file      {shape.path}  {shape.path.stat().st_size} bytes, {shape.mode}, {shape.records} {unit}")
    for problem in shape.problems():
        print(f"problem   {problem}")
    rows = list(walk(shape.root, "", 0))
    width = min(44, max(len(row["path"]) for row in rows[:most]))
    print(f"\n{'path':<{width}} {'type':<15} {'present':>8}  values; notes")
    for row in rows[:most]:
        kinds = "|".join(row["kinds"]) or "nothing"
        share = f"{100 * row['present'] / row['of']:.4g}%" if row["of"] else str(row["present"])
        text = "; ".join([row["content"], *row["notes"]]).strip("; ")
        print(visible(f"{row['path']:<{width}} {kinds:<15} {share:>8}  {text}".rstrip()))
    if len(rows) > most:
        odd = [row["path"] for row in rows[most:] if any(note[:4] in ("MIXE", "RARE") for note in row["notes"])]
        print(visible(f"... {len(rows) - most} more paths, MIXED or RARE: {', '.join(odd[:8]) or 'none'}"))
        print(f"... see them with --paths {len(rows)} or --json")


def main() -> int:
    parser = argparse.ArgumentParser(description="Infer the shape of unknown JSON or JSON Lines.")
    parser.add_argument("file", type=Path, help="JSON or JSON Lines, also .gz")
    parser.add_argument("--by", default="", metavar="KEY", help="one shape for each value of this key of a record")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--lines", action="store_const", const=True, help="one value on each line (default: guessed)")
    mode.add_argument("--document", dest="lines", action="store_const", const=False, help="values over many lines")
    parser.add_argument("--paths", type=int, default=50, help="paths shown (default 50)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true")
    output.add_argument("--schema", action="store_true", help="print JSON Schema 2020-12")
    args = parser.parse_args()
    if args.schema and args.by:
        parser.error("--schema describes all records: leave out --by")
    shape = Shape(args.file, args.by)
    try:
        shape.read(args.lines)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        print(f"cannot read {args.file}: {error}", file=sys.stderr)
        return 2
    except RecursionError:
        print(f"cannot read {args.file}: nested deeper than this program follows", file=sys.stderr)
        return 2
    if args.json or args.schema:
        about = {"file": str(args.file), "mode": shape.mode, "records": shape.records, "problems": shape.problems()}
        whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema(shape.root)}
        result = whole if args.schema else {**about, "paths": list(walk(shape.root, "", 0))}
        print(json.dumps(result, indent=1, ensure_ascii=False).encode(errors="replace").decode())
    else:
        show(shape, args.paths)
    return int(bool(shape.bad))


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
