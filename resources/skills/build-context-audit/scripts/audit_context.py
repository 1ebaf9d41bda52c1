#!/usr/bin/env python3
"""Say what a Docker build takes from its folder: sizes, secrets, patterns that miss, files that empty the cache.

Standard library only, Python 3.11+. Applies the ignore file as BuildKit does and reads the Dockerfile's COPY lines.
Nothing is built or sent; values of secrets are never printed.

    python3 audit_context.py FOLDER [-f DOCKERFILE] [--save STATE] [--against STATE] [--top N] [--json]

Exit codes: 0 no danger, 1 at least one danger (secret that is copied, COPY of nothing), 2 unreadable.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import posixpath
import re
import shlex
import signal
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SEARCHED = 1_000_000  # bytes of a file that are searched for secrets
FOREIGN = {"node_modules", ".git", ".venv", "venv", "vendor", ".yarn"}  # not searched: others' test keys are there
HISTORY = re.compile(r"((?:.*/)?\.(?:git|hg|svn))/")
HARMLESS = re.compile(r"(?i)example|sample|template|\.dist$|\.pub$")
NAMES = (
    (re.compile(r"\.env([._-].+)?|\.envrc|.+\.env"), "environment file"),
    (re.compile(r"id_(rsa|dsa|ecdsa|ed25519)|.+\.ppk"), "SSH key"),
    (re.compile(r".+\.(p12|pfx|jks|keystore|kdbx)"), "key store"),
    (re.compile(r"[._]netrc|\.pgpass|\.pypirc|\.my\.cnf|\.dockerconfigjson|\.htpasswd|\.git-credentials|kubeconfig|.+\.kubeconfig"
        r"|\.vault-token|\.terraformrc|credentials\.tfrc\.json|application_default_credentials\.json|\.s3cfg|\.boto|\.dockercfg"), "credentials"),
    (re.compile(r".+\.tfstate(\.backup)?"), "Terraform state"),
    (re.compile(r".+\.tfvars(\.json)?"), "Terraform variables"),
)
PATHS = re.compile(r"(^|/)(\.aws/credentials|\.docker/config\.json|\.kube/config|\.config/gcloud/.+\.(db|json)|config/(master|credentials/\w+)\.key)$")
CONTENTS = (
    (re.compile(rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----(?!\s*(?:\.\.\.|[(<\[]))"), "private key"),
    (re.compile(rb"\b(?:AKIA|ASIA)(?!\w*EXAMPLE)[A-Z0-9]{16}\b|(?i:aws_secret_access_key)[\"']?\s*[=:]\s*[\"']?(?![\w/+]*EXAMPLE)[\w/+]{40}(?![\w/+])"), "AWS key"),
    (re.compile(rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{40})"), "GitHub token"),
    (re.compile(rb"\bnpm_[A-Za-z0-9]{36}\b|(?m:^|:)_(?:authToken|auth|password)\s*=\s*(?!\s*[\"']?\$\{)\S"), "npm token"),
    (re.compile(rb"\bxox[abprs]-[\w-]{10}|\b[sr]k_live_\w{16}|\bAIza[\w-]{35}|\bsk-(?:ant|proj|svcacct|admin)-[\w-]{20}|\bglpat-[\w-]{20}|\bhf_[A-Za-z]{34}\b|\bpypi-AgEI[\w-]{40}"
        rb"|\bxapp-\d-\w{8}|\bSG\.[\w-]{22}\.[\w-]{43}|\bhvs\.[\w-]{24}|\bdop_v1_[0-9a-f]{64}|\bAccountKey=[\w+/]{86}=="
        rb"|\bGOCSPX-[\w-]{28}|\bhooks\.slack\.com/services/T\w+/B\w+/\w{20}|\bsk-\w{20}T3BlbkFJ\w{20}|\bAGE-SECRET-KEY-1[A-Z0-9]{58}"), "API key"),
    (re.compile(rb"(?i)\b[a-z+]+://[^\s/:@$<{]*:[^\s/@$<{]+@(?!localhost|127\.|example)"), "password in an address"),
)
VOLATILE = re.compile(
    r"(^|/)(\.git|coverage|htmlcov|\.nyc_output|\.pytest_cache|__pycache__|\.mypy_cache|\.ruff_cache|\.turbo|\.next|\.idea"
    r"|\.vscode|\.github|logs?|tmp|test-results|playwright-report)/|(\.log|\.pyc|\.tsbuildinfo|\.swp|\.DS_Store)$"
)
MANIFEST = re.compile(
    r"(?i)^(package(-lock)?\.json|npm-shrinkwrap\.json|\.npmrc|pnpm-(lock|workspace)\.yaml|yarn\.lock|\.yarnrc(\.yml)?|bun\.lockb?"
    r"|requirements.*\.(txt|in)|constraints.*\.txt|pyproject\.toml|(uv|poetry|pdm|pipfile|cargo|composer|gemfile)\.lock"
    r"|setup\.(py|cfg)|pipfile|readme(\.\w+)?|go\.(mod|sum|work)|cargo\.toml|gemfile|composer\.json|.*\.(cs|fs)proj|.*\.slnx?"
    r"|mix\.(exs|lock)|(conda-lock|environment[\w-]*)\.ya?ml|nuget\.config|directory\..*\.props|packages\.lock\.json|pom\.xml|.*\.gradle(\.kts)?|gradlew?|gradle.*\.(jar|properties))$"
)
INSTALL = re.compile(
    r"\b(npm (ci|i|install|clean-install)|pnpm (i|install|fetch)|yarn( install|\s*$| --)|bun install|pip3? install|uv (sync|pip)"
    r"|(poetry|pdm) install|pdm sync|pipenv (install|sync)|(conda|mamba) (env|install|create)|mix deps\.get"
    r"|bundle install|composer install|go mod download|cargo (fetch|build)|mvn|gradlew?|dotnet restore|apt(-get)? |apk add|dnf |yum )"
)
INSTRUCTIONS = set("ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR".split())
WORD = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])+""")
HEREDOC = re.compile(r"""\d*<<(-?)(['"]?)([^<'"]+)\2""")
Json = dict[str, Any]


