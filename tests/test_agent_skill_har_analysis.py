"""The script of the skill har-analysis finds what a page waited for, and prints no secrets."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("har-analysis", "analyze_har.py")
BEGIN = datetime(2026, 11, 22, 10, tzinfo=UTC)


def entry(at: int, url: str, **facts: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a request that began *at* milliseconds; facts are phases, size, kind, status, protocol, headers, page."""
    phases = {name: facts.get(name, 0) for name in ("blocked", "dns", "connect", "ssl", "send", "wait", "receive")}
    sent = [{"name": "Cookie", "value": facts["cookie"]}] if "cookie" in facts else []
    return {
        "pageref": facts.get("page", "p1"),
        "startedDateTime": (BEGIN + timedelta(milliseconds=at)).isoformat(),
        "time": sum(phases.values()),
        "request": {"method": "GET", "url": url, "headers": sent},
        "response": {
            "status": facts.get("status", 200),
            "httpVersion": facts.get("protocol", "h2"),
            "headers": [{"name": name, "value": value} for name, value in facts.get("headers", {}).items()],
            "content": {"size": facts.get("size", 0), "mimeType": facts.get("kind", "text/html"), "text": "]}"},
            "_transferSize": facts.get("size", 0),
        },
        "timings": phases,
    }


def record(path: Path, *entries: dict[str, Any], load: float = -1, pages: tuple[str, ...] = ("p1",)) -> Path:
    timings = {"onContentLoad": -1, "onLoad": load}
    listed = [{"id": page, "title": f"https://a.example.com/{page}", "pageTimings": timings} for page in pages]
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": list(entries), "pages": listed}}))
    return path


def test_a_slow_first_byte_is_blamed_on_the_server(tmp_path: Path) -> None:
    report = run_json(*SCRIPT, record(tmp_path / "a.har", entry(0, "https://a.example.com/", wait=900), load=1000))
    assert report["findings"] == ["server: first byte of the document after 900 ms of waiting (good: below 600)"]
    assert (report["load_ms"], report["phases"]["wait"]) == (1000, 900)


def test_a_document_that_did_not_change_is_still_the_document(tmp_path: Path) -> None:
    frame = entry(200, "https://ads.example.com/frame", wait=900)
    document = entry(0, "https://a.example.com/", wait=90, status=304)
    report = run_json(*SCRIPT, record(tmp_path / "a.har", document, frame))
    assert [line for line in report["findings"] if line.startswith("server:")] == []


def test_a_title_that_looks_like_a_broken_address_is_no_reason_to_stop(tmp_path: Path) -> None:
    path = record(tmp_path / "a.har", entry(0, "https://a.example.com/", wait=10))
    data = json.loads(path.read_text())
    data["log"]["pages"][0]["title"] = "//[draft] invoice"
    path.write_text(json.dumps(data))
    assert run_json(*SCRIPT, path)["page"] == "//[draft] invoice"


def test_only_redirects_before_the_document_are_hops(tmp_path: Path) -> None:
    document = [entry(0, "http://a.example.com/", wait=90, status=301), entry(100, "https://a.example.com/", wait=10)]
    later = entry(300, "https://a.example.com/old.png", wait=50, status=302, kind="image/png")
    report = run_json(*SCRIPT, record(tmp_path / "a.har", *document, later))
    assert "redirects: 90 ms before the document, 1 hops" in report["findings"]


@pytest.mark.parametrize(("status", "queued"), [(200, True), (0, False)])
def test_only_requests_with_an_answer_count_as_queued(tmp_path: Path, status: int, queued: bool) -> None:
    waiting = [entry(at, f"https://a.example.com/{at}", blocked=900, status=status) for at in range(4)]
    report = run_json(*SCRIPT, record(tmp_path / "a.har", *waiting))
    assert any(line.startswith("queueing: 4 requests") for line in report["findings"]) is queued


@pytest.mark.parametrize("status", [0, -1])
def test_a_request_without_an_answer_is_named(tmp_path: Path, status: int) -> None:
    aborted = entry(50, "https://a.example.com/b.png", wait=20, status=status)
    report = run_json(*SCRIPT, record(tmp_path / "a.har", entry(0, "https://a.example.com/", wait=10), aborted))
    assert any(line.startswith("failed or blocked: 1, e.g. 0 ") for line in report["findings"])


