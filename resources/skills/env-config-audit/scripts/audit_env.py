#!/usr/bin/env python3
"""Compare the environment variables that code reads with those documented and those set; values are never printed.

Standard library only, Python 3.11+. Reads Python, JavaScript, TypeScript, Go, Rust, Java, Kotlin, C#, Ruby, PHP,
Elixir, C, shell, Compose and Spring files; documented is what stands in .env.example and its kin or in *.md.

    python3 audit_env.py [FOLDER] [--env prod.env] [--current] [--all] [--max 15] [--json]

Exit codes: 0 nothing found, 1 problems (missing, undocumented, secrets at risk), 2 the folder cannot be read.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CODE = frozenset(
    ".py .js .mjs .cjs .ts .mts .cts .tsx .jsx .vue .svelte .go .rs .java .kt .kts .cs .rb .php .ex .exs .c .cc"
    " .cpp".split()
)
CALL = re.compile(
    r"(?P<how>os\.environ(?:\.(?:get|pop|setdefault))?|\benviron(?:\.get)?|\b(?:os\.)?[gG]etenv|\bLookupEnv|\benv::var(?:_os)?"
    r"|\b(?:option_)?env!|GetEnvironmentVariable|\bENV(?:\.fetch)?|\$_(?:ENV|SERVER)|System\.getenv\(\)(?:\.get(?:OrDefault)?)?|(?:Deno|Bun|process|import\.meta)\.env(?:\.get)?"
    r"|System\.(?:get|fetch)_env!?|\benv(?:\.\w+)?|\bconfig)\s*(?P<open>[(\[])\s*"
    r"(?:[\"'`](?P<name>[A-Za-z_]\w*)[\"'`]\s*(?P<end>[\])]|,|=>)"
    r"|(?P<dynamic>[&$]?[A-Za-z_]\w*(?=\s*(?:[\]),+.%\[(]|as\b))|&?format!"  # a variable or call, then what is built: of
    r"|(?:[rR]?[fF]|\$@?)?(?P<quote>[\"'`])[^\"'`\n]*(?:[{$][^\"'`\n]*(?P=quote)|(?P=quote)\s*(?:[+%]|\.\s*[$\w(]))))"  # text
)
DOT = re.compile(r"\b(?P<how>process\.env|import\.meta\.env|Bun\.env)\??\.(?P<name>[A-Za-z_]\w*)")
UNPACK = re.compile(r"\{(?P<names>[^{}]*)\}\s*=\s*(?:process|import\.meta|Bun)\.env\b")
TAG = re.compile(r"\benv(?:config)?:\"(?P<name>[A-Z_]\w*)(?P<more>[^\"`]*)\"(?P<tags>[^`\n]*)")
SCHEME = re.compile(r"\b(?P<name>[A-Z_][A-Z0-9_]*)\s*=\s*\(\s*[\w.]+\s*,")  # Env(DEBUG=(bool, False)) of django-environ
CARGO = re.compile(r"CARGO(_\w+)?|OUT_DIR")  # set by cargo itself, the others for build.rs alone
BUILD_RS = re.compile(r"TARGET|HOST|NUM_JOBS|OPT_LEVEL|PROFILE|DEBUG|RUSTC\w*|RUSTDOC|DEP_\w+")
IN_BRACES = re.compile(r"-\s*\{\s*name:\s*[\"']?([A-Z][A-Z0-9_]{2,})[\"']?\s*,\s*value(?:From)?:")
IMPORTED = re.compile(  # SvelteKit, and Node whose process.env is imported
    r"import\s*\{(?P<names>[^{}]*)\}\s*from\s*[\"'](?P<module>\$env/(?:static|dynamic)/\w+|(?:node:)?process)[\"']"
)
OBJECT = re.compile(r"(?<![\w.$])env\.(?P<name>[A-Z_]\w*)")
EXPAND = re.compile(r"\$\{(?P<name>[A-Z][A-Z0-9_]+)(?P<more>:?[-?=+:][^}]*)?\}|\$(?P<plain>[A-Z][A-Z0-9_]+)\b")
COMPOSE = re.compile(r"compose[^/\\]*\.ya?ml$", re.IGNORECASE)
PASSED = re.compile(r"^\s*(?:-\s+)?[\"']?([A-Z][A-Z0-9_]{2,})[\"']?\s*:?[ \t]*(?:#.*)?$", re.MULTILINE)  # from the caller
OWN = re.compile(
    r"(?:^|[\s;(])(?:export |local |readonly |declare |for )?([A-Z][A-Z0-9_]+)(?:\+?=|\b(?= in ))",
    re.MULTILINE,
)
FILLED = re.compile(  # while IFS= read -r LINE REST; do
    r"(?:^|[;&|({]|\b(?:while|until|if|do|then))[ \t]*(?:IFS=\S*[ \t]+)?(?:read|getopts|mapfile|readarray)[ \t]+"
    r"((?:\"[^\"\n]*\"|'[^'\n]*'|[^\n;|&<$])*)",
    re.MULTILINE,
)
DEFAULT = re.compile(
    r"\s*(?P<by>,|\|\||\?\?|\?:|or\b|=>|\)?\s*\.(?:unwrap_or|orElse)\w*\()\s*(?:\|\w*\|\s*|\(\)\s*->\s*|default\s*=\s*)?"
    r"(?:[\"'](?P<text>[^\"'\n]*)[\"']|(?P<word>[\w.]+(?:!?\()?|!))?"
)
FAILS = re.compile(
    r"(?:\w+\.)*_?(?:(?:throw|raise|die|exit|abort|fail)\b|(?:throw|raise|panic|fail|missing|must|error|bail)\w*!?\()",
    re.I,
)
FORCED = re.compile(
    r"\s*(?:!(?!=)|\.(?:expect|unwrap|ok_or\w*|map_err|context|with_context)\(|\)?\s*\.orElseThrow\(|\?;|\?$)",
    re.MULTILINE,
)
VALUE = re.compile(r"@Value\(\s*\"[^\"\n]*?\$\{(?P<name>[A-Z][A-Z0-9_]*)(?::(?P<default>[^}\n]*))?\}")  # Spring
ALIAS = re.compile(
    r"\b(?:environ\s+as\s+(?P<name>\w+)|(?P<own>\w+)(?:\s*:\s*[\w.]+)?\s*=\s*(?P<real>os\.environ|process\.env))[ \t]*(?:;|$)",
    re.MULTILINE,
)
OPTION = re.compile(  # an option of click, clap or urfave/cli that is read from the environment too
    r"(?:\benvvar\s*=\s*|#\[(?:arg|clap)\([^\n]*?\benv\s*=\s*|\bEnvVars\s*:\s*\[\]string|\bcli\.EnvVars)[\[({]?\s*"
    r"(?P<names>[\"'][A-Z_]\w*[\"'](?:\s*,\s*[\"'][A-Z_]\w*[\"'])*)"
)
NEST = re.compile(
    r"\b\w*[cC]onfig(?:Service)?\.get(?P<must>OrThrow)?(?:<[^<>()]*>)?\(\s*[\"'](?P<name>[A-Z][A-Z0-9_]+)[\"']"
)
SYMFONY = re.compile(r"%env\((?P<kinds>(?:\w+:)*)(?P<name>[A-Z][A-Z0-9_]*)\)%")
SERVER = re.compile(  # what a web server puts into $_SERVER
    r"(?:HTTP|REQUEST|SERVER|REMOTE|SCRIPT|DOCUMENT|PHP|CONTENT|PATH|AUTH|ORIG)_\w+"
    r"|HTTPS|QUERY_STRING|GATEWAY_INTERFACE|arg[vc]"
)
SETTING = re.compile(
    r"^\s*(?:-\s+)?(?:export |Environment=\"?|ENV |ARG |name:\s*[\"']?)?([A-Z][A-Z0-9_]{2,})(?:\s*[:=]|[\"']?\s*$)",
    re.MULTILINE,
)
LINE = re.compile(r"^\s*(#\s?)?(?:export\s+)?([A-Za-z_]\w*)(\s*)=(.*)$")
SECRET = re.compile(
    r"SECRET|PASS(W|PHRASE|_|$)|TOKEN|PRIVATE|API_?KEY|CREDENTIAL|_PWD\b|_SALT\b"
    r"|(ACCESS|SIGNING|ENCRYPTION|AUTH|MASTER|STORAGE|ACCOUNT)_KEY"
)
ASKED = re.compile(r"[\"'](?P<name>[A-Za-z_]\w*)[\"']\s+(?:not\s+)?in\s+(?:os\.)?environ\b")
MINIFIED = 2000  # characters a line on average
PUBLIC = re.compile(r"^(NEXT_PUBLIC|VITE|REACT_APP|PUBLIC|NUXT_PUBLIC|EXPO_PUBLIC|GATSBY)_")
ENV_FILE = re.compile(r"(^|/)\.?env\b|\.env")
EXAMPLE = re.compile(r"(^|[._-])(example|sample|template|dist|defaults?)([._-]|$)")
TESTS = re.compile(r"(^|/)(tests?|__tests__|spec|e2e)/|(^|/)(test_[^/]*|conftest\.py)$|[._](test|spec)\.\w+$")
SHEBANG = re.compile(
    rb"#!\s*\S*?(?:env\s+(?:-S\s+)?)?(?:[\w./-]*/)?(sh|bash|dash|ksh|zsh|python|node|deno|bun|ruby|php)[\d.]*\b"
)
RUNS = {b"python": ".py", b"node": ".js", b"deno": ".ts", b"bun": ".ts", b"ruby": ".rb", b"php": ".php"}
SKIP = frozenset("node_modules .git .venv venv vendor dist build target .next __pycache__ .tox coverage".split())
SYSTEM = frozenset(
    "PATH HOME USER SHELL PWD OLDPWD TMPDIR TEMP TMP LANG TERM CI EDITOR PAGER HOSTNAME LOGNAME DISPLAY IFS RANDOM"
    " LINENO SECONDS UID EUID PPID COLUMNS LINES NO_COLOR PYTHONPATH VIRTUAL_ENV APPDATA LOCALAPPDATA USERPROFILE"
    " COMSPEC DEV XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_RUNTIME_DIR NODE_ENV PROD MODE SSR BASE_URL"
    " BASH_SOURCE FUNCNAME PIPESTATUS EPOCHSECONDS OPTARG OPTIND".split()
)


@dataclass
class Variable:
    """Where a variable is read, documented and set."""

    reads: list[tuple[str, int]] = field(default_factory=list)
    strict: set[str] = field(default_factory=set)  # files that fail without it
    asked: set[str] = field(default_factory=set)  # files that also ask whether it is there
    defaults: dict[str, str] = field(default_factory=dict)
    documented: list[str] = field(default_factory=list)
    set_in: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)  # where a target sets it to nothing

    @property
    def required(self) -> bool:
        return bool(self.strict - self.asked)


class Audit:
    """All that is known of a folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.variables, self.files = root, defaultdict[str, Variable](Variable), 0
        self.dynamic: list[str] = []
        self.scheme: set[str] = set()  # names with a default in the Env(...) of the file that is read
        self.problems: list[str] = []
        self.prose: list[tuple[str, str]] = []

    def run(self, given: list[Path], current: bool) -> None:
        paths, tracked = list_files(self.root)
        for path in paths:
            name = path.relative_to(self.root).as_posix()
            if path.is_file() and path.stat().st_size < 1 << 20:
                self.read(path, name, tracked)
        for path in given:
            text = path.read_bytes().decode("utf-8-sig", errors="replace")
            lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
            if lines and not any(map(LINE.match, lines)):  # JSON, or UTF-16: nothing set would be a wrong answer
                raise ValueError(f"{path} has no line NAME=value in UTF-8")
            self.read_env(text, str(path), example=False)
            for number, line in enumerate(text.split("\n"), 1):
                if (
                    (found := LINE.match(line))
                    and not found[1]
                    and found[2] in self.variables
                    and found[4].strip() in ("", "''", '""')
                ):
                    self.variables[found[2]].empty.append(f"{path}:{number}")
        for name in os.environ if current else ():
            if name in self.variables:
                self.variables[name].set_in.append("this environment")
                if not os.environ[name]:
                    self.variables[name].empty.append("this environment")
        for place, text in self.prose:
            words = set(re.findall(r"[A-Za-z_]\w+", text))
            for name, one in self.variables.items():
                if name in words:
                    one.documented.append(place)

    def read(self, path: Path, name: str, tracked: bool) -> None:
        """Read one file as what its name says it is."""
        base, suffix = path.name.lower(), path.suffix.lower()
        if not suffix and not base.startswith(".") and os.access(path, os.R_OK):  # bin/start, docker-entrypoint
            with path.open("rb") as file:
                first = SHEBANG.match(file.readline(200))
            suffix = RUNS.get(first[1], ".sh") if first else ""
        shell = suffix in (".sh", ".bash", ".zsh")
        data = suffix in (".yml", ".yaml", ".properties", ".service", ".toml") or "dockerfile" in base
        env = base.startswith((".env", "env.")) or suffix == ".env"
        if not (suffix in CODE or shell or data or env or suffix in (".md", ".rst")):
            return
        self.files += 1
        text = path.read_bytes().decode("utf-8-sig", errors="replace")
        if len(text) > 10 * MINIFIED and text.count("\n") < len(text) / MINIFIED:
            return  # a bundle that a build made
        if env and suffix not in CODE:
            example = bool(EXAMPLE.search(base))
            filled = self.read_env(text, name, example)
            if tracked and filled and not example:
                self.problems.append(f"{name} is committed with {filled} values: take it out, change the secrets in it")
        elif suffix in CODE:
            self.read_code(text, name)
        elif shell or data:
            self.read_expansions(text, name, shell)
        else:
            self.prose.append((name, text))

    def read_env(self, text: str, name: str, example: bool) -> int:
        """Read names out of an env file; return how many have a value."""
        seen: dict[str, tuple[int, bool]] = {}
        quote = ""  # a value over many lines, such as a key, holds no names
        for number, line in enumerate(text.split("\n"), 1):
            if quote:
                quote = "" if line.rstrip().endswith(quote) else quote
                continue
            if "-----BEGIN " in line and "-----END " not in line and "-----END " in text.partition(line)[2]:
                quote = "-----"  # a key without quotes, as `env` prints it
            if not (found := LINE.match(line)) or (found[1] and not (example and found[2].isupper())):
                continue
            value = found[4].strip()
            if value[:1] in ("'", '"') and value[:1] not in value[1:] and value[0] in text.partition(line)[2]:
                quote = value[0]
            (self.variables[found[2]].documented if example else self.variables[found[2]].set_in).append(name)
            if found[2] in seen and not found[1]:
                self.problems.append(f"{name}:{number} sets {found[2]} again after line {seen[found[2]][0]}")
            if found[3] or line.endswith("\r"):
                what = (
                    "has a space before =: a shell refuses it"
                    if found[3]
                    else "ends in CR: it becomes part of the value"
                )
                self.problems.append(f"{name}:{number} {found[2]} {what}")
            elif value and value[0] not in "\"'" and re.search(r"\s#|[^\s]#", value):
                self.problems.append(
                    f"{name}:{number} {found[2]} has # outside quotes: parsers differ, quote the value"
                )
            if not found[1]:
                seen[found[2]] = number, bool(value)
        return sum(filled for _, filled in seen.values())

    def use(self, name: str, place: str, number: int, after: str, forced: bool = False) -> None:
        one = self.variables[name]
        one.reads.append((place, number))
        what, value = fallback(after)
        if what == "fails" or (forced and not after.startswith((",", "=>"))):
            one.strict.add(place)
        elif what == "default":
            one.defaults.setdefault(value, f"{place}:{number}")
        else:
            one.asked.add(place)

    def read_code(self, text: str, place: str) -> None:
        for found in ALIAS.finditer(text):
            name, real = found["name"] or found["own"], found["real"] or "os.environ"
            text = re.sub(rf"(?<!\.)\b{name}(?=\[|\.get\(|\.[A-Z_]{{2}})", real, text)
        text = plain_calls(text, place)
        self.read_options(text, place)
        for found in VALUE.finditer(text):
            after = "" if found["default"] is None else f"|| '{found['default']}'"
            self.use(found["name"], place, text.count("\n", 0, found.start()) + 1, after, forced=not after)
        self.scheme = set()
        if place.endswith(".py"):
            for call in re.finditer(r"\bEnv\(", text):
                self.scheme |= {one["name"] for one in SCHEME.finditer(text, call.end(), call.end() + 4000)}
        for found in [*CALL.finditer(text), *DOT.finditer(text), *TAG.finditer(text)]:
            before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
            if not before.lstrip().startswith(("#", "//", "* ")):
                self.read_call(text, place, found, before)
        for found in ASKED.finditer(text):
            self.use(found["name"], place, text.count("\n", 0, found.start()) + 1, "|| ''")
            self.variables[found["name"]].asked.add(place)
        for found in IMPORTED.finditer(text):
            self.read_import(text, place, found)
        for found in UNPACK.finditer(text):
            number = text.count("\n", 0, found.start()) + 1
            for part in found["names"].split(","):
                if name := re.match(r"\s*([A-Z_]\w*)", part):
                    self.use(name[1], place, number, "|| " + part.partition("=")[2].strip() if "=" in part else "")

    def read_options(self, text: str, place: str) -> None:
        """Take names that a framework reads: options of a command line, settings of NestJS and Symfony."""
        for found in OPTION.finditer(text):
            number = text.count("\n", 0, found.start()) + 1
            for name in re.findall(r"\w+", found["names"]):
                self.use(name, place, number, "")
        for found in NEST.finditer(text) if place.endswith((".ts", ".js", ".mts", ".mjs")) else ():
            number = text.count("\n", 0, found.start()) + 1
            self.use(found["name"], place, number, text[found.end() : found.end() + 80], bool(found["must"]))
        for found in SYMFONY.finditer(text):
            after = "|| ''" if "default:" in found["kinds"] else ""
            self.use(found["name"], place, text.count("\n", 0, found.start()) + 1, after, forced=not after)

    def read_import(self, text: str, place: str, found: re.Match[str]) -> None:
        """Take names that a module hands out itself, or reads of the object `env` that it hands out."""
        names = [part.split()[0] for part in found["names"].split(",") if part.strip()]
        if "static" in found["module"]:
            number = text.count("\n", 0, found.start()) + 1
            for name in names:
                self.use(name, place, number, "", forced=True)  # the build fails without it
        elif "env" in names:
            for one in OBJECT.finditer(text):
                self.use(one["name"], place, text.count("\n", 0, one.start()) + 1, text[one.end() : one.end() + 80])

    def read_call(self, text: str, place: str, found: re.Match[str], before: str) -> None:
        """Take one access: a read, a read by a computed name, or code that sets the variable."""
        parts = found.groupdict()
        how, end, name = parts.get("how") or "", parts.get("end") or "", parts.get("name") or ""
        generic, number = re.fullmatch(r"env(\.\w+)?|config", how), text.count("\n", 0, found.start()) + 1
        if not name or (generic and not (name.isupper() and parts["open"] == "(")):
            if not (name or generic or how == "$_SERVER" or re.search(r"\b(def|fn|func|function)\s+$", before)):
                self.dynamic.append(f"{place}:{number}")
            return
        tagged = "more" in parts
        tags = (parts.get("more") or "") + " " + (parts.get("tags") or "")
        rest = r"[^()]*\)" if how == "GetEnvironmentVariable" else r"(?:\s|#.*|//.*)*\)"  # its target, a trailing comma
        closed = re.match(rest, text[found.end() :]) if end == "," else None
        end, after = (")" if closed else end), text[found.end() + (closed.end() if closed else 0) :][:80]
        if end in (",", "=>"):
            after = end + after
        elif how == "ENV.fetch" and (block := re.match(r"\s*(?:\{|do\b)\s*", after)):
            after = "=>" + after[block.end() :]
        elif after.lstrip().startswith(","):
            after = ""  # the next argument of something else
        if how == "$_SERVER" and SERVER.fullmatch(name):
            return
        if place.endswith(".rs") and (
            CARGO.fullmatch(name) or (place.endswith("build.rs") and BUILD_RS.fullmatch(name))
        ):
            return
        if re.match(r"\s*=[^=>]", after):
            self.variables[name].set_in.append(place)
            return
        strict = how in ("os.environ", "os.environ.pop", "environ", "env!", "ENV.fetch", "System.fetch_env!") or bool(
            re.search(r",(?:required|notEmpty)|\brequired:\"true", tags)
        )
        strict = (strict and not re.search(r"\bdel\s+$", before)) or before.endswith("requireNonNull(System.")
        if how == "env!":
            after = ""  # what follows is a message
        if generic and place.endswith(".py"):  # django-environ, environs, decouple: fail without default
            given = re.match(r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*", text[found.end() :])
            words = given[0] if end == "," and given else ""
            if default := re.search(r"\bdefault\s*=\s*(.*)", words, re.DOTALL):
                after = "," + default[1]
            elif re.match(r"\s*(?:\w+\s*=[^=]|$)", words):
                after, strict = ("|| ...", False) if name in self.scheme else ("", True)
        if tagged:
            given = re.search(r"\b(?:envDefault|default):\"([^\"]*)\"|,default=([^\",]*)", tags)
            after = f"|| '{given[1] or given[2] or ''}'" if given else ""
        self.use(name, place, number, after, strict)
        if re.search(r"\b(bool|Boolean)\(\s*$", before):
            self.problems.append(f"{place}:{number} {name}: any text is true there, also 'false' and '0'")

    def read_expansions(self, text: str, place: str, shell: bool) -> None:
        """Read `${NAME:-default}` of shell, Compose and Spring, and the names that such files set."""
        self.read_options(text, place)
        filled = " ".join(re.sub(r"\"[^\"]*\"|'[^']*'", "", names) for names in FILLED.findall(text))
        own = {*OWN.findall(text), *re.findall(r"\b[A-Z][A-Z0-9_]+\b", filled)} if shell else set()
        compose = COMPOSE.search(place) is not None  # $NAME is read there too, and $$ is a plain dollar
        lines = PASSED.sub("", text) if compose else text
        for name in set() if shell else {*SETTING.findall(lines), *IN_BRACES.findall(text)}:
            self.variables[name].set_in.append(place)
        for dollar in re.finditer(r"\$", text):  # also the inner one of ${A:-$B}
            found = EXPAND.match(text, dollar.start())
            if found is None:
                continue
            name, more = found["name"] or found["plain"], found["more"] or ""
            line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
            if (
                name in own
                or line.lstrip().startswith("#")
                or (found["plain"] and not shell and not compose)
                or line.endswith("\\" if shell else "$" if compose else "\0")
                or "dockerfile" in place.lower()
            ):
                continue
            value = re.sub(r"\A[\"']?\$\{?\w+[\"']?\Z", "", more.lstrip(":-="))  # another variable is no value
            after = f"|| '{value}'" if more[:1] in (":", "-", "=") and not more.startswith(":?") else ""
            self.use(name, place, text.count("\n", 0, found.start()) + 1, after, more.lstrip(":")[:1] == "?")

    def report(self, everything: bool, targets: list[str]) -> dict[str, Any]:
        used = {name: one for name, one in self.variables.items() if one.reads and name not in SYSTEM}
        live = {name: one for name, one in used.items() if not all(TESTS.search(place) for place, _ in one.reads)}
        missing: list[dict[str, Any]] = []
        undocumented: list[dict[str, Any]] = []
        for name, one in sorted(live.items()):
            place = f"{one.reads[0][0]}:{one.reads[0][1]}"
            set_there = set(one.set_in) & set(targets) if targets else one.set_in
            if not one.defaults and not set_there and (targets or one.required):
                missing.append({"name": name, "place": place, "required": one.required})
            if one.required and one.empty:
                self.problems.append(f"{name} is required, and empty in {one.empty[0]}")
            if not one.documented:
                undocumented.append({"name": name, "place": place, "default": bool(one.defaults)})
            self.problems += secret_problems(name, one)
        known = {name for name, one in self.variables.items() if one.documented or one.set_in}
        unread = {name: self.variables[name] for name in known if name not in used and name not in SYSTEM}
        unused = [
            {"name": name, "place": place}
            for name, one in unread.items()
            for place in [p for p in one.documented + one.set_in if ENV_FILE.search(p) or p in targets][:1]
        ]
        near = [
            f"{one['name']} is read, {other[0]} is set or documented and unused: spelled differently?"
            for one in {one["name"]: one for one in missing + undocumented}.values()
            if (other := difflib.get_close_matches(one["name"], list(unread), 1, 0.85))
        ]
        report: dict[str, Any] = {"files": self.files, "variables": len(live), "only_tests": len(used) - len(live)}
        report |= {"missing": missing, "undocumented": undocumented, "problems": near + self.problems}
        report |= {"unused": sorted(unused, key=lambda one: one["name"]), "dynamic": self.dynamic}
        if everything:
            report["all"] = {name: described(one) for name, one in sorted(live.items())}
        return report


def plain_calls(text: str, place: str) -> str:
    """Write reads by an imported name as what they are: Rust's `var`, Node's `env` taken out of `process`."""
    if place.endswith(".rs"):
        text = re.sub(r"\bdotenvy?::var\b", "env::var", text)
        if re.search(r"\buse std::env::(?:\{[^{}]*\b)?var\b", text):
            text = re.sub(r"(?<![\w:.!])var(?=\()", "env::var", text)
    elif re.search(r"\{\s*env\s*\}\s*=\s*process\b", text):
        text = re.sub(r"(?<![\w.$])env(?=\[|\.[A-Z_])", "process.env", text)
    return text


def fallback(after: str) -> tuple[str, str]:
    """Return what happens without the variable: it `fails`, there is a `default` and which, or neither is known."""
    found = DEFAULT.match(after)
    word = (found["word"] or "") if found else ""
    if FORCED.match(after) or (found and found["by"] != "," and FAILS.match(word)):
        return "fails", ""
    unknown = word in ("None", "null", "undefined", "nil", "not", "!")
    if not found or unknown or (word.endswith("(") and found["by"] in ("||", "??", "?:", "or")):
        return "", ""  # a call may return or not
    if re.match(r"process\.env\b|import\.meta\.env\b|(?:Deno|Bun)\.env\b|os\.(?:environ|getenv)\b|ENV\b", word):
        return "default", ""  # another variable is no value
    return "default", found["text"] if found["text"] is not None else word or "..."


def secret_problems(name: str, one: Variable) -> Iterator[str]:
    secret = SECRET.search(name) and not re.search(r"_(FILE|PATH|NAME|TTL|URL|HEADER|EXPIR\w*)$", name)
    values = {
        value: place for value, place in one.defaults.items() if value not in ("", "None", "null", "undefined", "nil")
    }
    if values and (secret or any(re.search(r"://[^/@\s]*:[^/@\s]+@", value) for value in values)):
        yield f"{name} is a secret with a default in code, {next(iter(values.values()))}: production may run with it"
    elif len(values) > 1:
        shown = ", ".join(list(values.values())[:3])
        yield f"{name} has several defaults: {shown}"
    if secret and PUBLIC.match(name):
        yield f"{name} is named like a secret, but its prefix puts it into the browser bundle"


def described(one: Variable) -> dict[str, Any]:
    places = {"reads": one.reads, "documented": one.documented, "set_in": one.set_in}
    return {"required": one.required, "default": bool(one.defaults), **places}


def list_files(root: Path) -> tuple[list[Path], bool]:
    """Return the files to read, and whether git keeps them: what it ignores is left out."""
    if not root.is_dir():
        raise ValueError("not a folder")
    try:
        done = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, check=False)
    except FileNotFoundError:
        done = subprocess.CompletedProcess([], 1, b"", b"")
    if b"dubious ownership" in done.stderr:  # else files that git ignores would be read
        raise ValueError("git refuses a folder of another user: git config --global --add safe.directory FOLDER")
    if names := [name for name in done.stdout.decode(errors="surrogateescape").split("\0") if name]:
        return [root / name for name in names if not SKIP & set(Path(name).parts)], True
    found: list[Path] = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - SKIP)
        found += [Path(folder, name) for name in sorted(files)]
    return found, False


