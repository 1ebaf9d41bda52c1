"""The library in resources/ has the size, the form and the links that its readers and its index count on."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import skills_ref
from content.facts import read_cards
from content.form import counts, form_problems, fragment_files, fragment_id, links_of, read_fields, shared_scenarios

RESOURCES = Path(__file__).parents[1] / "resources"
FILES = {fragment_id(RESOURCES, path): path for path in fragment_files(RESOURCES)}
SKILLS = sorted(path.parent for path in FILES.values() if path.name == "SKILL.md")
CARDS = read_cards()
LEAST = {
    "agents": 55, "skills": 60, "examples": 35, "patterns": 25, "guides": 10, "workflows": 15, "best-practices": 10
}  # fmt: skip
NAMED = """
agents/typescript-developer agents/typescript-core agents/typescript-async-patterns agents/typescript-testing
agents/typescript-api-development
skills/performance-optimization skills/performance-api-optimization skills/performance-database-optimization
skills/performance-frontend-optimization skills/performance-profiling-techniques
skills/security-api-security skills/security-authentication-jwt skills/security-authentication-oauth
skills/security-input-validation skills/security-owasp-top10 skills/security-secrets-management
skills/testing-strategies skills/testing-unit skills/testing-integration skills/testing-e2e-best-practices
skills/observability-structured-logging skills/observability-metrics-prometheus
skills/observability-distributed-tracing skills/observability-sli-slo-monitoring
skills/error-handling-api-patterns skills/error-handling-logging skills/error-handling-resilience
skills/error-handling-validation
skills/iac-terraform-modules skills/iac-pulumi-programming skills/iac-gitops-workflows skills/iac-state-management
skills/iac-testing-validation
examples/docker-multistage-go examples/docker-multistage-nodejs examples/express-error-handling
examples/express-jwt-auth examples/fastapi-async-crud examples/go-grpc-service examples/kubernetes-deployment-basic
examples/typescript-rest-api-complete
patterns/event-driven-pubsub patterns/event-driven-cqrs patterns/event-driven-eventsourcing
patterns/event-driven-saga patterns/event-driven-best-practices patterns/message-broker-comparison
patterns/database-connection-pooling-scaling patterns/database-indexing-strategies
patterns/database-query-optimization
patterns/architecture-microservices patterns/architecture-layered patterns/architecture-decision-records
workflows/workflow-new-project workflows/workflow-add-feature
guides/aws-eks-cluster guides/ci-cd-github-actions
""".split()
"""Source: shared/seeds/system-design.md, "Fragment Organization"."""


def test_every_category_has_its_fragments() -> None:
    assert not {name: n for name, n in counts(FILES).items() if n < LEAST[name]}


def test_every_fragment_that_the_design_names_is_there() -> None:
    assert not set(NAMED) - FILES.keys()


@pytest.mark.parametrize("id_", FILES)
def test_a_fragment_keeps_the_form(id_: str) -> None:
    assert not list(form_problems(RESOURCES, FILES[id_]))


def test_there_are_1000_scenarios_and_no_two_fragments_share_one() -> None:
    scenarios = {id_: read_fields(path)[0]["useWhen"] for id_, path in FILES.items()}
    assert sum(map(len, scenarios.values())) >= 1000
    assert not list(shared_scenarios(scenarios))


def test_every_fragment_has_a_card_with_the_lines_that_a_model_would_not_write_unaided() -> None:
    assert [card["id"] for card in CARDS] == sorted(FILES)
    for card in CARDS:
        text = " ".join(FILES[card["id"]].read_text(encoding="utf-8").split())
        assert 2 <= len(card["lines"]) <= 4, card["id"]
        assert [line for line in card["lines"] if " ".join(line.split()) not in text] == [], card["id"]
        assert len(card["task"].split()) >= 6, card["id"]
        assert date.fromisoformat(card.get("checked", "2026-11-28")) <= datetime.now(UTC).date(), card["id"]


def test_a_scenario_in_other_words_order_and_letter_case_counts_as_the_same() -> None:
    assert list(shared_scenarios({"a": ["call it Again"], "b": ["again, call it"], "c": ["call again"]})) == [
        "a (call it Again) and b (again, call it)"
    ]


def test_250_links_lead_to_fragments_and_every_fragment_is_led_to() -> None:
    links = {id_: links_of(path) - {id_} for id_, path in FILES.items()}
    led_to = {one for found in links.values() for one in found}
    assert sorted(led_to - FILES.keys()) == []
    assert sorted(FILES.keys() - led_to) == []
    assert sum(map(len, links.values())) >= 250


def test_parts_of_an_agent_know_their_core_and_the_core_knows_them() -> None:
    agents = {id_: links_of(path) for id_, path in FILES.items() if id_.startswith("agents/")}
    for core in (id_ for id_ in agents if id_.endswith("-developer")):
        family = core.removesuffix("developer")
        for part in (id_ for id_ in agents if id_.startswith(family) and id_ != core):
            assert part in agents[core], f"{core} does not name {part}"
            assert core in agents[part], f"{part} does not name {core}"


def test_there_are_20_agent_skills_with_references_and_scripts_each_script_with_a_test() -> None:
    assert len(SKILLS) >= 20
    for skill in SKILLS:
        assert list(skill.glob("references/*.md")), skill.name
        assert list(skill.glob("scripts/*.py")), skill.name
        assert (Path(__file__).parent / f"test_agent_skill_{skill.name.replace('-', '_')}.py").is_file(), skill.name


def test_what_a_skill_bundles_is_named_in_its_text() -> None:
    for skill in SKILLS:
        text = (skill / "SKILL.md").read_text(encoding="utf-8")
        for path in (*skill.glob("references/*"), *skill.glob("scripts/*.py")):
            assert path.relative_to(skill).as_posix() in text, f"{skill.name}: {path.name}"


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.name)
def test_an_agent_skill_is_valid_for_the_reference_validator(skill: Path) -> None:
    assert skills_ref.validate(skill) == []
