"""The script of the skill lockfile-change-review tells dangerous changes of lock files from mere updates."""

import json
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("lockfile-change-review", "compare_locks.py")
REGISTRY = "https://registry.npmjs.org"


def npm(name: str, version: str, **facts: Any) -> tuple[str, dict[str, Any]]:  # noqa: ANN401
    address = f"{REGISTRY}/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
    return f"node_modules/{name}", {"version": version, "resolved": address, "integrity": "sha512-AA=="} | facts


def npm_lock(path: Path, *packages: tuple[str, dict[str, Any]], direct: tuple[str, ...] = ()) -> Path:
    root: dict[str, Any] = {"dependencies": dict.fromkeys(direct, "*")}
    path.write_text(json.dumps({"lockfileVersion": 3, "packages": {"": root, **dict(packages)}}))
    return path


def compared(tmp_path: Path, old: str, new: str) -> dict[str, Any]:
    for name, text in (("old", old), ("new", new)):
        (tmp_path / name).write_text(text)
    return run_json(*SCRIPT, tmp_path / "old", tmp_path / "new")


@pytest.mark.parametrize(
    ("old", "new", "jump"),
    [
        ("1.9.9", "2.0.0", "major"),
        ("0.3.1", "0.4.0", "major of 0.x"),
        ("1.3.1", "1.10.0", "minor"),
        ("1.3.1", "1.3.2", "patch"),
        ("2.0.0", "1.9.9", "downgrade"),
        ("1.0.0-rc.1", "1.0.0", "other"),
    ],
)
def test_a_change_has_the_size_of_its_jump(tmp_path: Path, old: str, new: str, jump: str) -> None:
    files = npm_lock(tmp_path / "a", npm("x", old)), npm_lock(tmp_path / "b", npm("x", new), direct=("x",))
    report = run_json(*SCRIPT, *files)
    assert report["changed"] == [{"name": "x", "from": [old], "to": [new], "jump": jump, "direct": True}]
    assert report["dangers"] == ([f"downgrade: x {old} -> {new}"] if jump == "downgrade" else [])


def test_an_update_with_additions_and_removals_is_no_danger(tmp_path: Path) -> None:
    old = npm_lock(tmp_path / "a", npm("x", "1.0.0"), npm("y", "1.0.0"))
    new = npm_lock(tmp_path / "b", npm("x", "2.0.0"), npm("@s/z", "1.0.0"), direct=("@s/z",))
    done = run_script(*SCRIPT, old, new)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "locks    npm 3, 2 packages -> npm 3, 2 packages",
        "counts   added 1, removed 1, changed 1 (major 1)",
        "changed  x 1.0.0 -> 2.0.0 (major)",
        "added    @s/z 1.0.0 (direct)",
        "removed  y 1.0.0",
    ]


@pytest.mark.parametrize(
    ("facts", "danger"),
    [
        ({"integrity": "sha512-BB=="}, "checksum: x 1.0.0 has another sha512 without another version"),
        ({"integrity": None}, "checksum: x 1.0.0 lost its checksum"),
        ({"hasInstallScript": True}, "script: x 1.0.0 runs code at installation, before it did not"),
        ({"resolved": f"{REGISTRY}/evil/-/evil-1.0.0.tgz"}, "name: x 1.0.0 is fetched as evil"),
        ({"resolved": f"{REGISTRY}/x/-/x-6.6.6.tgz"}, "name: x 1.0.0 is fetched as x-6.6.6"),
        (
            {"resolved": "git+ssh://git@git.example.com/a/x.git#0123456789"},
            "source: x from git git.example.com/a/x, before from registry.npmjs.org",
        ),
        (
            {"resolved": "http://ann:geheim@npm.example.com/x/-/x-1.0.0.tgz"},
            "source: x from http (not encrypted) npm.example.com, before from registry.npmjs.org",
        ),
    ],
)
def test_what_changes_under_an_unchanged_version_is_a_danger(
    tmp_path: Path, facts: dict[str, Any], danger: str
) -> None:
    old = npm_lock(tmp_path / "a", npm("x", "1.0.0"))
    done = run_script(*SCRIPT, old, npm_lock(tmp_path / "b", npm("x", "1.0.0", **facts)))
    assert done.returncode == 1
    assert f"danger   {danger}\n" in done.stdout
    assert "geheim" not in done.stdout


def test_a_new_registry_for_all_packages_is_one_danger(tmp_path: Path) -> None:
    names = [f"p{n}" for n in range(9)]
    old = npm_lock(tmp_path / "a", *[npm(name, "1.0.0") for name in names])
    moved = [npm(name, "1.0.0", resolved=f"https://npm.example.com/{name}/-/{name}-1.0.0.tgz") for name in names]
    assert run_json(*SCRIPT, old, npm_lock(tmp_path / "b", *moved))["dangers"] == [
        "source: 9 packages, e.g. p0, from npm.example.com, before from registry.npmjs.org"
    ]


