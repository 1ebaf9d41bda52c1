#!/usr/bin/env python3
"""Say what changed between two versions of a lock file, and which of the changes are dangerous.

Standard library only, Python 3.11+. Reads package-lock.json (2, 3), pnpm-lock.yaml (6, 9; one or two documents),
yarn.lock (1 and Berry), poetry.lock, uv.lock, Cargo.lock and go.sum, told apart by what is in them.

    git show main:package-lock.json > old; python3 compare_locks.py old package-lock.json [--top N] [--json]

Exit codes: 0 no danger, 1 at least one danger (checksum, source, name, script, downgrade), 2 unreadable.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

Json = dict[str, Any]
PNPM_TEXTS = (  # of a package, with what authors choose
    r"^    (?:deprecated|engines|cpu|os|libc|hasBin|name|id|dev|optional|prepare|patched|requiresBuild|\w+ependencies\w*)"
    r":.*\n?(?: {5,}.*\n?)*"
)
DEFAULTS = ("registry.npmjs.org", "registry.yarnpkg.com", "pypi.org/simple")
WEAK = {"md5", "sha1"}
UNFINISHED = re.compile(r"v?[\d.!]+(?:-|[._]?(?:a|b|rc|alpha|beta|dev)\.?\d)")
JUMPS = ("downgrade", "major", "major of 0.x", "minor", "patch", "other")


@dataclass
class Package:
    """One version of one package; *sums* has its checksums by artifact and algorithm, *bare* artifacts without one."""

    name: str
    version: str
    source: str = ""
    sums: dict[tuple[str, str], str] = field(default_factory=dict)
    script: bool = False
    dev: bool = False
    builds: bool = False
    bare: set[str] = field(default_factory=set)
    odd: str = ""
    hosts: set[str] = field(default_factory=set)  # that serve its files, where the lock file says so


@dataclass
class Lock:
    kind: str
    packages: list[Package] = field(default_factory=list)
    direct: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    own: set[str] = field(default_factory=set)  # links and folders of the repository
    aliases: set[tuple[str, str]] = field(default_factory=set)  # pnpm: the name in the folder, the package in it

    def by_name(self) -> dict[str, list[Package]]:
        found: dict[str, list[Package]] = defaultdict(list)
        for one in self.packages:
            found[one.name].append(one)
        return found


def read_lock(path: str) -> Lock:
    text = read_text(path)
    lock = read_packages(text)
    if not text.endswith("\n") and not lock.kind.startswith("npm"):
        lock.notes.append(f"{path} has no line end at its end: cut off?")
    return lock


def read_text(path: str) -> str:
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"neither UTF-8 nor UTF-16 (byte {error.start})") from error
    text = text.replace("\r\n", "\n")
    if conflict := re.search(r"^(<{7}|={7}$|>{7})", text, re.MULTILINE):
        raise ValueError(f"merge conflict in line {text.count(chr(10), 0, conflict.start()) + 1}: resolve it first")
    if not text.strip():
        raise ValueError("empty: for a new lock file compare with one that holds no packages")
    return text


def read_packages(text: str) -> Lock:
    if text.lstrip().startswith("{"):
        return read_npm(text)
    if re.search(r"^lockfileVersion:", text, re.MULTILINE):
        return read_pnpm(text)
    if "# yarn lockfile v1" in text or re.search(r"^__metadata:", text, re.MULTILINE):
        return read_yarn(text)
    if re.search(r"^\[\[package\]\]|^\[metadata\]|^version = \d", text, re.MULTILINE):
        return read_toml(text)
    if re.match(r"\S+ v\S+ h1:", text):
        return read_go(text)
    raise ValueError("not a lock file that is known here: see the list in --help")


# --- npm


def read_npm(text: str) -> Lock:
    if re.search(r'^\s*"configVersion": |^\s*"[^"\n]+": \["[^"\n]+@', text, re.MULTILINE):
        raise ValueError("bun.lock is not read here")
    try:
        whole = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON at line {error.lineno}, column {error.colno}: cut off?") from error
    version = whole.get("lockfileVersion")
    if version is None:
        raise ValueError("JSON, but not package-lock.json: no lockfileVersion")
    if version not in (2, 3) or not isinstance(whole.get("packages"), dict):
        raise ValueError(f"lockfileVersion {version} is not read here: `npm install --package-lock-only` writes 3")
    lock = Lock(f"npm {version}")
    bundled: list[str] = []
    for path, one in whole["packages"].items():
        if "node_modules/" not in path:
            for kind in ("dependencies", "devDependencies", "optionalDependencies"):
                lock.direct |= set(one.get(kind) or {})
        elif one.get("link"):
            lock.own.add(path.rpartition("node_modules/")[2])
        elif one.get("inBundle") is True and not one.get("resolved") and path.count("node_modules/") > 1:
            bundled.append(path.rpartition("node_modules/")[2])
        else:
            name = path.rpartition("node_modules/")[2]
            known = str(one.get("name") or name)
            resolved = str(one.get("resolved") or "")
            package = Package(name, str(one.get("version", "?")), source_of(resolved), sri(one.get("integrity")))
            package.script, package.dev = one.get("hasInstallScript") is True, one.get("dev") is True
            package.odd = odd_address(known, package.version, resolved)
            if not resolved and not re.match(r"v?\d|\?$", package.version):  # without an address npm fetches what stands here
                package.odd = f"is fetched as {package.version[:80]}"
            if known != name:
                package.source = f"alias of {known} {package.source}".strip()
            package.version = with_commit(package.version, resolved)
            lock.packages.append(package)
    if bundled:
        lock.notes.append(f"{len(bundled)} packages come in the archive of another one, e.g. {bundled[0]}: not compared")
    return lock


def unique(pairs: list[tuple[str, Any]]) -> Json:
    """Return an object, none of whose names hides another one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"{name[:60]!r} stands twice in one object: let the package manager write the file again")
    return found


