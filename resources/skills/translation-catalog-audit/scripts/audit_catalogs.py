#!/usr/bin/env python3
"""Compare translation catalogs with their source: what is missing, what breaks, which plural forms a language lacks.

Standard library only, Python 3.11+. Reads JSON (nested, flat, i18next), ARB, PO and POT, XLIFF 1.2 and 2, Apple .strings,
.stringsdict and .xcstrings, Android strings.xml.

    python3 audit_catalogs.py FILE|FOLDER|LOCALE=FILE... [--source en] [--gaps-fail] [--top N] [--json]

Exit codes: 0 nothing breaks, 1 errors (with --gaps-fail also missing translations), 2 nothing to compare or unreadable.
"""

from __future__ import annotations

import argparse
import json
import plistlib
import re
import signal
import sys
import unicodedata
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers.expat import ExpatError

# Categories that whole numbers reach | those that only fractions or millions reach | whether `one` is 1 alone.
# Source: CLDR 48, by Intl.PluralRules of Node 24 (ICU 78.3), whole numbers 0 to 2000.
PLURALS = """
zero one two few many other | | exact : ar cy
one few many | other | wide : be ru uk
one other | | exact : af an ast az bg da de el en eo et eu fi fo fy gl gsw ha hu io ka kk ku ky lb ml mn mr nb ne nl nn \
no or ps rm sd so sq sv sw ta te tk tr ug ur uz xh
one two few other | many | wide : br gv
one few other | | wide : bs hr sh sr
one other | many | exact : ca es it
one few other | many | exact : cs sk
one two few other | | wide : dsb gd hsb sl
one other | | wide : am as bn fa ff fil gu hi hy is kab kn ln mg mk pa si tl zu
one other | many | wide : fr pt
one two few many other | | exact : ga mt
one two other | | exact : he se
other | | exact : bo dz id ig ja jv km ko lo ms my su th vi wo yo zh
one few other | many | wide : lt
zero one other | | wide : lv
one few many | other | exact : pl
one few other | | exact : ro
zero one other | | exact : ksh lag
"""
# Categories of ordinals ("1st, 2nd") with more than `other`. Source: CLDR 48, by Intl.PluralRules, whole numbers 0 to 2000.
ORDINALS = """
one two few many other : as bn gu hi or
one few many other : az
few other : be tk uk
one two few other : ca en gd mr
zero one two few many other : cy
one other : fil fr ga hu hy lo ms ne ro sv tl vi
many other : it kk
one many other : ka sq
one two many other : mk
"""
OLD_CODES = {"iw": "he", "in": "id", "ji": "yi", "tl": "fil"}
CATEGORIES = ("zero", "one", "two", "few", "many", "other")
LOCALE = re.compile(r"(?i)^([a-z]{2,3})(?:[-_](?:r?[a-z]{2}|[a-z]{4}|\d{3}))*$|^b(?:\+\w+)+$")
IN_NAME = re.compile(r"(?:^|(?<=[._-]))(?=([A-Za-z]{2,3}(?:[-_](?:[A-Za-z]{2}|[A-Za-z]{4}|\d{3}))*)\.)")
SUFFIXES = {".json", ".arb", ".po", ".pot", ".xlf", ".xliff", ".strings", ".stringsdict", ".xcstrings", ".xml"}
PRINTF = re.compile(r"%(?:(\d+)\$)?(?:\((\w+)\))?[-+0#,]*(?:\d+|\*)?(?:\.\d+)?(?:hh|h|ll|l|q|z|j|t)?([@a-zA-Z%])")
NAMED = re.compile(r"\{\{\s*-?\s*([^{},]+?)\s*(?:,[^{}]*)?\}\}|%\{(\w+)\}|\$\{([^}]+)\}|\$t\(([^)]+)\)|\{\s*([\w.-]+)\s*\}|(\$[A-Za-z_]\w*\$)"
                   r"|(%(?!(?:hh?|ll?|[qzjt])?[a-zA-Z]%)[A-Za-z_]\w+%(?!%))")
DOUBLE = re.compile(r"\{\{\s*-?\s*([^{},]+?)\s*(?:,[^{}]*)?\}\}")
COLON = re.compile(r"(?<![\w:/]):([A-Za-z_]\w*)(?![:/\w])")  # Laravel
TAG = re.compile(r"<(/?[A-Za-z0-9][\w-]*)(?:\s[^<>]*)?/?>")
ICU_HINT = re.compile(r"(?<!\{)\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal|number|date|time)\b")
NEXT = r"[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"  # what Latin-1 or Windows-1252 make of the bytes after the first
MOJIBAKE = re.compile(
    r"Ã[\x80-\xbfŸœ‰€ˆŠ‡ŽšŒ™›˜†]|(?<![A-ZÀ-Þ])Ã[„…–“”‘’—‚](?=[a-zß])|â€[™œ\x9d“”¦]|Â[ \xa0«»©°]"
    r"|[ÄÅ](?=[^\xa0«»„…“”‘’–—‚‹›•])" + NEXT + r"|Å›(?=[a-z])"
    r"|(?:[ÐÑÎÏØÙ×]" + NEXT + r"){2}|(?:[à-é]" + NEXT + r"{2}){2}"
)
INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff\u202a-\u202e\u0000-\u0008\u000b\u000c\u000e-\u001f]")
ERRORS = ("duplicate", "syntax", "placeholder", "plural", "items", "damaged", "escape")
GAPS = ("no-file", "missing", "untranslated", "fuzzy")
Json = dict[str, Any]


class Plural(NamedTuple):
    """The categories that a language needs: for whole numbers, for the rest; whether `one` means only 1."""

    whole: tuple[str, ...]
    rare: tuple[str, ...]
    exact: bool


def _read_plurals() -> dict[str, Plural]:
    found = {}
    for line in PLURALS.strip().replace("\\\n", "").splitlines():
        kinds, _, languages = line.partition(" : ")
        whole, rare, exact = (part.strip() for part in kinds.split("|"))
        found |= dict.fromkeys(languages.split(), Plural(tuple(whole.split()), tuple(rare.split()), exact == "exact"))
    return found