def test_a_new_package_with_a_script_or_from_elsewhere_is_a_danger(tmp_path: Path) -> None:
    old = npm_lock(tmp_path / "a", npm("x", "1.0.0"))
    odd = npm("y", "1.0.0", resolved="https://codeload.example.com/o/y/tar.gz/0123", hasInstallScript=True)
    assert run_json(*SCRIPT, old, npm_lock(tmp_path / "b", npm("x", "1.0.0"), odd))["dangers"] == [
        "source: new y from codeload.example.com/o/y, unlike all before",
        "script: y 1.0.0 runs code at installation, and is new",
    ]


def test_what_a_package_brings_in_its_own_archive_is_no_danger(tmp_path: Path) -> None:
    inside = ("node_modules/y/node_modules/x", {"version": "1.0.0", "inBundle": True})
    old = npm_lock(tmp_path / "a", npm("x", "1.0.0"))
    report = run_json(*SCRIPT, old, npm_lock(tmp_path / "b", npm("x", "1.0.0"), npm("y", "1.0.0"), inside))
    assert report["dangers"] == []
    assert [row["name"] for row in report["added"]] == ["y"]
    assert report["notes"] == ["1 packages come in the archive of another one, e.g. x: not compared"]


def test_second_versions_and_packages_that_now_ship_are_named(tmp_path: Path) -> None:
    old = npm_lock(tmp_path / "a", npm("x", "1.0.0", dev=True))
    nested = ("node_modules/y/node_modules/x", npm("x", "2.0.0")[1])
    report = run_json(*SCRIPT, old, npm_lock(tmp_path / "b", npm("x", "1.0.0"), nested))
    assert report["duplicates"] == [{"name": "x", "versions": ["1.0.0", "2.0.0"]}]
    assert "x 1.0.0 was for development only and now ships" in report["notes"]


PNPM = """lockfileVersion: '9.0'

importers:

  .:
    dependencies:
      x:
        specifier: ^{0}
        version: {0}

packages:

  '@s/y@1.0.0':
    resolution: {{integrity: sha512-{1}==}}
    engines: {{node: '>=12'}}

  x@{0}:
    resolution: {{integrity: sha512-XX==}}

snapshots:

  x@{0}: {{}}
"""
ENV = """---
lockfileVersion: '9.0'

importers:

  .:
    packageManagerDependencies:
      pnpm:
        specifier: {0}
        version: {0}

packages:

  pnpm@{0}:
    resolution: {{integrity: sha512-PP==}}

---
"""


def test_both_documents_of_a_pnpm_lock_file_are_read(tmp_path: Path) -> None:
    report = compared(
        tmp_path, ENV.format("11.0.0") + PNPM.format("1.0.0", "AA"), ENV.format("12.0.0") + PNPM.format("1.1.0", "BB")
    )
    assert report["packages"] == [3, 3]
    assert [(row["name"], row["jump"], row["direct"]) for row in report["changed"]] == [
        ("pnpm (of pnpm itself)", "major", False),
        ("x", "minor", True),
    ]
    assert report["dangers"] == ["checksum: @s/y 1.0.0 has another sha512 without another version"]


YARN = (
    '# yarn lockfile v1\n\n\n"@s/y@^1.0.0", "@s/y@^1.1.0":\n'
    '  version "{0}"\n  resolved "{1}"\n  integrity sha512-{2}==\n'
)
BERRY = (
    '__metadata:\n  version: 8\n\n"x@npm:^1.0.0":\n  version: {0}\n  resolution: "x@npm:{0}"\n  checksum: 10c0/{1}\n'
)
POETRY = """[[package]]
name = "x"
version = "{0}"
files = [{{file = "x-{0}.tar.gz", hash = "sha256:{1}"}}]

[metadata]
lock-version = "2.1"
content-hash = "c"
"""
UV = """version = 1
revision = 3
requires-python = ">=3.11"

[[package]]
name = "x"
version = "{0}"
source = {{ registry = "https://pypi.org/simple" }}
sdist = {{ url = "https://files.example.com/x-{0}.tar.gz", hash = "sha256:{1}" }}

[[package]]
name = "own"
version = "1"
source = {{ virtual = "." }}
dependencies = [{{ name = "x" }}]
"""
CARGO = """version = 4

[[package]]
name = "own"
version = "0.1.0"
dependencies = ["x"]

[[package]]
name = "x"
version = "{0}"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "{1}"
"""
GO = "example.com/x v{0} h1:{1}=\nexample.com/x v{0}/go.mod h1:mm=\nexample.com/unused v1.0.0/go.mod h1:uu=\n"


