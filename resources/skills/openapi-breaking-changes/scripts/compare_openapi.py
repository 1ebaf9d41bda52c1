#!/usr/bin/env python3
"""Compare two OpenAPI (3.x) or Swagger 2.0 descriptions and list what breaks existing clients.

Standard library only, Python 3.11+; YAML needs PyYAML. Follows $ref inside the document and allOf.

    python3 compare_openapi.py OLD NEW [--all] [--json]

Levels: break = a correct client fails; risk = some clients fail; add = compatible (only with --all).
Exit codes: 0 nothing breaks, 1 at least one break, 2 a description cannot be read.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
LIMITS = {"maximum": -1, "exclusiveMaximum": -1, "maxLength": -1, "maxItems": -1, "maxProperties": -1}
LIMITS |= {"minimum": 1, "exclusiveMinimum": 1, "minLength": 1, "minItems": 1, "minProperties": 1}
DEPTH = 12
NOTES = ("title", "description", "deprecated", "example", "examples", "default", "readOnly", "writeOnly", "externalDocs")
Change = tuple[str, str, str]
Json = dict[str, Any]
Pair = tuple[str, str, bool]  # references of the same schema in both documents, and whether clients send it


class Unreadable(Exception):
    """Why a description cannot be compared."""


def load(name: str) -> Json:
    """Return the description in a file (- is standard input)."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")  # PowerShell writes UTF-16
        document = json.loads(text) if text.lstrip().startswith("{") else load_yaml(text)
    except (OSError, ValueError, RecursionError) as error:
        raise Unreadable(f"{name}: {error}") from error
    if not isinstance(document, dict) or not ({"openapi", "swagger"} & document.keys()):
        raise Unreadable(f"{name}: neither 'openapi' nor 'swagger' at the top")
    if not isinstance(document.get("paths", {}), dict):
        raise Unreadable(f"{name}: 'paths' is no object")
    return document


def load_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ValueError("not JSON, and YAML needs PyYAML: pip install pyyaml, or convert to JSON") from None

    class Yaml12(yaml.SafeLoader):
        """OpenAPI is YAML 1.2: unquoted NO, on and 2026-01-01 are text."""

    changed = {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.items()
    Yaml12.yaml_implicit_resolvers = {key: [pair for pair in pairs if pair[0] not in changed] for key, pairs in resolvers}
    Yaml12.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
    )
    try:
        return yaml.load(text, Yaml12)  # noqa: S506, a SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