def _read_ordinals() -> dict[str, Plural]:
    found = dict.fromkeys(RULES, Plural(("other",), (), False))
    for line in ORDINALS.strip().splitlines():
        kinds, _, languages = line.partition(" : ")
        found |= dict.fromkeys(languages.split(), Plural(tuple(kinds.split()), (), False))
    return found


RULES = _read_plurals()
ORDINAL_RULES = _read_ordinals()


@dataclass
class Entry:
    """One message: its texts by plural category ("" if it has none), its state, its source if the file holds it."""

    forms: dict[str, str]
    state: str = ""
    source: dict[str, str] = field(default_factory=dict)
    place: str = ""
    flags: frozenset[str] = frozenset()


@dataclass
class Catalog:
    """The messages of one language in one file. All catalogs of a name are the same file in other languages."""

    locale: str
    file: str
    name: str
    kind: str
    entries: dict[str, Entry] = field(default_factory=dict)
    problems: list[tuple[str, str, str]] = field(default_factory=list)
    facts: Json = field(default_factory=dict)
    chosen: bool = False  # its language was given as LOCALE=FILE
    template: bool = False  # it holds no translations: the source of all that share its messages


class Finding(NamedTuple):
    rule: str
    locale: str
    file: str
    key: str
    text: str


# Reading


def decode(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"line {line} is not UTF-8: convert the file, or it was damaged on the way") from error


def flatten(value: Any, path: str, into: dict[str, Any]) -> set[str]:  # noqa: ANN401
    """Write the values below *value* into *into*, by path; return the paths that two of them have."""
    twice = set()
    todo: list[tuple[Any, str]] = [(value, path)]
    while todo:
        here, at = todo.pop()
        if isinstance(here, dict | list):
            pairs = here.items() if isinstance(here, dict) else enumerate(here)
            todo += [(inner, f"{at}.{key}" if at else str(key)) for key, inner in pairs]
        else:
            twice |= {at} & into.keys()
            into[at] = here
    return twice


def read_json(text: str, catalog: Catalog) -> None:
    def unique(pairs: list[tuple[str, Any]]) -> Json:
        for key, times in Counter(key for key, _ in pairs).items():
            if times > 1:
                catalog.problems.append(("duplicate", key, f"written {times} times in one object, the last wins"))
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    if not isinstance(data, dict):
        raise ValueError("no object at the top: not a catalog")
    if catalog.kind == "arb":
        catalog.locale = str(data.get("@@locale", catalog.locale))
        data = {key: value for key, value in data.items() if not key.startswith("@")}
    for word in ("message", "defaultMessage"):  # browser extensions, FormatJS: a record for each message
        if data and all(isinstance(one, dict) and isinstance(one.get(word), str) for one in data.values()):
            data = {key: one[word] for key, one in data.items()}
    flat: dict[str, Any] = {}
    for key in sorted(flatten(data, "", flat)):
        catalog.problems.append(("duplicate", key, "written as one key with a dot and as an object, only one is compared"))
    groups: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for key, value in flat.items():
        match = re.match(r"^(.+?)(?:(_ordinal))?_(zero|one|two|few|many|other)$", key)
        if match and f"{match[1]}{match[2] or ''}_other" in flat:
            groups[match[1] + (match[2] or "")][match[3]] = value
        else:
            groups[key][""] = value
    for key, forms in groups.items():
        texts = {form: value for form, value in forms.items() if isinstance(value, str)}
        ordinal = frozenset({"ordinal"} if "" not in forms and key.endswith("_ordinal") else ())
        catalog.entries[key] = Entry(texts, "" if any(texts.values()) else "untranslated", flags=ordinal)


PO_LINE = re.compile(r'^(?P<old>#~\s*)?(?P<word>msgctxt|msgid_plural|msgid|msgstr(?:\[(?P<form>\d+)\])?)?\s*"(?P<text>.*)"\s*$')


def read_po(text: str, catalog: Catalog) -> None:
    fields: dict[str, str] = {}
    flags: set[str] = set()
    current, start = "", 0

    def finish() -> None:
        if "msgid" in fields:
            _add_po(catalog, dict(fields), frozenset(flags), start)
        fields.clear()
        flags.clear()

    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        if line.startswith("#~"):
            continue
        if line.startswith("#") or not line.strip():
            if any(name.startswith("msgstr") for name in fields):
                finish()
            if line.startswith("#,"):
                flags |= {flag.strip() for flag in line[2:].split(",")}
            continue
        if not (match := PO_LINE.match(line)):
            raise ValueError(f"line {number} is no PO: {line.strip()[:60]!r}")
        word = match["word"]
        if word:
            if word in ("msgctxt", "msgid") and any(name.startswith("msgstr") for name in fields):
                finish()
            start = number if word in ("msgctxt", "msgid") and "msgctxt" not in fields else start
            current = word
            fields[current] = ""
        if not current:
            raise ValueError(f"line {number}: text before any msgid")
        fields[current] += unescape(match["text"])
    finish()


def _add_po(catalog: Catalog, fields: dict[str, str], flags: frozenset[str], line: int) -> None:
    identity = fields["msgid"]
    if not identity and "msgctxt" not in fields:
        header = fields.get("msgstr", "")
        if language := re.search(r"^Language: *(\S+)", header, re.MULTILINE):
            catalog.locale = language[1]
        if forms := re.search(r"nplurals\s*=\s*(\d+)", header):
            catalog.facts["nplurals"] = int(forms[1])
        catalog.facts["zero_last"] = bool(re.search(r"\bplural\s*=\s*\(?\s*n\s*%\s*10\s*==\s*1\b", header))
        if (charset := re.search(r"charset=(\S+)", header)) and charset[1].lower() not in ("utf-8", "charset", "ascii", "us-ascii"):
            catalog.problems.append(("look", "", f"charset {charset[1]}: convert to UTF-8"))
        return
    key = f"{fields['msgctxt']}|{identity}" if "msgctxt" in fields else identity
    if not any(name.startswith("msgstr") for name in fields):
        catalog.problems.append(("syntax", key, f"no msgstr in line {line} and after: cut off?"))
    if key in catalog.entries:
        catalog.problems.append(("duplicate", key, f"again in line {line}: msgfmt refuses the file"))
        return
    forms = {name[7:-1] if "[" in name else "": text for name, text in fields.items() if name.startswith("msgstr")}
    source = {"one": identity, "other": fields["msgid_plural"]} if "msgid_plural" in fields else {"": identity}
    state = "fuzzy" if "fuzzy" in flags else "" if all(forms.values()) and forms else "untranslated"
    catalog.entries[key] = Entry(forms, state, source, f"line {line}", flags)


