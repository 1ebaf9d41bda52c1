"""`budget`: what clients' own listings of skills show of a library.

What is recorded was sent by the clients themselves, with the skills of these tests installed, to a server that kept it.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from support import CorpusIndex, Invoke, build, markdown, needs_shared, write_files

from orchestr8_sqlite.budget.listing import Fate, Listing, Skill, list_skills
from orchestr8_sqlite.budget.rules import Overflow, find_rule, read_rules
from orchestr8_sqlite.server.standing import standing_tokens
from orchestr8_sqlite.settings import bundled_index

BUDGET_DOCUMENT = Path(__file__).parents[1] / "docs" / "budget.md"


def listed(client: str, *skills: Skill, context: int | None = None) -> Listing:
    return list_skills(find_rule(client), skills, context)


def left(listing: Listing) -> list[str | None]:
    return [entry.left for entry in listing.entries]


def topics(number: int, length: int) -> str:
    return (f"S{number:02d} handles topic {number}. Use when the user needs topic {number}. " * 60)[:length]


def test_claude_code_keeps_whole_descriptions_of_the_first_skills_as_recorded() -> None:
    skills = [Skill(f"skill-{number:02d}", topics(number, 2500 if number == 3 else 300)) for number in range(40)]
    listing = listed("claude-code", *skills)
    described = [entry.skill.name for entry in listing.entries if entry.left]
    assert described == [f"skill-{number:02d}" for number in range(6)]
    assert len(listing.entries[3].left or "") == 1536
    assert listing.fates == {Fate.WHOLE: 5, Fate.CUT: 1, Fate.NAME: 34, Fate.DROPPED: 0}


def test_claude_code_passes_over_what_does_not_fit_as_recorded() -> None:
    texts = [" ".join([f"x{number:03d}"] * 8) for number in range(200)]
    texts[20] = "y" * 900 + " end"
    listing = listed(
        "claude-code", *(Skill(f"s{number:03d}", f"{text} - when {number}") for number, text in enumerate(texts))
    )
    described = [number for number, entry in enumerate(listing.entries) if entry.left]
    assert described == [*range(29)]
    longer = listed(
        "claude-code", Skill("a", "x" * 1500), *(Skill(f"b{n}", "y" * 1000) for n in range(5)), Skill("c", "z")
    )
    assert [entry.fate for entry in longer.entries][-2:] == [Fate.NAME, Fate.WHOLE]


def test_claude_code_counts_the_lines_and_the_line_feeds_between_them() -> None:
    room = 8000 - sum(len(f"- {name}: ") + length + 1 for name, length in find_rule("claude-code").own.items())
    fits = Skill("a", "x" * ((room - len("- a: ")) // 6 - 1))
    rest = room - 5 * len(f"- a: {fits.description}\n") - len("- a: ")
    assert listed("claude-code", *[fits] * 5, Skill("b", "y" * rest)).fates[Fate.WHOLE] == 6
    assert listed("claude-code", *[fits] * 5, Skill("b", "y" * (rest + 1))).fates[Fate.WHOLE] == 5


def test_codex_gives_every_description_the_same_room_as_recorded() -> None:
    skills = [Skill(f"skill-{number:03d}", topics(number, 297) + "end") for number in range(400)]
    listing = listed("codex", *skills)
    assert Counter(len(text or "") for text in left(listing)) == {8: 221, 12: 179}
    assert (listing.entries[0].left, listing.entries[-1].left) == ("S00 handles ", "S399 han")


def test_codex_gives_room_that_short_descriptions_leave_to_long_ones() -> None:
    listing = listed("codex", Skill("a", "x"), Skill("b", "y" * 4000))
    assert left(listing) == ["x", "y" * 1023 + "…"]
    listing = listed("codex", Skill("a", "x"), Skill("b", "y" * 800), Skill("c", "z" * 800), context=20_000)
    lengths = [len(text or "") for text in left(listing)]
    assert lengths[0] == 1
    assert 0 < lengths[1] < 800
    assert abs(lengths[1] - lengths[2]) <= 4


def test_codex_drops_the_last_names_once_not_even_they_fit() -> None:
    listing = listed("codex", *(Skill(f"skill-{number:04d}", "Does a thing") for number in range(1000)))
    fates = [entry.fate for entry in listing.entries]
    assert fates == sorted(fates, key=[Fate.NAME, Fate.DROPPED].index)
    assert listing.fates[Fate.DROPPED] > 0
    # 5,440 tokens of four bytes, less 50 for the bare names of four skills of its own; a line here has 45 bytes
    assert listing.fates[Fate.NAME] == (5440 - 50) // 12
    assert listing.lost == 1000


def test_vs_code_lists_names_after_the_first_skill_that_does_not_fit_and_then_nothing() -> None:
    skills = [Skill(f"{'n' * 95}{number:05d}", "x" * 2000) for number in range(100)]
    listing = listed("vscode", *skills)
    assert listing.fates == {Fate.WHOLE: 6, Fate.CUT: 0, Fate.NAME: 49, Fate.DROPPED: 45}  # 50 names need 5,098
    assert [entry.fate for entry in listing.entries][5:7] == [Fate.WHOLE, Fate.NAME]


def test_copilot_cli_drops_everything_after_the_first_skill_that_does_not_fit() -> None:
    listing = listed("copilot-cli", Skill("a", "x" * 14_000), Skill("b", "y" * 2000), Skill("c", "z"))
    assert [entry.fate for entry in listing.entries] == [Fate.WHOLE, Fate.DROPPED, Fate.DROPPED]


def test_gemini_cli_lists_everything() -> None:
    listing = listed("gemini", *(Skill(f"s{number}", "x" * 3000) for number in range(500)))
    assert listing.fates[Fate.WHOLE] == 500


@pytest.mark.parametrize(("client", "described"), [("claude-code", 40), ("codex", 40)])
def test_larger_context_leaves_room_for_every_description(client: str, described: int) -> None:
    skills = [Skill(f"skill-{number:02d}", topics(number, 900)) for number in range(40)]
    assert listed(client, *skills).fates[Fate.WHOLE] < described
    assert listed(client, *skills, context=2_000_000).fates[Fate.WHOLE] == described


def test_skill_that_only_people_call_takes_no_room() -> None:
    listing = listed("claude-code", Skill("a", "Does a thing"), Skill("b", "Deploys", manual=True))
    assert [entry.skill.name for entry in listing.entries] == ["a"]
    assert len(listed("codex", Skill("b", "Deploys", manual=True)).entries) == 1  # Codex has a file of its own for it


def test_skills_whose_difference_was_cut_off_look_the_same() -> None:
    shared = "Use this skill when you convert a document: "
    skills = [Skill(f"convert-{number:03d}", shared + f"case {number}. " * 20) for number in range(300)]
    listing = listed("codex", *skills)
    assert listing.fates[Fate.CUT] == 300
    assert sorted(listing.alike()[0])[:2] == ["convert-000", "convert-001"]
    assert listing.pairs > 300


def test_skills_that_were_the_same_before_do_not_count_as_made_the_same() -> None:
    copies = [Skill(name, "Converts a document") for name in ("a", "b")]
    assert listed("gemini", *copies).pairs == 0
    long = [Skill("twin", f"{letter} thing " * 400) for letter in "abcdef"]
    assert listed("claude-code", *long).alike() == [["twin"] * 4]  # two descriptions of 1,536 characters still fit
    assert listed("claude-code", *long).pairs == 6


def test_every_rule_says_where_it_is_from_and_when_it_was_looked_at() -> None:
    for rule in read_rules().values():
        assert rule.sources
        assert rule.checked.year >= 2026
        assert "{name}" in rule.entry
        assert "{description}" in rule.entry
        assert "{name}" in rule.bare
        assert (rule.capacity() is None) == (rule.overflow in (Overflow.NONE, Overflow.UNKNOWN))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an index of 30 Agent Skills, each with a description of 1,000 characters, and of two other fragments."""
    folder = tmp_path_factory.mktemp("budget")
    files = {
        f"skills/skill-{number:02d}/SKILL.md": markdown(
            f"name: skill-{number:02d}\ndescription: {topics(number, 999)}x", "# Skill\n\nText.\n"
        )
        for number in range(30)
    }
    files |= {f"guides/{name}.md": markdown(f"useWhen: [Reading of {name}]") for name in ("roses", "tulips")}
    return build(write_files(folder / "library", files), folder / "index.db")


