"""The kinds of diagnostics, under the names that output shows in [brackets], and the choice of which to report."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from orchestr8_sqlite.errors import SettingsError
from orchestr8_sqlite.library.trust.findings import RULES as FINDINGS
from orchestr8_sqlite.model.records import Diagnostic
from orchestr8_sqlite.text.wording import nearest

SAID: Mapping[str, str] = {
    "argument": "An argument of a prompt has no name, or that of another one.",
    "category-mismatch": "The category is not that of the folder.",
    "collision": "Two files have the same name; the first one is kept.",
    "copy": "Two files have the same name and the same text; one is kept.",
    "dangling-reference": "A reference points to something that the library does not have.",
    "denied": "A file is left out because of findings in it.",
    "duplicate-field": "A field is given twice.",
    "duplicate-id": "Two files have the same id.",
    "duplicate-item": "A list holds an item twice.",
    "empty-body": "There is no text below the front matter.",
    "empty-file": "A file holds no text.",
    "empty-item": "A list has an empty item.",
    "encoding": "A file is neither UTF-8 nor UTF-16.",
    "field-name": "A field is spelled nearly as one that is read.",
    "file-name": "The name of a file cannot be read, or a URI cannot carry it.",
    "file-size": "A file is too large to be read.",
    "folder-depth": "A folder is nested too deeply.",
    "front-matter-no-mapping": "The lines between --- and --- are not a list of fields.",
    "front-matter-size": "The front matter is too large to be read safely.",
    "id-mismatch": "The id is not the name of the file.",
    "item-no-text": "YAML does not read an item of a list as text.",
    "kept": "A file can no longer be read; its previous version stays.",
    "link-leaves-root": "A symbolic link leads out of the library.",
    "many-links": "There are too many symbolic links to folders.",
    "names-alike": "Two names differ only in case or accents.",
    "not-a-file": "Something is neither a file nor a folder.",
    "not-a-list": "A field is not a list.",
    "not-a-number": "A field is not a whole number.",
    "not-text": "YAML does not read a field as text.",
    "null-list": "A list is empty.",
    "overlap": "Two fragments have nearly the same name and description, or answer each other's scenarios.",
    "other-suffix": "A Markdown file has a suffix other than .md.",
    "outside-layout": "A file does not lie in a folder that is read.",
    "pinned": "A pinned skill is not on offer.",
    "queries-document": "A judged request names a document that does not exist.",
    "queries-form": "A judged request does not have the right form.",
    "overridden": "Two files have the same name; that of a source that may override others is kept.",
    "review": "An entry of reviews.toml accepts nothing (any more).",
    "same-scenario": "Two fragments have the same scenario.",
    "same-text": "Two fragments have the same text.",
    "similar-text": "Two fragments have nearly the same text.",
    "skill-allowed-tools": "The allowed-tools field of a skill is not a text.",
    "skill-beginning": "A SKILL.md does not begin with front matter.",
    "skill-compatibility": "The compatibility of a skill is not a text, or is too long.",
    "skill-description": "A skill has no description, or one that is too long.",
    "skill-field": "The skill format has no such field.",
    "skill-file-name": "No URI can name a file of a skill.",
    "skill-license": "The license of a skill is not a text.",
    "skill-limits": "A skill is larger than clients accept.",
    "skill-metadata": "The metadata of a skill is not a map of texts.",
    "skill-name": "The name of a skill is missing, wrong, or not that of its folder.",
    "skill-path": "Two skills have the same path.",
    "skill-yaml": "The front matter of a skill cannot be passed on as it is.",
    "skipped-folder": "A folder that is not read holds Markdown.",
    "synonyms-form": "A line of synonyms.txt cannot be read.",
    "token-estimate": "The author's token estimate is far off.",
    "unclosed-front-matter": "The front matter has no end.",
    "unknown-category": "There is no such category.",
    "unreachable-scenario": "A scenario holds no word to search for.",
    "unreadable": "A file cannot be read.",
    "unreadable-folder": "A folder cannot be read.",
    "written-while-read": "A file was written to while it was read.",
    "yaml": "The front matter is not YAML.",
    "yaml-repaired": "YAML cannot read a value; it was kept as text.",
    **{code: f"Found: {rule.message.replace('{}', '…')}." for code, rule in FINDINGS.items()},
}
"""Kind of diagnostic → one sentence about it; docs/authoring.md lists those that authors meet."""


class Rules(NamedTuple):
    """Which diagnostics to report: all, or only the `selected` kinds, except those `ignored` everywhere or `per_file`.

    A `per_file` pattern matches paths below the folder of orchestr8.toml; `*` matches anything, including `/`.
    """

    selected: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    per_file: tuple[tuple[str, frozenset[str]], ...] = ()

    def want(self, diagnostic: Diagnostic, path: str) -> bool:
        """Tell whether to report a diagnostic of the file at *path*."""
        code = diagnostic.code
        if code in self.ignored or (self.selected and code not in self.selected):
            return False
        return not any(code in codes and fnmatchcase(path, pattern) for pattern, codes in self.per_file)

    def with_options(self, select: Iterable[str], ignore: Iterable[str]) -> "Rules":
        """Return these rules with the options of a command line, comma-separated names that take precedence."""
        selected = read_rules(",".join(select).split(","), "--select")
        return self._replace(
            selected=selected or self.selected,
            ignored=(self.ignored - selected) | read_rules(",".join(ignore).split(","), "--ignore"),
        )


def read_rules(names: Iterable[str], place: str) -> frozenset[str]:
    """Return the kinds of diagnostics that *place* names.

    Raises:
        SettingsError: There is no such kind.
    """
    named = frozenset(name for written in names if (name := written.strip()))
    for name in sorted(named - SAID.keys()):
        alike = nearest(name, [*SAID])
        hint = f"did you mean {alike[0]}?" if alike else "`lint --rules` lists them."
        raise SettingsError(f"{place}: there is no rule {name!r}; {hint}")
    return named