def joined(pairs: Iterable[tuple[tuple[str, str], str]]) -> dict[tuple[str, str], str]:
    """Return checksums by artifact and algorithm; several of one are all kept, as each of them is accepted."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for key, value in pairs:
        found[key].add(value)
    return {key: " ".join(sorted(values)) for key, values in found.items()}


def sri(text: Any) -> dict[tuple[str, str], str]:
    """Return the checksums of a Subresource Integrity text by algorithm."""
    parts = [one.partition("-") for one in str(text or "").split()]
    return joined((("", algorithm), value.partition("?")[0]) for algorithm, _, value in parts)


def source_of(address: str) -> str:
    """Return kind, host and project of an address, without user names, passwords and versions."""
    if not address:
        return ""
    address = address.replace("\\", "/")  # as npm does: https://evil.example\@registry.npmjs.org/ is evil.example
    if short := re.match(r"(?:git\+)?[\w.-]+@([\w.-]+):(?!\d+/|/)(.+)", address):  # git@github.com:o/x.git
        address = f"git+ssh://{short[1]}/{short[2]}"
    kind = "git " if address.startswith("git") or ".git#" in address else ""
    parts = urlsplit(re.sub(r"^git\+", "", address))
    if not parts.netloc or parts.scheme == "file":
        return "path"
    host = parts.netloc.rpartition("@")[2]
    path = unquote(parts.path)
    if "/-/" not in path:  # not the tarball of a registry
        host = "/".join([host, *path.strip("/").removesuffix(".git").split("/")[:2]]).rstrip("/")
    else:  # one server may hold several registries
        host += re.sub(r"/(?:@[^/]+/)?[^/]+\Z", "", path.partition("/-/")[0])
    return kind + ("http (not encrypted) " if parts.scheme == "http" else "") + host


def with_commit(version: str, address: str) -> str:
    """Return a version with the commit that an address of git or of a forge's archive names: it is all that pins it."""
    where, _, fragment = address.partition("#")
    pins = fragment if source_of(address).startswith("git ") else "" if "/download/" in where else where
    found = re.search(r"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])", pins)
    return f"{version}#{found[0][:12]}" if found else version


def odd_address(name: str, version: str, resolved: str) -> str:
    """Say if the address of a registry's tarball belongs to another package or version, else nothing."""
    path = unquote(urlsplit(resolved).path)
    if "/-/" not in path:
        return ""
    given, _, file = path.rpartition("/-/")
    base = name.rpartition("/")[2]
    if {".", ".."} & set(re.split(r"[/\\]", path)) or "%" in path:
        return f"is fetched from a path that leads elsewhere: {path[:100]}"
    scoped = "@" not in name and given.rpartition("/")[0].rpartition("/")[2].startswith("@")  # @evil/x is not x
    if scoped or not given.endswith("/" + name):
        return f"is fetched as {'/'.join(given.split('/')[-2:]).lstrip('/')}"
    stem = file.rpartition("/")[2].removesuffix(".tgz")
    own = stem == f"{base}-{version.partition('+')[0]}"
    return f"is fetched as {stem}" if not own and (base in stem or re.search(r"-\d+\.\d+\.\d+", stem)) else ""


