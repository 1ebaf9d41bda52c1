"""Settings: the command line before the environment before defaults, and a sentence for what cannot be used."""

import os
import sys
from pathlib import Path

import pytest

from orchestr8_sqlite.errors import SettingsError
from orchestr8_sqlite.settings import (
    Limits,
    Profile,
    bundled_index,
    environment_with,
    index_of,
    latest_file_time,
    missing_root,
    read_http_token,
    read_limits,
    read_places,
    read_server_settings,
    read_settings,
    unread_settings,
)
from orchestr8_sqlite.system import is_posix

VARIABLES = (
    *("ORCHESTR8_DB", "ORCHESTR8_ROOTS", "ORCHESTR8_ENV", "ORCHESTR8_LOG_FILE", "ORCHESTR8_LOG_QUERIES"),
    *("LOG_LEVEL", "LOG_FORMAT", "CACHE_SIZE"),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working folder without any of our variables, with a cache folder in it."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path / "cache")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_without_anything_the_bundled_index_is_served_and_nothing_is_watched() -> None:
    settings = read_server_settings()
    assert settings.base.database == bundled_index()
    assert (settings.base.log_level, settings.base.cache_size, settings.log_format) == ("info", 200, "text")
    assert (settings.roots, settings.watch) == ((), False)


def test_roots_are_watched_and_indexed_in_the_cache_folder(folder: Path) -> None:
    settings = read_server_settings(roots=[Path("one"), Path("two")])
    assert (settings.roots, settings.watch) == ((Path("one"), Path("two")), True)
    assert settings.base.file.parent == folder / "cache"


def test_roots_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTR8_ROOTS", os.pathsep.join(["one", "two"]))
    assert read_server_settings().roots == (Path("one"), Path("two"))
    assert read_server_settings(roots=[Path("two")]).roots == (Path("two"),)


def test_an_index_that_the_command_line_names_is_served_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTR8_ROOTS", "one")
    settings = read_server_settings(Path("index.db"))
    assert (settings.base.database, settings.roots, settings.watch) == (Path("index.db"), (), False)


@pytest.mark.parametrize("by", ["option", "variable"])
def test_roots_can_be_indexed_where_the_user_says(monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    if by == "variable":
        monkeypatch.setenv("ORCHESTR8_DB", "mine.db")
    settings = read_server_settings(Path("mine.db") if by == "option" else None, [Path("one")])
    assert (settings.base.database, settings.roots) == (Path("mine.db"), (Path("one"),))


@pytest.mark.parametrize(("watch", "expected"), [(None, False), (True, True), (False, False)])
def test_production_watches_nothing_unless_told_to(
    monkeypatch: pytest.MonkeyPatch, watch: bool | None, expected: bool
) -> None:
    monkeypatch.setenv("ORCHESTR8_ENV", "Production")
    assert read_server_settings(roots=[Path("one")], watch=watch).watch is expected


def test_watching_without_folders_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"^There is nothing to watch: name the folders of the library with --root\.$"
    ):
        read_server_settings(watch=True)


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("ORCHESTR8_ENV", "prod", "ORCHESTR8_ENV must be one of development, production, not 'prod'."),
        ("ORCHESTR8_DENY", "all", "ORCHESTR8_DENY must be one of high, medium, low, not 'all'."),
        ("ORCHESTR8_LOG_QUERIES", "some", "ORCHESTR8_LOG_QUERIES must be one of off, hash, on, not 'some'."),
        (
            "ORCHESTR8_LOG_FILE_BYTES",
            "1M",
            "ORCHESTR8_LOG_FILE_BYTES must be a whole number from 1 to 1,099,511,627,776, not '1M'.",
        ),
        (
            "ORCHESTR8_LOG_FILE_COUNT",
            "0",
            "ORCHESTR8_LOG_FILE_COUNT must be a whole number from 1 to 1,000, not '0'.",
        ),
    ],
)
def test_value_that_cannot_be_used_is_said(monkeypatch: pytest.MonkeyPatch, name: str, value: str, advice: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        read_server_settings()
    assert str(caught.value) == advice


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("LOG_LEVEL", "trace", "LOG_LEVEL must be one of debug, info, warn, error, not 'trace'. Using info."),
        ("LOG_FORMAT", "pretty", "LOG_FORMAT must be one of text, json, not 'pretty'. Using text."),
        ("CACHE_SIZE", "1g", "CACHE_SIZE must be a whole number from 0 to 100,000, not '1g'. Using 200."),
    ],
)
def test_variable_that_other_programs_use_too_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, value: str, sentence: str
) -> None:
    usual = read_server_settings()
    monkeypatch.setenv(name, value)
    assert read_server_settings() == usual
    assert caplog.messages == [sentence]
    assert [record.name for record in caplog.records] == ["orchestr8_sqlite.settings"]