@pytest.mark.parametrize("form", [BERRY, POETRY, UV, CARGO, GO])
def test_every_kind_shows_updates_and_checksums_that_change_without_one(tmp_path: Path, form: str) -> None:
    report = compared(tmp_path, form.format("1.2.0", "aa"), form.format("1.3.0", "bb"))
    assert [(row["name"].rpartition("/")[2], row["jump"]) for row in report["changed"]] == [("x", "minor")]
    assert report["dangers"] == []
    again = compared(tmp_path, form.format("1.2.0", "aa"), form.format("1.2.0", "bb"))
    assert len(again["dangers"]) == 1
    assert again["dangers"][0].startswith("checksum: ")


def test_yarn_entries_with_several_ranges_and_scopes_are_read(tmp_path: Path) -> None:
    right, wrong = (f"https://registry.yarnpkg.com/@s/{name}/-/{name}-1.1.0.tgz#ab" for name in "yz")
    report = compared(tmp_path, YARN.format("1.1.0", right, "AA"), YARN.format("1.1.0", wrong, "AA"))
    assert report["dangers"] == ["name: @s/y 1.1.0 is fetched as @s/z"]


def test_python_packages_without_wheel_are_noted_as_they_run_build_code(tmp_path: Path) -> None:
    report = compared(tmp_path, UV.format("1.0", "aa").replace("sdist = ", "wheels = [") .replace(' }\n\n[[package]]\nname = "own"', ' }]\n\n[[package]]\nname = "own"'), UV.format("1.1", "bb"))  # fmt: skip  # noqa: E501
    assert report["notes"] == ["x 1.1 has no wheel: its build code runs at installation"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("hello\n", "not a lock file"),
        ('{"lockfileVersion": 3, "packages": {', "line 1"),
        ('{"lockfileVersion": 1, "dependencies": {}}', "lockfileVersion 1"),
        ('{\n<<<<<<< HEAD\n"lockfileVersion": 3', "merge conflict in line 2"),
        ("lockfileVersion: 5.4\n", "5.4"),
        ("# yarn lockfile v1\n\nx@^1\n  version 1\n", "no entry begins with"),
        ("example.com/x v1.0.0 h1:a=\nbroken\n", "line 2"),
        ('version = 4\n[[package]]\nname = "x\n', "no TOML"),
        ('{"lockfileVersion": 3, "packages": {"node_modules/x": 5}}', "not the shape"),
    ],
)
def test_what_is_no_lock_file_is_refused_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    good = npm_lock(tmp_path / "good", npm("x", "1.0.0"))
    (tmp_path / "bad").write_text(text)
    assert_refused(run_script(*SCRIPT, good, tmp_path / "bad"), "bad", words)


def test_two_kinds_of_lock_file_are_not_compared(tmp_path: Path) -> None:
    (tmp_path / "go").write_text(GO.format("1.0.0", "aa"))
    assert_refused(run_script(*SCRIPT, npm_lock(tmp_path / "npm"), tmp_path / "go"), "two kinds")


@pytest.mark.parametrize(
    ("new", "danger"),
    [
        (
            npm("x", "1.0.0", integrity="sha512-AA== sha512-EVIL="),
            "checksum: x 1.0.0 has another sha512 without another version",
        ),
        (npm("x", "1.0.0", integrity="sha1-AA="), "checksum: x 1.0.0 has only sha1 where it had sha512"),
        (npm("x", "1.1.0", integrity=None), "checksum: x 1.1.0 has none, the version before had one"),
        (
            npm("x", "1.1.0", integrity="sha1-AA="),
            "checksum: x 1.1.0 has only a weak one, the version before had a strong one",
        ),
        (npm("x", "1.0.0", resolved=f"{REGISTRY}/x/-/y-6.6.6.tgz"), "name: x 1.0.0 is fetched as y-6.6.6"),
        (npm("x", "1.0.0-rc.1"), "downgrade: x 1.0.0 -> 1.0.0-rc.1"),
    ],
)  # fmt: skip
def test_weaker_proof_of_a_package_is_a_danger(tmp_path: Path, new: tuple[str, dict[str, Any]], danger: str) -> None:
    files = npm_lock(tmp_path / "a", npm("x", "1.0.0")), npm_lock(tmp_path / "b", new)
    assert run_json(*SCRIPT, *files)["dangers"] == [danger]


def test_a_second_checksum_of_a_go_module_is_not_hidden_by_the_first(tmp_path: Path) -> None:
    line = "example.com/x v1.0.0 h1:AA=\n"
    report = compared(tmp_path, line, "example.com/x v1.0.0 h1:EVIL=\n" + line)
    assert report["dangers"] == ["checksum: example.com/x v1.0.0 has another h1 of zip without another version"]


