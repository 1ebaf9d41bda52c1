"""The script of the skill env-config-audit compares the variables that code reads with those documented and set."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("env-config-audit", "audit_env.py")


def audit(folder: Path, files: dict[str, str], *arguments: str | Path) -> dict[str, Any]:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return run_json(*SCRIPT, folder, "--all", *arguments)


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


def test_reads_of_many_languages_are_found_with_their_defaults(tmp_path: Path) -> None:
    files = {
        "a.py": 'os.environ["P_A"]\nos.getenv("P_B", "1")\nos.environ.get("P_C") or "x"\n# os.getenv("NO")\n',
        "a.ts": 'const { T_A, T_B = "1" } = process.env;\nimport.meta.env.VITE_C ?? "x";\nprocess.env["T_D"]!;\n',
        "a.go": 'os.Getenv("G_A")\ntype C struct { X string `env:"G_B,required"` }\n',
        "a.rs": 'env::var("R_A").unwrap_or("x".into());\nenv::var("R_B").expect("set it");\n',
        "a.rb": 'ENV.fetch("B_A")\nENV["B_B"] || "x"\n',
        "a.sh": "OWN=1\necho $OWN ${S_A:?} ${S_B:-2} $S_C \\$NO\nwhile read -r ROW REST; do echo $ROW $REST; done\n",
        "compose.yml": "image: a:${C_A:-latest}\ncommand: ${C_B:?} ${C_D:-$C_C} $$NO $${NO}\n",
    }
    found = audit(tmp_path, files)["all"]
    assert {name for name, one in found.items() if one["required"]} == set("P_A T_D G_B R_B B_A S_A C_B".split())
    assert {name for name, one in found.items() if one["default"]} == set(
        "P_B P_C T_B VITE_C R_A B_B S_B C_A C_D".split()
    )
    assert {name for name, one in found.items() if not one["required"] and not one["default"]} == set(
        "T_A G_A S_C C_C".split()
    )


def test_a_secret_that_falls_back_to_another_variable_has_no_default_in_code(tmp_path: Path) -> None:
    code = "${A_PASSWORD:-$B_PASSWORD} ${C_PASSWORD:-${D_PASSWORD}} ${E_PASSWORD:-geheim}\n"
    files = {
        "a.sh": code,
        "a.ts": "process.env.F_TOKEN ?? process.env.G_TOKEN;\n",
        "a.py": 'os.environ.get("H_TOKEN", os.environ.get("I_TOKEN"))\nos.getenv("J_TOKEN", "x")\n',
    }
    problems = audit(tmp_path, files)["problems"]
    assert [problem.split()[0] for problem in problems] == ["E_PASSWORD", "J_TOKEN"]


def test_python_settings_readers_fail_without_a_default(tmp_path: Path) -> None:
    code = (
        'config("C_A", cast=int)\nconfig("C_B", cast=Csv(tuple(x)), default="1")\nconfig("C_C", 1)\nconfig("C_D")\n'
        'env.bool("E_A")\nenv("E_B", default=None)\nenv.int(\n    "E_C",\n    validate=ok,\n)\nx = env("E_D") == 1\n'
    )
    found = audit(tmp_path, {"a.py": code, "a.php": "env('L_A')"})["all"]
    assert {name for name, one in found.items() if one["required"]} == set("C_A C_D E_A E_C E_D".split())
    assert {name for name, one in found.items() if one["default"]} == {"C_B", "C_C"}


def test_what_no_document_names_is_listed_but_not_what_only_tests_read(tmp_path: Path) -> None:
    files = {
        "a.py": 'import os\nos.getenv("ONE")\nos.getenv("TWO")\nos.getenv("THREE")\nos.getenv("HOME")\n',
        "tests/test_a.py": 'import os\nos.getenv("ONLY_TEST")\n',
        ".env.example": "ONE=1\n",
        "README.md": "Set `TWO` to the port.\n",
    }
    report = audit(tmp_path, files)
    assert names(report["undocumented"]) == ["THREE"]
    assert (report["variables"], report["only_tests"]) == (3, 1)


def test_a_target_that_lacks_a_variable_without_default_is_told(tmp_path: Path) -> None:
    code = 'import os\nos.environ["NEEDED"]\nos.getenv("SOFT")\nos.getenv("PORT", "1")\nos.environ["THERE"]\n'
    target = tmp_path / "prod.txt"
    target.write_text("THERE=1\n")
    found = audit(tmp_path / "app", {"a.py": code}, "--env", target)["missing"]
    assert found == [
        {"name": "NEEDED", "place": "a.py:2", "required": True},
        {"name": "SOFT", "place": "a.py:3", "required": False},
    ]


def test_a_read_behind_a_look_into_the_environment_is_not_required(tmp_path: Path) -> None:
    code = 'import os\nvalue = os.environ["OPT"] if "OPT" in os.environ else None\n'
    assert not audit(tmp_path, {"a.py": code})["all"]["OPT"]["required"]


def test_a_read_that_the_same_file_guards_is_not_required(tmp_path: Path) -> None:
    code = 'import os\nx = os.environ["DIR"] if os.environ.get("DIR") else None\n'
    assert not audit(tmp_path, {"a.py": code})["all"]["DIR"]["required"]


def test_a_misspelled_setting_is_paired_with_the_variable_it_meant(tmp_path: Path) -> None:
    report = audit(tmp_path, {"a.py": 'import os\nos.environ["DATABASE_URL"]\n', ".env": "DATABSE_URL=x\n"})
    assert report["problems"] == [
        "DATABASE_URL is read, DATABSE_URL is set or documented and unused: spelled differently?"
    ]
    assert names(report["unused"]) == ["DATABSE_URL"]


def test_secrets_at_risk_and_values_that_mislead_are_problems_without_their_values(tmp_path: Path) -> None:
    files = {
        "a.py": 'import os\nos.getenv("JWT_SECRET", "hunter2")\nbool(os.getenv("DEBUG"))\nos.getenv("PORT", "80")\n',
        "a.ts": 'process.env.VITE_API_TOKEN;\nprocess.env.PORT ?? "3000";\n',
        ".env": "DEBUG = 1\nDB_PASSWORD=swordfish#1\nDEBUG=0\n",
    }
    assert audit(tmp_path, files)["problems"] == [
        ".env:1 DEBUG has a space before =: a shell refuses it",
        ".env:2 DB_PASSWORD has # outside quotes: parsers differ, quote the value",
        ".env:3 sets DEBUG again after line 1",
        "a.py:3 DEBUG: any text is true there, also 'false' and '0'",
        "JWT_SECRET is a secret with a default in code, a.py:2: production may run with it",
        "PORT has several defaults: a.py:4, a.ts:2",
        "VITE_API_TOKEN is named like a secret, but its prefix puts it into the browser bundle",
    ]
    done = run_script(*SCRIPT, tmp_path, "--all")
    assert done.returncode == 1
    assert "hunter2" not in done.stdout
    assert "swordfish" not in done.stdout


def test_a_committed_file_of_values_is_a_problem_and_an_ignored_one_is_not_read(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / ".gitignore").write_text(".env.local\n")
    (tmp_path / ".env.local").write_text("A=1\n")
    (tmp_path / ".env").write_text("A=1\nB=\n")
    (tmp_path / ".env.example").write_text("A=1\n")
    git("add", ".")
    report = audit(tmp_path, {})
    assert report["problems"] == [".env is committed with 1 values: take it out, change the secrets in it"]


def test_a_repository_that_git_refuses_is_not_read_as_a_plain_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert_refused(run_script(*SCRIPT, tmp_path), "git refuses a folder of another user")


def test_a_default_given_by_its_keyword_is_what_it_says(tmp_path: Path) -> None:
    code = 'os.getenv("API_TOKEN", default=None)\nos.getenv("B", default="x")\n'
    code += 'os.environ.pop("C")\nos.environ.pop("D", None)\n'
    report = audit(tmp_path, {"a.py": code})
    assert report["problems"] == []
    found = report["all"]
    assert [(name, one["required"], one["default"]) for name, one in found.items()] == [
        ("API_TOKEN", False, False),
        ("B", False, True),
        ("C", True, False),
        ("D", False, False),
    ]


def test_reads_by_a_computed_name_are_pointed_out(tmp_path: Path) -> None:
    files = {"a.py": "import os\ndef get(name):\n    return os.environ[name]\n"}
    assert audit(tmp_path, files)["dynamic"] == ["a.py:3"]


@pytest.mark.parametrize(
    ("suffix", "code"),
    [
        ("py", 'os.environ.get(f"{team}_URL")'),
        ("py", 'os.getenv("A_" + team, "x")'),
        ("py", 'os.environ["A_%s" % team]'),
        ("py", 'os.environ.get(name, "x")'),
        ("ts", "process.env[`A_${team}`]"),
        ("js", 'process.env[prefix + "URL"]'),
        ("rb", 'ENV.fetch("#{team}_URL")'),
        ("go", 'os.Getenv("A_" + team)'),
        ("java", 'System.getenv("A_" + team)'),
        ("php", 'getenv("A_" . $team)'),
        ("rs", 'env::var(format!("A_{team}"))'),
        ("cs", 'Environment.GetEnvironmentVariable($"A_{team}")'),
    ],
)
def test_a_name_built_from_parts_is_pointed_out(suffix: str, code: str, tmp_path: Path) -> None:
    report = audit(tmp_path, {f"a.{suffix}": code + "\n"})
    assert (report["dynamic"], report["all"]) == ([f"a.{suffix}:1"], {})


@pytest.mark.parametrize(
    ("suffix", "code"), [("php", "$_SERVER[$key]"), ("php", "function getenv($name) {"), ("py", "def getenv(name):")]
)
def test_headers_of_a_request_and_definitions_are_no_reads_by_a_computed_name(
    suffix: str, code: str, tmp_path: Path
) -> None:
    assert audit(tmp_path, {f"a.{suffix}": code + "\n"})["dynamic"] == []


def test_a_folder_without_findings_leaves_with_zero_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('import os\nos.getenv("PORT", "80")\n')
    (tmp_path / ".env.example").write_text("# PORT=80\n")
    assert run_script(*SCRIPT, tmp_path).returncode == 0
    assert_refused(run_script(*SCRIPT, tmp_path / "none"), "not a folder")
    assert_refused(run_script(*SCRIPT, tmp_path, "--env", tmp_path / "no.env"), "No such file")


def test_no_value_is_printed_whatever_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'import os\nos.getenv("DATABASE_URL", "postgres://app:hunter2@db/x")\nos.getenv("DATABASE_URL", "hunter3")\n'
        'os.getenv("DB_PASS", "hunter4")\nos.getenv("SIGNING_KEY", "hunter5")\n"FEATURE" in os.environ\n'
    )
    (tmp_path / "prod.env").write_bytes(
        b'KEY="-----BEGIN PRIVATE KEY-----\nMIIhunter==\n-----END PRIVATE KEY-----"\nPORT=1\r\nZ=1\n'
    )
    report = run_json(*SCRIPT, tmp_path, "--env", tmp_path / "prod.env")
    assert "hunter" not in json.dumps(report)
    assert [one["name"] for one in report["unused"]] == ["KEY", "PORT", "Z"]
    assert report["missing"] == []
    assert f"{tmp_path / 'prod.env'}:4 PORT ends in CR: it becomes part of the value" in report["problems"]
    risky = [problem.split()[0] for problem in report["problems"] if "secret with a default" in problem]
    assert risky == ["DATABASE_URL", "DB_PASS", "SIGNING_KEY"]


def test_a_bundle_that_a_build_made_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "app.js").write_text("".join(f"process.env.A{number};" for number in range(20_000)))
    assert run_json(*SCRIPT, tmp_path)["variables"] == 0


def test_a_name_that_compose_only_passes_on_from_its_caller_is_not_set(tmp_path: Path) -> None:
    """`- NAME` and `NAME:` take the value from the shell or .env of whoever starts Compose."""
    names = ("AS_ITEM", "AS_ITEM_SET", "AS_KEY", "AS_KEY_SET")
    code = {"app.py": "import os\n" + "".join(f'os.environ["{name}"]\n' for name in names)}
    listed = "services:\n  a:\n    environment:\n      - AS_ITEM\n      - AS_ITEM_SET=x # y\n"
    mapped = "  b:\n    environment:\n      AS_KEY: # from the shell\n      AS_KEY_SET: x\n"
    report = audit(tmp_path, code | {"compose.yaml": listed + mapped})
    assert [one["name"] for one in report["missing"]] == ["AS_ITEM", "AS_KEY"]


def test_a_name_misspelled_in_compose_is_told_also_where_the_target_misspells_it(tmp_path: Path) -> None:
    app = {"app/a.py": 'import os\nos.environ["DATABASE_URL"]\n'}
    compose = {"app/compose.yaml": "services:\n  a:\n    environment:\n      DATABSE_URL: x\n"}
    told = "DATABASE_URL is read, DATABSE_URL is set or documented and unused: spelled differently?"
    assert told in audit(tmp_path, app | compose)["problems"]
    target = tmp_path / "prod.env"
    target.write_text("DATABSE_URL=1\n")
    report = audit(tmp_path, app | compose, "--env", target)
    assert told in report["problems"]
    assert names(report["unused"]) == ["DATABSE_URL"]


def test_variables_that_a_module_hands_out_are_reads(tmp_path: Path) -> None:
    files = {
        "a.ts": 'import { env } from "node:process";\nconst url = env.N_A ?? "x";\nenv.N_B!;\n',
        "b.ts": "import { S_A, S_B as other } from '$env/static/private';\n",
        "c.ts": "import { env } from '$env/dynamic/private';\nenv.S_C;\n",
        "d.ts": "env.NOT_READ;\n",
        "a.go": 'type C struct { X string `envconfig:"G_A"` }\n',
    }
    found = audit(tmp_path, files)["all"]
    assert set(found) == {"N_A", "N_B", "S_A", "S_B", "S_C", "G_A"}
    assert {name for name, one in found.items() if one["required"]} == {"N_B", "S_A", "S_B"}


def test_a_target_in_another_format_is_refused_instead_of_taken_as_empty(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text('import os\nos.environ["A"]\n')
    for content in (b'{"A": "x"}', "A=x\n".encode("utf-16"), b"A: x\n"):
        (tmp_path / "target").write_bytes(content)
        assert_refused(run_script(*SCRIPT, tmp_path, "--env", tmp_path / "target"), "no line NAME=value")
    (tmp_path / "target").write_text("# nothing is set\n")
    assert run_script(*SCRIPT, tmp_path, "--env", tmp_path / "target").returncode == 1


def test_code_that_stops_without_a_variable_has_no_default_for_it(tmp_path: Path) -> None:
    files = {
        "a.cs": 'GetEnvironmentVariable("R_CS") ?? throw new E();\n',
        "a.ts": 'process.env.R_A ?? raise("x"); process.env.R_B || fail(); process.env.N_C || load();\n'
        "if (!process.env.N_D || !process.env.N_E) throw 1;\n",
        "a.py": 'os.environ.get("R_P") or sys.exit("no")\nos.environ["R_Q"] or "x"\nos.getenv("N_F", None)\n',
        "a.php": "<?php $_ENV['R_H'] ?? throw new E(); getenv('D_H') ?: 'x';\n",
        "a.rb": 'ENV.fetch("D_R") { 5 }\nENV.fetch("D_S") do\n  "x"\nend\nENV.fetch("R_T") { raise "no" }\n',
        "a.kt": 'System.getenv("R_K") ?: error("no")\nSystem.getenv("D_K") ?: "x"\n',
        "a.rs": 'env::var("R_R").unwrap_or_else(|_| panic!("x"));\nenv!("R_M", "message");\n'
        'env::var("D_U").unwrap_or_else(|_| "x".into());\n',
        "A.java": 'Objects.requireNonNull(System.getenv("R_J")); System.getenv().getOrDefault("D_J", "x");\n',
    }
    for name, one in audit(tmp_path, files)["all"].items():
        assert (name, one["required"], one["default"]) == (name, name.startswith("R_"), name.startswith("D_"))


def test_the_next_argument_of_a_call_is_no_default(tmp_path: Path) -> None:
    files = {"a.py": 'connect(os.environ["A_HOST"], os.environ["A_PORT"])\n', "a.js": "f(process.env.A_JS, 1);\n"}
    found = audit(tmp_path, files)["all"]
    assert {name: (one["required"], one["default"]) for name, one in found.items()} == {
        "A_HOST": (True, False),
        "A_PORT": (True, False),
        "A_JS": (False, False),
    }


def test_a_trailing_comma_and_the_target_of_csharp_are_no_defaults(tmp_path: Path) -> None:
    files = {
        "a.py": 'os.getenv(\n    "P_A",  # the address (of the store)\n)\nos.environ.get("P_B",) or "x"\n'
        'env("P_C",)\nos.getenv("P_D",\n    "1",\n)\n',
        "a.php": "env('H_A',);\n",
        "a.cs": 'Environment.GetEnvironmentVariable("C_A", EnvironmentVariableTarget.Process);\n'
        'Environment.GetEnvironmentVariable("C_B", EnvironmentVariableTarget.Process) ?? "x";\n',
    }
    found = audit(tmp_path, files)["all"]
    assert {name for name, one in found.items() if one["default"]} == {"P_B", "P_D", "C_B"}
    assert {name for name, one in found.items() if one["required"]} == {"P_C"}


def test_spring_values_aliases_and_server_variables_are_reads(tmp_path: Path) -> None:
    files = {
        "A.java": '@Value("${S_MUST}") String a;\n@Value("${S_DEF:x}") String b;\n@Value("${my.name}") String c;\n',
        "a.kt": '@Value("\\${S_KT}") val a: String\n',
        "a.py": 'from os import environ as env\nenv["P_A"]; env.get("P_B", "x")\n',
        "a.js": "const e = process.env;\ne.J_A; e.message;\n",
        "a.php": "<?php $_SERVER['H_A']; $_SERVER['HTTP_HOST'];\n",
    }
    found = audit(tmp_path, files)["all"]
    assert set(found) == set("S_MUST S_DEF S_KT P_A P_B J_A H_A".split())
    assert {name for name, one in found.items() if one["required"]} == {"S_MUST", "S_KT", "P_A"}


def test_no_line_of_a_key_without_quotes_is_taken_for_a_name(tmp_path: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\nc2VjcmV0dGFpbA==\n-----END PRIVATE KEY-----"
    (tmp_path / "prod.env").write_text(f"TLS_KEY={key}\nONE=1\n")
    files = {"app/a.py": 'import os\nos.environ["TLS_KEY"]\nos.environ["ONE"]\n'}
    printed = json.dumps(audit(tmp_path / "app", files, "--env", tmp_path / "prod.env"))
    assert "c2VjcmV0" not in printed
    assert '"missing": []' in printed


def test_what_cargo_sets_itself_is_no_variable_of_the_target(tmp_path: Path) -> None:
    files = {
        "src/main.rs": 'env!("CARGO_PKG_VERSION");\ninclude!(concat!(env!("OUT_DIR"), "/a.rs"));\nenv::var("TARGET")?;',
        "build.rs": 'env::var("TARGET").unwrap();\nenv::var("MY_FLAG")?;\n',
    }
    assert names(audit(tmp_path, files)["missing"]) == ["MY_FLAG", "TARGET"]


def test_defaults_and_demands_outside_the_read_itself_are_seen(tmp_path: Path) -> None:
    files = {
        "settings.py": 'env = Env(\n  DEBUG=(bool, False),\n HOSTS=(list, []),\n)\nenv("DEBUG")\nenv("OTHER")\n',
        "a.go": 'type C struct {\n A string `env:"G_A" envDefault:"5"`\n B string `envconfig:"G_B" required:"true"`\n'
        ' C string `env:"G_C,notEmpty"`\n D string `env:"G_D"`\n}\n',
    }
    found = audit(tmp_path, files)["all"]
    assert {name for name, one in found.items() if one["default"]} == {"DEBUG", "G_A"}
    assert {name for name, one in found.items() if one["required"]} == {"OTHER", "G_B", "G_C"}


def test_a_name_in_braces_is_set_and_a_repeated_one_is_named_with_its_line(tmp_path: Path) -> None:
    files = {
        "a.py": 'os.environ["P_A"]\n',
        "k8s.yaml": "env:\n  - {name: P_A, value: x}\n",
        "a.env": "# b\nP_B=\nP_B=1\n",
    }
    report = audit(tmp_path, files)
    assert report["missing"] == []
    assert "a.env:3 sets P_B again after line 2" in report["problems"]


def test_scripts_without_suffix_and_typescript_modules_are_read(tmp_path: Path) -> None:
    files = {
        "bin/start": '#!/bin/sh -e\nexec app --db "${S_A:?}"\n',
        "bin/job": '#!/usr/bin/env python3\nimport os\nos.environ["P_A"]\n',
        "bin/tool": "#!/usr/bin/env -S node --no-warnings\nprocess.env.N_A!;\n",
        "bin/data": "echo ${NO:?}\n",
        "bin/perl": "#!/usr/bin/perl\n${NO:?}\n",
        "empty": "",
        "a.mts": "process.env.T_A!;\n",
        "a.cts": "process.env.T_B!;\n",
        "a.kts": 'System.getenv("K_A") ?: error("no")\n',
    }
    found = audit(tmp_path, files)["all"]
    assert {name for name, one in found.items() if one["required"]} == set("S_A P_A N_A T_A T_B K_A".split())
    assert set(found) == set("S_A P_A N_A T_A T_B K_A".split())


def test_options_and_settings_that_a_framework_reads_are_found(tmp_path: Path) -> None:
    files = {
        "a.py": '@click.option("--db", envvar="P_A")\n@click.option("--x", envvar=["P_B", "P_C"])\nenv = "P_NO"\n',
        "a.rs": '#[arg(long, env = "R_A")]\ndotenvy::var("R_B")?;\nlet env = "R_NO";\n',
        "b.rs": 'use std::env::{self, var};\nvar("R_C").unwrap();\nenv::var("R_D").unwrap();\nother.var("R_NO");\n',
        "a.go": '&cli.StringFlag{EnvVars: []string{"G_A", "G_B"}}\nx := cli.EnvVars("G_C")\n',
        "a.ts": 'configService.get<string>("T_A");\nthis.config.getOrThrow("T_B");\n'
        'config.get("T_C", "x");\nmap.get("T_NO");\n',
        "b.js": "const { env } = process;\nenv.J_A ?? 'x';\nenv['J_B'];\nthat.env.J_NO;\n",
        "config/a.yaml": "url: '%env(resolve:Y_A)%'\nx: '%env(default:y:Y_B)%'\n",
        "config/a.php": "$c->set('x', '%env(int:H_A)%');\n",
    }
    found = audit(tmp_path, files)["all"]
    names_found = "P_A P_B P_C R_A R_B R_C R_D G_A G_B G_C T_A T_B T_C J_A J_B Y_A Y_B H_A"
    assert set(found) == set(names_found.split())
    assert {name for name, one in found.items() if one["required"]} == set("R_B R_C R_D T_B Y_A H_A".split())
    assert {name for name, one in found.items() if one["default"]} == {"T_C", "J_A", "Y_B"}


def test_a_required_name_that_the_target_sets_to_nothing_is_a_problem(tmp_path: Path) -> None:
    code = 'import os\nos.environ["FULL"]\nos.environ["EMPTY"]\nos.environ["QUOTED"]\nos.getenv("MAY_BE", "")\n'
    target = tmp_path / "prod.env"
    target.write_text("FULL=1\nEMPTY=\nQUOTED=''\nMAY_BE=\n# OFF=\n")
    folder = tmp_path / "app"
    report = audit(folder, {"a.py": code, ".env.example": "FULL=\nEMPTY=\nQUOTED=\nMAY_BE=\n"}, "--env", target)
    assert report["problems"] == [
        f"EMPTY is required, and empty in {target}:2",
        f"QUOTED is required, and empty in {target}:3",
    ]
    assert names(report["missing"]) == []
