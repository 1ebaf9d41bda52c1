"""Reading from PostgreSQL: the same answers as from the file, from one database and from three."""

import json
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from postgresql_server import PASSWORD, Server, address_at, pgbouncer, postgresql_server, program
from psycopg.sql import SQL
from releases import index_of
from servers import greet, receive, release, request, search, send
from strategies import filters, open_in_memory, topical_libraries, topical_queries, with_synonyms, with_twins
from support import Invoke, brought, build, markdown, write_files

from orchestr8_sqlite.builder.writer import write_synonyms
from orchestr8_sqlite.errors import CatalogError, RequestError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.postgresql import POLL_SECONDS, PublishedCatalog, Release
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Ranker
from orchestr8_sqlite.ranking import default, typos, weights
from orchestr8_sqlite.ranking.holdout import HeldOut
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Address, Settings, read_place
from orchestr8_sqlite.shipping import postgresql
from orchestr8_sqlite.shipping.postgresql import publish_to_postgresql
from orchestr8_sqlite.shipping.publish import Order

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
BUNDLED = ROOT / "orchestr8_sqlite" / "bundled.db"
QUERIES = [json.loads(line)["text"] for line in (ROOT / "resources" / "queries.jsonl").read_text("utf-8").splitlines()]
SILENT = "A database of the library does not answer; try again in a moment."
DOCUMENT = (ROOT / "docs" / "postgresql.md").read_text(encoding="utf-8")
(RIGHTS,) = re.findall(r"```sql\n(DO .*?)```", DOCUMENT, re.DOTALL)


@dataclass(frozen=True)
class Spread:
    """The bundled index in one database and in three."""

    server: Server
    whole: Address
    shards: Address


@pytest.fixture(scope="module", autouse=True)
def _needs_the_programs() -> None:
    brought(lambda: program("initdb"))


@pytest.fixture(scope="module")
def spread() -> Iterator[Spread]:
    with postgresql_server() as server:
        for database in ("whole", "one", "two", "three", "random"):
            server.ask("postgres", f"CREATE DATABASE {database}")
        whole = server.address("whole")
        shards = ",".join(map(server.address, ("one", "two", "three")))
        for to in (whole, shards):
            publish_to_postgresql(Order(BUNDLED, "stable"), to)
        yield Spread(server, Address(whole), Address(shards))


@pytest.fixture(scope="module", params=["one database", "three databases"])
def address(spread: Spread, request: pytest.FixtureRequest) -> Address:
    return spread.whole if request.param == "one database" else spread.shards


def answer_of(catalog: Catalog, asked: MatchRequest, *, quick: bool = True) -> LookupResult:
    """Return all of an answer but the statements that ran."""
    return find(catalog, asked, quick=quick)._replace(statements=())


# --- the same answers


@pytest.mark.parametrize("options", [{}, {"explain": True}, {"categories": ["guide", "skill"], "tags": ["python"]}])
def test_requests_of_the_library_have_the_answers_of_the_file(address: Address, options: Mapping[str, Any]) -> None:
    asked = QUERIES[::8] if not options else QUERIES[::22]
    with Catalog.open(BUNDLED) as file, Catalog.open(address) as published:
        for text in asked:
            wanted = make_request({"query": text, **options})
            assert answer_of(published, wanted) == answer_of(file, wanted), text


def test_classic_ranker_has_the_answers_of_the_file(address: Address) -> None:
    with Catalog.open(BUNDLED) as file, Catalog.open(address) as published:
        for text in [*QUERIES[::20], "zz a js", "go"]:
            wanted = make_request({"query": text, "ranker": "classic"})
            assert answer_of(published, wanted, quick=False) == answer_of(file, wanted, quick=False), text


def test_bodies_and_parts_of_words_are_found_by_their_indexes(spread: Spread) -> None:
    halves = {"halves": '"kuber" OR "netes"', "length": 10}
    with Catalog.open(spread.whole) as published:
        (asked,) = find(published, MatchRequest("retry backoff"), quick=False).statements
        plans = [
            str(published.reader.execute(f"EXPLAIN {sql.strip()}", dict(values)).fetchall())
            for sql, values in ((default.KEPT, asked.parameters), (typos.WITH_A_HALF, halves))
        ]
    assert "fragment_text_by_body" in plans[0]
    assert "keyword_by_trigram" in plans[1]


