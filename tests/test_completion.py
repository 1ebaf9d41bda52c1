"""Completions: what is offered for what has been typed, from an index and through the protocol in both eras."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import HANDSHAKES, MODERN, Ask, Message, asking
from strategies import libraries, open_in_memory
from support import MakeCatalog, build, make_fragment, markdown, write_files

from orchestr8_sqlite.answers.completion import complete_argument, complete_parameter
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS
from orchestr8_sqlite.model.uris import fragment_uri


def begun(values: Sequence[str], value: str) -> list[str]:
    """Return those of *values* that hold *value* in any case, those that start with it first, else in their order."""
    held = [one for one in values if value.lower() in one.lower()]
    return sorted(held, key=lambda one: not one.lower().startswith(value.lower()))


def oracle(library: list[Fragment], name: str, value: str, category: str | None) -> list[str]:
    """Return what completes *value*, by looking at every fragment."""
    within = [fragment for fragment in library if category in (None, fragment.category)]
    uris = sorted(fragment_uri(fragment.id) for fragment in within)
    if name == "tags":
        counts = Counter(tag for fragment in within for tag in set(fragment.tags))
        return begun(sorted(counts, key=lambda tag: (-counts[tag], tag)), value)
    if name == "query":
        return begun(sorted({text for fragment in within for text in fragment.use_when}), value)
    if name == "uri":
        return begun(uris, value)
    folder = f"orchestr8://{CATEGORY_FOLDERS[category or '']}/"
    return begun([uri.removeprefix(folder) for uri in uris], value)


TYPED = [
    "",
    "a",
    "e",
    "re",
    "RETRY",
    "ne",
    "api",
    "%",
    "_",
    "\\",
    "b%",
    "c++",
    "-",
    "orch",
    "orchestr8://s",
    "deep/",
    "試",
]


@settings(max_examples=30)
@given(
    library=libraries(most=12),
    typed=st.lists(
        st.tuples(st.sampled_from(["tags", "query", "uri", "name"]), st.sampled_from(TYPED)), min_size=8, max_size=16
    ),
    category=st.sampled_from(["agent", "skill", "guide"]),
)
def test_values_are_those_that_hold_what_was_typed_those_that_start_with_it_first(
    library: list[Fragment], typed: list[tuple[str, str]], category: str
) -> None:
    with open_in_memory(library) as catalog:
        for name, value in typed:
            for chosen in (category, None) if name != "name" else (category,):
                found = complete_parameter(catalog, name, value, category=chosen)
                expected = oracle(library, name, value, chosen)
                assert list(found.values) == expected
                assert found.total == len(expected)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("mode", "", ["index", "catalog", "full"]),
        ("mode", "c", ["catalog"]),
        ("mode", "F", ["full"]),
        ("ranker", "cl", ["classic"]),
        ("explain", "t", ["true"]),
        ("category", "", ["agents", "skills"]),
        ("category", "sk", ["skills"]),
        ("category", "SK", ["skills"]),
        ("category", "g", []),
        ("categories", "agents,", ["agents,skills"]),
        ("categories", "agents,s", ["agents,skills"]),
        ("tags", "b", ["b_1", "bx1"]),
        ("tags", "b_", ["b_1"]),
        ("tags", "B_1", ["b_1"]),
        ("tags", "%", ["50%"]),
        ("tags", "bx1,b", ["bx1,b_1"]),
        ("tags", "nothing", []),
        ("maxResults", "1", []),
        ("maxTokens", "", []),
        ("name", "", []),
        ("nonsense", "", []),
    ],
)
def test_parameter_is_completed_with_what_it_may_hold(
    make_catalog: MakeCatalog, name: str, value: str, expected: list[str]
) -> None:
    catalog = make_catalog(
        make_fragment("one", tags=("b_1", "50%")), make_fragment("two", tags=("bx1", "b_1"), category="agent")
    )
    found = complete_parameter(catalog, name, value)
    assert (list(found.values), found.total) == (expected, len(expected))


def test_tags_of_the_most_fragments_stand_first_within_their_kind(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", tags=("api", "rest-api", "apis")),
        make_fragment("b", tags=("apis", "rest-api", "web-api")),
        make_fragment("c", tags=("rest-api",)),
    )
    assert complete_parameter(catalog, "tags", "api").values == ("apis", "api", "rest-api", "web-api")


def test_tag_is_found_in_any_case_of_any_script(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", tags=("übung", "привет")))
    assert complete_parameter(catalog, "tags", "Üb").values == ("übung",)
    assert complete_parameter(catalog, "tags", "ПРИ").values == ("привет",)


@pytest.mark.parametrize("value", ["Retry,", "retry ,", " retry,"])
def test_tag_that_was_given_is_not_offered_again_however_it_was_typed(make_catalog: MakeCatalog, value: str) -> None:
    catalog = make_catalog(make_fragment("a", tags=("retry", "http")))
    assert complete_parameter(catalog, "tags", value).values == (f"{value}http",)


def test_at_most_100_values_are_given_and_all_are_counted(make_catalog: MakeCatalog) -> None:
    library = [make_fragment(f"skill-{n:03}", f"Scenario {n:03}", tags=(f"tag-{n:03}",)) for n in range(130)]
    catalog = make_catalog(*library)
    for name, start in (("tags", "tag-"), ("query", "Scenario "), ("uri", "orchestr8://skills/skill-")):
        found = complete_parameter(catalog, name, "")
        assert found.values == tuple(f"{start}{n:03}" for n in range(100))
        assert found.total == 130


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("category", "s", ["skills"]),
        ("Category", "s", ["skills"]),
        ("tag", "re", ["retry"]),
        ("tags", "http,re", ["http,retry"]),
        ("agent", "", ["deep/api"]),
        ("agents", "", ["deep/api"]),
        ("skill", "b", ["back-off"]),
        ("skill", "", ["back-off", "retry"]),
        ("guide", "", []),
        ("best_practice", "", []),
        ("mode", "i", ["index"]),
        ("query", "adding", ["Adding retry"]),
        ("resource", "deep", ["orchestr8://agents/deep/api"]),
        ("uri", "orchestr8://a", ["orchestr8://agents/deep/api"]),
        ("symptom", "", []),
        ("name", "", []),
        ("", "", []),
    ],
)
def test_argument_of_a_prompt_is_completed_by_what_its_name_tells(
    make_catalog: MakeCatalog, name: str, value: str, expected: list[str]
) -> None:
    catalog = make_catalog(
        make_fragment("retry", "Adding retry", tags=("retry", "http")),
        make_fragment("back-off"),
        make_fragment("deep/api", category="agent"),
    )
    found = complete_argument(catalog, "any prompt", name, value)
    assert (list(found.values), found.total) == (expected, len(expected))


PROMPT = markdown(
    "name: review\narguments: [{name: category}, {name: tag}, {name: agent}, {name: skill}, {name: mode}, {name: why},"
    " {name: depth, choices: [Quick, thorough, quickest]}]",
    "Review ${category}.\n",
)
FILES = {
    "skills/retry.md": markdown("tags: [retry]\nuseWhen: [Adding retry to a client]"),
    "skills/reading.md": markdown("tags: [books]\nuseWhen: [Reading a book]"),
    "agents/api.md": markdown("tags: [rest]\nuseWhen: [Designing a REST API]"),
    "prompts/workflows/review.md": PROMPT,
    "guides/many.md": markdown(f"useWhen: [{', '.join(f'Case {n:03}' for n in range(105))}]"),
}
MATCH = "{?query,terms,mode,categories,tags,maxResults,maxTokens,minScore,ranker,explain}"


@pytest.fixture(scope="module", params=[HANDSHAKES[1], HANDSHAKES[3], MODERN])
def ask(request: pytest.FixtureRequest, index: Path) -> Iterator[Ask]:
    with asking(index, request.param) as ask:
        yield ask


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    return build(write_files(folder / "library", FILES), folder / "index.db")


def complete(ask: Ask, ref: Message, name: str, value: str, **context: str) -> Message:
    """Return the completion that the protocol gives."""
    chosen = {"context": {"arguments": context}} if context else {}
    answer = ask("completion/complete", ref=ref, argument={"name": name, "value": value}, **chosen)
    completion: Message = answer["result"]["completion"]
    return completion


def template(uri: str) -> Message:
    return {"type": "ref/resource", "uri": f"orchestr8://{uri}"}


@pytest.mark.parametrize(
    ("uri", "name", "value", "expected"),
    [
        ("{category}/{+name}", "category", "", ["agents", "guides", "skills"]),
        ("{category}/{+name}", "category", "sk", ["skills"]),
        ("skills/{+name}", "name", "re", ["reading", "retry"]),
        (f"match{MATCH}", "mode", "", ["index", "catalog", "full"]),
        (f"match{MATCH}", "tags", "re", ["rest", "retry"]),
        (f"match{MATCH}", "terms", "circuit breaker,re", ["circuit breaker,rest", "circuit breaker,retry"]),
        (f"match{MATCH}", "categories", "agents,g", ["agents,guides"]),
        (f"skills/match{MATCH}", "tags", "re", ["retry"]),
        (f"skills/match{MATCH}", "query", "re", ["Reading a book", "Adding retry to a client"]),
        (f"agents/match{MATCH}", "query", "re", ["Designing a REST API"]),
        (f"agents/match{MATCH}", "maxTokens", "1", []),
    ],
)
def test_template_is_completed_within_its_category(
    ask: Ask, uri: str, name: str, value: str, expected: list[str]
) -> None:
    assert complete(ask, template(uri), name, value) == {"values": expected, "total": len(expected), "hasMore": False}


@pytest.mark.parametrize("category", ["skills", "skill", "Skills"])
def test_category_that_was_chosen_before_decides_which_names_follow(ask: Ask, category: str) -> None:
    found = complete(ask, template("{category}/{+name}"), "name", "re", category=category)
    assert found["values"] == ["reading", "retry"]


def test_more_than_100_values_are_counted_and_said_to_be_more(ask: Ask) -> None:
    found = complete(ask, template(f"guides/match{MATCH}"), "query", "case")
    assert found == {"values": [f"Case {n:03}" for n in range(100)], "total": 105, "hasMore": True}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("category", "a", ["agents"]),
        ("tag", "b", ["books"]),
        ("agent", "", ["api"]),
        ("skill", "ret", ["retry"]),
        ("mode", "", ["index", "catalog", "full"]),
        ("why", "", []),
        ("depth", "", ["Quick", "thorough", "quickest"]),
        ("depth", "QUICK", ["Quick", "quickest"]),
        ("depth", "slow", []),
    ],
)
def test_prompt_argument_is_completed(ask: Ask, name: str, value: str, expected: list[str]) -> None:
    found = complete(ask, {"type": "ref/prompt", "name": "review"}, name, value)
    assert found == {"values": expected, "total": len(expected), "hasMore": False}


@pytest.mark.parametrize(
    ("ref", "name", "advice"),
    [
        ({"type": "ref/prompt", "name": "reviw"}, "category", "Nearest: review"),
        (
            {"type": "ref/prompt", "name": "review"},
            "colour",
            "known arguments: category, tag, agent, skill, mode, why, depth",
        ),
        (template("{category}/{+name}"), "colour", "known arguments: category, name"),
        (template("skills/{name}"), "name", "call resources/templates/list"),
        ({"type": "ref/resource", "uri": "file:///{path}"}, "path", "call resources/templates/list"),
    ],
)
def test_unknown_reference_or_argument_is_invalid_params(ask: Ask, ref: Message, name: str, advice: str) -> None:
    error = ask("completion/complete", ref=ref, argument={"name": name, "value": ""})["error"]
    assert error["code"] == -32602
    assert advice in error["message"]


def test_unknown_category_chosen_before_is_invalid_params(ask: Ask) -> None:
    argument = {"name": "name", "value": ""}
    context = {"arguments": {"category": "skils"}}
    ref = template("{category}/{+name}")
    error = ask("completion/complete", ref=ref, argument=argument, context=context)["error"]
    assert error["code"] == -32602
    assert "Did you mean 'skills'?" in error["message"]


@pytest.mark.parametrize("name", ["tags", "query", "uri", "name"])
@pytest.mark.parametrize("value", ["%" * 10_000, "再" * 10_000, "a" * 60_000, "a" * 1_000_000])
def test_nothing_completes_a_value_that_is_longer_than_any_of_a_library(
    make_catalog: MakeCatalog, name: str, value: str
) -> None:
    catalog = make_catalog(make_fragment("one", "Adding retry", tags=("a",)))
    assert complete_parameter(catalog, name, value, category="skill").values == ()
