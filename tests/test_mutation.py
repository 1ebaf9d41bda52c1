"""What `make mutation` goes by is there, and the judgement of its mutants notices what it is there to notice."""

import ast
import tomllib
from pathlib import Path

import pytest
from mutation.run import EXPLAINED, Change, Mutant, change_of, complaints, read_explained, read_mutants, table

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
MUTATED = [path for pattern in SETTINGS["only_mutate"] for path in sorted(ROOT.glob(pattern))]


def functions_of(path: Path) -> dict[str, str]:
    """Return the source of each function of a module without indentation, by its name with that of its class."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source).body
    bodies = [("", tree), *((f"{one.name}.", one.body) for one in tree if isinstance(one, ast.ClassDef))]
    return {
        prefix + one.name: " ".join(line.strip() for line in (ast.get_source_segment(source, one) or "").splitlines())
        for prefix, body in bodies
        for one in body
        if isinstance(one, ast.FunctionDef)
    }


def test_every_pattern_of_modules_and_every_test_file_is_there() -> None:
    assert all(list(ROOT.glob(pattern)) for pattern in SETTINGS["only_mutate"])
    assert all((ROOT / name).is_file() for name in SETTINGS["pytest_add_cli_args_test_selection"])
    names = {path.relative_to(ROOT).as_posix() for path in MUTATED}
    assert names >= {"orchestr8_sqlite/library/door.py", "orchestr8_sqlite/library/trust/hidden.py"}


def test_every_explained_mutant_is_one_of_code_that_is_there() -> None:
    code = {
        f"{'.'.join(path.relative_to(ROOT / 'orchestr8_sqlite').with_suffix('').parts)}.{name}": source
        for path in MUTATED
        for name, source in functions_of(path).items()
    }
    explained = read_explained(EXPLAINED.read_text(encoding="utf-8"))
    assert explained
    assert [change for change in explained if change.before not in code.get(change.function, "")] == []
    assert [change for change, why in explained.items() if not why or change.before == change.after] == []


LISTED = """
    orchestr8_sqlite.settings.x_environment__mutmut_7: survived
    orchestr8_sqlite.settings.x_environment__mutmut_8: killed
    orchestr8_sqlite.library.trust.phrases.xǁTextǁis_code__mutmut_6: no tests
    orchestr8_sqlite.library.trust.phrases.xǁTextǁis_code__mutmut_7: timeout
"""
SHOWN = """# orchestr8_sqlite.settings.x_environment__mutmut_7: survived
--- orchestr8_sqlite/settings.py
+++ orchestr8_sqlite/settings.py
@@ -5,7 +5,7 @@
     values = 1
-        with open(named,
-                  encoding="utf-8") as file:
+        with open(named,
+                  encoding=None) as file:
     return
"""
CHANGE = Change(
    "settings.environment", 'with open(named, encoding="utf-8") as file:', "with open(named, encoding=None) as file:"
)
WRITTEN = f"# The locale says the same.\n\nsettings.environment\n    - {CHANGE.before}\n    + {CHANGE.after}\n"


def test_mutants_are_read_as_mutmut_lists_and_shows_them() -> None:
    mutants = read_mutants(LISTED)
    assert [one.outcome for one in mutants] == ["survived", "killed", "survived", "killed"]
    assert [one.function for one in mutants[1:3]] == ["settings.environment", "library.trust.phrases.Text.is_code"]
    assert change_of(mutants[0], SHOWN) == CHANGE
    assert read_explained(WRITTEN) == {CHANGE: "The locale says the same."}


def test_explained_text_that_is_no_change_is_refused() -> None:
    with pytest.raises(ValueError, match=r"explained\.txt:2: 'x = 1' is neither"):
        read_explained("a.b\n    x = 1\n")


def mutants_of(killed: int, survived: int) -> list[Mutant]:
    outcomes = ["killed"] * killed + ["survived"] * survived
    return [Mutant(f"orchestr8_sqlite.a.x_b__mutmut_{number}", one) for number, one in enumerate(outcomes)]


def test_survivor_that_is_not_explained_is_complained_of() -> None:
    (said,) = complaints(mutants_of(9, 1), [CHANGE], {}, whole=True)
    assert said.startswith("not noticed: settings.environment\n    - with open(")
    assert list(complaints(mutants_of(9, 1), [CHANGE], {CHANGE: "why"}, whole=True)) == []


def test_explanation_of_what_is_killed_is_complained_of_but_where_only_a_part_was_run() -> None:
    (said,) = complaints(mutants_of(9, 1), [], {CHANGE: "why"}, whole=True)
    assert said.startswith("explained, but killed or gone: settings.environment")
    assert list(complaints(mutants_of(9, 1), [], {CHANGE: "why"}, whole=False)) == []


def test_module_of_which_less_than_nine_in_ten_are_killed_is_complained_of() -> None:
    assert list(complaints(mutants_of(89, 11), [], {}, whole=True)) == ["a: only 89 of 100 mutants are killed."]
    assert list(complaints(mutants_of(90, 10), [], {}, whole=True)) == []


def test_table_counts_killed_explained_and_gaps() -> None:
    assert table(mutants_of(9, 3), {"a": 1}).splitlines()[1].split() == ["a", "12", "9", "75.0%", "2", "1"]
