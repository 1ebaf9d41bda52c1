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
    Case(
        "now",
        {"task": "our docker image takes ten minutes to build, get it below two"},
        (
            (
                "agents/docker-specialist examples/docker-multistage-nodejs examples/docker-multistage-python"
                " examples/docker-multistage-go"
            ),
        ),
    ),
    Case(
        "now",
        {"task": "add login with google to our express app"},
        ("skills/security-authentication-oauth examples/oauth-pkce-login examples/express-jwt-auth",),
    ),
    Case(
        "new-project",
        {"description": "a REST API that sends webhooks to subscribers", "stack": "python fastapi postgresql"},
        (
            "agents/fastapi-developer agents/python-developer",
            "skills/api-webhooks skills/api-design-rest agents/api-designer",
            "examples/fastapi-async-crud examples/fastapi-background-jobs",
            "guides/ci-cd-github-actions",
        ),
    ),
    Case(
        "new-project",
        {"description": "command line tool that renames photos", "stack": "go"},
        (
            "agents/go-developer agents/go-concurrency",
            "examples/python-cli-typer agents/shell-scripting examples/bash-script-template",
            "examples/go-http-service examples/docker-multistage-go examples/go-grpc-service",
            "guides/ci-cd-github-actions",
        ),
    ),
    Case(
        "add-feature",
        {"description": "customers can upload a profile picture", "stack": "express typescript"},
        (
            "examples/file-upload-safe",
            ("agents/typescript-api-development examples/typescript-rest-api-complete examples/express-jwt-auth"),
            "examples/file-upload-safe",
            "skills/testing-unit",
        ),
    ),
    Case(
        "add-feature",
        {"description": "receive webhooks of the payment provider and mark orders as paid", "stack": "python fastapi"},
        (
            "skills/api-webhooks examples/webhook-signature-verification",
            "agents/fastapi-developer examples/fastapi-async-crud agents/python-developer",
            "examples/webhook-signature-verification",
            "skills/testing-unit",
        ),
    ),
    Case(
        "fix-bug",
        {
            "description": "stock goes negative when two customers buy the last item at the same time",
            "area": "postgresql",
        },
        (
            "skills/concurrency-bugs agents/postgresql-specialist",
            (
                "skills/testing-unit agents/postgresql-specialist skills/testing-integration"
                " examples/pytest-database-fixtures"
            ),
            "agents/debugger",
            "agents/postgresql-specialist",
        ),
    ),
    Case(
        "fix-bug",
        {"description": "umlauts of imported names show as Ã¼ in the web page", "area": "django"},
        (
            "skills/unicode-and-encodings",
            "skills/testing-unit agents/django-developer",
            "agents/debugger",
            "agents/django-developer",
        ),
    ),
    Case(
        "refactor",
        {"target": "class OrderService of 2,000 lines that does everything", "goal": "separate payment from shipping"},
        (
            "skills/code-refactoring",
            PINNING,
            "patterns/architecture-modular-monolith patterns/architecture-layered",
        ),
    ),
    Case(
        "security-audit",
        {"scope": "our public REST API in express with postgres", "focus": "login and tokens"},
        (
            "skills/security-threat-modeling",
            "skills/security-api-security skills/security-authorization",
            "skills/security-input-validation",
            (
                "agents/security-auditor skills/security-api-security skills/security-authentication-jwt"
                " best-practices/authentication-checklist skills/security-owasp-top10 workflows/workflow-security-audit"
                " examples/express-jwt-auth"
            ),
            "skills/security-supply-chain",
        ),
    ),
    Case(
        "optimize-performance",
        {"problem": "product list page needs 4 seconds because of slow database queries", "target": "p95 below 300 ms"},
        (
            "skills/performance-profiling-techniques",
            (
                "skills/performance-database-optimization skills/performance-optimization"
                " skills/performance-api-optimization skills/performance-frontend-optimization"
            ),
        ),
    ),
    Case(
        "deploy",
        {"release": "orders service 2.4 to production", "platform": "kubernetes"},
        (
            "patterns/deployment-strategies",
            (
                "examples/kubernetes-deployment-basic agents/kubernetes-administrator workflows/workflow-deploy"
                " patterns/deployment-strategies guides/aws-eks-cluster"
            ),
            "skills/database-migrations",
        ),
    ),
    Case(
        "review-code",
        {"change": "branch feature/search: new postgres full text search for articles"},
        ("examples/postgres-full-text-search",),
    ),
    Case(
        "respond-to-incident",
        {"symptom": "pods are OOMKilled every few minutes since the deploy", "system": "kubernetes, node"},
        (
            "skills/kubernetes-troubleshooting skills/memory-leak-diagnosis",
            "best-practices/alerting-rules",
        ),
    ),
    Case(
        "upgrade-dependencies",
        {"what": "PostgreSQL 14 to 18"},
        ("guides/postgres-major-upgrade", "workflows/workflow-write-tests"),
    ),
    Case(
        "upgrade-dependencies",
        {"what": "Spring Boot 3 to 4"},
        ("agents/spring-boot-developer", "workflows/workflow-write-tests"),
    ),
    Case(
        "understand-codebase",
        {"question": "where are the permissions checked in this django application"},
        ("skills/git-forensics", "agents/django-developer"),
    ),
    Case(
        "write-tests",
        {"target": "a module that calls a payment API", "stack": "typescript vitest"},
        (LEVELS, "agents/typescript-testing skills/testing-unit", PINNING),
    ),
    Case(
        "design-api",
        {"purpose": "partners read and book our delivery slots", "style": "REST"},
        (
            "skills/api-design-rest agents/api-designer workflows/workflow-design-api",
            "skills/api-pagination-filtering",
            "skills/api-versioning-deprecation",
        ),
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
    Case(
        "act-as",
        {"task": "find out why autovacuum never finishes on our orders table", "role": "postgresql specialist"},
        ("agents/postgresql-specialist", "agents/postgresql-specialist"),
    ),
    Case(
        "act-as",
        {"task": "review the accessibility of our checkout form"},
        (
            "agents/frontend-accessibility",
            "agents/frontend-accessibility best-practices/frontend-forms examples/react-accessible-form",
        ),
    ),
    Case(
        "ask-experts",
        {"question": "Kafka or RabbitMQ for 200 order events a second in a team of four"},
        ("patterns/message-broker-comparison",),
    ),
    Case(
        "use-skill",
        {"task": "what is in this CSV file of 2 GB and which columns can I trust"},
        ("skills/csv-profiling",),
    ),
    Case(
        "write-skill",
        {"subject": "triage of the nightly job's log files"},
        ("skills/writing-agent-skills", "skills/log-triage"),
    ),
)