# --- pnpm


def read_pnpm(text: str) -> Lock:
    lock = Lock("pnpm")
    for document in re.split(r"^---.*$", text, flags=re.MULTILINE):
        if match := re.search(r"^lockfileVersion: *'?([\d.]+)", document, re.MULTILINE):
            if match[1].partition(".")[0] not in ("6", "9"):
                raise ValueError(f"pnpm lockfileVersion {match[1]} is not read here: 6 and 9 are")
            lock.kind = f"pnpm {match[1]}"
            own = bool(re.search(r"^    (packageManager|config)Dependencies:", document, re.MULTILINE))
            read_pnpm_document(lock, document, " (of pnpm itself)" if own else "")
            cut = not own and match[1].startswith("9") and re.search(r"^packages:", document, re.MULTILINE)
            if cut and not re.search(r"^snapshots:", document, re.MULTILINE):
                lock.notes.append("the part `snapshots` is missing: cut off?")
    return lock


def read_pnpm_document(lock: Lock, text: str, mark: str) -> None:
    section = group = ""
    current: list[str] = []
    key = entry = ""
    before = 0
    for line in [*text.splitlines(), "end:"]:
        depth = len(line) - len(line.lstrip(" "))
        if section in ("importers", "snapshots") or section.endswith("ependencies"):
            if line.strip():
                check_pnpm_line(line, depth, before)
                before = depth
        if (depth == 0 and line.strip()) or (section == "packages" and depth == 2):
            if key:
                lock.packages.append(pnpm_package(key, "\n".join(current), mark))
            key, current = "", []
        if depth == 0 and line.strip():
            section, before = line.partition(":")[0].strip("'\" "), 0
        elif section == "packages" and depth == 2:
            key = re.sub(r":( \{\})?$", "", line.strip()).strip("'\"")
        elif section in ("packages", "snapshots") and depth > 2:
            group = line.strip() if depth == 4 else group
            if depth == 6 and group in ("dependencies:", "optionalDependencies:"):
                add_reference(lock, *line.strip().partition(": ")[::2])
            if section == "packages":
                current.append(line)
        elif depth == (8 if section == "importers" else 4) and line.strip().startswith("version: "):
            add_reference(lock, entry, line.strip().partition(": ")[2])
        elif (section == "importers" and depth == 6) or (section.endswith("ependencies") and depth == 2):
            lock.direct.add(entry := line.strip().partition(":")[0].strip("'\""))


def check_pnpm_line(line: str, depth: int, before: int) -> None:
    """Raise an error for YAML that pnpm does not write and that would hide an entry here."""
    word = line.strip()
    plain = word.startswith("- ") or re.match(r"""(?:'[^']+'|"[^"\\]+"|[^\s'"{\[&*!?|>#][^\s'"]*):(?: |$)""", word)
    if depth % 2 or depth > before + 2 or not plain or re.search(r"""\{(?!\})|: [&*!|>]|: *"[^"]*\\|: *#""", word):
        raise ValueError(f"pnpm does not write {word[:60]!r}: edited by hand? let it write the file again")


def add_reference(lock: Lock, name: str, reference: str) -> None:
    """Note under a name the folder of the repository, or the other package, that pnpm installs there."""
    name, reference = name.strip("'\""), reference.strip("'\" ")
    if reference.startswith("link:"):
        lock.own.add(name)
    found = re.match(r"/?((?:@[^/@:]+/)?[^/@:()]+)@", reference)
    if found and found[1] not in (name, "git"):
        lock.aliases.add((name, found[1]))