def test_the_line_of_the_page_holds_no_token_of_its_address(tmp_path: Path) -> None:
    token = "reset/4f9a8c7e6d5b4a3f2e1d0c9b8a7f6e5d"
    har = record(tmp_path / "a.har", entry(0, f"https://a.example.com/{token}"), pages=(token,))
    done = run_script(*SCRIPT, har)
    assert done.stdout.startswith("page    /reset/<id>  ")
    assert token[6:] not in done.stdout


def test_the_chain_holds_only_what_the_load_waited_for(tmp_path: Path) -> None:
    har = record(
        tmp_path / "a.har",
        entry(0, "https://a.example.com/", wait=100),
        entry(110, "https://a.example.com/app.js", wait=200, kind="text/javascript"),
        entry(120, "https://a.example.com/small.css", wait=20, kind="text/css"),
        entry(320, "https://a.example.com/data", wait=300, kind="application/json"),
        entry(330, "https://a.example.com/beacon", wait=5000, kind="text/plain"),
        load=700,
    )
    chain = run_json(*SCRIPT, har)["chain"]
    assert [one["name"] for one in chain] == ["a.example.com/", "a.example.com/app.js", "a.example.com/data"]
    assert chain[-1]["main_phase"] == "wait 300"


def test_waste_in_transfer_is_found(tmp_path: Path) -> None:
    har = record(
        tmp_path / "a.har",
        entry(0, "https://a.example.com/", status=301, wait=50, kind=""),
        entry(60, "https://a.example.com/new", wait=50, headers={"Content-Encoding": "br"}),
        entry(200, "https://a.example.com/app.js", size=100_000, kind="text/javascript"),
        *[entry(210, f"https://a.example.com/{n}.png", kind="image/png", protocol="http/1.1") for n in range(7)],
        entry(300, "https://a.example.com/api?a=1", kind="application/json", headers={"Content-Encoding": "br"}),
        entry(301, "https://a.example.com/api?a=1", kind="application/json", headers={"Content-Encoding": "br"}),
        entry(400, "https://a.example.com/gone", status=404, kind=""),
        load=500,
    )
    assert run_json(*SCRIPT, har)["findings"] == [
        "redirects: 50 ms before the document, 1 hops",
        "client errors: 1, e.g. 404 a.example.com/gone",
        "compression: 1 text responses uncompressed, about 70 kB too much, e.g. a.example.com/app.js",
        "caching: 8 static files without lifetime, e.g. a.example.com/app.js",
        "http/1.1: 7 requests to a.example.com share six connections",
        "duplicates: 1 addresses fetched more than once, e.g. a.example.com/api?... x2",
    ]


def test_silence_on_the_network_points_to_scripts(tmp_path: Path) -> None:
    har = record(
        tmp_path / "a.har",
        entry(0, "https://a.example.com/", wait=100),
        entry(900, "https://a.example.com/late", wait=10, kind="application/json"),
    )
    assert run_json(*SCRIPT, har)["findings"] == [
        "idle: nothing on the network for 800 ms at 100 ms: scripts or rendering, use a profile"
    ]
    har = record(tmp_path / "a.har", entry(0, "https://a.example.com/", wait=100), load=3000)
    assert run_json(*SCRIPT, har)["findings"] == [
        "idle: nothing on the network for 2900 ms at 100 ms: scripts or rendering, use a profile"
    ]


def test_secrets_are_not_printed_but_warned_of(tmp_path: Path) -> None:
    har = record(tmp_path / "a.har", entry(0, "https://a.example.com/x?token=geheim", cookie="geheim", status=500))
    shown = run_script(*SCRIPT, har).stdout
    assert "geheim" not in shown
    assert "a.example.com/x?..." in shown
    assert "cookies or authorization" in shown


def test_one_page_of_several_is_chosen(tmp_path: Path) -> None:
    har = record(
        tmp_path / "a.har",
        entry(0, "https://a.example.com/1"),
        entry(9, "https://a.example.com/2", page="p2"),
        pages=("p1", "p2"),
    )
    assert run_script(*SCRIPT, har).stdout.startswith("note    2 pages")
    assert [one["name"] for one in run_json(*SCRIPT, har, "--page", "2")["slowest"]] == ["a.example.com/2"]
    assert_refused(run_script(*SCRIPT, har, "--page", "3"), "has 2")


def test_what_is_no_recording_is_refused_and_an_empty_one_has_its_own_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "a.har"
    for content in ("{}", "no", '{"log": {"entries": [', '{"log": {"entries": [{"time": 1}]}}'):
        path.write_text(content)
        assert_refused(run_script(*SCRIPT, path), "a.har")
    assert run_script(*SCRIPT, record(path)).returncode == 1