numbers = count(1)
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""Each example takes seconds."""


def spread_over(stack: ExitStack, catalog: Catalog, server: Server, *databases: str) -> Catalog:
    """Return an index in memory as several databases hold it; the schema stays behind."""
    addresses, schema = [server.address(database) for database in databases], f"orchestr8_{next(numbers) + 1000}"
    shards = [postgresql.Shard(one) for one in addresses]
    with HeldOut.copy(catalog) as copy:  # publishing makes tables beside the index
        postgresql._fill(copy.catalog, shards, schema, before=None)
    for shard in shards:
        shard.commit()
        shard.db.close()
    release = Release(schema, catalog.generation, len(shards), 0)
    return stack.enter_context(PublishedCatalog(Address(",".join(addresses)), release))


@given(
    with_twins(topical_libraries()),
    st.lists(st.tuples(with_synonyms(topical_queries()), filters()), min_size=4, max_size=8),
    st.sampled_from([(), ("queue", "go lang")]),
    st.sampled_from([2, weights.RAISED]),
)
@settings(max_examples=8, phases=NO_SHRINKING, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_library_has_the_same_answers_in_a_file_in_one_database_and_in_three(
    spread: Spread, library: list[Any], asked: list[Any], terms: tuple[str, ...], raised: int
) -> None:
    with open_in_memory(library) as file, ExitStack() as stack:
        stack.enter_context(patch.object(weights, "RAISED", raised))  # few of them leave places to others
        write_synonyms(file.db, asked[0][0][1])
        ways = [("random",), ("one", "two", "three")]
        published = [spread_over(stack, file, spread.server, *databases) for databases in ways]
        for (query, _), options in asked:
            for ranker, explain in ((Ranker.DEFAULT, True), (Ranker.CLASSIC, False)):
                wanted = MatchRequest(query, ranker=ranker, explain=explain, terms=terms, **options)
                known = answer_of(file, wanted, quick=False)
                for one in published:
                    assert answer_of(one, wanted, quick=False) == known


COMMANDS = [
    ["search", "retry a flaky call", "--json"],
    ["explain", "kubernetes rollout"],
    ["suggest"],
    ["load", "orchestr8://skills/error-handling-resilience", "--related", "--source"],
    ["load", "orchestr8://guides"],
    ["load", "orchestr8://registry"],
    ["load", "orchestr8://match?query=undo+commit&mode=full"],
    ["list"],
    ["list", "tags"],
    ["list", "fragments"],
    ["list", "skills", "--tag", "git"],
    ["list", "prompts"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_commands_print_what_they_print_of_the_file(address: Address, invoke: Invoke, command: Sequence[str]) -> None:
    assert invoke(*command, "--db", address.text) == invoke(*command, "--db", BUNDLED)


@pytest.mark.parametrize("command", ["path", "export", "inspect", "budget", "stats --tables", "diff index.db"])
def test_what_only_a_file_allows_is_refused_in_one_sentence(spread: Spread, invoke: Invoke, command: str) -> None:
    option = [] if command.startswith("diff") else ["--db"]
    arguments = [BUNDLED if part == "index.db" else part for part in command.split()]
    code, out, err = invoke(*arguments, *option, spread.whole.text)
    assert (code, out, err) == (2, "", "This needs an index in a file; name one with --db FILE.\n")


def test_a_statement_of_the_user_can_only_read_and_ends_in_time(spread: Spread, invoke: Invoke) -> None:
    def ask(statement: str) -> tuple[int, str, str]:
        return invoke("sql", statement, "--timeout", "0.3", "--db", spread.whole.text)

    assert ask("SELECT count(*) AS fragments FROM fragment") == invoke(
        "sql", "SELECT count(*) AS fragments FROM fragment", "--db", BUNDLED
    )
    assert ask("DELETE FROM tag")[2] == "PostgreSQL says: cannot execute DELETE in a read-only transaction.\n"
    assert "multiple commands" in ask("SELECT 1; SELECT 2")[2]
    assert ask("SELECT pg_sleep(3)")[2].startswith("The statement was ended after 0.3 s; ")
    code, _, err = invoke("sql", "SELECT 1", "--db", spread.shards.text)
    assert (code, err) == (2, "A statement cannot be asked of several databases at once; ask each with psql.\n")


# --- the server


REQUESTS = [
    request(1, "resources/list"),
    request(2, "resources/templates/list"),
    request(3, "resources/read", uri="orchestr8://skills/error-handling-resilience"),
    request(4, "resources/read", uri="orchestr8://registry"),
    request(5, "prompts/list"),
    request(6, "skills/list"),
    request(7, "resources/directory/read", uri="skill://git-forensics"),
    search(8, "retry a flaky call"),
    request(9, "tools/call", name="load", arguments={"uris": ["orchestr8://skills/none"]}),
    request(10, "tools/call", name="search", arguments={"query": "x", "explain": True, "categories": "guide"}),
    *(
        request(
            number,
            "completion/complete",
            ref={"type": "ref/resource", "uri": "orchestr8://match{?query,terms,mode,categories,tags,maxResults,"
            "maxTokens,minScore,ranker,explain}"},
            argument={"name": name, "value": "py"},
        )
        for number, name in ((11, "tags"), (12, "query"), (13, "categories"))
    ),
    request(14, "completion/complete", ref={"type": "ref/resource", "uri": "orchestr8://{category}/{+name}"},
            argument={"name": "name", "value": "e"}, context={"arguments": {"category": "skills"}}),
]  # fmt: skip


def serve(place: str, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "orchestr8_sqlite", "serve", "--db", place, *options]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    greet(server)
    return server


def replies(place: str) -> list[dict[str, Any]]:
    server = serve(place)
    try:
        found = []
        for asked in REQUESTS:
            send(server, asked)
            found.append(receive(server))
        return found
    finally:
        release(server)


def test_a_client_over_stdio_gets_the_replies_of_the_file(address: Address) -> None:
    from_file, published = replies(str(BUNDLED)), replies(address.text)
    for asked, wanted, found in zip(REQUESTS, from_file, published, strict=True):
        assert "result" in found or asked["id"] == 9, found
        assert found == wanted, asked


def test_a_server_goes_over_to_a_new_generation_and_tells_its_clients(spread: Spread) -> None:
    spread.server.ask("postgres", "DROP DATABASE IF EXISTS moving WITH (FORCE)")
    spread.server.ask("postgres", "CREATE DATABASE moving")
    to = spread.server.address("moving")
    publish_to_postgresql(Order(index_of(1), "stable"), to)
    with closing(Service(Settings(Address(to), "info", 10))) as service:
        server = serve(to)
        try:
            assert service.read("orchestr8://skills/version").text == "# Version 1\n\nText 1."
            publish_to_postgresql(Order(index_of(2), "stable"), to)
            heard = receive(server)
            assert heard["method"] == "notifications/resources/list_changed"
            send(server, request(5, "resources/read", uri="orchestr8://skills/version"))
            assert receive(server)["result"]["contents"][0]["text"] == "# Version 2\n\nText 2."
            time.sleep(POLL_SECONDS)  # the service may have asked just before
            assert service.read("orchestr8://skills/version").text == "# Version 2\n\nText 2."
        finally:
            release(server)


def test_a_server_reads_the_channel_that_it_is_told(spread: Spread) -> None:
    spread.server.ask("postgres", "CREATE DATABASE channels")
    to = spread.server.address("channels")
    for version, channel in ((1, "stable"), (2, "beta")):
        publish_to_postgresql(Order(index_of(version), channel), to)
    server = serve(to, "--channel", "beta")
    try:
        send(server, request(1, "resources/read", uri="orchestr8://skills/version"))
        assert receive(server)["result"]["contents"][0]["text"] == "# Version 2\n\nText 2."
    finally:
        release(server)


def test_a_request_keeps_its_generation_from_removal(spread: Spread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "PATIENCE", SQL("SET LOCAL lock_timeout = '0.5s'"))
    spread.server.ask("postgres", "DROP DATABASE IF EXISTS moving WITH (FORCE)")
    spread.server.ask("postgres", "CREATE DATABASE moving")
    to = spread.server.address("moving")
    publish_to_postgresql(Order(index_of(1), "stable"), to)
    with Catalog.open(Address(to)) as catalog:
        assert catalog.size == 6
        for version in (2, 3, 1, 2):
            publish_to_postgresql(Order(index_of(version), "stable"), to)
        assert catalog.body(catalog.fragment("skills/version").id) == "# Version 1\n\nText 1."  # type: ignore[union-attr]


# --- a pooler


SHARDED = 3
"""How many read several databases at once: with fewer connections to each they would wait for each other."""


@pytest.fixture
def pooled(spread: Spread) -> Iterator[tuple[Address, Address]]:
    """The two ways of the bundled index, behind a pooler with a few connections to each database."""
    brought(lambda: program("pgbouncer"))
    with pgbouncer(spread.server, size=SHARDED) as port:
        whole, *shards = (address_at(port, name) for name in ("whole", "one", "two", "three"))
        yield Address(whole), Address(",".join(shards))


def test_many_requests_over_few_connections_of_a_pooler_have_the_answers_of_the_file(
    pooled: tuple[Address, Address],
) -> None:
    asked = [make_request({"query": text}) for text in QUERIES[:24]]
    with Catalog.open(BUNDLED) as file:
        known = [answer_of(file, one, quick=False) for one in asked]

    def ask_all(address: Address, first: int) -> None:
        with Catalog.open(address) as published:
            for number in (*range(first, len(asked)), *range(first)):
                assert published.is_current()
                assert answer_of(published, asked[number], quick=False) == known[number]
                published.rest()

    addresses = [pooled[0]] * (2 * SHARDED) + [pooled[1]] * SHARDED
    with ThreadPoolExecutor(len(addresses)) as threads:
        for done in [threads.submit(ask_all, address, 2 * number) for number, address in enumerate(addresses)]:
            done.result()


def test_a_statement_of_the_user_over_a_pooler_is_a_single_one_that_only_reads(
    pooled: tuple[Address, Address], invoke: Invoke
) -> None:
    for _ in range(3):
        code, out, _ = invoke("sql", "SELECT count(*) AS fragments FROM fragment", "--db", pooled[0].text)
        assert (code, out) == invoke("sql", "SELECT count(*) AS fragments FROM fragment", "--db", BUNDLED)[:2]
    assert "read-only" in invoke("sql", "DELETE FROM tag", "--db", pooled[0].text)[2]
    assert "multiple commands" in invoke("sql", "COMMIT; DELETE FROM tag", "--db", pooled[0].text)[2]


def test_publishing_to_a_pooler_is_refused(pooled: tuple[Address, Address]) -> None:
    with pytest.raises(RequestError, match=r"^postgresql://127\.0\.0\.1:\d+/whole is a pooler, .* own address\.$"):
        publish_to_postgresql(Order(BUNDLED, "stable"), pooled[0].text)


# --- faults


def test_a_statement_that_nobody_waits_for_is_ended(address: Address) -> None:
    service = Service(Settings(address, "info", 0))
    snapshot = service.snapshots.snapshot()
    threading.Timer(0.3, snapshot.abandon).start()
    with closing(service):
        with snapshot, pytest.raises(CatalogError, match="nobody waits"):
            service.catalog.reader.execute("SELECT pg_sleep(60)")
        assert service.read("orchestr8://registry").text.startswith("# Registry")


def test_a_statement_that_takes_too_long_is_ended(spread: Spread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestr8_sqlite.index.postgresql.STATEMENT_SECONDS", 0.2)
    with Catalog.open(spread.whole) as catalog:
        said = r"^The index at postgresql://127\.0\.0\.1:\d+/whole did not answer a statement within 0\.2 s"
        with pytest.raises(CatalogError, match=said):
            catalog.reader.execute("SELECT pg_sleep(60)")


def test_an_address_is_never_shown_with_its_password(spread: Spread) -> None:
    settings = Settings(spread.shards, "info", 0)
    port = spread.server.port
    assert str(spread.whole) == f"postgresql://127.0.0.1:{port}/whole"
    assert "pass" not in f"{settings} {settings.database} {settings.database!r}"
    place = read_place("postgres://me:a?b/c@one,two:1/x?sslmode=require,postgresql://three/y")
    assert isinstance(place, Address)
    assert str(place) == "postgresql://one,two:1/x,postgresql://three/y"


@pytest.fixture
def two_servers() -> Iterator[tuple[Server, Server]]:
    """Two servers, each with an empty database."""
    with postgresql_server() as one, postgresql_server() as two:
        for server in (one, two):
            server.ask("postgres", "CREATE DATABASE library")
        yield one, two


def test_a_database_that_does_not_answer_is_an_error_or_with_partial_is_said(
    two_servers: tuple[Server, Server], invoke: Invoke
) -> None:
    to = ",".join(server.address("library") for server in two_servers)
    publish_to_postgresql(Order(index_of(1), "stable"), to)
    whole = invoke("search", "retrying call", "--db", to)
    server, strict = serve(to, "--partial"), serve(to)
    try:
        send(server, search(1, "retrying call"))
        assert "Partial" not in receive(server)["result"]["content"][0]["text"]
        two_servers[1].kill()
        code, out, err = invoke("search", "retrying call", "--db", to)
        place = rf"postgresql://127\.0\.0\.1:{two_servers[1].port}/library"
        assert (code, out) == (1, "")
        assert re.fullmatch(rf"The index at {place} cannot be reached: .*Connection refused\.\n", err)
        code, out, err = invoke("search", "retrying call", "--partial", "--db", to)
        assert (code, err) == (0, "")
        assert out.startswith("Partial: 1 database of the library did not answer.\n")
        listed = set(re.findall(r"skills/call\d", out))
        assert listed < set(re.findall(r"skills/call\d", whole[1]))
        assert listed
        for number in (2, 3):
            send(server, search(number, "retrying"))
            assert receive(server)["result"]["content"][0]["text"].startswith("Partial: 1 database of the library")
        for number in range(5):
            send(server, request(10 + number, "resources/read", uri=f"orchestr8://skills/call{number}"))
            reply = receive(server)
            assert ("result" in reply) == (f"skills/call{number}" in listed), reply
        send(strict, search(1, "retrying call"))
        assert receive(strict)["result"] == {"content": [{"type": "text", "text": SILENT}], "isError": True}
        send(strict, request(2, "resources/read", uri="orchestr8://skills/call0"))
        assert receive(strict)["error"]["message"] == SILENT
        two_servers[0].kill()
        send(server, search(4, "retrying"))
        refused = receive(server)["result"]
        assert refused["isError"]
        assert refused["content"][0]["text"] == SILENT
        for one in two_servers:
            one.start()
        send(server, search(5, "retrying"))  # a partial answer was not kept
        assert "Partial" not in receive(server)["result"]["content"][0]["text"]
    finally:
        release(server)
        release(strict)


def test_a_replica_takes_over_when_its_server_dies(two_servers: tuple[Server, Server]) -> None:
    for server in two_servers:
        publish_to_postgresql(Order(index_of(1), "stable"), server.address("library"))
    one, two = two_servers
    secret = one.address("library").partition("://")[2].partition("@")[0]
    to = f"postgresql://{secret}@127.0.0.1:{one.port},127.0.0.1:{two.port}/library?target_session_attrs=any"
    with closing(Service(Settings(Address(to), "info", 0))) as service:
        assert service.read("orchestr8://skills/version").text == "# Version 1\n\nText 1."
        one.kill()
        for _ in range(3):
            assert service.read("orchestr8://skills/version").text == "# Version 1\n\nText 1."
        two.kill()
        with pytest.raises(CatalogError, match="cannot be reached"):
            service.read("orchestr8://skills/version")
        for server in two_servers:
            server.start()
        assert service.read("orchestr8://skills/version").text == "# Version 1\n\nText 1."


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://owner:{wrong}@127.0.0.1:{port}/whole", "password authentication failed for user"),
        ("postgresql://owner:{right}@127.0.0.1:{port}/none", 'database "none" does not exist'),
        ("postgresql://owner:{right}@127.0.0.1:{port}/random", "Nothing was published to the channel stable at "),
        ("postgresql://owner:{right}@127.0.0.1:{port}/one", "published to another number of databases, 3;"),
        ("postgresql://owner:pass@word:1/2@127.0.0.1/one", "An address of PostgreSQL cannot be read"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_without_the_password(
    spread: Spread, invoke: Invoke, address: str, said: str
) -> None:
    given = address.format(right="pass%40word%3A1%2F2", wrong="pass%40word%3A1%2F3", port=spread.server.port)
    code, out, err = invoke("search", "retry", "--db", given)
    assert (code, out, err.count("\n")) == (2 if "cannot be read" in said else 1, "", 1)
    assert said in err
    assert "word" not in err.replace("password", "")
    assert PASSWORD not in err


def test_a_role_that_may_only_read_can_serve(spread: Spread, invoke: Invoke) -> None:
    (roles,) = re.findall(r"```sql\n(CREATE ROLE.*?)```", DOCUMENT, re.DOTALL)
    server = spread.server
    server.ask("postgres", "CREATE DATABASE granted")
    for statement in roles.replace("DATABASE library", "DATABASE granted").split(";")[:-1]:
        server.ask("granted", statement)
    for role in ("publisher", "reader"):
        server.ask("postgres", f"ALTER ROLE {role} PASSWORD 'secret'")
    publish_to_postgresql(Order(BUNDLED, "stable"), server.address("granted", "publisher", "secret"))
    found = invoke("explain", "retry a flaky call", "--db", server.address("granted", "reader", "secret"))
    assert found == invoke("explain", "retry a flaky call", "--db", BUNDLED)


# --- rights by team


def test_a_reader_of_a_team_finds_loads_lists_and_counts_only_its_own_and_shared_fragments(
    spread: Spread, invoke: Invoke, tmp_path: Path
) -> None:
    server = spread.server
    names = ["skills/shared.md", "skills/alpha/one.md", "skills/alpha/two.md", "skills/beta/one.md"]
    pages = {name: markdown("useWhen: [Deploying a service]", "# Deploy\n\nRoll out slowly.") for name in names}
    index = build(write_files(tmp_path / "library", pages), tmp_path / "index.db")
    (tmp_path / "rights.sql").write_text(RIGHTS, encoding="utf-8")
    addresses = []
    for database in ("rights_one", "rights_two"):
        server.ask("postgres", f"CREATE DATABASE {database}")
        addresses.append(server.address(database))
    for role in ("team_alpha", "team_beta", "alpha LOGIN PASSWORD 'secret'"):
        server.ask("postgres", f"CREATE ROLE {role}")
    server.ask("postgres", "GRANT team_alpha TO alpha")
    for database in ("rights_one", "rights_two"):
        server.ask(database, "ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO alpha")
        server.ask(database, "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO alpha")
    for to, of in ((addresses[:1], ["rights_one"]), (addresses, ["rights_one", "rights_two"])):
        options = ("--no-gate", "--sql", tmp_path / "rights.sql")
        assert invoke("publish", index, "--to", ",".join(to), *options)[0] == 0
        place = ",".join(server.address(database, "alpha", "secret") for database in of)
        visible = {"skills/shared", "skills/alpha/one", "skills/alpha/two"}
        found = invoke("search", "deploying a service", "--db", place)
        assert set(re.findall(r"orchestr8://([\w/]+)", found[1])) == visible
        assert set(re.findall(r"skills/[\w/]+", invoke("list", "fragments", "--db", place)[1])) == visible
        assert "Roll out slowly." in str(invoke("load", "orchestr8://skills/alpha/one", "--db", place))
        assert invoke("load", "orchestr8://skills/beta/one", "--db", place)[0] != 0
        assert re.search(r"\b3\b", invoke("list", "--db", place)[1])
        assert not re.search(r"\b4\b", invoke("list", "--db", place)[1])
    tables = (
        "SELECT table_name::text FROM information_schema.columns WHERE column_name = 'fragment_id' AND table_schema = "
    )
    with (
        psycopg.connect(server.address("rights_one", "alpha", "secret")) as db,
        closing(sqlite3.connect(index)) as whole,
    ):
        for (table,) in server.ask("rights_one", f"{tables} 'orchestr8_1'"):
            seen = {id_ for (id_,) in db.execute(f"SELECT fragment_id FROM orchestr8_1.{table}".encode())}
            assert seen <= {id_ for (id_,) in whole.execute("SELECT id FROM fragment WHERE path NOT LIKE '%/beta/%'")}


def test_a_statement_that_fails_announces_nothing(spread: Spread, invoke: Invoke, tmp_path: Path) -> None:
    spread.server.ask("postgres", "CREATE DATABASE failing")
    (tmp_path / "rights.sql").write_text("SELECT 1; SELECT none", encoding="utf-8")
    to = spread.server.address("failing")
    code, _, err = invoke("publish", BUNDLED, "--to", to, "--no-gate", "--sql", tmp_path / "rights.sql")
    assert code == 1
    assert err.endswith('/failing refused: column "none" does not exist.\n')
    assert invoke("search", "retry", "--db", to)[2].startswith("Nothing was published to the channel stable")
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe9'")
    code, _, err = invoke("publish", BUNDLED, "--to", to, "--no-gate", "--sql", tmp_path / "latin.sql")
    assert (code, err) == (2, f"{tmp_path / 'latin.sql'} is not UTF-8 at byte 9; save it as UTF-8.\n")
    code, _, err = invoke("publish", BUNDLED, "--to", tmp_path, "--no-gate", "--sql", tmp_path / "rights.sql")
    assert (code, err) == (2, "Only PostgreSQL takes --sql.\n")
