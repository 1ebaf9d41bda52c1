"""The script of the skill build-context-audit says what a Docker build takes, and what of it should not be taken."""

import os
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("build-context-audit", "audit_context.py")
PRIVATE = "-----BEGIN RSA PRIVATE " + "KEY-----\nsecretbytes\n"
ALL = "FROM node:24\nCOPY . .\n"


def folder(tmp_path: Path, ignore: str | None = None, dockerfile: str | None = ALL, **files: str) -> Path:
    """Return a folder with files; `__` in a name is a slash, `_` a full stop."""
    root = tmp_path / "context"
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    root.mkdir(exist_ok=True)
    for name, content in ((".dockerignore", ignore), ("Dockerfile", dockerfile)):
        if content is not None:
            (root / name).write_text(content)
    return root


def passing(root: Path) -> set[str]:
    """Return the largest places of a report, which are all of them in a small folder."""
    return {name for name, _, _ in run_json(*SCRIPT, root)["largest"]} - {".dockerignore", "Dockerfile"}


def findings(report: dict[str, Any], kind: str) -> list[str]:
    return [one for one in report["findings"] if f" {kind}: " in one]


@pytest.mark.parametrize(
    ("ignore", "passes"),
    [
        ("a.txt\n", {"d/"}),
        ("**/a.txt\n", set()),
        ("d\n", {"a.txt"}),
        ("d/\n", {"a.txt"}),
        ("/d\n", {"a.txt"}),
        ("*/a.txt\n", {"a.txt"}),
        ("*\n!d\n", {"d/"}),
        ("!d\n*\n", set()),
        ("d/**\n", {"a.txt"}),
        ("**.txt\n", set()),
        ("[ab].txt\n", {"d/"}),
        ("?.txt\r\n", {"d/"}),
        ("\ufeffa.txt\n", {"d/"}),
        (" # a.txt\n", {"a.txt", "d/"}),
        ("#a.txt\n", {"a.txt", "d/"}),
        ("../a.txt\n", {"a.txt", "d/"}),
    ],
)
def test_patterns_mean_what_docker_documents(tmp_path: Path, ignore: str, passes: set[str]) -> None:
    assert passing(folder(tmp_path, ignore, a_txt="1", d__a_txt="1")) == passes


def test_secrets_that_a_copy_takes_are_dangers_and_their_values_are_not_printed(tmp_path: Path) -> None:
    root = folder(tmp_path, "x\n", _env="K=geheim", conf__prod_txt="a\n" + PRIVATE, _env_example="K=", src__a_js="1")
    for arguments in ([root], [root, "--json"]):
        done = run_script(*SCRIPT, *arguments)
        assert done.returncode == 1
        assert "secret: .env (environment file), copied by line 2" in done.stdout
        assert "secret: conf/prod.txt (private key, line 2), copied by line 2" in done.stdout
        assert not [word for word in ("geheim", "secretbytes", "example (") if word in done.stdout]


def test_a_secret_that_no_copy_takes_is_only_a_caution(tmp_path: Path) -> None:
    root = folder(tmp_path, "x\n", "FROM a\nCOPY src /src\n", _env="K=1", src__a_js="1")
    report = run_json(*SCRIPT, root)
    assert findings(report, "secret") == [
        "caution  secret: .env (environment file), passes the ignore file, no COPY takes it"
    ]
    assert (report["passes"]["files"], report["copied"]["files"]) == (4, 1)


def test_patterns_that_miss_are_named(tmp_path: Path) -> None:
    root = folder(tmp_path, "deps\n*.log # logs\n!a.js\nnope\n", deps__a="1", sub__deps__b="12345", a_js="1")
    assert findings(run_json(*SCRIPT, root), "pattern") == [
        "caution  pattern: line 1 `deps` holds for the root only; 1 deeper pass (5 B), e.g. sub/deps: write `**/deps`",
        "caution  pattern: line 2 `*.log # logs`: a comment needs a line of its own, here it is part of the name",
        "note     pattern: line 4 `nope` matches nothing here",
    ]
    (root / ".dockerignore").write_text("!a.js\n*\n")
    assert "line 1 `!a.js` has no effect" in findings(run_json(*SCRIPT, root), "pattern")[0]


