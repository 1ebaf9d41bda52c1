"""All that can be said of a library, each kind under the name that stands in [brackets], and which of it is wanted."""

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
    "dangling-reference": "A reference points to what the library does not have.",
    "denied": "A file is left out for what was found in it.",
    "duplicate-field": "A field is given twice.",
    "duplicate-id": "Two files have the same id.",
    "duplicate-item": "A list holds an item twice.",
    "empty-body": "There is no text below the front matter.",
    "empty-file": "A file holds no text.",
    "empty-item": "A list has an empty item.",
    "encoding": "A file is neither UTF-8 nor UTF-16.",
    "file-name": "The name of a file cannot be read, or not by a URI.",
    "file-size": "A file is larger than what is read.",
    "folder-depth": "A folder lies too deep.",
    "front-matter-no-mapping": "What stands between the --- lines is no list of fields.",
    "front-matter-size": "The front matter is too large to be read safely.",
    "id-mismatch": "The id is not the name of the file.",
    "item-no-text": "YAML reads an item of a list as something else than text.",
    "kept": "A file cannot be read any more; its version before stays.",
    "link-leaves-root": "A symbolic link leads out of the library.",
    "many-links": "There are too many symbolic links to folders.",
    "names-alike": "Two names differ in case or accents only.",
    "not-a-file": "Something is neither a file nor a folder.",
    "not-a-list": "A field is no list.",
    "not-a-number": "A field is no whole number.",
    "not-text": "YAML reads a field as something else than text.",
    "null-list": "A list is empty.",
    "other-suffix": "A Markdown file has another suffix than .md.",
    "outside-layout": "A file lies in no folder that is read.",
    "queries-document": "A judged request names a document that is not there.",
    "queries-form": "A judged request is not of the right form.",
    "same-scenario": "Two fragments have the same scenario.",
    "same-text": "Two fragments have the same text.",
    "similar-text": "Two fragments have nearly the same text.",
    "skill-allowed-tools": "The allowed-tools of a skill are no text.",
    "skill-beginning": "A SKILL.md does not begin with front matter.",
    "skill-compatibility": "The compatibility of a skill is no text, or too long.",
    "skill-description": "A skill has no description, or one that is too long.",
    "skill-field": "The skill format has no such field.",
    "skill-file-name": "No URI can name a file of a skill.",
    "skill-license": "The license of a skill is no text.",
    "skill-limits": "A skill holds more than clients take.",
    "skill-metadata": "The metadata of a skill is no map of texts.",
    "skill-name": "The name of a skill is missing, wrong, or not that of its folder.",
    "skill-path": "Two skills have the same path.",
    "skill-yaml": "The front matter of a skill cannot be passed on as it is.",
    "skipped-folder": "A folder that is not read holds Markdown.",
    "synonyms-form": "A line of synonyms.txt cannot be read.",
    "token-estimate": "The author's number of tokens is far off.",
    "unclosed-front-matter": "The front matter has no end.",
    "unknown-category": "There is no such category.",
    "unreachable-scenario": "A scenario holds no word to search for.",
    "unreadable": "A file cannot be read.",
    "unreadable-folder": "A folder cannot be read.",
    "written-while-read": "A file was written to while it was read.",
    "yaml": "The front matter is not YAML.",
    "yaml-repaired": "A value was read as text, as YAML cannot read it.",
    **{code: f"Found: {rule.message.replace('{}', '…')}." for code, rule in FINDINGS.items()},
}
"""Kinds of diagnostics, each in a sentence; docs/authoring.md lists the ones that authors meet."""


class Rules(NamedTuple):
    """Which diagnostics are wanted: all, or the *selected* kinds, without the *ignored* ones, and those *per_file*.

    A pattern of `per_file` is that of a path below the folder of orchestr8.toml; `*` stands for anything, `/` included.
    """

    selected: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    per_file: tuple[tuple[str, frozenset[str]], ...] = ()

    def want(self, diagnostic: Diagnostic, path: str) -> bool:
        """Tell whether a diagnostic of the file at *path* is wanted."""
        code = diagnostic.code
        if code in self.ignored or (self.selected and code not in self.selected):
            return False
        return not any(code in codes and fnmatchcase(path, pattern) for pattern, codes in self.per_file)

    def with_options(self, select: Iterable[str], ignore: Iterable[str]) -> "Rules":
        """Return these rules with those of a command line, each a list of names between commas, which come first."""
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
