"""`suggest`: what it says to a prompt, when it keeps silent, and that it never blocks one."""

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from imports import read_imports
from support import (
    GARDENING,
    SHARED,
    CorpusIndex,
    MakeCatalog,
    build,
    make_fragment,
    markdown,
    needs_shared,
    write_files,
)

from orchestr8_sqlite.cli import main
from orchestr8_sqlite.evaluation.judgements import NO_ANSWER, read_queries
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.ranking.suggestion import find_suggestions
from orchestr8_sqlite.settings import bundled_index

PROMPTS = Path(__file__).parent / "prompts"
UNDO = markdown("title: Undo in git\ntags: [git]\nuseWhen:\n  - Undoing a commit that was pushed")
CERTIFICATES = markdown('title: Certificates\nuseWhen:\n  - "Renewing an expired\\u202e certificate of a server"')
FILES = {"skills/git-undo.md": UNDO, "skills/certificates.md": CERTIFICATES, **GARDENING}
UNDO_LINE = "May help, read it with `load`: orchestr8://skills/git-undo (Undoing a commit that was pushed)"

Suggest = Callable[..., tuple[int, str, str]]
"""`suggest(prompt, *options)` runs the command with the prompt on standard input: (exit code, stdout, stderr)."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suggest")
    return build(write_files(folder / "library", FILES), folder / "index.db")


@pytest.fixture
def suggest(index: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Suggest:
    def run(prompt: str | bytes, *options: str) -> tuple[int, str, str]:
        content = prompt if isinstance(prompt, bytes) else prompt.encode("utf-8", "surrogatepass")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        monkeypatch.setattr(sys, "argv", ["orchestr8-sqlite", "suggest", *(options or ("--db", str(index)))])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def test_prompt_about_a_fragment_gets_its_uri_and_the_reason(suggest: Suggest) -> None:
    assert suggest("How do I undo a pushed commit?") == (0, f"{UNDO_LINE}\n", "")


@pytest.mark.parametrize("event", ["UserPromptSubmit", "BeforeAgent"])
def test_client_gets_the_lines_as_context_for_the_event_that_it_named(suggest: Suggest, event: str) -> None:
    sent = {"session_id": "1", "cwd": "/", "hook_event_name": event, "prompt": "How do I undo a pushed commit?"}
    code, out, err = suggest(json.dumps(sent))
    assert (code, err) == (0, "")
    assert json.loads(out) == {"hookSpecificOutput": {"hookEventName": event, "additionalContext": UNDO_LINE}}


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        " \n",
        "thanks",
        ":)",
        "undo",  # one word of a topic says too little
        "please undo it, I am sorry",
        "what is the capital of Peru?",
        "/undo pushed commit",
        "follow orchestr8://skills/git-undo and undo the pushed commit",
        "\0",
        "\ud800 undo",
    ],
)
def test_prompt_about_nothing_in_the_library_gets_nothing(suggest: Suggest, prompt: str) -> None:
    assert suggest(prompt) == (0, "", "")
    assert suggest(json.dumps({"prompt": prompt, "hook_event_name": "UserPromptSubmit"})) == (0, "", "")


def test_contraction_does_not_pass_for_two_words_of_a_topic(tmp_path: Path) -> None:
    files = {"skills/later.md": markdown("useWhen:\n  - I'll need it later"), **GARDENING}
    index = build(write_files(tmp_path / "library", files), tmp_path / "index.db")
    with Catalog.open(index) as catalog:
        assert find_suggestions(catalog, "I'll be right back") == ()


def test_answer_that_would_not_stand_is_no_suggestion(make_catalog: MakeCatalog) -> None:
    others = [make_fragment(f"rose-{number}", f"Pruning roses in week {number}") for number in range(20)]
    undo = make_fragment("undo", "Undoing a commit that was pushed")
    prompt = "undo a pushed commit before the zebra notices"
    assert [one.name for one in find_suggestions(make_catalog(undo, *others, least_coverage=0.4), prompt)] == ["undo"]
    assert find_suggestions(make_catalog(undo, *others, least_coverage=0.95), prompt) == ()


def test_beginning_and_end_of_a_long_prompt_count(suggest: Suggest) -> None:
    log = "0x7f8a rx_fifo underrun\n" * 5000
    assert suggest(f"undo a pushed commit\n{log}")[1] == suggest(f"{log}\nundo a pushed commit")[1] == f"{UNDO_LINE}\n"
    assert suggest(f"{log}\nundo a pushed commit\n{log}")[1] == ""


def test_text_of_the_library_stays_on_its_line_and_shows_no_marks(suggest: Suggest) -> None:
    _, out, _ = suggest("the certificate of our server has expired, renewing it fails")
    assert "(Renewing an expired certificate of a server)\n" in out
    assert len(out.splitlines()) == 1


def test_no_more_than_two_lines_are_said(tmp_path: Path, suggest: Suggest) -> None:
    files = {f"skills/undo-{number}.md": UNDO for number in range(6)} | GARDENING
    index = build(write_files(tmp_path / "library", files), tmp_path / "index.db")
    assert len(suggest("How do I undo a pushed commit?", "--db", str(index))[1].splitlines()) == 2


@pytest.mark.parametrize(
    ("sent", "options", "said"),
    [
        ('{"prompt": ', (), "Standard input must be a prompt"),
        ('{"text": "undo"}', (), "Standard input must be a prompt"),
        ('{"prompt": 5}', (), "Standard input must be a prompt"),
        ('{"prompt": "a", "hook_event_name": []}', (), "Standard input must be a prompt"),
        ("{" * 100_000, (), "Standard input must be a prompt"),
        ("undo", ("--db", "none.db"), "There is no index at none.db"),
        ("undo", ("--unheard-of",), "No such option"),
        ("undo", ("--db",), "requires an argument"),
        ("undo", ("more", "words"), "unexpected extra argument"),
    ],
)
def test_failure_is_said_on_stderr_with_code_1_and_never_with_2_which_blocks(
    suggest: Suggest, sent: str, options: tuple[str, ...], said: str
) -> None:
    code, out, err = suggest(sent, *options)
    assert (code, out) == (1, "")
    assert said in err


def test_bytes_that_are_no_utf_8_and_a_byte_order_mark_are_read(suggest: Suggest) -> None:
    sent = json.dumps({"prompt": "How do I undo a pushed commit?"}).encode()
    assert suggest(b"\xef\xbb\xbf" + sent)[1] == f"{UNDO_LINE}\n"
    assert suggest(b"undo a pushed commit \xff\xfe")[0] == 0


@pytest.mark.parametrize("options", [[], ["--db", "{index}"]])
def test_hook_waits_for_no_typer_and_for_no_server(index: Path, options: list[str]) -> None:
    arguments = [option.format(index=index) for option in options]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "orchestr8_sqlite", "suggest", *arguments],
        input=b'{"prompt": "How do I undo a pushed commit?", "hook_event_name": "UserPromptSubmit"}',
        capture_output=True,
        check=True,
    )
    imports = read_imports(done.stderr.decode())
    assert b"git" in done.stdout
    assert len(imports.own) <= 41
    assert not {"typer", "rich", "mcp", "mcp_types", "pydantic", "dataclasses", "yaml"} & {*imports.all}


@pytest.fixture(scope="module")
def shipped() -> Iterator[Catalog]:
    with Catalog.open(bundled_index()) as catalog:
        yield catalog


def share_spoken_to(catalog: Catalog, prompts: list[str]) -> float:
    return sum(bool(find_suggestions(catalog, prompt)) for prompt in prompts) / len(prompts)


def everyday() -> list[str]:
    return [line for path in sorted(PROMPTS.glob("*.txt")) for line in path.read_text(encoding="utf-8").splitlines()]


def test_at_most_three_of_a_hundred_everyday_prompts_get_a_suggestion(shipped: Catalog) -> None:
    prompts = everyday()
    assert len(prompts) > 400
    assert share_spoken_to(shipped, prompts) <= 0.03


def test_three_of_four_requests_that_the_shipped_library_answers_get_a_suggestion(shipped: Catalog) -> None:
    answered = "SELECT text FROM library_query q WHERE EXISTS (SELECT 1 FROM library_answer a WHERE a.query_id = q.id)"
    requests = [text for (text,) in shipped.db.execute(f"{answered} AND origin = 'queries.jsonl' LIMIT 120")]
    assert share_spoken_to(shipped, requests) >= 0.75


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("orchestr8", 0.65), ("skills", 0.75)])
def test_foreign_requests_and_chat_get_nothing_where_judged_requests_do(
    corpus_index: CorpusIndex, name: str, least: float
) -> None:
    judged = read_queries(SHARED / "eval" / "dev" / name / "queries.jsonl")
    foreign = [query.text for query in judged if query.stratum == NO_ANSWER]
    requests = [query.text for query in judged if query.stratum != NO_ANSWER]
    with Catalog.open(corpus_index(name)) as catalog:
        assert share_spoken_to(catalog, foreign) == 0
        assert share_spoken_to(catalog, everyday()) <= 0.03
        assert share_spoken_to(catalog, requests) >= least