@pytest.mark.parametrize(
    ("dockerfile", "found"),
    [
        ("FROM a\nCOPY . .\nRUN npm ci\n", ["line 2 `COPY . .` comes before line 3 `npm ci`"]),
        ("FROM a\nCOPY p.json ./\nRUN pip install -r x\nCOPY . .\n", ["line 2 `COPY p.json ./`"]),
        ("FROM a\nCOPY package.json ./\nRUN npm ci\nCOPY . .\n", []),
        ("FROM a\nCOPY . .\nFROM b\nRUN npm ci\n", []),
        ("FROM a\nCOPY \\\n  # why\n  . .\nRUN <<E\nnpm ci\nE\nRUN x && \\\n npm ci\n", ["line 2", "line 8"]),
        ("FROM a\nRUN --mount=type=bind,source=p.json,target=p npm ci\n", ["before line 2"]),
    ],
)
def test_files_that_repeat_an_install_step_are_named(tmp_path: Path, dockerfile: str, found: list[str]) -> None:
    root = folder(tmp_path, "x\n", dockerfile, p_json="1", package_json="{}")
    text = "\n".join(findings(run_json(*SCRIPT, root), "cache"))
    assert all(word in text for word in found)
    assert bool(text) == bool(found)


def test_a_copy_of_what_is_ignored_or_missing_is_a_danger(tmp_path: Path) -> None:
    dockerfile = 'FROM a AS b\nARG D=docs\nCOPY ["lib", "/"]\nCOPY ${D} $E no* /\n'
    dockerfile += "COPY --from=b /x /y\nADD https://e.example/x /\n"
    report = run_json(*SCRIPT, folder(tmp_path, "lib\n", dockerfile, lib__a="1"))
    assert findings(report, "copy") == [
        "danger   copy: line 3 takes `lib`, but it is ignored: the build fails",
        "danger   copy: line 4 takes `docs`, but nothing has that name: the build fails",
        "caution  copy: line 4 takes `no*`, which matches nothing",
    ]
    assert findings(report, "dockerfile") == ["note     dockerfile: line 4: $E depends on an argument: not followed"]


def test_the_change_that_loses_the_cache_is_found_by_content_and_mode_but_not_by_time(tmp_path: Path) -> None:
    dockerfile = (
        "FROM a AS base\nCOPY package.json ./\nRUN npm ci\nCOPY src src\nFROM base\nRUN x\nFROM c\nCOPY gone /\n"
    )
    root = folder(tmp_path, "x\n", dockerfile, package_json="{}", src__a_js="1", gone="1", other="1")
    state = tmp_path / "state"
    run_json(*SCRIPT, root, "--save", state)
    os.utime(root / "package.json", (1, 1))
    (root / "other").write_text("2")
    report = run_json(*SCRIPT, root, "--against", state)
    assert (report["changed"], report["lost"]) == ({"other": "content"}, [])
    (root / "src" / "a.js").chmod(0o755)
    (root / "gone").unlink()
    report = run_json(*SCRIPT, root, "--against", state)
    assert report["changed"] == {"gone": "gone", "other": "content", "src/a.js": "mode 100644 -> 100755"}
    assert report["lost"] == [
        "stage 1: from line 4 `COPY src src`, by src/a.js and 0 more",
        "stage 2: from line 5, as its base is stage 1",
        "stage 3: from line 8 `COPY gone /`, by gone and 0 more",
    ]


def test_the_ignore_file_of_the_dockerfile_comes_first_and_others_that_do_not_count_are_named(tmp_path: Path) -> None:
    root = folder(tmp_path, "a.txt\n", a_txt="1", b_txt="1", sub___dockerignore="x\n")
    (root / "Dockerfile.dockerignore").write_text("b.txt\n")
    report = run_json(*SCRIPT, root)
    assert report["ignore_file"] == "Dockerfile.dockerignore"
    assert "a.txt" in {name for name, _, _ in report["largest"]}
    (root / "Dockerfile.dockerignore").unlink()
    (root / ".dockerignore").rename(tmp_path / "outside")
    assert "caution  ignore: no .dockerignore" in findings(run_json(*SCRIPT, root), "ignore")[0]
    (root / ".dockerignore").symlink_to(tmp_path / "outside")
    assert "is a link out of" in findings(run_json(*SCRIPT, root), "ignore")[0]
    assert run_json(*SCRIPT, root)["ignored"]["files"] == 0


