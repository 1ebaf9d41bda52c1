"""From a document to a fragment or a prompt: identity, category, fallbacks, and what is said about repairs."""

import pytest
from support import MakeLibrary, markdown, read_library

from orchestr8_sqlite.model.records import Diagnostic, Fragment, Prompt, Severity
from orchestr8_sqlite.model.requests import PromptArgument
from orchestr8_sqlite.text.tokens import estimate_tokens

SKILL = "name: pdf\ndescription: Fills PDF forms"


def fragment(make_library: MakeLibrary, text: str, path: str = "skills/retry.md") -> tuple[Fragment, list[Diagnostic]]:
    library = read_library([make_library({path: text})])
    [only] = library.fragments
    return only, list(library.diagnostics)


def prompt(make_library: MakeLibrary, text: str, path: str = "commands/fix.md") -> tuple[Prompt, list[str]]:
    library = read_library([make_library({path: text})])
    [only] = library.prompts
    return only, library.codes


def test_a_complete_fragment_is_read_without_a_word(make_library: MakeLibrary) -> None:
    body = "# Retry\n\nText."
    text = markdown(
        "id: retry\ntitle: Retrying calls\ndescription: How to retry\ncategory: skill\ntags: [Async, node.js]\n"
        "capabilities:\n  - Backoff\nuseWhen:\n  - Adding retry, with backoff\nversion: 1.10\ncustom: {a: 1}",
        body,
    )
    read, diagnostics = fragment(make_library, text)
    assert diagnostics == []
    assert (read.id, read.category, read.name) == ("skills/retry", "skill", "retry")
    assert (read.title, read.description, read.version) == ("Retrying calls", "How to retry", "1.10")
    assert (read.tags, read.capabilities) == (("async", "node.js"), ("Backoff",))
    assert read.use_when == ("Adding retry, with backoff",)
    assert read.metadata["custom"] == {"a": 1}
    assert (read.body, read.token_estimate) == (body, estimate_tokens(body))


@pytest.mark.parametrize(
    ("written", "meant"), [("usewhen", "useWhen"), ("use_when", "useWhen"), ("Tags", "tags"), ("tag", "tags")]
)
def test_field_that_is_spelled_nearly_as_one_that_is_read_is_named(
    make_library: MakeLibrary, written: str, meant: str
) -> None:
    read, [note] = fragment(
        make_library, markdown(f"title: T\n{written}: [Adding retry]\nalias: x", "# Retry\n\nText.")
    )
    assert (note.code, note.line, note.field, note.fix) == ("field-name", 3, written, f"write {meant}")
    assert read.metadata[written] == ["Adding retry"]


def test_a_fragment_without_front_matter_is_read_from_its_body(make_library: MakeLibrary) -> None:
    read, diagnostics = fragment(
        make_library,
        "# Retry with Redis\n\nRepeats a **failed** call.\n\n## Capabilities\n- Exponential backoff\n\n"
        "## When to Use\n- Calling flaky services\n- Talking to PostgreSQL\n",
    )
    assert diagnostics == []
    assert read.title == "Retry with Redis"
    assert read.description == "Repeats a failed call."
    assert read.tags == ("retry", "redis", "postgresql")
    assert read.capabilities == ("Exponential backoff",)
    assert read.use_when == ("Calling flaky services", "Talking to PostgreSQL")


def test_fallbacks_fill_only_what_is_missing(make_library: MakeLibrary) -> None:
    read, _ = fragment(
        make_library,
        markdown(
            "title: T\ntags: [x]\nuseWhen: [Own scenario]",
            "# H\n\nFirst.\n\n## When to Use\n- Other\n\n## Capabilities\n- Cap one\n",
        ),
    )
    assert (read.title, read.tags, read.use_when) == ("T", ("x",), ("Own scenario",))
    assert (read.description, read.capabilities) == ("First.", ("Cap one",))


def test_a_null_list_falls_back_to_the_body_and_is_warned_about(make_library: MakeLibrary) -> None:
    read, [note] = fragment(make_library, markdown("useWhen:", "# H\n\n## When to Use\n- Calling flaky services\n"))
    assert read.use_when == ("Calling flaky services",)
    assert (note.severity, note.code, note.line, note.field) == (Severity.WARNING, "null-list", 2, "useWhen")


def test_front_matter_without_a_text_is_still_a_fragment_and_warned_about(make_library: MakeLibrary) -> None:
    read, [note] = fragment(make_library, markdown("name: Retry", ""))
    assert (read.title, read.body, read.token_estimate, note.code) == ("Retry", "", 0, "empty-body")


