"""`orchestr8.toml`, in a library or beside it → what to read, how to read it, and what to report.

    roots = ["library", ".claude"]     # folders below this one; default: this one
    category = "guide"                 # for files that name none
    deny = "high"                      # refuse files with findings of this level or worse
    strict = true                      # refuse a library with warnings or errors
    synonyms = ["words/team.txt"]      # more lists like synonyms.txt
    pinned = ["acme/refunds"]          # skills that listings begin with, by their paths in skill:// URIs

    [[sources]]                        # what `sync` fetches, read like roots; docs/sources.md
    name = "acme"
    git = "https://git.example.com/acme/skills"
    tag = "v1.2.0"

    [categories]                       # folders of your own, and which category they are
    runbooks = "guide"

    [lint]
    select = []                        # only these rules; default: all
    ignore = ["dangling-reference"]

    [lint.per-file-ignores]            # * stands for anything
    "library/old/*" = ["html-comment"]

    [eval]                             # bounds of `eval --self`
    fail-under = ["recall@5=0.9"]
    fail-over = ["false-refusals=0.1"]

A file applies to its own folder and to its `roots`. Command-line options take precedence.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from orchestr8_sqlite.errors import RequestError, SettingsError
from orchestr8_sqlite.library.door import read_regular
from orchestr8_sqlite.library.roots import Origin
from orchestr8_sqlite.library.rules import Rules, read_rules
from orchestr8_sqlite.library.sources.manifest import SourceSpec, read_sources
from orchestr8_sqlite.model.parameters import parse_category
from orchestr8_sqlite.model.requests import CATEGORIES
from orchestr8_sqlite.settings import read_level, read_limits
from orchestr8_sqlite.text.wording import nearest

FILE_NAME = "orchestr8.toml"
KEYS = ("roots", "sources", "category", "deny", "strict", "synonyms", "pinned", "categories", "lint", "eval")
KEYS_OF_LINT = ("select", "ignore", "per-file-ignores")
KEYS_OF_EVAL = ("fail-under", "fail-over")


class Project(NamedTuple):
    """The settings of a library; `base` is the folder of their file, or None without one.

    `is_own` says whether the user named that file or works in its folder: only then do the reviews beside it count.
    `are_own_roots` says whether the roots are those of the file: only then are its `sources` read; `origins`
    are their places, once those were looked up.

    `synonyms` holds (name, text) of its own word lists, `categories` its own folders → their categories.
    """

    roots: Sequence[Path]
    base: Path | None = None
    category: str | None = None
    deny: str | None = None
    strict: bool = False
    synonyms: Sequence[tuple[str, str]] = ()
    pinned: Sequence[str] = ()
    categories: Mapping[str, str] = {}
    rules: Rules = Rules()
    fail_under: Sequence[str] = ()
    fail_over: Sequence[str] = ()
    is_own: bool = False
    are_own_roots: bool = True
    sources: Sequence[SourceSpec] = ()
    origins: Sequence[Origin] = ()


def find_project(roots: Sequence[Path], file: Path | None = None) -> Project:
    """Return the settings of the library in *roots*, or of the one that a file in the working folder describes.

    Args:
        file: The settings file to use instead, at any path.

    Raises:
        SettingsError: The file cannot be used, or nothing says where the library is.
    """
    if file is not None:
        return _with_roots(read_project(file)._replace(is_own=True), roots)
    if not roots:
        if not Path(FILE_NAME).is_file():
            raise SettingsError(
                f"Name the folders of the library; or begin one, with its {FILE_NAME}: orchestr8-sqlite init"
            )
        return read_project(Path(FILE_NAME))._replace(is_own=True)
    inside, beside = roots[0] / FILE_NAME, roots[0].resolve().parent / FILE_NAME
    if inside.is_file():
        project = _noting_whose(read_project(inside))
        return project if len(roots) == 1 else _with_roots(project, roots)
    if beside.is_file():
        project = _noting_whose(read_project(beside))
        if roots[0].resolve() in [root.resolve() for root in project.roots]:
            return _with_roots(project, roots)
    return Project(roots)


def _with_roots(project: Project, roots: Sequence[Path]) -> Project:
    return project._replace(roots=roots, are_own_roots=False) if roots else project


def _noting_whose(project: Project) -> Project:
    """Note whether the settings lie in the working folder; a library that is only named may be a stranger's."""
    return project._replace(is_own=project.base is not None and project.base.resolve() == Path.cwd())