def test_what_is_not_searched_is_counted(tmp_path: Path) -> None:
    root = folder(tmp_path, "x\n", vendor__a="1" + PRIVATE, big="1" * 1_000_001 + PRIVATE)
    notes = [one for one in run_json(*SCRIPT, root)["findings"] if one.startswith("note     1 ")]
    assert notes == [
        "note     1 files of others, not searched",
        "note     1 files searched only in the first 1,000,000 bytes",
    ]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("Dockerfile", "hello\n", "no FROM"),
        ("Dockerfile", "FROM a\nRUN <<E\nx\n", "heredoc E does not end"),
        ("Dockerfile", "FROM a\nCOPY 'x .\n", "line 2"),
        (".dockerignore", "a\n[b\n", "line 2"),
        (".dockerignore", b"\xff\xfea\x00\n\x00", "not UTF-8"),
    ],
)
def test_what_docker_would_refuse_or_misread_is_refused(
    tmp_path: Path, name: str, content: str | bytes, words: str
) -> None:
    root = folder(tmp_path, "a\n")
    (root / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert_refused(run_script(*SCRIPT, root), name, words)


def test_wrong_arguments_are_refused_in_one_sentence(tmp_path: Path) -> None:
    root = folder(tmp_path, "a\n")
    (tmp_path / "bad").write_text("{}")
    assert_refused(run_script(*SCRIPT, tmp_path / "none"), "no folder")
    assert_refused(run_script(*SCRIPT, root, "-f", tmp_path / "none"), "no such Dockerfile")
    assert_refused(run_script(*SCRIPT, root, "--against", tmp_path / "bad"), "no state written by --save")
    assert_refused(run_script(*SCRIPT, root, "--save", root / "state"), "write it elsewhere")


@pytest.mark.parametrize(
    ("dockerfile", "files"),
    [
        ("FROM\ta\nCOPY\tsrc /\n", 1),
        ("FROM a\nRUN echo a\\\\\nCOPY src /\n", 1),
        ("FROM a\nCOPY sr\\\nc /\n", 1),
        ("FROM a\nRUN echo $((1<<2)) && cat <<<word\nCOPY src /\n", 1),
        ("FROM a\nRUN <<E\n  E\nCOPY . /\nE\nCOPY src /\n", 1),
        ("FROM a\nRUN cat <<A <<-'B'\nA\nCOPY . .\n\tB\nCOPY src /\n", 1),
        ("FROM a\nCOPY <<E src /x/\nCOPY . .\nE\n", 1),
        ("FROM a\nONBUILD RUN <<E\nCOPY . .\nE\nONBUILD COPY . .\n", 0),
        ("FROM a\nCOPY [s]rc /\n", 1),
        ("FROM a\nARG D=src\nCOPY ${D:-no} ${D:+b.txt} ${X:+no} ${Y:-b.txt} /\n", 2),
        ("FROM a\nADD ssh://git@h.example/x git@h.example:x https://h.example/x src /\n", 1),
        ("# escape=`\r\nFROM a\r\nCOPY `\r\n src /\r\n", 1),
    ],
)
def test_a_dockerfile_is_read_as_docker_reads_it(tmp_path: Path, dockerfile: str, files: int) -> None:
    report = run_json(*SCRIPT, folder(tmp_path, "x\n", dockerfile, src__a_js="1", b_txt="1"))
    assert (report["copied"]["files"], findings(report, "copy")) == (files, [])


def test_lines_that_docker_refuses_are_named(tmp_path: Path) -> None:
    report = run_json(*SCRIPT, folder(tmp_path, "x\n", "FROM a\nCOPPY . .\nCOPY src\n"))
    assert findings(report, "dockerfile") == [
        "note     dockerfile: line 2: COPPY is no instruction, Docker refuses it",
        "note     dockerfile: line 3: COPY src has no target, Docker refuses it",
    ]


def test_an_install_step_in_a_heredoc_is_seen_unless_it_is_a_comment(tmp_path: Path) -> None:
    root = folder(tmp_path, "x\n", "FROM a\nCOPY . .\nRUN <<E\nset -e\nnpm ci\nE\n")
    assert "before line 3 `npm ci`" in findings(run_json(*SCRIPT, root), "cache")[0]
    (root / "Dockerfile").write_text("FROM a\nCOPY . .\nRUN <<E\n# npm ci\nE\n")
    assert findings(run_json(*SCRIPT, root), "cache") == []


def test_a_copy_of_the_whole_folder_never_fails(tmp_path: Path) -> None:
    assert findings(run_json(*SCRIPT, folder(tmp_path, "*\n")), "copy") == []


def test_a_copy_follows_the_link_that_it_names_and_no_other(tmp_path: Path) -> None:
    root = folder(tmp_path, "x\n", "FROM a\nCOPY app /\n", pk__app__sub__a="1", pk__app___env="K=1")
    (root / "app").symlink_to("pk/app")
    assert findings(run_json(*SCRIPT, root), "secret") == [
        "danger   secret: pk/app/.env (environment file), copied by line 2"
    ]
    for source, files in (("a[p]p", 3), ("app/sub", 1), ("loop", 1), ("out", 1), ("deep", 1)):
        (root / "Dockerfile").write_text(f"FROM a\nCOPY {source} /\n")
        for name, target in (("loop", "loop"), ("out", "/"), ("deep/in", "../pk")):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).unlink(missing_ok=True)
            (root / name).symlink_to(target)
        assert run_json(*SCRIPT, root)["copied"]["files"] == files, source
    (root / ".dockerignore").write_text("pk\n")
    (root / "Dockerfile").write_text("FROM a\nCOPY app /\n")
    assert "takes `app`, but it is ignored" in findings(run_json(*SCRIPT, root), "copy")[0]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        (".env-prod", "K=1", "environment file"),
        (".envrc", "K=1", "environment file"),
        ("k.asc", "-----BEGIN PGP PRIVATE " + "KEY BLOCK-----", "private key, line 1"),
        ("resample.py", PRIVATE, "private key, line 1"),
        ("ci.yml", "\n" + "glpat-" + "a1" * 10, "API key, line 2"),
        (".npmrc", "# x\n_auth = " + "dTpw", "npm token, line 2"),
        ("npmrc", "//r.example.com/:_auth=" + "dTpw", "npm token, line 1"),
        (".my.cnf", "[client]", "credentials"),
        ("hook.txt", "https://hooks.slack.com/services/T0/B0/" + "a1" * 12, "API key, line 1"),
        ("key.txt", "AGE-SECRET-KEY-1" + "Q2" * 29, "API key, line 1"),
        ("r.yml", "redis://:geheim@db.test/0", "password in an address, line 1"),
    ],
)
def test_secrets_of_less_common_forms_are_found(tmp_path: Path, name: str, content: str, kind: str) -> None:
    root = folder(tmp_path, "x\n")
    (root / name).write_text(content)
    (found,) = findings(run_json(*SCRIPT, root), "secret")
    assert f"secret: {name} ({kind})" in found