@pytest.mark.parametrize("path", ["skills/retry.md", "commands/retry.md"])
@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff"])
def test_file_without_a_text_is_left_out_and_said_so(make_library: MakeLibrary, path: str, content: str) -> None:
    library = read_library([make_library({path: content, "guides/a.md": "Text."})])
    assert ([one.id for one in library.fragments], library.prompts) == (["guides/a"], ())
    assert [(one.severity, one.code, one.path) for one in library.diagnostics] == [
        (Severity.WARNING, "empty-file", path)
    ]


def test_an_id_that_differs_from_the_file_name_is_warned_about(make_library: MakeLibrary) -> None:
    read, [note] = fragment(make_library, markdown("title: T\nid: other"))
    assert read.id == "skills/retry"
    assert (note.severity, note.code, note.line, note.field) == (Severity.WARNING, "id-mismatch", 3, "id")
    assert "'other'" in note.message
    assert note.fix


def test_a_category_that_differs_from_the_folder_is_warned_about(make_library: MakeLibrary) -> None:
    read, [note] = fragment(make_library, markdown("title: T\ncategory: agent"))
    assert (read.category, read.id) == ("skill", "skills/retry")
    assert (note.severity, note.code, note.line, note.field) == (Severity.WARNING, "category-mismatch", 3, "category")


def test_an_id_that_two_folders_share_is_warned_about_where_it_stands(make_library: MakeLibrary) -> None:
    text = markdown("title: T\nid: retry")
    library = read_library([make_library({"agents/retry.md": text, "skills/retry.md": text})])
    assert [read.id for read in library.fragments] == ["agents/retry", "skills/retry"]
    [note] = library.diagnostics
    assert (note.severity, note.code, note.path, note.field) == (
        Severity.WARNING,
        "duplicate-id",
        "skills/retry.md",
        "id",
    )
    assert note.line == 3
    assert "agents/retry" in note.message


def test_the_estimate_of_the_author_is_kept_beside_ours(make_library: MakeLibrary) -> None:
    body = "word " * 200
    close, said = fragment(make_library, markdown(f"estimatedTokens: {estimate_tokens(body)}", body))
    assert (close.author_tokens, said) == (close.token_estimate, [])
    far, [note] = fragment(make_library, markdown("title: T\nestimatedTokens: 5000", body))
    assert (far.author_tokens, far.token_estimate) == (5000, close.token_estimate)
    assert (note.code, note.line, note.field) == ("token-estimate", 3, "estimatedTokens")


def test_a_scenario_without_a_word_to_search_for_is_left_out_and_said_so(make_library: MakeLibrary) -> None:
    read, [note] = fragment(make_library, markdown("useWhen:\n  - Adding retry\n  - '…!'"))
    assert read.use_when == ("Adding retry",)
    assert (note.code, note.field) == ("unreachable-scenario", "useWhen")


@pytest.mark.parametrize(
    ("front", "category"),
    [
        ("category: pattern", "pattern"),
        ("category: Agents", "agent"),
        ("name: a\ntools: Bash", "agent"),
        ("title: T", "guide"),
    ],
)
def test_a_plain_file_gets_its_category_from_its_front_matter(
    make_library: MakeLibrary, front: str, category: str
) -> None:
    read, _ = fragment(make_library, markdown(front), "deep/one.md")
    assert read.category == category
    assert read.id.endswith("s/deep/one")


def test_a_plain_file_takes_the_category_that_the_caller_names(make_library: MakeLibrary) -> None:
    root = make_library({"one.md": "# One", "two.md": markdown("category: pattern")})
    library = read_library([root], category="workflow")
    assert [read.id for read in library.fragments] == ["patterns/two", "workflows/one"]


@pytest.mark.parametrize("name", ["skills-overview.md", "skillset/retry.md", "retry.md"])
def test_the_id_of_a_plain_file_begins_with_its_category(make_library: MakeLibrary, name: str) -> None:
    root = make_library({f"skills/{name}": "# One"}) / "skills"
    [read] = read_library([root]).fragments
    assert read.id == f"skills/{name.removesuffix('.md')}"


def test_a_skill_carries_its_files_with_it(make_library: MakeLibrary) -> None:
    library = read_library(
        [make_library({"skills/pdf/SKILL.md": markdown(SKILL), "skills/pdf/scripts/x.py": b"\xff\0"})]
    )
    [read] = library.fragments
    assert (read.id, read.description, library.diagnostics) == ("skills/pdf", "Fills PDF forms", ())
    assert {file.path: file.content for file in read.skill_files} == {
        "SKILL.md": markdown(SKILL).encode(),
        "scripts/x.py": b"\xff\0",
    }