def test_passwords_and_tokens_in_addresses_are_not_printed(tmp_path: Path) -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefg"
    paths = [f"login/{token}", "reset/9f8e7d6c5b4a39281706f5e4d3c2b1a0", f"login/{token}"]
    paths += ["app;jsessionid=9F8E7D6C5B4A", "reset/9f8eGhpcyBpcyBhIHNlY3JldCB0%3D%3D"]
    har = record(tmp_path / "a.har", *[entry(n, f"https://ann:hunter2@a.example.com/{p}") for n, p in enumerate(paths)])
    for output in (run_script(*SCRIPT, har).stdout, run_script(*SCRIPT, har, "--json").stdout):
        assert not [secret for secret in ("eyJ", "9f8e", "9F8E", "hunter2") if secret in output]
        assert "a.example.com/login/<id>" in output
        assert "duplicates: 1 addresses" in output


@pytest.mark.parametrize("path", ["reset/ImVtIg.Zx1abc.geheimabcdefghijklmnop12", "c/ann:1kXabc:geheim0123456789abcd"])
def test_signed_tokens_in_addresses_are_not_printed(tmp_path: Path, path: str) -> None:
    asset = "https://a.example.com/main.3f2a1b4c5d6e7f8a9b0c1d2e.js"
    har = record(tmp_path / "a.har", entry(0, f"https://a.example.com/{path}"), entry(1, asset))
    shown = run_script(*SCRIPT, har).stdout
    assert "geheim" not in shown
    assert "<id>" in shown
    assert "main.3f2a1b4c5d6e7f8a9b0c1d2e.js" in shown


@pytest.mark.parametrize("title", ["https://a.example.com?code=geheim", "https://ann:geheim@a.example.com"])
def test_a_title_without_a_path_shows_its_host_only(tmp_path: Path, title: str) -> None:
    broken = entry(1, "https://ann:geheim@exam\u2100ple.com/")
    path = record(tmp_path / "a.har", entry(0, "https://a.example.com/"), broken)
    data = json.loads(path.read_text())
    data["log"]["pages"][0]["title"] = title
    path.write_text(json.dumps(data))
    assert "geheim" not in run_script(*SCRIPT, path).stdout
    assert run_json(*SCRIPT, path)["page"] == "a.example.com"


def test_nothing_in_a_recording_acts_on_the_terminal(tmp_path: Path) -> None:
    har = record(tmp_path / "a.har", entry(0, "https://a.example.com/\x1b[2Jlist", wait=900, kind="text/\x9b1m"))
    recorded = json.loads(har.read_text())
    recorded["log"]["pages"][0]["title"] = "list\x1b[8m of\x07 items"
    har.write_text(json.dumps(recorded))
    output = run_script(*SCRIPT, har).stdout
    assert "a.example.com/?[2Jlist" in output
    assert "list?[8m of? items" in output
    assert all(one.isprintable() or one == "\n" for one in output)


def test_a_call_waits_for_the_call_of_the_same_script_that_ended_as_it_began(tmp_path: Path) -> None:
    script, site = {"_initiator": {"url": "https://a.example.com/app.js"}}, "https://a.example.com/"
    app = entry(100, f"{site}app.js", wait=100, kind="text/javascript") | {"_initiator": {"url": site}}
    calls = [entry(210, f"{site}user", wait=1000) | script, entry(1215, f"{site}orders", wait=900) | script]
    har = record(tmp_path / "a.har", entry(0, site, wait=90), app, *calls, load=205)
    names = [row["name"].rpartition("/")[2] for row in run_json(*SCRIPT, har, "--until", "2200")["chain"]]
    assert names == ["", "app.js", "user", "orders"]
    assert [row["at"] for row in run_json(*SCRIPT, har)["chain"]] == [0, 100]  # up to the load event


def test_the_chain_follows_who_asked_where_the_browser_says_so(tmp_path: Path) -> None:
    page = entry(0, "https://a.example.com/", wait=100)
    other = entry(110, "https://a.example.com/other.css", wait=90)
    late = entry(210, "https://a.example.com/late.js", wait=90) | {"_initiator": {"url": "https://a.example.com/"}}
    report = run_json(*SCRIPT, record(tmp_path / "a.har", page, other, late, load=400))
    assert [row["name"] for row in report["chain"]] == ["a.example.com/", "a.example.com/late.js"]