def pnpm_package(key: str, text: str, mark: str) -> Package:
    key = key.removeprefix("/").partition("(")[0]
    place = key.find("@", 1)
    if place < 1:
        raise ValueError(f"a package without version: {key[:60]}")
    name, version = key[:place], key[place + 1 :]
    # a text that the author of a package chose, as `deprecated`, may look like a checksum
    facts = re.sub(PNPM_TEXTS, "", text, flags=re.MULTILINE)
    if odd := re.search(r"""["'](?:integrity|tarball|repo|commit|version|directory|type)["']\s*:|\b(?:integrity|tarball|repo|commit)\s+:|\\|(?:^|[\s{,])(?:<<|[&*!?] ?\w)""", facts, re.MULTILINE):
        raise ValueError(f"pnpm does not write {odd[0].strip()!r} in {key[:60]}: edited by hand? let it write the file again")
    found = {word: match[1] for word in ("integrity", "tarball", "repo", "commit", "version", "directory")
             if (match := re.search(rf"\b{word}: *['\"]?([^\s,}}'\"]+)", facts))}  # fmt: skip
    address = "git+" + found["repo"] if "repo" in found else found.get("tarball", "")
    if re.match(r"(https?|git|file|link)\b", version):
        address, version = address or version, found.get("version", version)
    pinned = f"{version}#{found['commit'][:12]}" if "commit" in found else with_commit(version, address)
    package = Package(name + mark, pinned, source_of(address), sri(found.get("integrity")))
    package.script = bool(re.search(r"\brequiresBuild: true", text))
    package.dev = bool(re.search(r"^ +dev: true", text, re.MULTILINE))
    package.odd = odd_address(name, version, address)
    return package


# --- yarn


def read_yarn(text: str) -> Lock:
    lock = Lock("yarn Berry" if "__metadata:" in text else "yarn 1")
    for block in re.split(r"\n(?=\S)", "\n" + text):
        head, _, body = block.strip("\n").partition("\n")
        if not head or head.startswith(("#", "__metadata")):
            continue
        if not head.endswith(":"):
            raise ValueError(f"damaged: no entry begins with {head[:60]!r}")
        pairs = [(match[1], match[2].strip('"')) for match in re.finditer(r'^  "?(\w+)"?:? (.+)$', body, re.MULTILINE)]
        fields = dict(pairs)
        if len(fields) < len(pairs) or re.search(r'^  ["\'?][^\n]*\\|^  [\'?{]', body, re.MULTILINE):
            raise ValueError(f"damaged: {head[:60]!r} has a field twice or in a form that yarn does not write")
        specs = [spec.strip('" ') for spec in head.rstrip(":").split(", ")]
        ranges = {spec[:at]: spec[at + 1 :] for spec in specs if (at := spec.find("@", 1)) > 0}  # one for each name
        if "version" not in fields:
            raise ValueError(f"damaged: {head[:60]!r} has no version, cut off?")
        if fields.get("linkType") == "soft":
            lock.own |= ranges.keys()
        else:
            lock.packages += [yarn_package(name, wanted, fields) for name, wanted in ranges.items()]
    return lock


def yarn_package(name: str, wanted: str, fields: dict[str, str]) -> Package:
    version = fields["version"]
    if "resolution" in fields:  # Berry
        at = fields["resolution"].find("@", 1)
        known, where = fields["resolution"][:at], fields["resolution"][at + 1 :]
        sums = (
            {("", fields["checksum"].partition("/")[0]): fields["checksum"].partition("/")[2]}
            if "checksum" in fields
            else {}
        )
        if "__archiveUrl=" in where:  # fetched from there, whatever the registry is
            where = unquote(where.partition("__archiveUrl=")[2].partition("&")[0])
        source = "" if where.startswith("npm:") else where.partition(":")[0] if "//" not in where else source_of(where)
        package = Package(name, version, source, sums)
        package.version = with_commit(version, where)
        given = re.match(r"npm:([^:]+)(?:::.*)?\Z", fields["resolution"][at + 1 :])
        package.odd = f"is fetched as {given[1]}" if given and given[1] != version else ""
    else:
        resolved = fields.get("resolved", "")
        known = name
        if wanted.startswith("npm:") and "@" in wanted[5:]:
            known = wanted[4 : wanted.find("@", 5)]
        package = Package(name, version, source_of(resolved.partition("#")[0]), sri(fields.get("integrity")))
        package.odd = odd_address(known, version, resolved)
        package.version = with_commit(version, resolved)
        if not package.sums and "#" in resolved and not package.source.startswith("git "):
            package.sums = {("", "sha1"): resolved.partition("#")[2]}
    if known != name:
        package.source = f"alias of {known} {package.source}".strip()
    return package


# --- poetry, uv, Cargo, Go