def test_examples_without_a_real_secret_are_no_secrets(tmp_path: Path) -> None:
    root = folder(tmp_path, "x\n", _env_example="K=AKIA" + "IOSFODNN7EXAMPLE", id_rsa_pub="ssh-rsa A")
    (root / "id_rsa.pub").write_text("ssh-rsa A")
    (root / "docs.md").write_text(
        "-----BEGIN RSA PRIVATE " + "KEY-----\n  (snip)\n-----BEGIN PRIVATE " + "KEY-----\n...\n"
    )
    assert findings(run_json(*SCRIPT, root), "secret") == []


def test_no_command_of_a_run_line_is_printed(tmp_path: Path) -> None:
    run = "RUN --mount=type=bind,target=/x T=geheim npm ci\n"
    done = run_script(*SCRIPT, folder(tmp_path, "x\n", "FROM a\n" + run, a="1"))
    assert "line 2 `RUN --mount=type=bind,target=/x` comes before line 2 `npm ci`" in done.stdout
    assert "geheim" not in done.stdout


@pytest.mark.parametrize("copy", ["COPY $A\x1bm /", "COPY 'x\x1bm /", "COPY no\x1bm /", "C\x1bm x"])
def test_escape_codes_of_a_dockerfile_are_not_printed(tmp_path: Path, copy: str) -> None:
    done = run_script(*SCRIPT, folder(tmp_path, "x\n", f"FROM a\n{copy}\n"))
    assert "?m" in (done.stdout + done.stderr).lower()
    assert "\x1b" not in done.stdout + done.stderr