def test_entries_that_are_damaged_or_not_of_the_network_are_left_out(tmp_path: Path) -> None:
    good, null = entry(0, "https://a.example.com/"), entry(9, "https://a.example.com/null")
    null["response"]["content"] = null["timings"] = null["response"]["headers"] = None
    entries = (good, null, entry(1, "http://[bad/"), {"startedDateTime": "x"}, entry(2, "data:image/png;base64,AAAA"))
    report = run_json(*SCRIPT, record(tmp_path / "a.har", *entries))
    assert (report["requests"], len(report["unreadable"])) == (2, 2)
    assert "2 entries left out, entry 3: " in run_script(*SCRIPT, tmp_path / "a.har").stdout


@pytest.mark.parametrize("damage", [{"response": -5}, {"response": "x"}, {"request": 7}, {"time": float("nan")}])
def test_an_entry_of_another_shape_does_not_stop_the_script(tmp_path: Path, damage: dict[str, Any]) -> None:
    broken = entry(0, "https://a.example.com/") | damage
    report = run_json(*SCRIPT, record(tmp_path / "a.har", entry(0, "https://a.example.com/"), broken))
    assert report["requests"] + len(report["unreadable"]) == 2


def test_a_web_socket_that_stays_open_hides_no_silence_and_is_not_the_load(tmp_path: Path) -> None:
    har = record(
        tmp_path / "a.har",
        entry(0, "https://a.example.com/", wait=100),
        entry(110, "wss://a.example.com/live", status=101, wait=60_000),
        entry(110, "https://a.example.com/events", kind="text/event-stream", wait=60_000),
        entry(2000, "https://a.example.com/data", wait=300, kind="application/json"),
    )
    report = run_json(*SCRIPT, har)
    assert report["last_request_ms"] == 2300
    assert [one.partition(" for ")[2][:7] for one in report["findings"] if one.startswith("idle")] == ["1890 ms"]


def test_marks_count_from_the_page_which_may_begin_before_its_first_request(tmp_path: Path) -> None:
    har = record(
        tmp_path / "a.har",
        entry(3000, "https://a.example.com/", wait=100),
        entry(3200, "https://a.example.com/late", wait=900),
    )
    text = json.loads(har.read_text())
    text["log"]["pages"][0] |= {
        "startedDateTime": BEGIN.isoformat(),
        "pageTimings": {"onContentLoad": 3120, "onLoad": 3150},
    }
    har.write_text(json.dumps(text))
    report = run_json(*SCRIPT, har)
    assert (report["load_ms"], report["content_loaded_ms"]) == (150, 120)
    assert [row["name"] for row in report["chain"]] == ["a.example.com/"]


def test_what_safari_took_from_a_cache_is_no_request_over_the_network(tmp_path: Path) -> None:
    cached = entry(50, "https://a.example.com/b.js", kind="text/javascript", size=90_000) | {
        "_fetchType": "Memory Cache"
    }
    report = run_json(*SCRIPT, record(tmp_path / "a.har", entry(0, "https://a.example.com/", wait=10), cached, cached))
    assert (report["from_cache"], report["findings"]) == (2, [])


@pytest.mark.parametrize(
    ("headers", "lives"),
    [
        ({"cache-control": "public, max-age=31536000, immutable"}, True),
        ({"Expires": "Thu, 01 Jan 2099 00:00:00 GMT"}, True),
        ({"Expires": "Thu, 01 Jan 1970 00:00:00 GMT"}, False),
        ({"Expires": "0"}, False),
        ({"Cache-Control": "NO-STORE"}, False),
        ({"Cache-Control": "Max-Age=0"}, False),
        ({"Cache-Control": "s-maxage=3600"}, False),
        ({"Cache-Control": "public"}, False),
    ],
)
def test_only_what_a_browser_may_keep_has_a_lifetime(tmp_path: Path, headers: dict[str, str], lives: bool) -> None:
    files = [entry(n, f"https://a.example.com/{n}.png", kind="image/png", headers=headers) for n in range(1, 4)]
    found = run_json(*SCRIPT, record(tmp_path / "a.har", entry(0, "https://a.example.com/"), *files))["findings"]
    assert any("without lifetime" in one for one in found) is not lives


def test_an_encoding_that_compresses_nothing_is_none(tmp_path: Path) -> None:
    plain = entry(1, "https://a.example.com/a.js", kind="text/javascript", size=90_000)
    plain["response"]["headers"] = [{"name": "Content-Encoding", "value": "Identity"}]
    found = run_json(*SCRIPT, record(tmp_path / "a.har", entry(0, "https://a.example.com/"), plain))["findings"]
    assert any(one.startswith("compression: 1 ") for one in found)