class Pattern:
    """A line of an ignore file, matched as github.com/moby/patternmatcher does."""

    def __init__(self, line: int, written: str) -> None:
        self.line, self.written, self.hits = line, written, 0
        self.exception = written.startswith("!")
        text = posixpath.normpath(written.removeprefix("!").strip() or "!")
        self.text = text.lstrip("/") or "/"
        self.regex = re.compile(self._expression())

    def _expression(self) -> str:
        """Return the pattern as a regular expression; two stars at an end are a plain prefix or suffix there."""
        text, found, place, special = self.text, "", 0, False
        if text.startswith("**") and not re.search(r"[*?\[\]\\]", text[2:]):
            rest = text[2:]
            return rf"(?s:.*{re.escape(rest)}" + (rf"|{re.escape(rest[1:])})\Z" if rest.startswith("/") else r")\Z")
        while place < len(text):
            char = text[place]
            place += 1
            if char == "*" and text[place : place + 1] == "*":
                place += 2 if text[place + 1 : place + 2] == "/" else 1
                found, special = found + (r"(?:.*/)?" if place < len(text) else ".*"), True
            elif char in "*?":
                found, special = found + ("[^/]*" if char == "*" else "[^/]"), True
            elif char == "\\" and place < len(text):
                found, place = found + re.escape(text[place]), place + 1
            elif char == "[":
                end = text.find("]", place + 1)
                if end < 0:
                    raise ValueError(f"line {self.line}: `[` without `]` in {self.written!r}: Docker refuses it")
                found, place = found + "[" + re.sub(r"([\[&~|\\])", r"\\\1", text[place:end]) + "]", end + 1
            else:
                found += re.escape(char)
        return rf"(?s:{found})\Z"

    def root_only(self) -> re.Pattern[str] | None:
        """Return what finds the same name deeper, if the pattern is a name for the root alone."""
        if self.exception or "/" in self.text or "**" in self.text or self.text in ("*", ".", ".*"):
            return None
        return self.regex


@dataclass
class Entry:
    """A file, link or folder that passes the ignore file."""

    path: str
    mode: int
    size: int = 0

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)