def test_a_portable_skill_keeps_its_lists_in_the_metadata_map(make_library: MakeLibrary) -> None:
    front = (
        f"{SKILL}\nmetadata:\n  tags: pdf, Forms\n  capabilities: fill, sign\n"
        "  useWhen: |\n    Filling a form, then signing\n    Merging files"
    )
    read, diagnostics = fragment(make_library, markdown(front), "skills/pdf/SKILL.md")
    assert (read.tags, read.capabilities, diagnostics) == (("pdf", "forms"), ("fill", "sign"), [])
    assert read.use_when == ("Filling a form, then signing", "Merging files")


@pytest.mark.parametrize("front", ["name: pdf", "name: pdf\ndescription:", "name: pdf\ndescription: ''"])
def test_a_skill_without_description_is_left_out_and_said_so(make_library: MakeLibrary, front: str) -> None:
    library = read_library([make_library({"skills/pdf/SKILL.md": markdown(front), "skills/one.md": "# One"})])
    assert [read.id for read in library.fragments] == ["skills/one"]
    assert [source.path for source in library.rejected] == ["skills/pdf/SKILL.md"]
    [note] = library.diagnostics
    assert (note.severity, note.code, note.field) == (Severity.ERROR, "skill-description", "description")


def test_a_subagent_keeps_its_tools_and_model(make_library: MakeLibrary) -> None:
    text = markdown("name: reviewer\ndescription: Reviews code for faults\ntools: Read, Grep\nmodel: opus")
    read, diagnostics = fragment(make_library, text, "agents/reviewer.md")
    assert (read.id, diagnostics) == ("agents/reviewer", [])
    assert (read.metadata["tools"], read.metadata["model"]) == ("Read, Grep", "opus")


def test_a_prompt_is_read_with_its_arguments(make_library: MakeLibrary) -> None:
    read, said = prompt(
        make_library,
        markdown(
            "title: New project\ndescription: Starts one\nversion: 2.0\narguments:\n"
            "  - name: task\n    description: What to build\n    required: true\n"
            "  - name: style\n    required: no\n  - topic",
            "Build ${task}.",
        ),
        "prompts/workflows/new-project.md",
    )
    assert (read.name, read.title, read.version, read.category, said) == (
        "new-project",
        "New project",
        "2.0",
        "workflow",
        [],
    )
    assert read.arguments == (
        PromptArgument("task", "What to build", required=True),
        PromptArgument("style", "", required=False),
        PromptArgument("topic", "", required=False),
    )


def test_the_name_of_a_prompt_is_its_own_before_that_of_the_file(make_library: MakeLibrary) -> None:
    assert prompt(make_library, markdown("name: other"))[0].name == "other"
    assert prompt(make_library, "# Fix it\n\nDo so.\n")[0].name == "fix"


@pytest.mark.parametrize(
    ("folder", "category"), [("agents", "agent"), ("skills/deep", "skill"), ("workflows", "workflow")]
)
def test_the_category_of_a_prompt_is_its_folder(make_library: MakeLibrary, folder: str, category: str) -> None:
    assert prompt(make_library, "Do.", f"prompts/{folder}/x.md")[0].category == category


def test_a_command_that_uses_its_arguments_has_one(make_library: MakeLibrary) -> None:
    read, _ = prompt(make_library, markdown("argument-hint: an issue number", "Fix issue $ARGUMENTS."))
    assert [(one.description, one.required) for one in read.arguments] == [("an issue number", False)]
    assert prompt(make_library, "Fix it.")[0].arguments == ()


def test_name_of_an_argument_is_one_line(make_library: MakeLibrary) -> None:
    front = """arguments:\n  - name: "a\\n forged"\n  - name: "a forged\""""
    assert [one.name for one in prompt(make_library, f"---\n{front}\n---\nFix it.")[0].arguments] == ["a forged"]


def test_arguments_without_name_or_given_twice_are_left_out_and_said_so(make_library: MakeLibrary) -> None:
    front = "arguments:\n  - name: a\n  - description: nameless\n  - name: a"
    library = read_library([make_library({"commands/fix.md": markdown(front)})])
    assert [one.name for one in library.prompts[0].arguments] == ["a"]
    assert [(note.code, note.line) for note in library.diagnostics] == [("argument", 4), ("argument", 5)]