def test_a_lock_file_that_breaks_off_says_so(tmp_path: Path) -> None:
    whole = PNPM.format("1.0.0", "AA")
    notes = compared(tmp_path, whole, whole.partition("\nsnapshots:")[0])["notes"]
    assert notes == ["the part `snapshots` is missing: cut off?"]
    notes = compared(tmp_path, whole, whole.rstrip("\n"))["notes"]
    assert notes == [f"{tmp_path / 'new'} has no line end at its end: cut off?"]
    (tmp_path / "new").write_text('# yarn lockfile v1\n\n\nx@^1.0.0:\n  resolved "a"\n')
    assert_refused(run_script(*SCRIPT, tmp_path / "new", tmp_path / "new"), "'x@^1.0.0:' has no version, cut off?")


def test_a_package_that_stands_twice_and_an_endless_version(tmp_path: Path) -> None:
    (tmp_path / "twice").write_text('{"lockfileVersion": 3, "packages": {"node_modules/x": {}, "node_modules/x": {}}}')
    assert_refused(run_script(*SCRIPT, tmp_path / "twice", tmp_path / "twice"), "'node_modules/x' stands twice")
    files = npm_lock(tmp_path / "a", npm("x", "1.0.0")), npm_lock(tmp_path / "b", npm("x", "9" * 5000))
    assert run_json(*SCRIPT, *files)["changed"][0]["jump"] == "major"


UV_LOCK = """version = 1
requires-python = ">=3.11"

[[package]]
name = "x"
version = "1.0.0"
source = {{ registry = "https://pypi.org/simple" }}
sdist = {{ url = "https://files.example/x-1.0.0.tar.gz", hash = "sha256:aa" }}
wheels = [{{ url = "https://files.example/x-1.0.0-py3-none-any.whl"{} }}]
"""


@pytest.mark.parametrize(
    ("hash_", "danger"),
    [
        ("", "lost the checksum of x-1.0.0-py3-none-any.whl"),
        (', hash = "md5:bb"', "has only md5 of x-1.0.0-py3-none-any.whl where it had sha256"),
    ],
)
def test_one_file_without_its_checksum_is_a_danger(tmp_path: Path, hash_: str, danger: str) -> None:
    report = compared(tmp_path, UV_LOCK.format(', hash = "sha256:bb"'), UV_LOCK.format(hash_))
    assert report["dangers"] == [f"checksum: x 1.0.0 {danger}"]


def test_a_text_that_looks_like_a_checksum_is_none(tmp_path: Path) -> None:
    old, new = PNPM.format("1.0.0", "AA"), PNPM.format("1.0.0", "EVIL")
    new = new.replace("  '@s/y@1.0.0':\n", "  '@s/y@1.0.0':\n    deprecated: 'integrity: sha512-AA=='\n")
    assert compared(tmp_path, old, new)["dangers"] == [
        "checksum: @s/y 1.0.0 has another sha512 without another version"
    ]


BERRY = """__metadata:
  version: 8

"x@npm:^1.0.0":
  version: 1.0.0
  resolution: "x@npm:1.0.0{}"
  checksum: 10/aa
  languageName: node
  linkType: hard
"""


def test_the_archive_address_of_yarn_berry_is_the_source(tmp_path: Path) -> None:
    found = compared(tmp_path, BERRY.format(""), BERRY.format("::__archiveUrl=https%3A%2F%2Fevil.example%2Fx.tgz"))
    assert found["dangers"] == ["source: x from evil.example/x.tgz, before from the default registry"]


POETRY = """[[package]]
name = "x"
version = "1.0"

[metadata]
lock-version = "1.1"

[metadata.files]
x = [{{file = "x-1.0.whl", hash = "sha256:{}"}}]
"""


def test_checksums_of_an_old_poetry_file_are_compared(tmp_path: Path) -> None:
    found = compared(tmp_path, POETRY.format("aa"), POETRY.format("bb"))
    assert found["dangers"] == ["checksum: x 1.0 has another sha256 of x-1.0.whl without another version"]


def test_one_version_with_two_checksums_in_the_new_file_is_a_danger(tmp_path: Path) -> None:
    nested = ("node_modules/a/node_modules/x", npm("x", "2.0.0", integrity="sha512-BB==")[1])
    files = npm_lock(tmp_path / "a", npm("x", "1.0.0")), npm_lock(tmp_path / "b", npm("x", "2.0.0"), nested)
    assert run_json(*SCRIPT, *files)["dangers"] == ["checksum: x 2.0.0 stands there twice with two checksums"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"_meta": {}, "default": {}, "develop": {}}\n', "not package-lock.json"),
        (
            '{\n  "lockfileVersion": 1,\n  "packages": {\n    "x": ["x@1.0.0", "", {}, "sha512-AA=="],\n  }\n}\n',
            "bun.lock",
        ),
    ],
)
def test_other_lock_files_in_json_are_named_and_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "lock"
    path.write_text(text)
    assert_refused(run_script(*SCRIPT, path, path), words)