@dataclass
class Copy:
    """An instruction that takes files from the folder, with what it takes."""

    line: int
    stage: int
    text: str
    sources: list[str]
    excludes: list[Pattern]
    bound: bool = False
    taken: list[Entry] = field(default_factory=list)


@dataclass
class Dockerfile:
    name: str = ""
    copies: list[Copy] = field(default_factory=list)
    runs: list[tuple[int, int, str]] = field(default_factory=list)
    bases: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 (byte {error.start}), Docker misreads it: save it as UTF-8") from None


def read_patterns(text: str) -> list[Pattern]:
    lines = list(enumerate(text.split("\n"), 1))
    if alone := next((n for n, line in lines if line.strip() == "!"), 0):
        raise ValueError(f"line {alone}: `!` without a pattern: Docker refuses it")
    return [Pattern(n, line.strip()) for n, line in lines if line.strip() and not line.startswith("#")]


# --- the folder


def walk(root: Path, patterns: list[Pattern]) -> tuple[list[Entry], Counter[str], list[str]]:
    """Return what passes, counts and bytes of what is ignored, and what could not be read."""
    passed: list[Entry] = []
    ignored: Counter[str] = Counter()
    unread: list[str] = []
    exceptions = any(one.exception for one in patterns)
    pending: list[tuple[str, list[bool]]] = [("", [False] * len(patterns))]
    while pending:
        folder, parents = pending.pop()
        try:
            inside = sorted(os.scandir(root / folder), key=lambda one: one.name)
        except OSError as error:
            if not folder:
                raise
            unread.append(f"{shown(folder)}: {error.strerror}")
            continue
        for one in inside:
            path = posixpath.join(folder, one.name)
            facts = one.stat(follow_symlinks=False)
            out, matched = decide(path, patterns, parents)
            if one.is_dir(follow_symlinks=False):
                if out and not exceptions:
                    ignored += sizes(Path(one.path))
                else:
                    pending.append((path, matched))
            if out:
                if not one.is_dir(follow_symlinks=False):
                    ignored += Counter(files=1, bytes=facts.st_size)
            else:
                passed.append(Entry(path, facts.st_mode, facts.st_size if stat.S_ISREG(facts.st_mode) else 0))
    return sorted(passed, key=lambda one: one.path), ignored, unread


def decide(path: str, patterns: list[Pattern], parents: list[bool]) -> tuple[bool, list[bool]]:
    """Return whether *path* is ignored, and which patterns hold for it: the last one that matches decides."""
    out, matched = False, [False] * len(patterns)
    for n, one in enumerate(patterns):
        hit = parents[n]
        if not hit:
            real = bool(one.regex.match(path))
            one.hits += real
            hit = real and one.exception == out
        matched[n] = hit
        if hit:
            out = not one.exception
    return out, matched