def read_toml(text: str) -> Lock:
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"no TOML: {error}") from error
    packages = whole.get("package") or []
    if "metadata" in whole and "lock-version" in whole["metadata"]:
        files = whole["metadata"].get("files") or {}  # before Poetry 1.3
        packages = [{"files": files.get(one["name"])} | one for one in packages]
        return Lock(f"poetry {whole['metadata']['lock-version']}", [poetry_package(one) for one in packages])
    if "requires-python" in whole or any(isinstance(one.get("source"), dict) for one in packages):
        own = [one for one in packages if {"virtual", "editable"} & set(one.get("source") or {})]
        groups = [one.get("dependencies") or [] for one in own]
        groups += [
            each
            for one in own
            for part in ("dev-dependencies", "optional-dependencies")
            for each in (one.get(part) or {}).values()
        ]
        direct = {str(each["name"]) for group in groups for each in group}
        return Lock(f"uv {whole.get('version')}", [uv_package(one) for one in packages if one not in own], direct,
                    own={str(one["name"]) for one in own})  # fmt: skip
    if whole.get("version") in (3, 4) or any("checksum" in one for one in packages):
        found = [cargo_package(one) for one in packages if "source" in one]
        own_names = {name for one in packages if "source" not in one for name in one.get("dependencies") or []}
        return Lock(f"Cargo {whole.get('version', '?')}", found, {name.partition(" ")[0] for name in own_names},
                    own={str(one["name"]) for one in packages if "source" not in one})  # fmt: skip
    raise ValueError("TOML, but neither poetry.lock nor uv.lock nor Cargo.lock")


def file_sums(files: list[Json]) -> dict[tuple[str, str], str]:
    parts = [(file_name(one), str(one.get("hash") or "").partition(":")) for one in files]
    return joined(((name, algorithm), value) for name, (algorithm, _, value) in parts if value)


def file_name(one: Json) -> str:
    address = str(one.get("url") or one.get("path") or "")
    return str(one.get("file") or unquote(urlsplit(address).path.rpartition("/")[2]))


def odd_file(name: str, files: list[Json]) -> str:
    """Say if the file name of a wheel or source archive is that of another package, else nothing."""
    wanted = re.sub(r"[-_.]+", "-", name).lower()
    for file in map(file_name, files):
        if file.endswith(".whl"):
            own = re.sub(r"[-_.]+", "-", file.partition("-")[0]).lower() == wanted
        else:
            own = bool(re.match(re.escape(wanted) + r"-v?\d", re.sub(r"[-_.]+", "-", file).lower()))
        if file and not own:
            return f"is fetched as {file}"
    return ""


def without_hash(files: list[Json]) -> set[str]:
    return {file_name(one) for one in files if not one.get("hash")}


def poetry_package(one: Json) -> Package:
    files, source = one.get("files") or [], one.get("source") or {}
    where = source_of(str(source.get("url", ""))) or str(source.get("type", ""))
    where = f"git {where.removeprefix('git ')}" if source.get("type") == "git" else where
    package = Package(str(one["name"]), str(one["version"]), where, file_sums(files))
    package.bare = without_hash(files)
    package.builds = bool(files) and not any(str(each.get("file", "")).endswith(".whl") for each in files)
    package.odd = "" if source.get("type") in ("url", "file") else odd_file(package.name, files)
    if source.get("resolved_reference"):
        package.version += f"#{source['resolved_reference'][:12]}"
    return package


def uv_package(one: Json) -> Package:
    kind, place = next(iter((one.get("source") or {"none": ""}).items()))
    address = str(place)
    source = (
        source_of(("git+" if kind == "git" else "") + address.partition("?")[0].partition("#")[0])
        if "//" in address
        else kind
    )
    files = [each for each in [one.get("sdist"), *(one.get("wheels") or [])] if isinstance(each, dict)]
    version = str(one.get("version", "?")) + (f"#{address.rpartition('#')[2][:12]}" if kind == "git" else "")
    package = Package(str(one["name"]), version, source, file_sums(files))
    package.bare = without_hash(files)
    package.builds = bool(files) and not one.get("wheels")
    if kind == "registry":
        package.odd = odd_file(package.name, files)
        package.hosts = {parts.netloc.rpartition("@")[2] for each in files if (parts := urlsplit(str(each.get("url") or "").replace("\\", "/"))).netloc}
    return package


def cargo_package(one: Json) -> Package:
    source = str(one["source"])
    address, _, commit = source.partition("#")
    where = source_of(re.sub(r"^(registry|sparse)\+", "", address).partition("?")[0])
    sums = {("", "sha256"): str(one["checksum"])} if "checksum" in one else {}
    return Package(str(one["name"]), str(one["version"]) + (f"#{commit[:12]}" if commit else ""), where, sums)