def test_bytes_of_all_deeper_folders_are_counted(tmp_path: Path) -> None:
    root = folder(tmp_path, "deps\n", **{f"p{n}__deps__a": "1234567890" for n in range(80)})
    assert "80 deeper pass (800 B)" in findings(run_json(*SCRIPT, root), "pattern")[0]


def test_links_to_folders_count_as_ignored_whether_or_not_there_are_exceptions(tmp_path: Path) -> None:
    root = folder(tmp_path, "d\n", d__a="1")
    (root / "d" / "link").symlink_to("..")
    assert run_json(*SCRIPT, root)["ignored"]["files"] == 2
    (root / ".dockerignore").write_text("d\n!no\n")
    assert run_json(*SCRIPT, root)["ignored"]["files"] == 2


@pytest.mark.parametrize("pattern", ["//d", "d//", "[d[]"])
def test_odd_patterns_mean_what_docker_makes_of_them(tmp_path: Path, pattern: str) -> None:
    assert passing(folder(tmp_path, pattern + "\n", d__a="1")) == set()


def test_links_and_nesting_without_end_are_no_crash(tmp_path: Path) -> None:
    root = folder(tmp_path, None, "FROM a\n")
    (root / ".dockerignore").symlink_to(".dockerignore")
    assert run_script(*SCRIPT, root).returncode == 0
    (tmp_path / "state").write_text("[" * 100_000)
    assert_refused(run_script(*SCRIPT, root, "--against", tmp_path / "state"), "no state written by --save")
    (root / "Dockerfile").write_text("FROM a\nCOPY " + "[" * 100_000 + " x\n")
    assert_refused(run_script(*SCRIPT, root), "Dockerfile: line 2")


@pytest.mark.parametrize("copy", ["COPY [z-a] /", "COPY [x /", "COPY --exclude=[z-a] . /"])
def test_a_pattern_of_a_copy_that_docker_refuses_is_refused(tmp_path: Path, copy: str) -> None:
    assert_refused(run_script(*SCRIPT, folder(tmp_path, "a\n", f"FROM a\n{copy}\n")), "Dockerfile: line 2")


def test_an_exception_without_a_pattern_is_refused(tmp_path: Path) -> None:
    assert_refused(run_script(*SCRIPT, folder(tmp_path, "a\n!\n")), ".dockerignore", "line 2")