def unescape(text: str) -> str:
    known = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
    return re.sub(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{4}|.)",
                  lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else known.get(m[1], m[0]), text)  # fmt: skip


STRINGS = re.compile(
    r'(?P<space>\s+)|(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<pair>(?:"(?P<key>(?:[^"\\]|\\.)*)"|(?P<bare>[\w.-]+))\s*=\s*'
    r'"(?P<text>(?:[^"\\]|\\.)*)"\s*;)', re.DOTALL
)  # fmt: skip


def read_strings(text: str, catalog: Catalog) -> None:
    place = 0
    while place < len(text):
        match = STRINGS.match(text, place)
        line = text.count("\n", 0, place) + 1
        if not match:
            raise ValueError(f'line {line}: expected `"key" = "text";`, is a semicolon or quote missing before it?')
        if match["pair"]:
            key = unescape(match["key"] if match["key"] is not None else match["bare"])
            if key in catalog.entries:
                catalog.problems.append(("duplicate", key, f"again in line {line}"))
            catalog.entries[key] = Entry({"": unescape(match["text"])}, "" if match["text"] else "untranslated", place=f"line {line}")
        place = match.end()


def read_stringsdict(data: bytes, catalog: Catalog) -> None:
    try:
        rules = plistlib.loads(data)
    except (plistlib.InvalidFileException, ExpatError) as error:
        raise ValueError(f"no property list: {error or 'unknown format'}") from error
    for key, rule in rules.items():
        for name, part in rule.items():
            if isinstance(part, dict) and part.get("NSStringFormatSpecTypeKey") == "NSStringPluralRuleType":
                forms = {form: str(text) for form, text in part.items() if form in CATEGORIES}
                catalog.entries[f"{key}.{name}"] = Entry(forms, "" if any(forms.values()) else "untranslated")


def read_xcstrings(text: str, catalog: Catalog) -> list[Catalog]:
    """Return one catalog for each language of a string catalog, which holds all of them."""
    data = json.loads(text)
    found: dict[str, Catalog] = {}

    def of(locale: str) -> Catalog:
        return found.setdefault(locale, Catalog(locale, catalog.file, catalog.name, "xcstrings"))

    of(data["sourceLanguage"])
    for key, record in data["strings"].items():
        if record.get("shouldTranslate") is False:
            continue
        parts = record.get("localizations", {})
        if data["sourceLanguage"] not in parts:
            of(data["sourceLanguage"]).entries[key] = Entry({"": key})
        for locale, part in parts.items():
            forms: dict[str, str] = {}
            state = ""
            plural = part.get("variations", {}).get("plural")
            for form, unit in plural.items() if plural else [("", part)] if "stringUnit" in part else []:
                forms[form] = unit["stringUnit"].get("value", "")
                state = {"new": "untranslated", "needs_review": "fuzzy"}.get(unit["stringUnit"].get("state"), state)
            if forms:
                of(locale).entries[key] = Entry(forms, state)
            else:
                of(locale).problems.append(("look", key, "varies by device or by substitutions: not read, check it by hand"))
                of(locale).entries[key] = Entry({})
    return list(found.values())


def parse_xml(data: bytes) -> ET.Element:
    if b"<!ENTITY" in data:
        raise ValueError("it declares entities: replace them by their text first")
    try:
        return ET.fromstring(data)
    except ET.ParseError as error:
        raise ValueError(f"XML is damaged: {error}") from error