def read_go(text: str) -> Lock:
    lock = Lock("go.sum")
    lines: dict[tuple[str, str], list[tuple[tuple[str, str], str]]] = defaultdict(list)
    for place, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if len(words) != 3 or not words[2].startswith("h1:"):
            raise ValueError(f"line {place} is no line of go.sum")
        version, _, part = words[1].partition("/")
        lines[words[0], version].append(((part or "zip", "h1"), words[2][3:]))
    sums = {key: joined(found) for key, found in lines.items()}
    with_code = {key for key, found in sums.items() if ("zip", "h1") in found}
    lock.packages = [
        Package(name, version, "", sums[name, version]) for name, version in sums if (name, version) in with_code
    ]
    lock.notes.append(
        "go.sum also keeps versions that are no longer used, and no sources: compare go.mod, replace lines too"
    )
    return lock


# --- comparison


def release(version: str) -> tuple[int, ...]:
    match = re.match(r"v?(?:\d+!)?(\d{1,18}(?:\.\d{1,18})*)", version)
    return tuple(map(int, match[1].split("."))) if match else ()


def jump(old: str, new: str, kind: str) -> str:
    before, after = release(old), release(new)
    if not before or not after:
        return "other"
    size = max(len(before), len(after))
    before, after = before + (0,) * (size - len(before)), after + (0,) * (size - len(after))
    if before == after:
        return "downgrade" if UNFINISHED.match(new) and not UNFINISHED.match(old) else "other"
    if after < before:
        return "downgrade"
    place = next(n for n in range(size) if before[n] != after[n])
    if place == 1 and before[0] == 0 and not kind.startswith(("poetry", "uv")):
        return "major of 0.x"
    return ("major", "minor", "patch")[min(place, 2)]


Names = dict[str, list[Package]]


def compare(old: Lock, new: Lock) -> Json:
    if old.kind.partition(" ")[0] != new.kind.partition(" ")[0]:
        raise ValueError(f"{old.kind} and {new.kind} are two kinds of lock file")
    before, after = old.by_name(), new.by_name()
    changed = changes(before, after, new)
    twice = {name: len(versions(found)) for name, found in after.items() if len(versions(found)) > 1}
    return {
        "kinds": [old.kind, new.kind],
        "packages": [len(old.packages), len(new.packages)],
        "dangers": [*sources(old, before, after), *aliased(old, new, before), *replaced(old, new, before), *recommitted(before, after), *dangers(old, new, before), *downgrades(changed)],
        "added": [
            {"name": name, "versions": versions(found), "direct": name in new.direct, "source": found[0].source}
            for name, found in sorted(after.items())
            if name not in before
        ],
        "removed": [
            {"name": name, "versions": versions(found)} for name, found in sorted(before.items()) if name not in after
        ],
        "changed": changed,
        "duplicates": [
            {"name": name, "versions": versions(after[name])}
            for name, count in sorted(twice.items())
            if count > len(versions(before.get(name, [])))
        ],
        "notes": sorted({*old.notes, *new.notes, *notes(old, new, before)}),
    }


def changes(before: Names, after: Names, new: Lock) -> list[Json]:
    """Return packages of both files whose versions differ, the largest jumps first."""
    found = []
    for name in before.keys() & after.keys():
        had, has = set(versions(before[name])), set(versions(after[name]))
        gone, come = sorted(had - has, key=order), sorted(has - had, key=order)
        if gone or come:
            jumps = [jump(a, b, new.kind) for a, b in replacements(gone, come)]
            size = min(jumps, key=JUMPS.index, default="one more version" if come else "one version less")
            found.append({"name": name, "from": gone, "to": come, "jump": size, "direct": name in new.direct})
    return sorted(found, key=lambda row: ([*JUMPS, row["jump"]].index(row["jump"]), row["name"]))


def replacements(gone: list[str], come: list[str]) -> Iterator[tuple[str, str]]:
    """Yield which version took the place of which: the newest of each major version, then the rest in order."""
    had, has = ({release(version)[:1]: version for version in found} for found in (gone, come))  # sorted: the newest stays
    yield from ((had[major], has[major]) for major in had.keys() & has.keys())
    left, new = ([version for major, version in found.items() if major not in both] for found, both in ((had, has), (has, had)))
    yield from zip(reversed(left), reversed(new), strict=False)


def order(version: str) -> tuple[tuple[int, ...], str]:
    return release(version), version


def versions(packages: list[Package]) -> list[str]:
    return sorted({one.version for one in packages}, key=order)