NPM_OLD = {"lockfileVersion": 3, "packages": {"": {}, **dict([npm("x", "1.0.0")])}}
NPM_LINKED: dict[str, dict[str, object]] = {"": {}, "node_modules/x": {"resolved": "vendor/x", "link": True}}
NPM_NEW = {"lockfileVersion": 3, "packages": NPM_LINKED}
NPM_NESTED = {"node_modules/y/node_modules/x": npm("x", "1.0.0")[1]}
CARGO_NEW = 'version = 4\n[[package]]\nname = "x"\nversion = "1.0.0"\n'
CARGO_OLD = CARGO_NEW + 'source = "registry+https://a.example/index"\nchecksum = "a"\n'
PNPM_HEAD = (
    "lockfileVersion: '9.0'\nimporters:\n  .:\n    dependencies:\n      x:\n        specifier: 1\n        version: "
)
PNPM_OLD = f"{PNPM_HEAD}1.0.0\npackages:\n  x@1.0.0:\n    resolution: {{integrity: sha512-AA==}}\nsnapshots:\n"
BERRY_ENTRY = '__metadata:\n  version: 8\n\n"x@{0}":\n  version: 1.0.0\n  resolution: "x@{0}"\n'
BERRY_OLD, BERRY_NEW = (
    BERRY_ENTRY.format("npm:1.0.0") + "  checksum: 10c0/aa\n",
    BERRY_ENTRY.format("workspace:x") + "  linkType: soft\n",
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (json.dumps(NPM_OLD), json.dumps(NPM_NEW)),
        (CARGO_OLD, CARGO_NEW),
        (PNPM_OLD, f"{PNPM_HEAD}link:vendor/x\n"),
        (PNPM_OLD, PNPM_OLD.replace("version: 1.0.0", "version: 'link:vendor/x'")),
        (PNPM_OLD, f"{PNPM_OLD}\n  y@1.0.0:\n    dependencies:\n      x: link:vendor/x\n"),
        (json.dumps(NPM_OLD), json.dumps({**NPM_NEW, "packages": NPM_LINKED | NPM_NESTED})),
        (BERRY_OLD, BERRY_NEW),
    ],
)
def test_a_folder_that_takes_the_place_of_a_package_is_a_danger(tmp_path: Path, old: str, new: str) -> None:
    (danger,) = compared(tmp_path, old, new)["dangers"]
    assert danger.startswith("source: x from a folder of this repository, before from ")
    assert compared(tmp_path, new, new)["dangers"] == []


def test_another_registry_on_the_same_server_is_another_source(tmp_path: Path) -> None:
    def address(place: str) -> dict[str, str]:
        return {"resolved": f"https://art.example/api/npm/{place}/@s/x/-/x-1.0.0.tgz"}

    files = (
        npm_lock(tmp_path / "a", npm("@s/x", "1.0.0", **address("own"))),
        npm_lock(tmp_path / "b", npm("@s/x", "1.0.0", **address("public"))),
    )
    assert run_json(*SCRIPT, *files)["dangers"] == [
        "source: @s/x from art.example/api/npm/public, before from art.example/api/npm/own"
    ]


UV_FILES = """version = 1
requires-python = ">=3.11"

[[package]]
name = "zope-x"
version = "{0}"
source = {{ registry = "https://pypi.org/simple" }}
sdist = {{ url = "https://files.pythonhosted.org/a/zope.x-{0}.tar.gz", hash = "sha256:aa" }}
wheels = [
    {{ url = "{1}-{0}-py3-none-any.whl", hash = "sha256:{0}" }},
]
"""
HOSTED = "https://files.pythonhosted.org/a"


@pytest.mark.parametrize(
    ("wheel", "danger"),
    [
        (f"{HOSTED}/zope_x", []),
        ("https://pypi.org/a/zope.x", []),
        (
            "https://b.example/zope_x",
            ["source: files of zope-x 2 from b.example, unlike all before of pypi.org/simple"],
        ),
        (f"{HOSTED}/zope_x_y", ["name: zope-x 2 is fetched as zope_x_y-2-py3-none-any.whl"]),
    ],
)
def test_files_of_another_host_or_package_are_a_danger(tmp_path: Path, wheel: str, danger: list[str]) -> None:
    assert compared(tmp_path, UV_FILES.format(1, f"{HOSTED}/zope_x"), UV_FILES.format(2, wheel))["dangers"] == danger