@pytest.mark.parametrize(
    ("front", "body", "title"),
    [
        ("title: T\nname: api-designer", "# H\n\nText.", "T"),
        ("name: api-designer", "# H\n\nText.", "H"),
        ("name: api-designer", "Text.\n\n# H\n\nMore.", "Api designer"),
        ("name: api-designer", "Text.\n\n## Communication Protocol\n", "Api designer"),
        ("name: API Designer", "## Purpose\n", "API Designer"),
        ("version: 1", "Text.\n\n# H\n", "H"),
        ("version: 1", "## Purpose\n\nText.", "Retry"),
    ],
)
def test_title_is_the_field_an_opening_heading_the_name_another_heading_or_the_file(
    make_library: MakeLibrary, front: str, body: str, title: str
) -> None:
    """Headings below level 1 are titles of parts."""
    read, _ = fragment(make_library, markdown(front, body))
    assert read.title == title


def test_scenarios_of_a_text_without_metadata_are_sentences_of_need(make_library: MakeLibrary) -> None:
    read, _ = fragment(make_library, "# ADR 1\n\nStatus: accepted.\n")
    assert read.use_when == ()
    read, _ = fragment(make_library, "---\ntitle: Disk full\ntags: [disk]\n\nOrders are lost when the disk is full.\n")
    assert read.use_when == ("Orders are lost when the disk is full.",)


def test_impossible_date_anywhere_in_front_matter_is_a_warning_with_its_line(make_library: MakeLibrary) -> None:
    dates = [
        "created: 2025-13-45",
        "a: {b: 1, c: 2025-13-45}",
        "a: [2025-13-45, 2025-01-01]",
        "2025-13-45: key",
        "? a\n: - 2025-13-45",
    ]
    for front in dates:
        read, [note] = fragment(make_library, markdown(f"title: T\n{front}"))
        assert (read.title, note.severity, note.code) == ("T", Severity.WARNING, "yaml-repaired")
        assert note.line == 3 + front.count("\n")
        assert "2025-13-45" in note.message


@pytest.mark.parametrize(
    ("front", "text", "arguments", "stored"),
    [
        ("argument-hint: [table] [change]", "On $1: $2.", ["table", "change"], "On ${table}: ${change}."),
        ("argument-hint: <pr> [priority]", "$0 is $1.", ["pr!", "priority"], "${pr} is ${priority}."),
        ("argument-hint: table change", "On $1: $2.", ["table", "change"], "On ${table}: ${change}."),
        ("argument-hint: what to do", "On $1: $2.", ["argument1", "argument2"], "On ${argument1}: ${argument2}."),
        ("argument-hint: [a]", "$2 before $1", ["a", "argument2"], "${argument2} before ${a}"),
        ("argument-hint: [ticket]", "Fix $ARGUMENTS.", ["ticket"], "Fix $ARGUMENTS."),
        ("argument-hint: [ticket]", "Fix it.", ["ticket"], "Fix it.\n\n$ARGUMENTS"),
        ("argument-hint: [a] [b]", "$1. All: $ARGUMENTS", ["a"], "${a}. All: ${a}"),
        (
            "argument-hint: [a] [b]",
            "$1 $2 orchestr8://match?query=$ARGUMENTS",
            ["a", "b"],
            "${a} ${b} orchestr8://match?query=${a}+${b}",
        ),
        ("version: 1", "$ARGUMENTS[0] to $ARGUMENTS[1]", ["argument1", "argument2"], "${argument1} to ${argument2}"),
        ("version: 1", "It costs $5 or $1,000, not \\$1.", [], "It costs $5 or $1,000, not \\$1."),
        ("version: 1", "```sh\nawk '{print $1}'\n```", [], "```sh\nawk '{print $1}'\n```"),
        ("arguments: issue branch", "Fix $issue on $branch.", ["issue", "branch"], "Fix ${issue} on ${branch}."),
        ("version: 1", "Notes of ${input:version:such as 1.2}.", ["version"], "Notes of ${version}."),
    ],
)
def test_arguments_of_commands_written_for_a_client_have_names(
    make_library: MakeLibrary, front: str, text: str, arguments: list[str], stored: str
) -> None:
    """`!` marks the required ones."""
    library = read_library([make_library({"commands/fix.md": markdown(front, text)})])
    [read] = library.prompts
    named = [f"{one.name}!" if one.required else one.name for one in read.arguments]
    assert (named, read.body) == (arguments, stored)
    assert not library.diagnostics
