"""Arguments as people give them to the prompts of the shipped library, and what each of its searches is to find.

By prompt: the arguments, and for each `orchestr8://…match` URI of the filled text, in their order, the documents of
which one must be the first or the second result. They were chosen by what the documents are for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt, its arguments, and for each search the documents that fit, between spaces."""

    prompt: str
    arguments: Mapping[str, str]
    fitting: Sequence[str]


LEVELS = "skills/testing-strategies"
PINNING = "skills/legacy-code-characterization"

CASES = (
    Case("now", {"task": "our docker image takes ten minutes to build, get it below two"}, ()),
    Case(
        "new-project",
        {"description": "a REST API that sends webhooks to subscribers", "stack": "python fastapi postgresql"},
        ("guides/ci-cd-github-actions guides/ci-cd-gitlab guides/ci-cd-azure-pipelines",),
    ),
    Case(
        "add-feature",
        {"description": "customers can upload a profile picture", "stack": "express typescript"},
        ("skills/testing-unit",),
    ),
    Case(
        "fix-bug",
        {"description": "umlauts of imported names show as Ã¼ in the web page", "area": "django"},
        ("agents/debugger",),
    ),
    Case(
        "refactor",
        {"target": "class OrderService of 2,000 lines that does everything", "goal": "separate payment from shipping"},
        (PINNING, "patterns/architecture-modular-monolith patterns/architecture-layered"),
    ),
    Case(
        "security-audit",
        {"scope": "our public REST API in express with postgres", "focus": "login and tokens"},
        (
            "skills/security-threat-modeling",
            "skills/security-api-security skills/security-authorization",
            "skills/security-input-validation",
            "skills/security-supply-chain",
        ),
    ),
    Case(
        "optimize-performance",
        {"problem": "product list page needs 4 seconds because of slow database queries", "target": "p95 below 300 ms"},
        ("skills/performance-profiling-techniques skills/cpu-profile-reading",),
    ),
    Case(
        "deploy",
        {"release": "orders service 2.4 to production", "platform": "kubernetes"},
        ("patterns/deployment-strategies", "skills/database-migrations"),
    ),
    Case("review-code", {"change": "branch feature/search: new postgres full text search for articles"}, ()),
    Case(
        "respond-to-incident",
        {"symptom": "pods are OOMKilled every few minutes since the deploy", "system": "kubernetes, node"},
        ("best-practices/alerting-rules",),
    ),
    Case("upgrade-dependencies", {"what": "PostgreSQL 14 to 18"}, ("workflows/workflow-write-tests",)),
    Case(
        "understand-codebase",
        {"question": "where are the permissions checked in this django application"},
        ("skills/git-forensics",),
    ),
    Case(
        "write-tests", {"target": "a module that calls a payment API", "stack": "typescript vitest"}, (LEVELS, PINNING)
    ),
    Case(
        "design-api",
        {"purpose": "partners read and book our delivery slots", "style": "REST"},
        ("skills/api-pagination-filtering", "skills/api-versioning-deprecation"),
    ),
    Case(
        "setup-monitoring",
        {"service": "checkout API in node on kubernetes, nothing but console.log so far"},
        (
            "skills/observability-sli-slo-monitoring",
            "skills/observability-structured-logging",
            "skills/observability-metrics-prometheus",
            "skills/observability-distributed-tracing",
            "best-practices/alerting-rules",
        ),
    ),
    Case("act-as", {"task": "review the accessibility of our checkout form"}, ()),
    Case("ask-experts", {"question": "Kafka or RabbitMQ for 200 order events a second in a team of four"}, ()),
    Case("use-skill", {"task": "what is in this CSV file of 2 GB and which columns can I trust"}, ()),
    Case("write-skill", {"subject": "triage of the nightly job's log files"}, ("skills/writing-agent-skills",)),
)