@pytest.mark.parametrize(
    ("name", "text", "secret"),
    [
        ("prod_tfvars", "x = 1", True),
        ("prod_tfvars_example", "x = 1", False),
        ("d__a_txt", "hf" + "_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH", True),
        ("d__a_txt", "pypi" + "-AgEI" + "cHlw" * 20, True),
        ("config__master_key", "0123456789abcdef", True),
        ("_vault-token", "x", True),
        ("_terraformrc", "x", True),
        ("d__k_ppk", "x", True),
        ("config__credentials__production_key", "0123456789abcdef", True),
        ("d__a_ini", "aws_secret_access_key = " + "a1B/" * 10, True),
        ("d__a_ini", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", False),
        ("d__a_ini", "aws_secret_access_key = ${SECRET}", False),
    ],
)
def test_more_secrets_by_name_and_form(tmp_path: Path, name: str, text: str, secret: bool) -> None:
    assert bool(findings(run_json(*SCRIPT, folder(tmp_path, "x\n", **{name: text})), "secret")) is secret


def test_a_containerfile_is_read_and_another_dockerfile_is_named(tmp_path: Path) -> None:
    root = folder(tmp_path, "x\n", dockerfile=None, a_txt="a")
    (root / "Dockerfile.prod").write_text(ALL)
    assert findings(run_json(*SCRIPT, root), "dockerfile") == [
        "caution  dockerfile: none was read, COPY lines are unknown: name one with -f, e.g. Dockerfile.prod"
    ]
    (root / "Containerfile").write_text(ALL)
    assert run_json(*SCRIPT, root)["dockerfile"] == "Containerfile"


def test_what_a_bind_mount_shows_is_not_in_the_image_until_a_copy_takes_it(tmp_path: Path) -> None:
    run = "FROM a\nRUN --mount=type=bind,target=/src make\n"
    done = run_script(*SCRIPT, folder(tmp_path, "x\n", run, _env="A=1\n"))
    assert (done.returncode, "caution  secret: .env (environment file), mounted in line 2" in done.stdout) == (0, True)
    done = run_script(*SCRIPT, folder(tmp_path, "x\n", run + "COPY . .\n"))
    assert (done.returncode, "danger   secret: .env (environment file), copied by line 3" in done.stdout) == (1, True)


@pytest.mark.parametrize(
    "token", ["sk-svcacct-" + "a1" * 10, "xapp-1-A0123456789", "hvs." + "a" * 24, "AccountKey=" + "a" * 86 + "=="]
)
def test_keys_of_more_services_have_a_known_form(tmp_path: Path, token: str) -> None:
    report = run_json(*SCRIPT, folder(tmp_path, "x\n", "FROM a\nCOPY . .\n", conf=f"key: {token}\n"))
    assert findings(report, "secret") == ["danger   secret: conf (API key, line 1), copied by line 2"]


def test_the_history_of_a_repository_below_the_folder_is_told(tmp_path: Path) -> None:
    root = folder(tmp_path, ".git\n", "FROM a\nCOPY app /\n")
    for name in (".git/HEAD", "app/.git/HEAD", "b/.hg/store"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text("x")
    (root / "c").mkdir()
    (root / "c" / ".git").write_text("gitdir: ../.git/modules/c")  # of a submodule: only a pointer
    assert [text.partition("; ")[2] for text in findings(run_json(*SCRIPT, root), "history")] == [
        "line 2 copies it",
        "no COPY takes it",
    ]


@pytest.mark.parametrize(
    ("copy", "taken"),
    [
        ("--exclude=conf . .", False),
        ("--exclude=conf/.env . .", False),
        ("--exclude=**/.env . .", False),
        ("--exclude=.env . .", True),
        ("--exclude=.env conf /c", False),
        ("--exclude=conf/.env conf /c", True),
        ("--exclude=.env con* /c", False),
        ("--exclude=.env conf/.env /c", True),
        ("--exclude=.env conf/* /c", True),
        ("--exclude=* --exclude=!.env conf /c", True),
        ("--parents --exclude=conf/.env conf /c", False),
        ("--parents --exclude=.env ./conf/./.env /c", False),
    ],
)
def test_exclude_counts_from_the_copied_folder(tmp_path: Path, copy: str, taken: bool) -> None:
    """As in BuildKit: relative to each source, and without effect on a file that COPY names itself."""
    root = folder(tmp_path, "a\n", f"FROM a\nCOPY {copy}\n", conf___env="A=1", conf__b="1")
    assert any("danger" in one for one in findings(run_json(*SCRIPT, root), "secret")) == taken


@pytest.mark.parametrize(
    "command", ['["npm", "ci"]', "npm clean-install", "pipenv sync", "conda env update -f e.yml", "mix deps.get"]
)
def test_more_install_steps_are_known(tmp_path: Path, command: str) -> None:
    root = folder(tmp_path, "x\n", f"FROM a\nCOPY . .\nRUN {command}\n", a_ts="1")
    assert any("comes before line 3" in one for one in findings(run_json(*SCRIPT, root), "cache"))
    root = folder(
        tmp_path, "x\n", f"FROM a\nCOPY mix.* environment.yml Pipfile package.json ./\nRUN {command}\n", a_ts="1"
    )
    for name in ("mix.exs", "mix.lock", "environment.yml", "Pipfile", "package.json"):
        (root / name).write_text("x")
    assert findings(run_json(*SCRIPT, root), "cache") == []