@pytest.mark.parametrize(
    "path",
    ["@evil/x/-/x-1.1.0.tgz", "x/-/../../@evil/x/-/x-1.1.0.tgz", "x/-/..%2f..%2f@evil%2fx/-/x-1.1.0.tgz"],
)
def test_an_address_that_ends_like_the_package_but_is_of_another_is_a_danger(tmp_path: Path, path: str) -> None:
    old = npm_lock(tmp_path / "a", npm("x", "1.0.0"))
    new = npm_lock(tmp_path / "b", npm("x", "1.1.0", resolved=f"{REGISTRY}/{path}", integrity="sha512-BB=="))
    assert [text.split(" is ")[0] for text in run_json(*SCRIPT, old, new)["dangers"]] == ["name: x 1.1.0"]


PNPM_IMPORTER = """lockfileVersion: '9.0'

importers:

  .:
    dependencies:
      x:
        specifier: ^1.0.0
        version: {direct}

packages:

  {key}:
    resolution: {resolution}
    deprecated: 'say "tarball": no'

snapshots:

  {key}:
    dependencies:
      z: {inner}
"""


def pnpm_lock(direct: str, key: str, resolution: str = "{integrity: sha512-BB==}", inner: str = "1.0.0") -> str:
    return PNPM_IMPORTER.format(direct=direct, key=key, resolution=resolution, inner=inner)


def test_another_package_under_a_known_name_of_pnpm_is_a_danger(tmp_path: Path) -> None:
    old = pnpm_lock("1.0.0", "x@1.0.0")
    assert compared(tmp_path, old, pnpm_lock("1.1.0", "x@1.1.0"))["dangers"] == []
    assert compared(tmp_path, old, pnpm_lock("evil@1.1.0", "evil@1.1.0"))["dangers"] == [
        "source: x from alias of evil, before from the default registry"
    ]
    new = pnpm_lock("1.1.0(react@19.0.0)", "x@1.1.0", inner="'@e/vil@1.0.0(react@19.0.0)'")
    assert compared(tmp_path, old, new)["dangers"] == ["source: new z from alias of @e/vil"]
    assert compared(tmp_path, new, new)["dangers"] == []


@pytest.mark.parametrize(
    "new",
    [
        pnpm_lock("1.1.0", "x@1.1.0", '{integrity: sha512-BB==, "tarball": https://evil.example/x.tgz}'),
        pnpm_lock("1.1.0", "x@1.1.0", "{integrity: sha512-BB==, tarball : https://evil.example/x.tgz}"),
        pnpm_lock("1.1.0", "x@1.1.0", "{integrity: sha512-BB==, <<: *other}"),
        pnpm_lock("1.1.0", "x@1.1.0").replace(
            "      x:\n        specifier", "      x: {version: evil@1.0.0}\n        specifier"
        ),
        pnpm_lock("\n          evil@1.1.0", "evil@1.1.0"),
        pnpm_lock("*other", "evil@1.1.0"),
    ],
)
def test_yaml_that_pnpm_does_not_write_is_refused(tmp_path: Path, new: str) -> None:
    for name, text in (("old", pnpm_lock("1.0.0", "x@1.0.0")), ("new", new)):
        (tmp_path / name).write_text(text)
    assert_refused(run_script(*SCRIPT, tmp_path / "old", tmp_path / "new"), "pnpm does not write")


def test_a_second_address_in_a_yarn_entry_is_refused(tmp_path: Path) -> None:
    entry = '# yarn lockfile v1\n\nx@^1.0.0:\n  version "1.0.0"\n  resolved "https://registry.yarnpkg.com/x/-/x-1.0.0.tgz"\n'
    (tmp_path / "old").write_text(entry)
    (tmp_path / "new").write_text(entry + '  "resolved" "https://evil.example/x/-/x-1.0.0.tgz"\n')
    assert_refused(run_script(*SCRIPT, tmp_path / "old", tmp_path / "new"), "twice")


def test_a_patched_package_of_yarn_berry_is_no_second_checksum(tmp_path: Path) -> None:
    entry = "__metadata:\n  version: 8\n"
    for source, checksum in (("npm:1.0.0", "10/aa"), ("patch:t@npm%3A1.0.0#optional!builtin<compat/t>", "10/bb")):
        entry += (
            f'\n"t@{source}":\n  version: 1.0.0\n  resolution: "t@{source}"\n  checksum: {checksum}\n  linkType: hard\n'
        )
    assert compared(tmp_path, entry, entry)["dangers"] == []
    assert compared(tmp_path, entry, entry.replace("1.0.0", "1.0.1"))["dangers"] == []
    assert compared(tmp_path, entry, entry.replace("10/bb", "10/cc"))["dangers"] == [
        "checksum: t 1.0.0 has another 10 without another version"
    ]