def test_agent_skills_are_counted_and_then_all_fragments(invoke: Invoke, index: Path) -> None:
    code, out, _ = invoke("budget", "--db", index)
    assert code == 0
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0] == ["counted", "client", "whole", "cut", "name only", "dropped", "alike", "tokens"]
    assert [line[0] for line in lines[1:-1]] == ["30 Agent Skills"] * 6 + ["32 fragments"] * 6
    by_client = {line[1]: line[2:7] for line in lines[1:7]}
    assert by_client["Claude Code"] == ["3", "0", "27", "0", "0"]  # 8,000 - 4,248 of its own - 30 names, 1,002 each
    assert by_client["Gemini CLI"] == ["30", "0", "0", "0", "0"]
    assert by_client["Cursor"] == ["?"] * 5


def test_library_without_agent_skills_has_only_its_fragments_counted(invoke: Invoke, tmp_path: Path) -> None:
    library = write_files(tmp_path / "library", {"guides/roses.md": markdown("useWhen: [Pruning roses]")})
    out = invoke("budget", "--db", build(library, tmp_path / "index.db"))[1]
    assert {line.partition("\t")[0] for line in out.splitlines()[1:-1]} == {"1 fragment"}


def test_gate_fails_if_more_skills_lose_their_description(invoke: Invoke, index: Path) -> None:
    code, _, err = invoke("budget", "--client", "claude-code", "--fail-over", "26", "--db", index)
    assert (code, err) == (1, "Claude Code shows 27 of 30 skills without description (over 26)\n")
    assert invoke("budget", "--client", "claude-code", "--fail-over", "27", "--db", index)[0] == 0
    assert invoke("budget", "--client", "cursor", "--fail-over", "0", "--db", index)[0] == 0
    assert "Copilot CLI shows" in invoke("budget", "--fail-over", "0", "--db", index)[2]