def test_form_of_the_log_and_tools_come_from_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (read_server_settings().log_format, read_server_settings().profile) == ("text", Profile.LIBRARY)
    monkeypatch.setenv("LOG_FORMAT", "json")
    assert read_server_settings().log_format == "json"
    assert read_server_settings(log_format="Text").log_format == "text"
    with pytest.raises(SettingsError, match=r"^--log-format must be one of text, json, not 'pretty'\.$"):
        read_server_settings(log_format="pretty")
    assert read_server_settings(profile="skills").profile is Profile.SKILLS
    with pytest.raises(SettingsError, match=r"^--profile must be one of library, skills, not 'none'\.$"):
        read_server_settings(profile="none")


def test_log_goes_to_a_file_only_if_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (read_server_settings().log_file, read_server_settings().log_queries) == (None, None)
    monkeypatch.setenv("ORCHESTR8_LOG_FILE", "server.log")
    monkeypatch.setenv("ORCHESTR8_LOG_QUERIES", "Off")
    assert read_server_settings().log_file == (Path("server.log"), 10_485_760, 9)
    assert read_server_settings().log_queries == "off"
    monkeypatch.setenv("ORCHESTR8_LOG_FILE_BYTES", "5000")
    monkeypatch.setenv("ORCHESTR8_LOG_FILE_COUNT", "3")
    assert read_server_settings().log_file == (Path("server.log"), 5000, 3)


def test_program_is_started_with_variables_of_its_own_and_without_a_folder_of_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(["/usr/my bin", "/opt/own", "/bin"]))
    monkeypatch.setenv("KEPT", "kept")
    given = environment_with({"NEW": "new"}, without=Path("/opt/own"))
    assert given == {**os.environ, "PATH": os.pathsep.join(["/usr/my bin", "/bin"]), "NEW": "new"}
    assert environment_with({"KEPT": "other"}) == {**os.environ, "KEPT": "other"}
    monkeypatch.delenv("PATH")
    assert environment_with({})["PATH"] == os.defpath


def test_programs_are_searched_for_where_the_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/one:/two")
    assert read_places().search == "/one:/two"
    monkeypatch.delenv("PATH")
    assert read_places().search == os.defpath


def test_no_replies_need_be_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHE_SIZE", "0")
    assert read_settings().cache_size == 0