def test_each_name_of_a_yarn_entry_is_a_package(tmp_path: Path) -> None:
    entry = (
        '# yarn lockfile v1\n\n{}:\n  version "1.0.0"\n  resolved "https://registry.yarnpkg.com/{}/-/{}-1.0.0.tgz"\n'
    )
    old = entry.format("x@^1.0.0", "x", "x")
    new = entry.format('"@e/vil@^1.0.0", x@^1.0.0', "@e/vil", "vil")
    assert compared(tmp_path, old, new)["dangers"] == ["name: x 1.0.0 is fetched as @e/vil"]
    merged = entry.format('x@^1.0.0, "y@npm:x@^1.0.0"', "x", "x")
    assert compared(tmp_path, old, merged)["dangers"] == [
        "source: new y from alias of x registry.yarnpkg.com, unlike all before"
    ]


def test_another_version_behind_a_yarn_berry_entry_is_a_danger(tmp_path: Path) -> None:
    entry = '__metadata:\n  version: 8\n\n"x@npm:^1.0.0":\n  version: 1.1.0\n  resolution: "x@npm:1.0.0"\n'
    old = entry.replace("1.1.0", "1.0.0")
    assert compared(tmp_path, old, entry)["dangers"] == ["name: x 1.1.0 is fetched as 1.0.0"]
    assert compared(tmp_path, old, entry.replace('npm:1.0.0"', 'npm:1.1.0::hash=1"'))["dangers"] == []


@pytest.mark.parametrize(
    ("old", "new", "jump"),
    [
        (("6.3.0", "7.3.5", "7.3.8"), ("6.3.1", "7.6.0"), "minor"),  # two became one
        (("3.15.0", "4.1.0", "4.1.1"), ("3.15.1", "4.3.1"), "minor"),
        (("5.29.0", "7.16.0"), ("5.28.5",), "downgrade"),
        (("7.3.5", "7.3.8"), ("7.3.6",), "downgrade"),
        (("1.0.0", "3.0.0"), ("2.0.0", "4.0.0"), "major"),
        (("3.0.0",), ("2.0.0", "3.1.0"), "minor"),
    ],
)
def test_of_several_versions_those_of_one_major_are_compared(
    tmp_path: Path, old: tuple[str, ...], new: tuple[str, ...], jump: str
) -> None:
    def lock(name: str, versions: tuple[str, ...]) -> Path:
        entries = [npm("x", version) for version in versions]
        return npm_lock(tmp_path / name, *((f"node_modules/p{n}/{key}", one) for n, (key, one) in enumerate(entries)))

    report = run_json(*SCRIPT, lock("a", old), lock("b", new))
    assert [row["jump"] for row in report["changed"]] == [jump]
    assert bool(report["dangers"]) == (jump == "downgrade")


ARCHIVE = "https://codeload.github.com/o/x/tar.gz/{commit}"
PNPM_PACKAGE = "lockfileVersion: '9.0'\n\npackages:\n\n"
GIT = "git+ssh://git@github.com/o/x.git#{commit}"


@pytest.mark.parametrize(
    "lock",
    [
        json.dumps({"lockfileVersion": 3, "packages": {"node_modules/x": {"version": "1.0.0", "resolved": GIT}}}),
        json.dumps({"lockfileVersion": 3, "packages": {"node_modules/x": {"version": "1.0.0", "resolved": ARCHIVE}}}),
        f'# yarn lockfile v1\n\nx@o/x:\n  version "1.0.0"\n  resolved "{GIT}"\n',
        f'# yarn lockfile v1\n\nx@o/x:\n  version "1.0.0"\n  resolved "{ARCHIVE}"\n',
        '__metadata:\n\n"x@o/x":\n  version: 1.0.0\n  resolution: "x@https://github.com/o/x.git#commit={commit}"\n',
        PNPM_PACKAGE + f"  x@{ARCHIVE}:\n    resolution: {{tarball: {ARCHIVE}}}\n    version: 1.0.0\n\nsnapshots:\n",
        PNPM_PACKAGE
        + "  x@https://a.test/x:\n    resolution: {commit: {commit}, repo: 'git@a.test:o/x'}\n    version: 1.0.0\n",
    ],
)
def test_another_commit_of_one_version_is_a_danger(tmp_path: Path, lock: str) -> None:
    old, new = (lock.replace("{commit}", letter * 40) for letter in "ab")
    report = compared(tmp_path, old, new)
    assert report["dangers"] == [f"commit: x 1.0.0 from commit {'b' * 12}, before from {'a' * 12}"]
    assert report["changed"][0]["to"] == [f"1.0.0#{'b' * 12}"]
    assert compared(tmp_path, old, old)["dangers"] == []