def test_one_client_comes_with_its_rule_and_with_what_it_leaves_out(invoke: Invoke, index: Path) -> None:
    out = invoke("budget", "--client", "Claude Code", "--show", "2", "--db", index)[1]
    assert "Claude Code 2.1.197, looked at on 2026-11-24: room for 8,000 characters" in out
    assert (
        "\nname only\tskill-03\t0\t1,000\nname only\tskill-04\t0\t1,000\n… and 25 more; list all with: --show 27\n"
        in out
    )
    larger = invoke("budget", "--client", "claude-code", "--context", "1000000", "--db", index)[1]
    assert "room for 40,000 characters" in larger


def test_unknown_client_is_refused_with_those_that_are_known(invoke: Invoke, index: Path) -> None:
    assert invoke("budget", "--client", "codecs", "--db", index) == (
        2,
        "",
        "No rule of a client 'codecs' is known. Did you mean 'codex'?\n",
    )


def test_json_has_the_fate_of_every_skill_and_what_the_server_costs(invoke: Invoke, index: Path) -> None:
    code, out, _ = invoke("budget", "--client", "claude-code", "--json", "--fail-over", "0", "--db", index)
    found = json.loads(out)
    skills, fragments = found["listings"]
    assert (code, skills["skills"], fragments["skills"]) == (1, 30, 32)
    assert [one["name"] for one in skills["left"] if one["fate"] == "whole"] == ["skill-00", "skill-01", "skill-02"]
    assert found["unmet"] == ["Claude Code shows 27 of 30 skills without description (over 0)"]
    assert found["server"]["tools"] > 100


def test_server_costs_what_its_definitions_and_instructions_have_tokens() -> None:
    from serving import asking
    from tokenizer import true_tokens

    standing = standing_tokens(bundled_index())
    with asking(bundled_index()) as ask:
        tools = ask("tools/list")["result"]["tools"]
    sent = json.dumps(tools, separators=(",", ":"), ensure_ascii=False)
    assert abs(standing.tools - true_tokens(sent)) < 0.1 * standing.tools
    assert 40 < standing.instructions < 120


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("library", ["skills", "orchestr8"])
def test_figures_of_the_document_are_what_the_command_prints(
    invoke: Invoke, corpus_index: CorpusIndex, library: str
) -> None:
    out = invoke("budget", "--db", corpus_index(library))[1]
    document = BUDGET_DOCUMENT.read_text(encoding="utf-8")
    for line in out.splitlines()[1:-1]:
        assert f"| {' | '.join(line.split(chr(9)))} |" in document