def local(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def inner(element: ET.Element) -> str:
    """Return the text of *element* with its tags, each with the attributes that say which it is."""
    parts = [element.text or ""]
    for child in element:
        name = child.get("id") or child.get("name") or ""
        tag = f"{local(child)}-{name}" if local(child) in ("x", "g", "ph", "pc", "bx", "ex") else local(child)
        body = inner(child)
        parts += [f"<{tag}>{body}</{tag}>" if body else f"<{tag}/>", child.tail or ""]
    return "".join(parts)


def read_android(data: bytes, catalog: Catalog) -> None:
    root = parse_xml(data)
    if local(root) != "resources":
        raise ValueError(f"its root is <{local(root)}>, not <resources>")
    for element in root:
        if not isinstance(element.tag, str) or element.get("translatable") == "false":
            continue
        name, kind = element.get("name", ""), local(element)
        if kind == "string":
            forms = {"": inner(element)}
        elif kind == "plurals":
            forms = {item.get("quantity", ""): inner(item) for item in element}
        elif kind == "string-array":
            forms = {str(number): inner(item) for number, item in enumerate(element)}
            name = f"{name}[]"
        else:
            continue
        if name in catalog.entries:
            catalog.problems.append(("duplicate", name, "defined twice: aapt refuses it"))
        for text in forms.values():
            if re.search(r"(?<!\\)'", re.sub(r'"[^"]*"', "", text)):
                catalog.problems.append(("escape", name, "an apostrophe without backslash: write \\'"))
        state = "" if any(text.strip() for text in forms.values()) else "untranslated"
        catalog.entries[name] = Entry({key: text.replace("\\'", "'") for key, text in forms.items()}, state)


def xliff_name(holder: ET.Element, unit: str) -> str:
    """Return the id of a message. In XLIFF 2 that of a segment counts in its unit only."""
    own = holder.get("id", "")
    return "/".join(filter(None, (unit, own))) if local(holder) == "segment" else own


def read_xliff(data: bytes, catalog: Catalog) -> None:
    root = parse_xml(data)
    if local(root) != "xliff":
        raise ValueError(f"its root is <{local(root)}>, not <xliff>")
    languages = {part.get("target-language") for part in root.iter() if local(part) == "file"} - {None}
    if len(languages) > 1:
        raise ValueError(f"it holds several languages ({', '.join(sorted(languages))}): one file for each")
    several = sum(local(part) == "file" for part in root.iter()) > 1
    file = unit = ""
    for holder in root.iter():
        if target := holder.get("target-language") or holder.get("trgLang"):
            catalog.locale = target
        catalog.facts["source"] = holder.get("source-language") or holder.get("srcLang") or catalog.facts.get("source", "")
        if local(holder) == "file":
            file = f"{holder.get('original') or holder.get('id') or ''}: " if several else ""
        unit = holder.get("id", "") if local(holder) == "unit" else unit
        if local(holder) not in ("trans-unit", "segment", "unit") or holder.get("translate") == "no":
            continue
        parts = {local(child): child for child in holder if local(child) in ("source", "target")}
        if "source" not in parts:
            continue
        key = file + (xliff_name(holder, unit) or inner(parts["source"]))
        target_text = inner(parts["target"]) if "target" in parts else ""
        state = "" if target_text.strip() else "untranslated"
        if "target" in parts and (parts["target"].get("state") or holder.get("state")) in ("new", "needs-translation", "initial"):
            state = "untranslated"
        if key in catalog.entries and local(holder) == "trans-unit":
            catalog.problems.append(("duplicate", key, "this id is used twice"))
        catalog.entries[key] = Entry({"": target_text} if target_text else {}, state, {"": inner(parts["source"])})


def locale_of(path: Path, source: str) -> tuple[str, str]:
    """Return the locale that the path of a catalog names, nearest to its end, and the path with * in its place."""
    *folders, file = path.parts
    for match in IN_NAME.finditer(file):
        if _is_locale(match[1]):
            return match[1], "/".join([*folders, file[: match.start(1)] + "*" + file[match.end(1) :]])
    for place in reversed(range(len(folders))):
        name = folders[place]
        bare = name.removesuffix(".lproj").removeprefix("values-")
        if name in ("values", "Base.lproj") or _is_locale(bare):
            folders[place] = "values*" if name.startswith("values") else "*.lproj" if name.endswith(".lproj") else "*"
            found = source if name in ("values", "Base.lproj") else bare.removeprefix("b+").replace("+", "-").replace("-r", "-")
            return found, "/".join([*folders, file])
    return "", str(path)


def _is_locale(text: str) -> bool:
    return bool(LOCALE.match(text)) and language(text) in RULES


def language(locale: str) -> str:
    code = re.split(r"[-_+]", locale.removeprefix("b+"))[0].lower()
    return code if code in RULES else OLD_CODES.get(code, code)


def read_file(path: Path, locale: str, source: str) -> list[Catalog]:
    found, name = locale_of(path.with_suffix(path.suffix.lower()), source)
    kind = path.suffix.lstrip(".").lower()
    catalog = Catalog(locale or found, str(path), name, "po" if kind == "pot" else "xliff" if kind == "xlf" else kind)
    data = path.read_bytes()
    if not data.strip():
        raise ValueError("the file is empty")
    if catalog.kind == "xcstrings":
        return read_xcstrings(decode(data), catalog)
    if catalog.kind in ("xml", "xliff"):
        (read_android if catalog.kind == "xml" else read_xliff)(data, catalog)
    elif catalog.kind == "stringsdict":
        read_stringsdict(data, catalog)
    else:
        {"json": read_json, "arb": read_json, "po": read_po, "strings": read_strings}[catalog.kind](decode(data), catalog)
    if locale:
        catalog.locale, catalog.chosen = locale, True
    untranslated = not catalog.locale and not any(entry.forms for entry in catalog.entries.values())
    if path.suffix == ".pot" or (catalog.kind == "xliff" and untranslated):
        catalog.locale, catalog.template = source, True
        for entry in catalog.entries.values():
            entry.forms, entry.state = dict(entry.source), ""
    if not found:  # the language stands in the file: its name in the path is a variable too
        catalog.name = "/".join("*" if part == catalog.locale else part for part in path.parts)
    if not catalog.locale:
        raise ValueError(f"its path names no language: give it as LOCALE={path}")
    return [catalog]


# Comparing


class Parsed(NamedTuple):
    arguments: frozenset[str]
    plurals: tuple[tuple[str, str, tuple[str, ...]], ...]
    problem: str
    branches: tuple[tuple[str, str, frozenset[str]], ...] = ()  # argument, selector, what stands inside


def parse_icu(text: str) -> Parsed:
    """Return arguments, plurals and selects of an ICU message, and its first syntax error."""
    arguments: set[str] = set()
    plurals: list[tuple[str, str, tuple[str, ...]]] = []
    branches: list[tuple[str, str, frozenset[str]]] = []
    inside: list[tuple[str, set[str]]] = []  # the branches that are open: the argument, and what stands in them
    place = 0

    def skip() -> None:
        nonlocal place
        while place < len(text) and text[place].isspace():
            place += 1

    def word() -> str:
        nonlocal place
        skip()
        match = re.compile(r"[^\s{},]*").match(text, place)
        place = match.end() if match else place
        return match[0] if match else ""

    def message(depth: int) -> None:
        nonlocal place
        if depth > 50:
            raise ValueError("nested over 50 deep")
        while place < len(text):
            one = text[place]
            if one == "'" and place + 1 < len(text) and text[place + 1] in "{}'":
                end = place + 1 if text[place + 1] == "'" else text.find("'", place + 1)
                if end < 0:
                    raise ValueError("an apostrophe before a brace quotes to the end: write '' for an apostrophe")
                place = end + 1
            elif one == "{":
                place += 1
                argument(depth)
            elif one == "}":
                if not depth:
                    raise ValueError(f"`}}` without `{{` at character {place + 1}")
                return
            else:
                if one == "#" and inside:
                    inside[-1][1].add(inside[-1][0])
                place += 1
        if depth:
            raise ValueError("`{` is never closed")

    def argument(depth: int) -> None:
        nonlocal place
        name = word()
        skip()
        if not name:
            raise ValueError(f"`{{` without a name at character {place}")
        arguments.add(name)
        for _, used in inside:
            used.add(name)
        if text[place : place + 1] == "}":
            place += 1
            return
        if text[place : place + 1] != ",":
            raise ValueError(f"`,` or `}}` expected after {{{name}")
        place += 1
        kind = word()
        skip()
        if kind not in ("plural", "select", "selectordinal"):
            end = text.find("}", place)
            if end < 0 or kind not in ("number", "date", "time", "spellout", "ordinal", "duration", "list"):
                raise ValueError(f"{{{name}, {kind}: unknown type or not closed")
            place = end + 1
            return
        if text[place : place + 1] != ",":
            raise ValueError(f"`,` expected after {kind}")
        place += 1
        selectors: list[str] = []
        while True:
            selector = word()
            skip()
            if selector.startswith("offset:"):
                continue
            if text[place : place + 1] == "}" and not selector:
                place += 1
                break
            if place >= len(text):
                raise ValueError(f"{kind} of {name} is never closed")
            if not selector or text[place] != "{":
                raise ValueError(f"`{{` expected after {selector or kind} of {name}")
            place += 1
            inside.append((name, set()))
            message(depth + 1)
            branches.append((name, selector, frozenset(inside.pop()[1])))
            place += 1
            selectors.append(selector)
        if "other" not in selectors:
            raise ValueError(f"{kind} of {name} lacks `other`")
        plurals.append((name, kind, tuple(selectors)))

    try:
        message(0)
    except ValueError as error:
        return Parsed(frozenset(arguments), tuple(plurals), str(error))
    return Parsed(frozenset(arguments), tuple(plurals), "", tuple(branches))


def placeholders(text: str, kind: str) -> Counter[str]:
    """Return the placeholders and tags of *text*. Unnumbered printf conversions have their position and type."""
    found: Counter[str] = Counter(f"<{name.lower()}>" for name in TAG.findall(text))
    if kind in ("arb", "json") and ICU_HINT.search(text):
        return found + Counter({f"{{{name}}}": 1 for name in parse_icu(text).arguments})
    rest = text
    if kind not in ("xml", "strings", "stringsdict", "xcstrings"):
        for match in NAMED.finditer(text):
            found["{" + next(group for group in match.groups() if group is not None).strip() + "}"] += 1
        rest = NAMED.sub("", text) if kind != "text" else ""
    position = 0
    for number, name, conversion in PRINTF.findall(rest):
        if conversion == "%":
            continue
        if name:
            found[f"%({name}){conversion}"] += 1
        elif conversion in "@diufFeEgGxXoscCpaAbBn" and (kind != "json" or conversion in "sdf"):
            position += not number
            found[f"%{number or position}${conversion}"] += 1
    return found


def double_braces(text: str, kind: str) -> set[str]:
    """Return the names in `{{name}}`, of which `{name}` is another syntax; in ICU two braces are a branch and a name."""
    return set() if kind not in ("json", "xliff", "po") or ICU_HINT.search(text) else set(DOUBLE.findall(text))


def lone_percent(text: str, kind: str) -> bool:
    """Tell whether a per cent sign starts no conversion; `100 % de` is one with a flag for printf, and takes an argument."""
    if kind not in ("xml", "strings", "stringsdict", "xcstrings", "po", "xliff"):
        return False
    rest = PRINTF.sub(lambda match: "" if match[3] in "@diufFeEgGxXoscCpaAbBn%" else match[0], text)
    return "%" in NAMED.sub("", rest)


def number_may_be_missing(form: str, locale: str) -> bool:
    rule = RULES.get(language(locale))
    return form in ("zero", "two", "=0", "=1", "=2") or (form == "one" and (rule is None or rule.exact))


def compare(key: str, entry: Entry, original: Entry, catalog: Catalog) -> Iterator[Finding]:
    def found(rule: str, text: str) -> Finding:
        return Finding(rule, catalog.locale, catalog.file, key, f"{entry.place}: {text}" if entry.place else text)

    source_forms = original.forms
    reference = source_forms.get("other") or source_forms.get("") or next(iter(source_forms.values()), "")
    formatted = catalog.kind != "po" or any(re.match(r"(?!no-).*-format$", flag) for flag in entry.flags)
    kind = catalog.kind if formatted else "text"
    wanted = placeholders(reference, kind)
    rule = RULES.get(language(catalog.locale))
    for form, text in entry.forms.items():
        if not text:
            continue
        base = source_forms.get(form, reference) if form.isdigit() and catalog.kind == "xml" else reference
        expected, got = (placeholders(base, kind) if base is not reference else wanted), placeholders(text, kind)
        label = f" in {form}" if form else ""
        missing, extra = expected - got, got - expected
        category = po_category(form, catalog, rule)
        if category and not extra and missing and len(missing) == 1:
            if number_may_be_missing(category, catalog.locale):
                missing = Counter()
            elif rule and not rule.exact and category == "one" and sum(missing.values()) == 1:
                yield found("placeholder", f"`one` lacks {next(iter(missing))}; in {language(catalog.locale)} it is not only 1")
                missing = Counter()
        if missing or extra:
            parts = [f"lacks {' '.join(sorted(missing.elements()))}"] if missing else []
            parts += [f"has {' '.join(sorted(extra.elements()))}"] if extra else []
            yield found("placeholder", " and ".join(parts) + label)
        if braces := sorted(one for one in double_braces(base, kind) ^ double_braces(text, kind) if f"{{{one}}}" in expected.keys() & got.keys()):
            yield found("placeholder", f"one brace or two, unlike the source: {', '.join(braces)}{label}")
        if catalog.kind == "json" and (gone := {one.lower() for one in COLON.findall(base)} - {one.lower() for one in COLON.findall(text)}):
            yield found("placeholder", f"lacks {', '.join(':' + one for one in sorted(gone))}{label}")
        if lone_percent(text, kind) and not lone_percent(base, kind) and ("%%" in base or any(one[0] == "%" for one in expected)):
            yield found("placeholder", f"a lone % in a text that is formatted, write %%{label}")
        yield from text_findings(found, text, base, label)
        if catalog.kind in ("arb", "json") and ICU_HINT.search(reference):
            yield from (found(name, one + label) for name, one in wrong_selects(text, reference))
            yield from (found(name, one + label) for name, one in poor_branches(text, reference, catalog, rule))
        if foreign := sorted(hosts(text) - hosts(base)):
            yield found("look", f"links to {', '.join(foreign)}, unlike the source{label}")
    if catalog.kind == "xml" and any(form.isdigit() for form in (*source_forms, *entry.forms)):
        if len(entry.forms) != len(source_forms):
            yield found("items", f"an array of {len(entry.forms)} items, the source has {len(source_forms)}")
    elif len(source_forms) > 1 or (set(entry.forms) - {""} and not any(form.isdigit() for form in entry.forms)):
        yield from form_findings(found, entry, catalog, rule)
    if catalog.kind in ("arb", "json"):
        yield from icu_findings(found, entry, catalog, rule)
    texts = [text for text in entry.forms.values() if text]
    if not entry.state and texts and all(text == source_forms.get(form, reference) for form, text in entry.forms.items()):
        if len(re.findall(r"[^\W\d_]{2,}", re.sub(r"\{[^}]*\}|<[^>]*>|%\S+", "", reference))) > 1:
            yield found("same", "the same as the source")


def hosts(text: str) -> set[str]:
    return {host.lower() for host in re.findall(r"://(?:[^/\s\"'<>@]*@)?([\w.-]+\w)", text)}


def poor_branches(text: str, reference: str, catalog: Catalog, rule: Plural | None) -> Iterator[tuple[str, str]]:
    """Yield what a branch lacks although each of the source has it; the number itself may be left out where it is only one."""
    wanted: dict[str, frozenset[str]] = {}
    other: dict[str, frozenset[str]] = {}
    for name, selector, used in parse_icu(reference).branches:
        wanted[name] = wanted.get(name, used) & used
        other |= {name: used} if selector == "other" else {}
    for name, selector, used in parse_icu(text).branches:
        if name not in wanted:
            continue
        wide = selector == "one" and rule is not None and not rule.exact
        few = selector.startswith("=") or (selector in ("zero", "one", "two") and not wide)
        needed = (wanted[name] - {name}) | (set() if few else other.get(name, frozenset()) & {name})
        if lacks := sorted(needed - used):
            what = f"`{selector}` of {name} lacks {', '.join(f'{{{one}}}' for one in lacks)}"
            if wide and name in lacks:
                yield "placeholder", f"{what}; in {language(catalog.locale)} it is not only 1"
            else:
                yield "look", what


def wrong_selects(text: str, reference: str) -> Iterator[tuple[str, str]]:
    """Yield which words of a `select`, which the program passes in, were translated; one that is only left out falls to `other`."""
    sides = []
    for one in (reference, text):
        selects = [(name, set(words)) for name, kind, words in parse_icu(one).plurals if kind == "select"]
        sides.append({name: set().union(*(words for other, words in selects if other == name)) for name, _ in selects})
    wanted, got = sides
    for name in sorted(wanted.keys() & got.keys()):
        if wanted[name] != got[name]:
            lacks, has = (", ".join(sorted(one)) or "nothing" for one in (wanted[name] - got[name], got[name] - wanted[name]))
            translated = wanted[name] - got[name] and got[name] - wanted[name]
            yield "syntax" if translated else "look", f"select of {name} lacks {lacks} and has {has} of its own"


def po_category(form: str, catalog: Catalog, rule: Plural | None) -> str:
    """Return the plural category of a form; gettext numbers them in the order of the language's rule, nearly always."""
    if form.isdigit() and catalog.kind == "po":
        whole = [name for name in CATEGORIES if rule and name in rule.whole]
        if whole[:1] == ["zero"] and catalog.facts.get("zero_last"):  # gettext's own rule of Latvian; Weblate's has it first
            whole = [*whole[1:], "zero"]
        if len(whole) == catalog.facts.get("nplurals"):
            return whole[int(form)] if int(form) < len(whole) else "other"
        return "other" if int(form) + 1 >= catalog.facts.get("nplurals", 1) else "two"  # a rule of its own: only the last is sure
    return form if form in CATEGORIES else ""


def text_findings(found: Any, text: str, base: str, label: str) -> Iterator[Finding]:  # noqa: ANN401
    if "\ufffd" in text or MOJIBAKE.search(text):
        yield found("damaged", f"wrongly decoded text{label}: {text[:40]!r}")
    if hidden := sorted({f"U+{ord(one):04X}" for one in INVISIBLE.findall(text)} - {f"U+{ord(one):04X}" for one in base}):
        yield found("invisible", f"{', '.join(hidden)}{label}")
    if base.strip() and text.strip():
        for side, a, b in (("begins", text[:1], base[:1]), ("ends", text[-1:], base[-1:])):
            if a.isspace() != b.isspace():
                yield found("space", f"{side} {'with' if a.isspace() else 'without'} white space, unlike the source{label}")


def form_findings(found: Any, entry: Entry, catalog: Catalog, rule: Plural | None) -> Iterator[Finding]:  # noqa: ANN401
    if rule is None:
        yield found("look", f"plural rules of {language(catalog.locale)} are not known here")
        return
    if catalog.kind == "po":
        wanted = catalog.facts.get("nplurals")
        if wanted is None:
            yield found("plural", "the header lacks Plural-Forms")
        elif len(entry.forms) != wanted:
            yield found("plural", f"{len(entry.forms)} forms, the header says nplurals={wanted}")
        return
    if catalog.kind == "json" and "ordinal" in entry.flags:
        rule = ORDINAL_RULES[language(catalog.locale)]
    yield from lacking(found, set(entry.forms), catalog, rule, "")


def icu_findings(found: Any, entry: Entry, catalog: Catalog, rule: Plural | None) -> Iterator[Finding]:  # noqa: ANN401
    for text in entry.forms.values():
        if not (catalog.kind == "arb" or ICU_HINT.search(text)):
            continue
        parsed = parse_icu(text)
        if parsed.problem:
            yield found("syntax", parsed.problem)
        for name, kind, selectors in parsed.plurals:
            if rule and kind != "select":
                asked = rule if kind == "plural" else ORDINAL_RULES[language(catalog.locale)]
                yield from lacking(found, {one for one in selectors if not one.startswith("=")}, catalog, asked, f" of {name}",
                                   exact={one for one in selectors if one.startswith("=")})  # fmt: skip


def lacking(found: Any, forms: set[str], catalog: Catalog, rule: Plural, label: str, exact: set[str] | None = None) -> Iterator[Finding]:  # noqa: ANN401
    covered = {"one"} if "=1" in (exact or ()) and rule.exact else set()
    covered |= {"zero"} if "=0" in (exact or ()) else set()
    covered |= {"two"} if "=2" in (exact or ()) and rule.exact else set()
    if gone := [name for name in rule.whole if name not in forms | covered]:
        yield found("plural", f"plural{label} lacks {', '.join(gone)}: {language(catalog.locale)} needs {', '.join(rule.whole)}")
    if gone := [name for name in rule.rare if name not in forms]:
        yield found("rare-plural", f"plural{label} lacks {', '.join(gone)}: only fractions or millions reach it")
    allowed = {*rule.whole, *rule.rare} | ({"zero", "one", "two"} if catalog.kind == "arb" else set())
    if catalog.kind in ("strings", "stringsdict", "xcstrings", "json"):
        allowed |= {"zero"}
    if unused := sorted(forms - allowed - {"other"}):
        yield found("unused-plural", f"{', '.join(unused)}{label}: {language(catalog.locale)} never asks for it")


def languages_not_known(folders: list[str], read: list[tuple[Path, str]]) -> list[Path]:
    """Return the files beside the catalogs read, or at the same place of another folder, whose language is not known."""
    have = {path for path, _ in read}
    beside = {(path.parent, path.suffix) for path in have if locale_of(path, "en")[1].endswith(f"*{path.suffix}")}
    across = {(path.parent.parent, path.name) for path in have if locale_of(path, "en")[1].endswith(f"*/{path.name}")}
    found = []
    for folder in filter(Path.is_dir, map(Path, folders)):
        for path in folder.rglob("*"):
            if path in have or not path.is_file() or path.suffix != path.suffix.lower():
                continue
            name = path.stem.rpartition(".")[2] if (path.parent, path.suffix) in beside else ""
            name = name or (path.parent.name if (path.parent.parent, path.name) in across else "")
            if LOCALE.match(name):
                found.append(path)
    return sorted(found)


def audit(catalogs: list[Catalog], source: str) -> tuple[list[Finding], list[Json]]:
    find_sources(catalogs, source)
    findings = [Finding(rule, one.locale, one.file, key, text) for one in catalogs for rule, key, text in one.problems]
    names: defaultdict[str, list[Catalog]] = defaultdict(list)
    for one in catalogs:
        names[f"{one.name}|{one.kind}"].append(one)
    locales = sorted({one.locale for one in catalogs if not same_locale(one.locale, source)})
    table: dict[str, Counter[str]] = {locale: Counter() for locale in locales}
    for group in names.values():
        original = next((one for one in group if same_locale(one.locale, source)), None)
        for one in group:
            if one is original:
                findings += own_findings(one)
                continue
            regroup(one, original)
            parent = next((other for other in group if same_locale(other.locale, language(one.locale)) and other is not one), None)
            wanted, rule = one.facts.get("nplurals"), RULES.get(language(one.locale))
            if wanted and rule and wanted < len(rule.whole):
                text = f"the header says nplurals={wanted}, whole numbers have {len(rule.whole)} forms: {', '.join(rule.whole)}"
                findings.append(Finding("look", one.locale, one.file, "", text))
            findings += against(one, original, parent, table[one.locale])
        if original:
            have = {one.locale for one in group}
            of_kind = {one.locale for one in catalogs if one.kind == original.kind}
            for locale in locales:
                if locale in of_kind - have and language(locale) not in {language(other) for other in have}:
                    findings.append(Finding("no-file", locale, original.name, "", f"{len(original.entries)} messages of {original.file}"))
                    table[locale]["missing"] += len(original.entries)
    rows = [{"locale": locale, **{name: table[locale][name] for name in ("messages", "missing", "untranslated", "fuzzy", "extra")},
             "errors": sum(one.locale == locale and one.rule in ERRORS for one in findings)} for locale in locales]  # fmt: skip
    return findings, rows


def find_sources(catalogs: list[Catalog], source: str) -> None:
    """Give a catalog whose path leads to no source the name of a template or of one given as LOCALE=FILE: by the keys that both have."""
    sources = [one for one in catalogs if same_locale(one.locale, source)]
    for one in [one for one in sources if one.template]:  # not needed beside a catalog of the source language
        if any(one.kind == other.kind and one.entries.keys() & other.entries.keys() for other in sources if not other.template):
            sources.remove(one)
            catalogs.remove(one)
    names = {(one.name, one.kind) for one in sources}
    for one in catalogs:
        if (one.name, one.kind) in names:
            continue
        able = [other for other in sources if other.kind == one.kind and (one.chosen or other.chosen or other.template)]
        best = max(able, key=lambda other: len(one.entries.keys() & other.entries.keys()), default=None)
        if best and (one.entries.keys() & best.entries.keys() or (one.chosen and len(able) == 1)):
            one.name = best.name


def regroup(one: Catalog, original: Catalog | None) -> None:
    """Put the forms of an i18next plural without `_other`, which were read as messages of their own, under the key of the source."""
    for key, entry in original.entries.items() if original and one.kind == "json" else ():
        if key in one.entries or not entry.forms or "" in entry.forms:
            continue
        parts = {form: one.entries.pop(f"{key}_{form}") for form in CATEGORIES if f"{key}_{form}" in one.entries}
        if parts:
            texts = {form: part.forms[""] for form, part in parts.items() if "" in part.forms}
            one.entries[key] = Entry(texts, "" if any(texts.values()) else "untranslated", flags=entry.flags)


def own_findings(one: Catalog) -> Iterator[Finding]:
    """Yield what is wrong in the source itself."""
    rule = RULES.get(language(one.locale))
    for key, entry in one.entries.items():
        def found(name: str, text: str, key: str = key) -> Finding:
            return Finding(name, one.locale, one.file, key, text)

        if one.kind in ("arb", "json"):
            yield from icu_findings(found, entry, one, rule)
        for form, text in entry.forms.items():
            yield from text_findings(found, text, "", f" in {form}" if form else "")


def is_blank(entry: Entry) -> bool:
    return bool(entry.forms) and not any(text.strip() for text in entry.forms.values())


def against(one: Catalog, original: Catalog | None, parent: Catalog | None, counts: Counter[str]) -> Iterator[Finding]:
    wanted = original.entries if original else {key: Entry(entry.source) for key, entry in one.entries.items() if entry.source}
    counts["messages"] += len(one.entries)
    if not wanted and one.entries:
        yield Finding("look", one.locale, one.file, "", "no source catalog of this name to compare with: give the file as LOCALE=FILE")
    for key, entry in wanted.items():
        mine = one.entries.get(key)
        if mine is None:
            if parent is None:
                counts["missing"] += 1
                yield Finding("missing", one.locale, one.file, key, "")
        elif mine.state == "untranslated" or (is_blank(mine) and not is_blank(entry)):
            counts["untranslated"] += 1
            yield Finding("untranslated", one.locale, one.file, key, mine.place)
        else:
            if mine.state:
                counts["fuzzy"] += 1
                yield Finding("fuzzy", one.locale, one.file, key, mine.place)
            if mine.forms and mine.state != "fuzzy":
                yield from compare(key, mine, entry if any(entry.forms.values()) else Entry(mine.source), one)
    for key in one.entries.keys() - wanted.keys():
        counts["extra"] += 1
        yield Finding("extra", one.locale, one.file, key, "not in the source")


def same_locale(a: str, b: str) -> bool:
    return a.replace("_", "-").lower() == b.replace("_", "-").lower()


def gather(arguments: list[str]) -> list[tuple[Path, str]]:
    found = []
    for argument in arguments:
        locale, equals, name = argument.partition("=")
        path = Path(name if equals and not Path(argument).exists() else argument)
        chosen = locale if equals and path == Path(name) else ""
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                usable = file.suffix.lower() in SUFFIXES and not {"node_modules", ".git", "build"} & set(file.parts)
                if usable and file.is_file() and (file.suffix.lower() != ".xml" or file.parent.name.startswith("values")):
                    if file.suffix.lower() not in (".json", ".xml") or locale_of(file, "en")[0]:
                        found.append((file, ""))
        elif path.suffix.lower() in SUFFIXES or not path.exists():
            found.append((path, chosen))
        else:
            raise ValueError(f"{path.suffix or 'no suffix'} is no format read here: {' '.join(sorted(SUFFIXES))}")
    named = {path.resolve() for path, chosen in found if chosen}
    return [(path, chosen) for path, chosen in found if chosen or path.resolve() not in named]


def clean(text: str) -> str:
    return "".join(one if unicodedata.category(one)[0] != "C" else f"<U+{ord(one):04X}>" for one in text.replace("\n", "\\n"))


def show(report: Json, top: int) -> None:
    print(f"source  {report['source']}, {report['files']} files")
    print(f"\n{'locale':<10} {'messages':>8} {'missing':>8} {'untrans.':>8} {'fuzzy':>6} {'extra':>6} {'errors':>7}")
    for row in report["locales"]:
        print(f"{row['locale']:<10} {row['messages']:>8} {row['missing']:>8} {row['untranslated']:>8} {row['fuzzy']:>6} "
              f"{row['extra']:>6} {row['errors']:>7}")  # fmt: skip
    for rule, rows in report["findings"].items():
        print(f"\n{rule} ({len(rows)})")
        for row in rows[:top]:
            print(f"  {row['locale']:<6} {row['file']}  {clean(row['key'])[:60]}  {clean(row['text'])[:160]}".rstrip())
        if len(rows) > top:
            print(f"  ... {len(rows) - top} more: --top {len(rows)} or --json")


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare translation catalogs with their source.")
    parser.add_argument("paths", nargs="+", help="files, folders, or LOCALE=FILE")
    parser.add_argument("--source", default="en", help="locale that the others are compared with (default en)")
    parser.add_argument("--gaps-fail", action="store_true", help="exit code 1 for missing translations too")
    parser.add_argument("--top", type=int, default=20, help="findings shown of each kind (default 20)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    catalogs: list[Catalog] = []
    place = args.paths[0]
    try:
        files = gather(args.paths)
        for path, locale in files:
            place = str(path)
            catalogs += read_file(path, locale, args.source)
        place = args.paths[0]
        if not catalogs:
            raise ValueError(f"no catalogs in it: looked for {' '.join(sorted(SUFFIXES))} with a language in their path")
        if len(catalogs) == 1 and not any(entry.source for entry in catalogs[0].entries.values()):
            raise ValueError("only one catalog: name the source too")
        if all(one.template for one in catalogs):
            raise ValueError("only the source, without translations: name these too")
        if not any(same_locale(one.locale, args.source) or any(entry.source for entry in one.entries.values()) for one in catalogs):
            have = ", ".join(sorted({one.locale for one in catalogs})[:9])
            raise ValueError(f"no catalog of the source language {args.source}, only {have}: name the source with --source")
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        what = error if isinstance(error, OSError | ValueError) else f"damaged, {type(error).__name__} {error}"
        print(f"cannot read {place}: {what}", file=sys.stderr)
        return 2
    findings, rows = audit(catalogs, args.source)
    unknown = "its name is no language known here: not read, give it as LOCALE=FILE"
    findings += [Finding("look", "", str(path), "", unknown) for path in languages_not_known(args.paths, files)]
    order = (*ERRORS, *GAPS)
    rules = sorted({one.rule for one in findings}, key=lambda rule: (order.index(rule) if rule in order else 99, rule))
    report = {"source": args.source, "files": len(files), "locales": rows,
              "findings": {rule: [one._asdict() for one in sorted(findings) if one.rule == rule] for rule in rules}}  # fmt: skip
    print(json.dumps(report, indent=1)) if args.json else show(report, max(1, args.top))
    return int(any(rule in ERRORS or (args.gaps_fail and rule in GAPS) for rule in rules))


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