def test_the_two_names_of_the_public_registry_are_one_source(tmp_path: Path) -> None:
    entry = '{0}@^1.0.0:\n  version "1.0.0"\n  resolved "https://{1}/{0}/-/{0}-1.0.0.tgz"\n'
    npm_, yarn = (entry.format("x", host) for host in ("registry.npmjs.org", "registry.yarnpkg.com"))
    head = "# yarn lockfile v1\n\n"
    assert compared(tmp_path, head + npm_, head + yarn)["dangers"] == []
    assert (
        compared(tmp_path, head + npm_, head + npm_ + "\n" + entry.format("y", "registry.yarnpkg.com"))["dangers"] == []
    )
    assert compared(tmp_path, head + npm_, head + npm_.replace("npmjs", "evil"))["dangers"] != []


def test_another_repository_in_the_short_form_of_ssh_is_another_source(tmp_path: Path) -> None:
    old = PNPM_PACKAGE + "  x@https://a.test/x:\n    resolution: {commit: aa, repo: 'git@a.test:o/x'}\n"
    assert compared(tmp_path, old, old.replace("a.test:o", "a.test:evil"))["dangers"] == [
        "source: x from git a.test/evil/x, before from git a.test/o/x"
    ]


@pytest.mark.parametrize(
    "address", [r"https://evil.example\@registry.npmjs.org", r"https://evil.example\x@registry.npmjs.org"]
)
def test_a_backslash_ends_the_host_as_it_does_for_npm(tmp_path: Path, address: str) -> None:
    old = npm_lock(tmp_path / "a", npm("x", "1.0.0"))
    new = npm_lock(tmp_path / "b", npm("x", "1.0.1", resolved=f"{address}/x/-/x-1.0.1.tgz"))
    dangers = run_json(*SCRIPT, old, new)["dangers"]
    assert any(one.startswith("source: x from evil.example") for one in dangers)


def test_a_file_address_with_the_name_of_the_registry_is_no_registry(tmp_path: Path) -> None:
    old = npm_lock(tmp_path / "a", npm("x", "1.0.0"))
    new = npm_lock(tmp_path / "b", npm("x", "1.0.1", resolved="file://registry.npmjs.org/x/-/x-1.0.1.tgz"))
    assert run_json(*SCRIPT, old, new)["dangers"] == ["source: x from path, before from registry.npmjs.org"]


def uv_lock(version: str, index: str, files: str) -> str:
    """Return a lock file of uv with the package x of an *index*, whose wheel lies below the address *files*."""
    return f"""version = 1
requires-python = ">=3.12"

[[package]]
name = "x"
version = "{version}"
source = {{ registry = "{index}" }}
wheels = [
    {{ url = '{files}/x-{version}-py3-none-any.whl', hash = "sha256:{version}" }},
]
"""


def test_a_backslash_in_the_address_of_a_wheel_ends_the_host(tmp_path: Path) -> None:
    old = uv_lock("1.0", "https://pypi.org/simple", "https://files.pythonhosted.org/packages/aa")
    new = uv_lock("1.1", "https://pypi.org/simple", r"https://evil.example\@files.pythonhosted.org/packages/aa")
    assert "source: files of x 1.1 from evil.example" in " ".join(compared(tmp_path, old, new)["dangers"])


@pytest.mark.parametrize("version", ["https://evil.example/x.tgz", "npm:evil@1.0.1", "github:evil/x"])
def test_a_version_that_is_an_address_is_what_npm_fetches(tmp_path: Path, version: str) -> None:
    old = npm_lock(tmp_path / "a", npm("x", "1.0.0", resolved=""))
    new = npm_lock(tmp_path / "b", npm("x", version, resolved=""))
    assert run_json(*SCRIPT, old, new)["dangers"] == [f"name: x {version} is fetched as {version}"]


def test_the_public_registry_for_one_package_where_none_had_an_address_is_a_danger(tmp_path: Path) -> None:
    names = ("x", "y", "z")
    old = npm_lock(tmp_path / "a", *(npm(name, "1.0.0", resolved="") for name in names))
    one = npm_lock(tmp_path / "b", npm("x", "1.0.1"), *(npm(name, "1.0.0", resolved="") for name in names[1:]))
    every = npm_lock(tmp_path / "c", *(npm(name, "1.0.0") for name in names))
    assert run_json(*SCRIPT, old, one)["dangers"] == [
        "source: x from registry.npmjs.org, before from the default registry"
    ]
    assert run_json(*SCRIPT, old, every)["dangers"] == []


def test_a_public_file_for_a_package_of_a_private_index_is_a_danger(tmp_path: Path) -> None:
    private, public = "https://pypi.corp.example", "https://files.pythonhosted.org"
    new = uv_lock("1.1", f"{private}/simple", public)
    assert compared(tmp_path, uv_lock("1.0", f"{private}/simple", private), new)["dangers"] == [
        "source: files of x 1.1 from files.pythonhosted.org, unlike all before of pypi.corp.example/simple"
    ]
    assert compared(tmp_path, uv_lock("1.0", f"{private}/simple", public), new)["dangers"] == []  # a mirror