def read_project(file: Path) -> Project:
    """Return the settings in a file.

    Raises:
        SettingsError: It cannot be read, is not TOML, or holds an unknown or invalid setting.
    """
    import tomllib  # noqa: PLC0415 - most libraries have no such file

    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise SettingsError(f"{file}: {why}; correct the file.") from None
    return _Reader(file).read(values)


class _Reader:
    """Reads the values of a settings file; its errors name the file and the setting."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._base = file.parent

    def read(self, values: Mapping[str, Any]) -> Project:
        self._check_keys(values, KEYS, "")
        lint, bounds = self._table(values, "lint"), self._table(values, "eval")
        self._check_keys(lint, KEYS_OF_LINT, "lint.")
        self._check_keys(bounds, KEYS_OF_EVAL, "eval.")
        per_file = self._table(lint, "per-file-ignores")
        roots = [self._below(name, "roots") for name in self._texts(values, "roots")]
        sources = self._sources(values)
        category = values.get("category")
        return Project(
            roots=roots or ([] if sources else [self._base]),
            sources=sources,
            base=self._base,
            category=None if category is None else self._category(category, "category"),
            deny=self._read(lambda: read_level(values.get("deny"), "deny")),
            strict=self._truth(values, "strict"),
            synonyms=[self._list_of_words(name) for name in self._texts(values, "synonyms")],
            pinned=tuple(dict.fromkeys(self._texts(values, "pinned"))),
            categories={
                self._own_name(name): self._category(meant, f"categories.{name}")
                for name, meant in self._table(values, "categories").items()
            },
            rules=Rules(
                self._rules(lint, "select"),
                self._rules(lint, "ignore"),
                tuple((pattern, self._rules(per_file, pattern)) for pattern in per_file),
            ),
            fail_under=self._texts(bounds, "fail-under"),
            fail_over=self._texts(bounds, "fail-over"),
        )

    def _problem(self, what: str) -> SettingsError:
        return SettingsError(f"{self._file}: {what}")

    def _check_keys(self, values: Mapping[str, Any], known: Sequence[str], table: str) -> None:
        for name in values:
            if name not in known:
                alike = nearest(name, known)
                hint = f"did you mean {alike[0]}?" if alike else f"it knows {', '.join(known)}."
                raise self._problem(f"there is no setting {table}{name}; {hint}")

    def _table(self, values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        found = values.get(name, {})
        if not isinstance(found, dict):
            raise self._problem(f"{name} must be a table: [{name}]")
        return found

    def _texts(self, values: Mapping[str, Any], name: str) -> list[str]:
        found = values.get(name, [])
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise self._problem(f'{name} must be a list of texts: {name} = ["…"]')
        return found

    def _truth(self, values: Mapping[str, Any], name: str) -> bool:
        found = values.get(name, False)
        if not isinstance(found, bool):
            raise self._problem(f"{name} must be true or false")
        return found

    def _sources(self, values: Mapping[str, Any]) -> Sequence[SourceSpec]:
        try:
            return read_sources(values.get("sources", []), self._base)
        except SettingsError as problem:
            raise self._problem(str(problem)) from None

    def _below(self, name: str, setting: str) -> Path:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
            raise self._problem(f"{setting} names {name!r}; name a place below the folder of this file, with /")
        return self._base / path

    def _own_name(self, name: str) -> str:
        if name in CATEGORIES or not name or "/" in name or name.startswith("."):
            raise self._problem(f"categories.{name} must be the name of a folder that is no category yet")
        return name

    def _category(self, written: object, setting: str) -> str:
        if not isinstance(written, str):
            raise self._problem(f"{setting} must be the name of a category")
        return self._read(lambda: parse_category(written)) or ""

    def _read(self, read: Callable[[], str | None]) -> str | None:
        try:
            return read()
        except (RequestError, SettingsError, AttributeError) as problem:
            raise self._problem(str(problem)) from None

    def _rules(self, values: Mapping[str, Any], name: str) -> frozenset[str]:
        return read_rules(self._texts(values, name), str(self._file))

    def _list_of_words(self, name: str) -> tuple[str, str]:
        self._below(name, "synonyms")
        try:
            content = read_regular(self._base, str(PurePosixPath(name)), read_limits().file_bytes).content
            if content is None:
                raise self._problem(f"{name} is too large")
            return name, content.decode("utf-8-sig")
        except OSError as problem:
            raise self._problem(f"{name} cannot be read: {problem.strerror}") from None
        except UnicodeDecodeError:
            raise self._problem(f"{name} is not UTF-8; save it as UTF-8") from None