def show(report: dict[str, Any], most: int) -> None:
    print(f"{report['files']} files read: {report['variables']} variables, {report['only_tests']} more in tests only")
    rows = [(f"missing  {one['name']}  {one['place']}" + ", required" * one["required"]) for one in report["missing"]]
    parts = [("missing", rows), ("problem", [f"problem  {one}" for one in report["problems"]])]
    for kind in ("undocumented", "unused"):
        rows = [
            f"{kind}  {one['name']}  {one['place']}" + ", has a default" * one.get("default", 0) for one in report[kind]
        ]
        parts.append((kind, rows))
    for kind, rows in parts:
        for row in rows[:most]:
            print(row)
        if len(rows) > most:
            print(f"... {len(rows) - most} more {kind}: --max {len(rows)} or --json")
    if report["dynamic"]:
        print(f"dynamic  {len(report['dynamic'])} reads by a computed name: {', '.join(report['dynamic'][:5])}")
    for name, one in report.get("all", {}).items():
        state = "required" if one["required"] else "default" if one["default"] else "may be absent"
        places = f"reads {len(one['reads'])}, documented {len(one['documented'])}, set {len(one['set_in'])}"
        print(f"{name:<32} {state:<14} {places}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare environment variables in code, documents and settings.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("--env", type=Path, action="append", default=[], help="file the target runs with; may repeat")
    parser.add_argument("--current", action="store_true", help="count what is set in this process as set")
    parser.add_argument("--all", action="store_true", help="list every variable that code reads")
    parser.add_argument("--max", type=int, default=15, help="rows shown of each kind (default 15)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    audit = Audit(args.folder)
    try:
        audit.run(args.env, args.current)
    except (OSError, ValueError) as error:
        print(f"cannot audit {args.folder}: {error}", file=sys.stderr)
        return 2
    targets = [str(path) for path in args.env] + ["this environment"] * args.current
    report = audit.report(args.all, targets)
    if args.json:
        print(json.dumps(report, indent=1, ensure_ascii=False).encode(errors="replace").decode())
    else:
        show(report, args.max)
    return int(bool(report["missing"] or report["undocumented"] or report["problems"]))


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