def sizes(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for where, below, names in os.walk(folder):
        for name in names + [one for one in below if os.path.islink(os.path.join(where, one))]:
            found += Counter(files=1, bytes=os.lstat(os.path.join(where, name)).st_size)
    return found


# --- the Dockerfile


def instructions(text: str, name: str) -> Iterator[tuple[int, str]]:
    """Yield first line and text of each instruction, without comments, continuations joined, heredocs behind a line end."""
    directive = re.match(r"(?i)(?:\s*#\s*\w+\s*=.*\n)*?\s*#\s*escape\s*=\s*(`)", text)
    escape = re.escape("`" if directive else "\\")
    continued = re.compile(rf"((?:^|[^{escape}])){escape}[ \t]*$")
    first, joined = 0, ""
    until: list[tuple[str, str]] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if until:
            if (line.lstrip("\t") if until[0][0] else line) == until[0][1]:
                until.pop(0)
            elif not line.lstrip().startswith("#"):
                joined += "\n" + line
        elif line.lstrip().startswith("#") or not line.strip():
            continue
        else:
            first = first or number
            if continued.search(line):
                joined += continued.sub(r"\1", line)
                continue
            joined += line
            if re.match(r"\s*(?:ONBUILD\s+)?(RUN|COPY|ADD)\b", joined, re.IGNORECASE):
                heredocs = (HEREDOC.fullmatch(word) for word in WORD.findall(joined))
                until = [(found[1], found[3]) for found in heredocs if found]
        if not until:
            yield first, joined.strip()
            first, joined = 0, ""
    if until:
        raise ValueError(f"{name}: heredoc {until[0][1]} does not end: cut off?")
    if joined:
        yield first, joined.strip()


def expand(text: str, values: dict[str, str]) -> str:
    """Return *text* with its variables replaced; those without a value stay."""

    def value(match: re.Match[str]) -> str:
        known = values.get(match[1] or match[4])
        if not match[2]:
            return match[0] if known is None else known
        there = bool(known) if ":" in match[2] else known is not None
        return (match[3] if there else "") if "+" in match[2] else (known or "") if there else match[3]

    return re.sub(r"\$(?:\{(\w+)(?:(:?[-+])([^{}$]*))?\}|(\w+))", value, text)


def read_dockerfile(path: Path, name: str) -> Dockerfile:
    found = Dockerfile(name)
    values: dict[str, str] = {}
    for line, text in instructions(read_text(path), name):
        word, rest = (*text.split(None, 1), "")[:2]
        word = word.upper()
        if word not in INSTRUCTIONS:
            found.notes.append(f"line {line}: {shown(word)[:30]} is no instruction, Docker refuses it")
        if word in ("ARG", "ENV"):
            values |= dict(re.findall(r"(\w+)=[\"']?([^\s\"']*)", rest))
        elif word == "FROM":
            parts = [part for part in rest.split() if not part.startswith("--")]
            found.bases.append(parts[0].lower() if parts else "")
            found.names.append(parts[2].lower() if len(parts) > 2 else "")
            found.lines.append(line)
        elif word in ("COPY", "ADD"):
            read_copy(found, line, text, rest, values)
        elif word == "RUN":
            words = copy_words(rest) if rest.startswith("[") else None
            found.runs.append((line, len(found.bases), " ".join(words or [rest])))
            for mount in re.findall(r"--mount=(\S+)", flags_of(rest)):
                options = dict(part.partition("=")[::2] for part in mount.split(","))
                if options.get("type", "bind") == "bind" and "from" not in options:
                    copy = Copy(line, len(found.bases), f"RUN --mount={mount}", [], [], bound=True)
                    add_sources(found, copy, [options.get("source") or options.get("src") or "."], values)
    if not found.bases:
        raise ValueError(f"{name}: no FROM: not a Dockerfile, or cut off")
    return found


def flags_of(rest: str) -> str:
    return re.match(r"(?:--\S+\s+)*", rest)[0]  # type: ignore[index]


def read_copy(found: Dockerfile, line: int, text: str, rest: str, values: dict[str, str]) -> None:
    text, rest = text.partition("\n")[0], rest.partition("\n")[0]
    options = flags_of(rest)
    if "--from=" in options:
        return
    words = copy_words(rest.removeprefix(options))
    if words is None:
        raise ValueError(f"{found.name}: line {line}: cannot be read: {text[:60]}")
    if len(words) < 2:
        found.notes.append(f"line {line}: {shown(text)[:60]} has no target, Docker refuses it")
    excludes = [pattern_of(found.name, line, one) for one in re.findall(r"--exclude=(\S+)", options)]
    remote = r"(?i)<<|(https?|ssh|git)://|git@|github\.com/" if text[:3].upper() == "ADD" else "<<"
    add_sources(found, Copy(line, len(found.bases), text, [], excludes), words[:-1], values, remote)


def copy_words(rest: str) -> list[str] | None:
    """Return sources and target; what is no JSON list of strings is read as words, as Docker does."""
    try:
        words = json.loads(rest) if rest.startswith("[") else None
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return words
    except (ValueError, RecursionError):
        pass
    try:
        return shlex.split(rest)
    except ValueError:
        return None


def pattern_of(name: str, line: int, text: str) -> Pattern:
    try:
        return Pattern(line, text)
    except (ValueError, re.error) as error:
        raise ValueError(f"{name}: line {line}: `{text[:60]}` is a pattern that Docker refuses: {error}") from None


def add_sources(found: Dockerfile, copy: Copy, words: list[str], values: dict[str, str], remote: str = "<<") -> None:
    for word in words:
        known = expand(word, values)
        if "$" in known:
            found.notes.append(f"line {copy.line}: {shown(known)} depends on an argument: not followed")
        elif known and not re.match(remote, known):
            pattern_of(found.name, copy.line, known)
            copy.sources.append(known)
    if copy.sources:
        found.copies.append(copy)


def links_of(root: Path, entries: list[Entry]) -> dict[str, str]:
    """Return where links lead that stay in the folder: COPY follows one that it names."""
    top, found = os.path.realpath(root), {}
    for one in entries:
        if stat.S_ISLNK(one.mode):
            target = os.path.relpath(os.path.realpath(root / one.path), top).replace(os.sep, "/")
            if target != one.path and not target.startswith("../"):
                found[one.path] = "" if target == "." else target
    return found


def follow(path: str, links: dict[str, str]) -> str:
    for match in re.finditer("/|$", path):
        if (head := path[: match.start()]) in links:
            return follow((links[head] + path[match.start() :]).lstrip("/"), links)
    return path


def heads_of(path: str) -> list[str]:
    return [path[: match.start()] for match in re.finditer("/|$", path)] if path else []


def is_excluded(path: str, patterns: list[Pattern]) -> bool:
    """Say whether `--exclude` leaves out *path*, seen from the copied folder: a file that COPY names itself, never."""
    found = False
    for one in patterns:
        if any(one.regex.match(head) for head in heads_of(path)):
            found = not one.exception
    return found


def take(copy: Copy, entries: list[Entry], links: dict[str, str]) -> list[str]:
    """Fill in what *copy* takes and return its sources that are nothing."""
    missing, taken = [], {}
    keeps_parents = re.search(r"\s--parents(=true)?\s", copy.text)
    for source in copy.sources:
        pivot = posixpath.normpath("/" + source.partition("/./")[0]).lstrip("/") if "/./" in source else ""
        plain = posixpath.normpath("/" + source).lstrip("/")
        plain = follow(plain, links)
        regex = Pattern(copy.line, plain or ".").regex
        targets = {target for path, target in links.items() if regex.match(path)}
        hit = not plain
        for one in entries:
            heads = [""] if not plain else [part for part in heads_of(one.path) if part in targets or regex.match(part)]
            if heads:
                hit = True
                top = pivot if keeps_parents else heads[0]
                if not is_excluded(one.path[len(top) :].lstrip("/"), copy.excludes):
                    taken[one.path] = one
        if not hit:
            missing.append(source)
    copy.taken = list(taken.values())
    return missing


# --- findings


def secret_of(root: Path, one: Entry, skipped: Counter[str]) -> tuple[str, int]:
    """Return what kind of secret a file is and in which line, or nothing."""
    name = posixpath.basename(one.path).lower()
    if not one.is_file or not one.size:
        return "", 0
    kind = "credentials" if PATHS.search(one.path.lower()) else next((kind for regex, kind in NAMES if regex.fullmatch(name)), "")
    if kind and not HARMLESS.search(name):
        return kind, 0
    if FOREIGN & set(one.path.split("/")[:-1]) and not one.path.endswith(".git/config"):
        skipped["files of others, not searched"] += 1
        return "", 0
    with open(root / one.path, "rb") as file:
        data = file.read(SEARCHED)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        data = data.decode("utf-16", "replace").encode()
    skipped[f"files searched only in the first {SEARCHED:,} bytes"] += one.size > SEARCHED
    for regex, kind in CONTENTS:
        if match := regex.search(data):
            return kind, data.count(b"\n", 0, match.start()) + 1
    return "", 0


def pattern_findings(patterns: list[Pattern], entries: list[Entry]) -> Iterator[str]:
    for n, one in enumerate(patterns):
        where = f"line {one.line} `{shown(one.written)}`"
        if re.search(r"\s#", one.written):
            yield f"caution  pattern: {where}: a comment needs a line of its own, here it is part of the name"
        elif one.exception and not any(not other.exception for other in patterns[:n]):
            yield f"caution  pattern: {where} has no effect: an exception must stand after the pattern that it lifts"
        elif not one.hits:
            yield f"note     pattern: {where} matches nothing here"
        if (deeper := one.root_only()) is None:
            continue
        found = [e for e in entries if "/" in e.path and deeper.match(posixpath.basename(e.path))]
        if found:
            heads = {e.path for e in found}
            size = sum(e.size for e in entries if any(e.path[: m.start()] in heads for m in re.finditer("/|$", e.path)))
            yield (
                f"caution  pattern: {where} holds for the root only; {len(found)} deeper pass ({bytes_of(size)}), "
                f"e.g. {shown(found[0].path)}: write `**/{shown(one.text)}`"
            )


def cache_findings(docker: Dockerfile) -> Iterator[str]:
    for line, stage, command in docker.runs:
        if not INSTALL.search(command):
            continue
        for copy in docker.copies:
            early = copy.stage == stage and (copy.line == line if copy.bound else copy.line < line)
            other = [e.path for e in copy.taken if e.is_file and not MANIFEST.match(posixpath.basename(e.path))]
            if early and other:
                other.sort(key=lambda path: not VOLATILE.search(path))
                yield (
                    f"caution  cache: line {copy.line} `{shown(copy.text[:60])}` comes before line {line} "
                    f"`{shown(INSTALL.search(command)[0].strip())}`: a change of any of {len(other):,} files repeats it, "  # type: ignore[index]
                    f"e.g. {shown(other[0])}"
                )
                break
    for copy in docker.copies:
        loud = [e for e in copy.taken if e.is_file and VOLATILE.search(e.path)]
        if loud:
            heads = Counter(m.group().strip("/") for e in loud if (m := VOLATILE.search(e.path)))
            named = ", ".join(f"{name} {count:,}" for name, count in heads.most_common(4))
            yield f"caution  cache: line {copy.line} copies {len(loud):,} files that change without the program: {shown(named)}"


def fingerprint(root: Path, entries: list[Entry]) -> dict[str, str]:
    """Return type, mode and content of what passes: these decide about Docker's cache, times and owners do not."""
    found = {}
    for one in entries:
        digest = ""
        if one.is_file:
            with open(root / one.path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        elif stat.S_ISLNK(one.mode):
            digest = os.readlink(root / one.path)
        found[one.path] = f"{one.mode:o} {digest}"
    return found


def changes(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    found = {}
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path, "").partition(" "), new.get(path, "").partition(" ")
        if before != after:
            same = before[2] == after[2]
            kind = "mode" if same else "content"
            found[path] = "new" if not before[0] else "gone" if not after[0] else f"{kind} {before[0]} -> {after[0]}" if same else kind
    return found


def broken(docker: Dockerfile, changed: dict[str, str]) -> list[str]:
    """Return for each stage the first line whose cache is lost."""
    gone = [Entry(path, stat.S_IFREG) for path, kind in changed.items() if kind == "gone"]
    found: dict[int, str] = {}
    for stage, base in enumerate(docker.bases, 1):
        origin = next((n for n, name in enumerate(docker.names[: stage - 1], 1) if name and name == base), 0)
        if origin in found:
            found[stage] = f"stage {stage}: from line {docker.lines[stage - 1]}, as its base is stage {origin}"
            continue
        for copy in sorted((c for c in docker.copies if c.stage == stage), key=lambda c: c.line):
            lost = Copy(copy.line, stage, copy.text, copy.sources, copy.excludes)
            take(lost, gone, {})
            hits = [e.path for e in (*copy.taken, *lost.taken) if e.path in changed]
            if hits:
                hits.sort(key=lambda path: "." not in posixpath.basename(path))
                found[stage] = f"stage {stage}: from line {copy.line} `{shown(copy.text[:60])}`, by {shown(hits[0])} and {len(hits) - 1} more"
                break
    return list(found.values())


def shown(text: str, longest: int = 200) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:longest] or "."


def bytes_of(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def folders(entries: list[Entry]) -> list[tuple[str, int, int]]:
    """Return the largest folders of at most two levels, and files of the root, with count and bytes."""
    count: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for one in entries:
        if not stat.S_ISDIR(one.mode):
            parts = one.path.split("/")
            name = "/".join(parts[:-1][:2]) + "/" if len(parts) > 1 else one.path
            count[name] += 1
            size[name] += one.size
    return [(name, count[name], bytes_) for name, bytes_ in sorted(size.items(), key=lambda x: (-x[1], x[0]))]


def within(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def audit(root: Path, given: str | None, against: str | None, save: str | None) -> Json:
    if not root.is_dir():
        raise ValueError(f"{root}: no folder: name the folder that `docker build` gets")
    path = Path(given) if given else root / "Dockerfile"
    if not given and not path.is_file() and (root / "Containerfile").is_file():
        path = root / "Containerfile"  # of Podman and Buildah
    if given and not path.is_file():
        raise ValueError(f"{path}: no such Dockerfile")
    own = path.with_name(path.name + ".dockerignore")
    ignore = own if own.is_file() else root / ".dockerignore"
    findings: list[str] = []
    if not within(ignore, root) and ignore != own:
        findings.append(f"caution  ignore: {ignore.name} is a link out of {shown(str(root))}: BuildKit does not read it")
        ignore = root / "nothing to ignore"
    try:
        patterns = read_patterns(read_text(ignore)) if ignore.is_file() else []
    except re.error as error:
        raise ValueError(f"{ignore}: a pattern that Docker refuses: {error}") from None
    except ValueError as error:
        raise ValueError(f"{ignore}: {error}" if str(ignore) not in str(error) else str(error)) from None
    entries, ignored, unread = walk(root, patterns)
    files = [one for one in entries if not stat.S_ISDIR(one.mode)]
    docker = read_dockerfile(path, path.name) if path.is_file() else None
    links = links_of(root, entries)
    copied: dict[str, Copy] = {}
    for copy in docker.copies if docker else []:
        for source in take(copy, entries, links):
            if re.search(r"[*?\[]", source):
                findings.append(f"caution  copy: line {copy.line} takes `{shown(source)}`, which matches nothing")
                continue
            there = os.path.lexists(root / posixpath.normpath("/" + source).lstrip("/"))
            why = "it is ignored" if there else "nothing has that name"
            findings.append(f"danger   copy: line {copy.line} takes `{shown(source)}`, but {why}: the build fails")
        for one in copy.taken:
            if one.path not in copied or copied[one.path].bound:  # a mount leaves nothing in the image, a COPY does
                copied[one.path] = copy
    skipped: Counter[str] = Counter()
    for one in files:
        try:
            kind, line = secret_of(root, one, skipped)
        except OSError as error:
            unread.append(f"{shown(one.path)}: {error.strerror}")
            continue
        if kind:
            place = f"{shown(one.path)} ({kind}{f', line {line}' if line else ''})"
            by = copied.get(one.path)
            certain = kind != "password in an address" and (not by.bound if by else not docker)
            level = "danger   " if certain else "caution  "
            how = "mounted in" if by and by.bound else "copied by"
            end = f"{how} line {by.line}" if by else "passes the ignore file" + (", no COPY takes it" if docker else "")
            findings.append(f"{level}secret: {place}, {end}")
    for history in sorted({found[1] for e in files if (found := HISTORY.match(e.path))}):
        by = next((copy for path, copy in copied.items() if path.startswith(f"{history}/")), None)
        end = f"line {by.line} {'mounts' if by.bound else 'copies'} it" if by else "no COPY takes it" if docker else "there is no Dockerfile to compare"
        findings.append(f"caution  history: {shown(history)} passes, with each secret that was ever committed; {end}")
    if not ignore.is_file():
        below = [e.path for e in entries if e.path.endswith("/.dockerignore")]
        hint = f"; {shown(below[0])} is not read, it must stand in the folder of the build" if below else ""
        findings.append(f"caution  ignore: no .dockerignore in {shown(str(root))}{hint}")
    elif ignore == own and (root / ".dockerignore").is_file():
        findings.append(f"note     ignore: {shown(own.name)} replaces .dockerignore, whose patterns do not count")
    if not docker and (near := sorted(one.name for one in root.glob("*ockerfile*") if not one.name.endswith(".dockerignore"))):
        findings.append(f"caution  dockerfile: none was read, COPY lines are unknown: name one with -f, e.g. {shown(near[0])}")
    if (root / ".containerignore").is_file():
        findings.append("note     ignore: Podman and Buildah read .containerignore instead")
    findings += pattern_findings(patterns, entries)
    findings += cache_findings(docker) if docker else []
    findings += [f"note     dockerfile: {text}" for text in docker.notes] if docker else []
    findings += [f"caution  unread: {text}" for text in unread[:5]] + ([f"caution  unread: {len(unread) - 5} more"] if unread[5:] else [])
    findings += [f"note     {count:,} {text}" for text, count in sorted(skipped.items()) if count]
    findings.sort(key=lambda text: ("danger", "caution", "note").index(text.split()[0]))
    taken = [one for one in files if one.path in copied]
    report: Json = {
        "ignore_file": ignore.name if ignore.is_file() else None,
        "patterns": len(patterns),
        "dockerfile": docker.name if docker else None,
        "ignored": {"files": ignored["files"], "bytes": ignored["bytes"]},
        "passes": {"files": len(files), "bytes": sum(one.size for one in files)},
        "copied": {"files": len(taken), "bytes": sum(one.size for one in taken)} if docker else None,
        "findings": findings,
        "largest": folders(taken if docker else files),
    }
    if against or save:
        now = fingerprint(root, entries)
        if against:
            changed = changes(read_state(against), now)
            report["changed"] = changed
            report["lost"] = broken(docker, changed) if docker else []
        if save and within(Path(save), root):
            raise ValueError(f"{save}: lies in {root} and would itself change the next build: write it elsewhere")
        if save:
            Path(save).write_text(json.dumps({"build_context": 1, "entries": now}, indent=0), "utf-8")
    return report


def read_state(name: str) -> dict[str, str]:
    try:
        state = json.loads(Path(name).read_bytes())
        return {str(path): str(value) for path, value in state["entries"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{name}: no state written by --save") from None


def show(report: Json, top: int) -> None:
    def part(name: str) -> str:
        return f"{report[name]['files']:,} files, {bytes_of(report[name]['bytes'])}"

    print(f"ignored  {part('ignored')} by {shown(report['ignore_file'] or 'nothing')}, {report['patterns']} patterns")
    print(f"passes   {part('passes')}")
    print(f"copied   {part('copied')} by {shown(report['dockerfile'])}" if report["copied"] else "copied   unknown: no Dockerfile")
    for text in report["findings"][:top]:
        print(text)
    if len(report["findings"]) > top:
        print(f"...      {len(report['findings']) - top} more: --top {len(report['findings'])} or --json")
    for name, count, size in report["largest"][:8]:
        print(f"largest  {bytes_of(size):>9} {count:>7,} files  {shown(name)}")
    if "changed" in report:
        print(f"changed  {len(report['changed']):,} entries since the saved state")
        for path, kind in list(report["changed"].items())[:top]:
            print(f"changed  {shown(path)} ({kind})")
        for text in report["lost"] or ["nothing: no COPY takes what changed"]:
            print(f"lost     {text}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Say what a Docker build takes from its folder.")
    parser.add_argument("folder", help="the folder that `docker build` gets, its last argument")
    parser.add_argument("-f", "--file", help="the Dockerfile (default: FOLDER/Dockerfile)")
    parser.add_argument("--save", metavar="STATE", help="write what decides about the cache to a file")
    parser.add_argument("--against", metavar="STATE", help="compare with a file that --save wrote")
    parser.add_argument("--top", type=int, default=30, help="findings shown (default 30)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        report = audit(Path(args.folder), args.file, args.against, args.save)
    except OSError as error:
        print(f"cannot audit {shown(str(error.filename), 2000)}: {error.strerror}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"cannot audit {shown(str(error), 2000)}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report, args.top)
    return int(any(text.startswith("danger") for text in report["findings"]))


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