def sources(old: Lock, before: Names, after: Names) -> Iterator[str]:
    """Yield packages that come from elsewhere than before, many with the same change as one."""
    known = {one.source for one in old.packages}
    moved: dict[tuple[str, str], list[str]] = defaultdict(list)
    sizes = Counter(one.source for found in after.values() for one in found)
    for name, found in sorted(after.items()):
        had = {one.source for one in before.get(name, [])}
        for source in sorted({one.source for one in found} - (had or known)):
            public = set(DEFAULTS[:2])  # two names of one registry: yarn and npm write either
            written = source in DEFAULTS and (had or known) <= {""} and sizes[source] > sizes[""]  # now for all packages
            if not written and not (source in public and public & (had or known)):
                moved[", ".join(sorted(had)) or ("the default registry" if had else "none"), source].append(name)
    for (was, source), names in moved.items():
        what = f"{len(names)} packages, e.g. {names[0]}," if len(names) > 3 else " and ".join(names)
        now = source or "the default registry"
        yield (
            f"source: {what} from {now}, before from {was}"
            if was != "none"
            else f"source: new {what} from {now}, unlike all before"
        )


def aliased(old: Lock, new: Lock, before: Names) -> Iterator[str]:
    """Yield names under which pnpm newly installs another package."""
    for name, known in sorted(new.aliases - old.aliases):
        was = f", before from {before[name][0].source or 'the default registry'}" if name in before else ""
        yield f"source: {'' if was else 'new '}{name} from alias of {known}{was}"


def replaced(old: Lock, new: Lock, before: Names) -> Iterator[str]:
    """Yield packages whose place a folder of the repository has taken, or whose files another host serves."""
    served: dict[str, set[str]] = defaultdict(set, {"pypi.org/simple": {"files.pythonhosted.org"}})
    for one in old.packages:
        served[one.source] |= one.hosts
    for one in new.packages:
        for host in sorted(one.hosts - served[one.source] - {one.source.partition("/")[0]}):
            yield f"source: files of {one.name} {one.version} from {host}, unlike all before of {one.source}"
    for name in sorted(before.keys() & (new.own - old.own)):  # a copy from the registry may stay beside the folder
        yield f"source: {name} from a folder of this repository, before from {before[name][0].source or 'the default registry'}"


def twin_of(one: Package, before: Names) -> Package | None:
    """Return the same version of before; of several (patched, from git) the one with these checksums or this source."""
    same = [other for other in before.get(one.name, []) if other.version == one.version]
    return max(same, key=lambda other: (other.sums == one.sums, other.source == one.source), default=None)


def recommitted(before: Names, after: Names) -> Iterator[str]:
    """Yield packages that come from another commit of the same repository, although their version is the same."""
    for name, found in sorted(after.items()):
        had = {one.version for one in before.get(name, [])}
        for one in found:
            base, mark, commit = one.version.partition("#")
            others = [version.partition("#")[2] for version in sorted(had) if version.partition("#")[0] == base and "#" in version]
            if mark and others and commit not in others:
                yield f"commit: {name} {base} from commit {commit}, before from {', '.join(others)}"


def dangers(old: Lock, new: Lock, before: Names) -> Iterator[str]:
    first: dict[tuple[str, str, str], Package] = {}
    for one in sorted(new.packages, key=lambda one: (one.name, order(one.version))):
        had, label = before.get(one.name, []), f"{one.name} {one.version}"
        if twin := twin_of(one, before):
            yield from (f"checksum: {label} {what}" for what in checksum_problems(twin, one))
        elif (other := first.setdefault((one.name, one.version, one.source), one)) is not one and any(
            other.sums[key] != one.sums[key] for key in other.sums.keys() & one.sums.keys()
        ):
            yield f"checksum: {label} stands there twice with two checksums"
        elif had and all(other.sums for other in had) and not one.sums and one.source in {other.source for other in had}:
            yield f"checksum: {label} has none, the version before had one"
        elif had and is_weak(one) and not any(is_weak(other) or not other.sums for other in had):
            yield f"checksum: {label} has only a weak one, the version before had a strong one"
        if one.odd and not any(other.odd == one.odd for other in had):
            yield f"name: {label} {one.odd}"
        if one.script and not any(other.script for other in had):
            yield f"script: {label} runs code at installation, {'before it did not' if had else 'and is new'}"