class Description:
    """A description whose references and inherited schemas can be followed."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self.swagger = "swagger" in document

    def follow(self, node: Any) -> Json:
        """Return *node*, or what its $ref points to in this document."""
        for _ in range(DEPTH):
            if not isinstance(node, dict):
                return {}
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            if not reference.startswith("#/"):
                return {"$external": reference}
            node = self.document
            for part in reference[2:].split("/"):
                part = unquote(part).replace("~1", "/").replace("~0", "~")
                if isinstance(node, list) and part.isdigit() and int(part) < len(node):
                    node = node[int(part)]
                    continue
                if not isinstance(node, dict) or part not in node:
                    raise Unreadable(f"a description: {reference} points to nothing; lint both first")
                node = node[part]
        return {}

    def bare(self, node: Any) -> tuple[Any, bool]:
        """Return what a union with null or an allOf of one part stands for, and whether null is allowed besides."""
        null = False
        for _ in range(DEPTH):
            if not isinstance(node, dict) or "$ref" in node:
                break
            word = next((one for one in ("anyOf", "oneOf", "allOf") if isinstance(node.get(one), list)), "")
            rest = [one for one in node.get(word, ()) if not (isinstance(one, dict) and one.get("type") == "null")]
            if len(rest) != 1 or node.keys() - {word, "nullable", "x-nullable", *NOTES}:
                break
            null = null or len(rest) < len(node[word]) or bool(node.get("nullable") or node.get("x-nullable"))
            node = rest[0]
        return node, null

    def schema(self, node: Any, depth: int = 0) -> Json:
        """Return a schema with allOf merged into it."""
        around = {} if reference_of(node) or not isinstance(node, dict) else {key: node[key] for key in NOTES if key in node}
        node, null = self.bare(node)
        found = {**self.follow(node), **around}
        if null:
            found["nullable"] = True
        for part in found.pop("allOf", []) if depth < DEPTH else ():
            inherited = self.schema(part, depth + 1)
            merged = {**inherited, **found}
            merged["properties"] = {**inherited.get("properties", {}), **found.get("properties", {})}
            merged["required"] = [*inherited.get("required", []), *found.get("required", [])]
            found = merged
        return found

    def addresses(self) -> set[str]:
        """Return the base addresses, relative ones as they are written."""
        if self.swagger:
            return {str(self.document.get("host", "")) + str(self.document.get("basePath", "/"))}
        return {str(one.get("url")) for one in self.document.get("servers") or [{"url": "/"}]}

    def schemes(self) -> dict[str, str]:
        """Return how each security scheme is sent."""
        found = self.document.get("securityDefinitions") or self.document.get("components", {}).get("securitySchemes") or {}
        facts = {name: self.follow(one) for name, one in found.items()}
        return {name: " ".join(str(one[key]) for key in ("type", "scheme", "in", "name") if key in one) for name, one in facts.items()}

    def operations(self) -> dict[str, tuple[str, Json]]:
        """Return operations by method and path, with the names of path parameters left out."""
        found = {}
        for path, raw in self.document.get("paths", {}).items():
            item = self.follow(raw)
            shared = item.get("parameters", [])
            names = re.findall(r"{([^}]*)}", path)
            more = item.get("additionalOperations") or {}  # OpenAPI 3.2
            for method, raw_operation in {**{method.upper(): item.get(method) for method in METHODS}, **more}.items():
                if isinstance(raw_operation, dict):
                    operation = dict(raw_operation)
                    operation["parameters"] = [*shared, *operation.get("parameters", [])]
                    operation["path names"] = names
                    found[f"{method} {re.sub(r'{[^}]*}', '{}', path)}"] = (f"{method} {path}", operation)
        return found

    def parameters(self, operation: Json) -> dict[tuple[str, str], Json]:
        """Return parameters by place and name; those in a path by their position."""
        found: dict[tuple[str, str], Json] = {}
        for raw in operation["parameters"]:
            one = self.follow(raw)
            place, name = str(one.get("in")), str(one.get("name"))
            if place in ("body", "formData", "None"):
                continue
            if place == "path" and name in operation["path names"]:
                name = str(operation["path names"].index(name))
            key = (place, name.lower() if place == "header" else name)
            for media in map(self.follow, one.get("content", {}).values()):
                one = {**one, "schema": media.get("schema", {})}
            inline = {word: value for word, value in one.items() if word not in ("required", "in", "name")}
            found[key] = {**one, "schema": one.get("schema", inline)}
        return found

    def body(self, operation: Json) -> tuple[dict[str, Any], bool]:
        """Return the schemas of the request by media type, and whether a body is required."""
        if not self.swagger:
            body = self.follow(operation.get("requestBody"))
            return self._content(body), bool(body.get("required"))
        for raw in operation["parameters"]:
            one = self.follow(raw)
            if one.get("in") == "body":
                media = operation.get("consumes", self.document.get("consumes")) or ["body"]
                return dict.fromkeys(map(media_type, media), one.get("schema", {})), bool(one.get("required"))
        fields = [one for one in map(self.follow, operation["parameters"]) if one.get("in") == "formData"]
        if fields:
            names = [str(one.get("name")) for one in fields if one.get("required")]
            inline = ({word: value for word, value in one.items() if word not in ("required", "in", "name")} for one in fields)
            form = {"properties": {str(one.get("name")): two for one, two in zip(fields, inline, strict=True)}, "required": names}
            return {"form": form}, bool(names)
        return {}, False

    def responses(self, operation: Json) -> dict[str, dict[str, Any]]:
        """Return the schemas of the responses by status and media type."""
        found = {}
        made = operation.get("produces", self.document.get("produces")) or ["body"]
        for status, raw in operation.get("responses", {}).items():
            one = self.follow(raw)
            found[str(status)] = dict.fromkeys(map(media_type, made), one["schema"]) if "schema" in one else self._content(one)
        return found

    def _content(self, node: Json) -> dict[str, Any]:
        found = {media_type(media): self.follow(one) for media, one in node.get("content", {}).items()}
        return {  # itemSchema describes each part of a stream (OpenAPI 3.2)
            media: {"items": one["itemSchema"]} if "itemSchema" in one and "schema" not in one else one.get("schema", {})
            for media, one in found.items()
        }

    def headers(self, operation: Json, status: str) -> set[str]:
        answers = {str(key): one for key, one in operation.get("responses", {}).items()}  # YAML reads 200 as a number
        return {name.lower() for name in self.follow(answers.get(status)).get("headers", {})}

    def security(self, operation: Json) -> list[set[str]]:
        """Return what satisfies the operation, each way with all schemes and scopes it takes."""
        needs = operation.get("security", self.document.get("security")) or [{}]
        return [
            {*need, *(f"{scheme}:{scope}" for scheme, scopes in need.items() for scope in scopes)}
            for need in needs
            if isinstance(need, dict)
        ]


def others(document: Json) -> list[str]:
    """Return the references to other files."""
    found, todo = set(), [document]
    while todo:
        node: Any = todo.pop()
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                found.add(reference.partition("#")[0])
            todo += node.values()
        elif isinstance(node, list):
            todo += node
    return sorted(found)


def media_type(text: str) -> str:
    """Return a media type without its parameters."""
    return text.split(";")[0].strip().lower()


def written(one: Json) -> tuple[Any, ...]:
    """Return how a list in a parameter is written, with the defaults of OpenAPI 3."""
    style = one.get("style") or {"query": "form", "cookie": "form"}.get(one.get("in", ""), "simple")
    if types(one["schema"]) and types(one["schema"]) <= {"string", "integer", "number", "boolean", "null"}:
        return (style,)
    return style, one.get("explode", style == "form"), one.get("collectionFormat", "csv")


def types(schema: Json) -> set[str]:
    """Return the types that a schema allows; null is one of them, an empty set means any."""
    kind = schema.get("type", [])
    found = {kind} if isinstance(kind, str) else set(kind)
    if not found and "properties" in schema:
        found = {"object"}
    for word in ("anyOf", "oneOf") if not found else ():
        each = [types(one) for one in schema.get(word, ()) if isinstance(one, dict)]
        if each and all(each):  # one without a type, such as a reference, may be anything
            found = set().union(*each)
    return found | ({"null"} if found and (schema.get("nullable") or schema.get("x-nullable")) else set())


def allowed(schema: Json) -> Any:
    """Return the values that a schema lists, if it does."""
    return [schema["const"]] if "const" in schema else schema.get("enum")


def closed(schema: Json) -> bool:
    """Say whether properties that a schema does not name are refused."""
    return False in (schema.get("additionalProperties"), schema.get("unevaluatedProperties"))


def limits(schema: Json) -> dict[str, float]:
    """Return the limits in the form of OpenAPI 3.1, where those that exclude their value are numbers."""
    found = {word: schema[word] for word in LIMITS if schema.get(word) is not None and not isinstance(schema[word], bool)}
    for word in ("maximum", "minimum"):
        if schema.get(exclusive := "exclusive" + word.capitalize()) is True and word in found:
            found[exclusive] = found.pop(word)
    return found


def tighter(word: str, old: dict[str, float], new: dict[str, float]) -> bool:
    """Say whether a limit of *new* refuses what *old* took."""
    if word not in new or (word in ("minLength", "minItems", "minProperties") and not new[word]):
        return False
    plain, exclusive = word.removeprefix("exclusive").lower(), "exclusive" + word.removeprefix("exclusive").capitalize()
    for other in {word, *({plain, exclusive} if plain in ("maximum", "minimum") else ())} & old.keys():
        beyond = (old[other] - new[word]) * LIMITS[word]
        if beyond > 0 or (beyond == 0 and (other == word or other == exclusive)):
            return False
    return True


def fitting(media: str, contents: dict[str, Any]) -> list[str]:
    """Return the media types among *contents* that are this one, or a range around it or within it."""
    if media in contents:
        return [media]
    wide = [one for one in (media.partition("/")[0] + "/*", "*/*") if one in contents]
    within = [one for one in contents if media == "*/*" or (media.endswith("/*") and one.startswith(media[:-1]))]
    return wide[:1] or within


def around(status: str, other: str) -> bool:
    """Say whether a status is a range such as 2XX with the other in it."""
    return status[1:].upper() == "XX" and status[:1] == other[:1]


def reference_of(node: Any) -> str:
    return str(node.get("$ref", "")) if isinstance(node, dict) else ""


class Comparison:
    """Two descriptions side by side; each method yields (level, place, what)."""

    def __init__(self, old: Json, new: Json) -> None:
        self.old, self.new = Description(old), Description(new)
        self.open: set[tuple[int, int, bool]] = set()
        self.pairs: dict[Pair, list[Change | Pair]] = {}

    def run(self) -> dict[Change, list[str]]:
        """Return each change with the operations it touches."""
        found: dict[Change, list[str]] = {}
        for operation, change in self._walk():
            users = found.setdefault(change, [])
            users += [operation] if operation not in users else []
        return found

    def _walk(self) -> Iterator[tuple[str, Change]]:
        old, new = self.old.operations(), self.new.operations()
        if not old:
            raise Unreadable("the old description: it has no operations here; bundle it first if its paths are in other files")
        files = sorted({*others(self.old.document), *others(self.new.document)})
        if files:
            what = f"not compared: what is in other files ({', '.join(files[:5])}); bundle both first"
            yield "description", ("risk", "description", what)
        for key, (place, operation) in old.items():
            if key in new:
                yield from ((place, one) for one in self._expand(list(self._operation(place, operation, new[key][1]))))
            else:
                level = "risk" if operation.get("deprecated") else "break"
                yield place, (level, place, "operation removed" + (" (was deprecated)" if level == "risk" else ""))
        for key in new.keys() - old.keys():
            yield new[key][0], ("add", new[key][0], "operation added")
        sent, taken = self.old.schemes(), self.new.schemes()
        for name in sent.keys() & taken.keys():
            if sent[name].lower() != taken[name].lower():
                place = f"security scheme {name}"
                yield place, ("break", place, f"{sent[name]} -> {taken[name]}")
        if lost := ", ".join(sorted(self.old.addresses() - self.new.addresses())):
            yield "servers", ("risk", "servers", f"no longer listed: {lost}")

    def _expand(self, found: list[Change | Pair]) -> Iterator[Change]:
        """Yield the changes, and those of all schemas reached from there; each pair of schemas is compared once."""
        seen: set[Pair] = set()
        while found:
            one = found.pop()
            if isinstance(one[2], str):
                yield one
            elif one not in seen:
                seen.add(one)
                if one not in self.pairs:
                    place = f"{'request' if one[2] else 'response'} schema {one[1].rpartition('/')[2]}"
                    self.pairs[one] = []
                    self.pairs[one] += self._contents(place, {"$ref": one[0]}, {"$ref": one[1]}, one[2])
                found += self.pairs[one]

    def _operation(self, place: str, old: Json, new: Json) -> Iterator[Change | Pair]:
        yield from self._parameters(place, old, new)
        yield from self._request(place, old, new)
        yield from self._responses(place, old, new)
        before, after = self.old.security(old), self.new.security(new)
        lost, ways = (
            " or ".join("+".join(sorted(way)) or "none" for way in some)
            for some in ([way for way in before if not any(other <= way for other in after)], after)
        )
        if lost:
            yield "break", place, f"security no longer accepts {lost}, only {ways}"
        if old.get("operationId") and new.get("operationId") != old["operationId"]:
            yield "risk", place, f"operationId {old['operationId']} -> {new.get('operationId')} renames SDK methods"
        if new.get("deprecated") and not old.get("deprecated"):
            yield "add", place, "deprecated"

    def _parameters(self, place: str, old: Json, new: Json) -> Iterator[Change | Pair]:
        before, after = self.old.parameters(old), self.new.parameters(new)
        for key, one in before.items():
            where = f"{place} {key[0]} parameter {one.get('name')}"
            if key not in after:
                yield "risk", where, "removed: strict servers answer 400, others ignore it"
                continue
            other = after[key]
            if other.get("required") and not one.get("required"):
                yield "break", where, "became required"
            styles = [written(one), written(other)]
            if styles[0] != styles[1] and (len(styles[0]) == len(styles[1]) or styles[0][0] != styles[1][0]):
                yield "break", where, f"lists are written otherwise: {styles[0]} -> {styles[1]}"
            yield from self._schema(where, one["schema"], other["schema"], sent=True)
        for key in after.keys() - before.keys():
            where = f"{place} {key[0]} parameter {after[key].get('name')}"
            yield ("break", where, "required and new") if after[key].get("required") else ("add", where, "added")

    def _request(self, place: str, old: Json, new: Json) -> Iterator[Change | Pair]:
        (before, needed_before), (after, needed) = self.old.body(old), self.new.body(new)
        if needed and not needed_before:
            yield "break", f"{place} request", "body became required"
        for media, schema in before.items():
            if fit := fitting(media, after):
                for one in fit:
                    yield from self._schema(f"{place} request", schema, after[one], sent=True)
                if media.endswith("*") and not fit[0].endswith("*"):
                    yield "risk", f"{place} request", f"{media} -> {', '.join(fit)}"
            elif after or not self.new.swagger:
                yield "break", f"{place} request", f"{media} is no longer accepted"
            else:
                yield "risk", f"{place} request", "body removed: what clients send is ignored"

    def _responses(self, place: str, old: Json, new: Json) -> Iterator[Change | Pair]:
        before, after = self.old.responses(old), self.new.responses(new)
        for status, contents in before.items():
            where = f"{place} {status}"
            same = [one for one in after if one == status] or [one for one in after if around(status, one) or around(one, status)]
            if not same:
                yield ("break" if status.startswith("2") else "risk"), where, "status removed"
                continue
            for other in same:
                for name in sorted(self.old.headers(old, status) - self.new.headers(new, other)):
                    yield "risk", where, f"header {name} removed"
                for media, schema in contents.items():
                    if fit := fitting(media, after[other]):
                        for one in fit:
                            yield from self._schema(where, schema, after[other][one], sent=False)
                        if fit[0].endswith("*") and not media.endswith("*"):
                            yield "risk", where, f"{media} -> {', '.join(fit)}"
                    else:
                        yield "break", where, f"{media} is no longer sent"
        for status in after.keys() - before.keys():
            if any(around(one, status) for one in before):
                continue
            yield ("risk" if status.startswith("2") else "add"), f"{place} {status}", "status added"

    def _schema(self, place: str, old: Any, new: Any, *, sent: bool) -> Iterator[Change | Pair]:
        """Compare what clients send (it may only widen) or receive (it may only narrow)."""
        (one, null), (other, can_be_null) = self.old.bare(old), self.new.bare(new)
        if (before := reference_of(one)) and (after := reference_of(other)):
            if null != can_be_null and null == sent:
                yield "break", place, "null is no longer accepted" if sent else "may be null now"
            yield from self._default(place, old, new, sent)
            yield before, after, sent
        elif (key := (id(one), id(other), sent)) not in self.open:
            self.open.add(key)  # a schema without a name may contain itself
            yield from self._contents(place, old, new, sent)
            self.open.discard(key)

    def _contents(self, place: str, old: Any, new: Any, sent: bool) -> Iterator[Change | Pair]:
        before, after = self.old.schema(old), self.new.schema(new)
        yield from self._values(place, before, after, sent)
        yield from self._properties(place, before, after, sent)
        for word, mark in (("items", "[]"), ("additionalProperties", ".*")):
            sides = [{} if schema.get(word) in (None, True) else schema[word] for schema in (before, after)]
            if any(sides) and all(isinstance(one, dict) for one in sides):
                yield from self._schema(place + mark, *sides, sent=sent)
        for number, (one, other) in enumerate(zip(before.get("prefixItems", ()), after.get("prefixItems", ()), strict=False)):
            yield from self._schema(f"{place}[{number}]", one, other, sent=sent)
        words = [[word for word in ("oneOf", "anyOf") if schema.get(word)] for schema in (before, after)]
        if len(words[0]) == len(words[1]) == 1 and words[0] != words[1]:  # the same alternatives under the other word
            (was,), (now,) = words
            if (now == "oneOf") == sent:
                yield "risk", place, f"{was} became {now}"
            after = {**after, was: after[now], now: ()}
        for word in ("oneOf", "anyOf"):
            names = [[reference_of(one) for one in schema.get(word, ())] for schema in (before, after)]
            shared = [name for name in names[0] if name and name in names[1]]
            yield from ((name, name, sent) for name in shared)
            if lone := [name.rpartition("/")[2] for name in names[0] if name and name not in names[1]]:
                if len(names[0]) == len(names[1]):
                    yield ("break" if sent else "risk"), place, f"{word}: {', '.join(lone)} replaced"
            counts = [len(schema.get(word, ())) for schema in (before, after)]
            if counts[0] != counts[1]:
                lost = counts[1] < counts[0]
                yield ("break" if lost and sent else "risk"), place, f"{word}: {counts[0]} -> {counts[1]} alternatives"
        if before.get("$external") != after.get("$external"):
            yield "risk", place, "refers to another file: bundle both descriptions first"

    def _values(self, place: str, old: Json, new: Json, sent: bool) -> Iterator[Change]:
        before, after = types(old), types(new)
        wider, narrower = (before, after) if sent else (after, before)
        lost = wider - narrower - ({"integer"} if "number" in narrower else set())
        if before != after and before and after and lost:
            yield "break", place, f"type {'|'.join(sorted(before))} -> {'|'.join(sorted(after))}"
        elif bool(before) != bool(after) and (after if sent else before):
            yield "risk", place, f"type {'|'.join(before) or 'any'} -> {'|'.join(after) or 'any'}"
        if old.get("format") != new.get("format"):
            yield "risk", place, f"format {old.get('format')} -> {new.get('format')}"
        yield from self._enum(place, allowed(old), allowed(new), sent)
        taken, takes = limits(old), limits(new)
        for word in takes if sent else ():
            if tighter(word, taken, takes):
                yield "break", place, f"{word} {taken.get(word)} -> {takes[word]}"
        for word in ("pattern", "multipleOf", "uniqueItems") if sent else ():
            if new.get(word) and new[word] != old.get(word):
                yield "risk", place, f"{word} {old.get(word)} -> {new[word]}"
        yield from self._default(place, old, new, sent)

    @staticmethod
    def _default(place: str, old: Json, new: Json, sent: bool) -> Iterator[Change]:
        if old.get("default") != new.get("default") and sent:
            yield "risk", place, f"default {old.get('default')} -> {new.get('default')} for who leaves it out"

    @staticmethod
    def _enum(place: str, old: Any, new: Any, sent: bool) -> Iterator[Change]:
        gone = [str(value) for value in old or [] if new and value not in new]
        come = [str(value) for value in new or [] if old and value not in old]
        if sent and (gone or (new and not old)):
            yield (
                "break",
                place,
                f"values no longer accepted: {', '.join(gone) or 'all but ' + ', '.join(map(str, new))}",
            )
        if not sent and (come or (old and not new)):
            yield "risk", place, f"new values may arrive: {', '.join(come) or 'any'}"

    def _properties(self, place: str, old: Json, new: Json, sent: bool) -> Iterator[Change | Pair]:
        away = "readOnly" if sent else "writeOnly"  # not part of this direction
        before, after = (
            {name: one for name, one in schema.get("properties", {}).items() if not side.schema(one).get(away)}
            for side, schema in ((self.old, old), (self.new, new))
        )
        needed, needs = set(old.get("required", ())), set(new.get("required", ()))
        if sent and closed(new) and not closed(old):
            invited = isinstance(old.get("additionalProperties"), dict)  # a map, beside named properties too
            yield "break" if invited else "risk", place, "properties that it does not name are refused now"
        for name, schema in before.items():
            where = f"{place}.{name}"
            if name not in after:
                level = "break" if not sent or closed(new) else "risk"
                yield level, where, "property removed" + ("" if level == "break" else ": what clients send is ignored")
                continue
            if sent and name in needs - needed:
                yield "break", where, "became required"
            if not sent and name in needed - needs:
                yield "break", where, "may be missing now"
            yield from self._schema(where, schema, after[name], sent=sent)
        for name in sorted(needs - needed - new.get("properties", {}).keys() - before.keys()) if sent else ():
            yield "break", f"{place}.{name}", "required and new"
        for name in after.keys() - before.keys():
            if not (sent and name in needs):
                yield "add", f"{place}.{name}", "added"
            elif "default" in self.new.schema(after[name]):  # no server has to fill it in
                yield "risk", f"{place}.{name}", "required and new: a server that does not fill in the default refuses"
            else:
                yield "break", f"{place}.{name}", "required and new"


def show(changes: list[Json], most: int) -> None:
    for one in changes[:most]:
        users = one["operations"]
        used = "" if one["place"].startswith(users[0]) else f"  [{users[0]}"
        used += f" and {len(users) - 1} more]" if used and len(users) > 1 else "]" * bool(used)
        print(f"{one['level']:<5}  {one['place']}: {one['what']}{used}")
    if len(changes) > most:
        print(f"... {len(changes) - most} more: --most {len(changes)} or --json")
    counts = [sum(one["level"] == level for one in changes) for level in ("break", "risk")]
    print(f"{counts[0]} break, {counts[1]} risk")


def main() -> int:
    parser = argparse.ArgumentParser(description="List what breaks clients between two API descriptions.")
    parser.add_argument("old", help="description that clients were built against; - is standard input")
    parser.add_argument("new", help="description to be released")
    parser.add_argument("--all", action="store_true", help="also compatible additions")
    parser.add_argument("--most", type=int, default=50, help="changes shown (default 50)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        found = Comparison(load(args.old), load(args.new)).run()
    except Unreadable as error:
        print(f"cannot read {error}", file=sys.stderr)
        return 2
    except RecursionError:
        print("cannot compare: schemas without a name that contain themselves; bundle both first", file=sys.stderr)
        return 2
    except (AttributeError, TypeError, KeyError) as error:
        print(f"cannot compare: a description is not valid OpenAPI ({error}); lint both first", file=sys.stderr)
        return 2
    order = ("break", "risk", "add")
    changes = [
        {"level": level, "place": place, "what": what, "operations": users}
        for (level, place, what), users in sorted(found.items(), key=lambda one: (order.index(one[0][0]), one[0]))
        if args.all or level != "add"
    ]
    if args.json:
        print(json.dumps({"changes": changes}, indent=1))
    else:
        show(changes, max(args.most, 0))
    return int(any(one["level"] == "break" for one in changes))


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