@pytest.mark.parametrize("value", ["1k", "-1", "0", "1" * 5000, "٣"])
def test_limits_of_what_is_read_are_whole_numbers(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ORCHESTR8_MAX_FOLDER_DEPTH", value)
    with pytest.raises(SettingsError, match=r"^ORCHESTR8_MAX_FOLDER_DEPTH must be a whole number from 1 to 200, not "):
        read_limits()
    monkeypatch.setenv("ORCHESTR8_MAX_FOLDER_DEPTH", "7")
    assert read_limits() == Limits(file_bytes=1_048_576, folder_depth=7)


@pytest.mark.parametrize(
    ("name", "most", "shown"),
    [("ORCHESTR8_MAX_FOLDER_DEPTH", 200, "200"), ("ORCHESTR8_MAX_FILE_BYTES", 1_073_741_824, "1,073,741,824")],
)
def test_limits_have_a_largest_value(monkeypatch: pytest.MonkeyPatch, name: str, most: int, shown: str) -> None:
    monkeypatch.setenv(name, str(most))
    assert most in read_limits()
    monkeypatch.setenv(name, str(most + 1))
    with pytest.raises(SettingsError, match=rf"^{name} must be a whole number from 1 to {shown}, not '{most + 1}'\.$"):
        read_limits()


def test_latest_time_of_files_is_given_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert latest_file_time() is None
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert latest_file_time() == 1_700_000_000_000_000_000
    for value in ("soon", "-1", "1.5", "٣"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", value)
        with pytest.raises(SettingsError) as caught:
            latest_file_time()
        assert str(caught.value) == f"SOURCE_DATE_EPOCH must be whole seconds since 1970, not {value!r}."


def all_settings() -> list[object]:
    """Return everything that the environment sets."""
    return [read_server_settings(), read_http_token(), read_limits(), latest_file_time()]


@pytest.mark.parametrize(
    "content",
    [
        b"ORCHESTR8_DB=stolen.db\nORCHESTR8_ROOTS=.\nORCHESTR8_HTTP_TOKEN=known-to-the-attacker\nORCHESTR8_DENY=low\n",
        b"LOG_LEVEL=trace\nLOG_FORMAT=pretty\nCACHE_SIZE=1g\nSOURCE_DATE_EPOCH=soon\nORCHESTR8_ENV=production\n",
        b"ORCHESTR8_MAX_FILE_BYTES=none\nORCHESTR8_HTTP_TOKEN_FILE=/etc/passwd\nORCHESTR8_ENV_FILE=.env\n",
        b"NAME=M\xfcller\n\0\xff" * 1000,
    ],
)
def test_dotenv_file_of_the_working_folder_sets_nothing(folder: Path, content: bytes) -> None:
    before = all_settings()
    (folder / ".env").write_bytes(content)
    assert all_settings() == before


def test_settings_in_a_dotenv_file_are_said_not_to_be_read_by_name_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unread_settings() is None
    (folder / ".env").write_text("LOG_LEVEL=trace\nSECRET=1\n# ORCHESTR8_DB=no\n")
    assert unread_settings() is None
    (folder / ".env").write_text("ORCHESTR8_DB=secret.db\n" + "#" * 65_536 + "\nORCHESTR8_ROOTS=too far down\n")
    assert unread_settings() == ".env sets ORCHESTR8_DB without effect; if it is yours, set ORCHESTR8_ENV_FILE=.env"
    (folder / ".env").write_text("export ORCHESTR8_DB=secret.db\nORCHESTR8_ROOTS=x\n")
    assert unread_settings() == (
        ".env sets ORCHESTR8_DB and 1 more without effect; if it is yours, set ORCHESTR8_ENV_FILE=.env"
    )
    monkeypatch.setenv("ORCHESTR8_ENV_FILE", ".env")
    assert unread_settings() is None


def test_file_that_the_environment_names_completes_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mine.env").write_text("ORCHESTR8_DB=from-file.db\nLOG_LEVEL=debug\n")
    monkeypatch.setenv("ORCHESTR8_ENV_FILE", "mine.env")
    monkeypatch.setenv("LOG_LEVEL", "warn")
    settings = read_settings()
    assert (settings.database, settings.log_level) == (Path("from-file.db"), "warn")


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file or directory"), (b"NAME=M\xfcller\n", "it is not UTF-8")]
)
def test_file_that_the_environment_names_and_cannot_be_read_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, why: str
) -> None:
    if content is not None:
        (folder / "mine.env").write_bytes(content)
    monkeypatch.setenv("ORCHESTR8_ENV_FILE", "mine.env")
    with pytest.raises(SettingsError, match=rf"^ORCHESTR8_ENV_FILE mine\.env cannot be read: {why}\.$"):
        read_settings()