def downgrades(changed: list[Json]) -> Iterator[str]:
    rows = [row for row in changed if row["jump"] == "downgrade"]
    return (f"downgrade: {row['name']} {', '.join(row['from'])} -> {', '.join(row['to'])}" for row in rows)


def is_weak(one: Package) -> bool:
    """Say whether no checksum of a package withstands a forgery."""
    return bool(one.sums) and {algorithm for _, algorithm in one.sums} <= WEAK


def checksum_problems(old: Package, new: Package) -> Iterator[str]:
    for artifact, algorithm in sorted(old.sums.keys() & new.sums.keys()):
        if old.sums[artifact, algorithm] != new.sums[artifact, algorithm]:
            yield f"has another {algorithm}{' of ' + artifact if artifact else ''} without another version"
    if old.sums and not new.sums:
        yield "lost its checksum"
    for artifact in sorted({name for name, _ in old.sums}):
        was, now = ({algorithm for name, algorithm in one.sums if name == artifact} for one in (old, new))
        part = f" of {artifact}" if artifact else ""
        if was - WEAK and now and not now - WEAK:
            yield f"has only {', '.join(sorted(now))}{part} where it had {', '.join(sorted(was - WEAK))}"
        if artifact in new.bare and new.sums:
            yield f"lost the checksum{part}"


def notes(old: Lock, new: Lock, before: Names) -> Iterator[str]:
    for one in new.packages:
        had, label, twin = before.get(one.name, []), f"{one.name} {one.version}", twin_of(one, before)
        if twin and twin.sums and one.sums and not twin.sums.keys() & one.sums.keys():
            yield f"{label}: other algorithm or other files, the checksums cannot be compared"
        elif twin and twin.sums and (more := {name for name, _ in one.sums.keys() - twin.sums.keys() if name}):
            yield f"{label}: {len(more)} more files of the same version"
        if one.builds and not any(other.builds for other in had):
            yield f"{label} has no wheel: its build code runs at installation"
        if not one.dev and had and all(other.dev for other in had):
            yield f"{label} was for development only and now ships"
    if lacking := sum(not one.sums and not one.source.startswith(("git", "path")) for one in new.packages):
        yield f"{lacking} packages have no checksum"


def show(report: Json, top: int) -> None:
    kinds, sizes = report["kinds"], report["packages"]
    print(f"locks    {kinds[0]}, {sizes[0]} packages -> {kinds[1]}, {sizes[1]} packages")
    jumps = Counter(row["jump"] for row in report["changed"])
    sizes = ", ".join(f"{name} {number}" for name, number in sorted(jumps.items()))
    counts = ", ".join(f"{name} {len(report[name])}" for name in ("added", "removed", "changed"))
    print(f"counts   {counts}" + (f" ({sizes})" if sizes else ""))
    tell("danger", report["dangers"], top)
    changed = [(f"{r['name']} {', '.join(r['from'])} -> {', '.join(r['to'])}", r) for r in report["changed"]]
    tell("changed", [f"{text} ({r['jump']}{', direct' * r['direct']})" for text, r in changed], top)
    tell("added", [f"{r['name']} {', '.join(r['versions'])}{' (direct)' * r['direct']}" for r in report["added"]], top)
    tell("removed", [f"{r['name']} {', '.join(r['versions'])}" for r in report["removed"]], top)
    tell("twice", [f"{r['name']} {', '.join(r['versions'])}" for r in report["duplicates"]], top)
    tell("note", report["notes"], top)


def tell(kind: str, texts: list[str], top: int) -> None:
    for text in texts[:top]:
        print(f"{kind:<8} {''.join(char if char.isprintable() else '?' for char in text)}")
    if len(texts) > top:
        print(f"...      {len(texts) - top} more: --top {len(texts)} or --json")


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Say what changed between two versions of a lock file.", epilog=__doc__.split("\n\n")[1]
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--top", type=int, default=30, help="lines of each kind (default 30)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    locks = []
    for path in (args.old, args.new):
        try:
            locks.append(read_lock(path))
        except (OSError, ValueError, RecursionError) as error:
            print(f"cannot read {path}: {error}", file=sys.stderr)
            return 2
        except (AttributeError, KeyError, TypeError, IndexError) as error:
            print(f"cannot read {path}: not the shape of a lock file ({error!r})", file=sys.stderr)
            return 2
    try:
        report = compare(*locks)
    except ValueError as error:
        print(f"cannot compare {args.old} with {args.new}: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report, args.top)
    return 1 if report["dangers"] else 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