def test_level_that_is_denied_comes_from_the_command_line_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_server_settings().deny is None
    monkeypatch.setenv("ORCHESTR8_DENY", "low")
    assert (read_server_settings().deny, read_server_settings(deny="high").deny) == ("low", "high")


def test_level_that_is_denied_is_asked_of_the_index_that_is_built_here_and_of_no_other() -> None:
    assert read_server_settings(Path("mine.db"), [Path("one")], deny="high").base.denied == "high"
    assert read_server_settings(Path("mine.db"), deny="high").base.denied is None
    assert read_server_settings(roots=[Path("one")], deny="high").base.database == index_of([Path("one")], "high")


def test_each_set_of_roots_has_an_index_of_its_own(folder: Path) -> None:
    one, two = folder / "one", folder / "two"
    assert index_of([one, two]) == index_of([folder / "two" / ".." / "one", two])
    assert len({index_of([one, two]), index_of([two, one]), index_of([one])}) == 3
    assert len({index_of([one], level) for level in (None, "high", "low")}) == 3  # what one lets in no other serves


@pytest.mark.skipif(not is_posix(), reason="paths are written otherwise")
@pytest.mark.parametrize(
    ("roots", "level", "name"),
    [
        (["/srv/one"], None, "one-875fb59d40696cfc.db"),
        (["/srv/one", "/srv/two"], None, "one-f7551c5d0d65b5da.db"),
        (["/srv/one"], "high", "one-570921e42d3e92e8.db"),
        (["/"], None, "root-8a5edab282632443.db"),
    ],
)
def test_index_of_roots_keeps_its_place_from_version_to_version(
    monkeypatch: pytest.MonkeyPatch, roots: list[str], level: str | None, name: str
) -> None:
    """The digits begin what `printf '/srv/one\\0/srv/two' | sha256sum` prints; `deny high` would be another part."""
    monkeypatch.setattr(
        "platformdirs.user_cache_path", lambda app, *, appauthor: Path(f"/cache/{app}" if appauthor is False else "")
    )
    assert index_of(list(map(Path, roots)), level) == Path("/cache/orchestr8-sqlite") / name


def test_folder_that_is_missing_is_told_unless_it_was_indexed_before(folder: Path) -> None:
    sentence = missing_root(read_server_settings(roots=[Path("one"), Path("none")]))
    assert sentence == "none is not a folder: name the library's folders with --root or ORCHESTR8_ROOTS."
    assert missing_root(read_server_settings(roots=[Path("one")])) is None
    indexed = folder / "mine.db"
    indexed.touch()
    assert missing_root(read_server_settings(indexed, [Path("none")])) is None


PLACES = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "roaming": ("APPDATA", "AppData/Roaming"),
    "local": ("LOCALAPPDATA", "AppData/Local"),
    "codex": ("CODEX_HOME", ".codex"),
    "gemini": ("GEMINI_CLI_HOME", ""),
}
"""Folders of other programs: the variable that names each, and where it is below the home folder without that."""


@pytest.mark.parametrize("value", [None, ""])
def test_folders_of_other_programs_are_below_the_home_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    for variable in ("CLAUDE_CONFIG_DIR", *(variable for variable, _ in PLACES.values())):
        monkeypatch.delenv(variable, raising=False)
        if value is not None:
            monkeypatch.setenv(variable, value)
    places = read_places("plan9")
    assert (places.platform, places.home, places.claude, places.project) == ("plan9", home, None, home / "project")
    for name, (_, path) in PLACES.items():
        assert getattr(places, name) == home / path, name
    assert read_places().platform == sys.platform


def test_folders_of_other_programs_are_where_their_variables_say(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CLAUDE_CONFIG_DIR", *(variable for variable, _ in PLACES.values())):
        monkeypatch.setenv(variable, str(home / "moved" / variable))
    places = read_places()
    assert places.claude == home / "moved" / "CLAUDE_CONFIG_DIR"
    for name, (variable, _) in PLACES.items():
        assert getattr(places, name) == home / "moved" / variable, name
