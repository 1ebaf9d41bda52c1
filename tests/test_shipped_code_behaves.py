"""Code in the shipped library does the right thing off its happy path: a failing dependency, no input, a forger.

The blocks assert their own happy path; `test_shipped_code_runs.py` runs those assertions.
"""

import base64
import hashlib
import hmac
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from content.blocks import read_blocks
from environments import node_programs
from support import brought

RESOURCES = Path(__file__).parents[1] / "resources"
CONTENT = Path(__file__).parent / "content"


def run_block(document: str, language: str = "python") -> dict[str, Any]:
    """Run the Python of a document and return its names."""
    (block,) = [block for block in read_blocks(RESOURCES / document) if block.language == language]
    names: dict[str, Any] = {"__name__": "block"}
    exec(compile(block.text, block.place, "exec", dont_inherit=True), names)
    return names


@pytest.fixture(scope="module")
def loop() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "block", ModuleType("block"))  # where dataclasses look for types
        return run_block("patterns/llm-agent-loop.md")


def talk(loop: dict[str, Any], act: Callable[[], object], times: int, **kind: bool) -> tuple[str, Sequence[str]]:
    """Let a model ask for the same call *times* times and then be done; return the end and the tool's answers."""
    call = loop["Call"]("1", "act", {})
    replies: Iterator[Any] = iter([*(loop["Reply"]("", [call], 1) for _ in range(times)), loop["Reply"]("done", [], 1)])
    why, log = loop["run"](
        lambda _: next(replies), {"act": loop["Tool"](act, **kind)}, "task", lambda _: True, lambda: None
    )
    return why, [message["content"] for message in log if message["role"] == "tool"]


def test_a_job_may_be_asked_for_its_state_until_it_is_done(loop: dict[str, Any]) -> None:
    states = iter(["queued", *["running"] * 5, "finished"])
    why, answers = talk(loop, lambda: next(states), 7, polls=True)
    assert (why, answers[-1]) == ("done", "finished")


def test_a_call_that_failed_twice_may_be_tried_again(loop: dict[str, Any]) -> None:
    attempts: Iterator[Exception | str] = iter([OSError("503"), OSError("503"), "sent"])

    def act() -> str:
        if isinstance(one := next(attempts), Exception):
            raise one
        return one

    assert talk(loop, act, 3) == ("done", ["error: OSError: 503", "error: OSError: 503", "sent"])


def test_a_tool_that_returns_nothing_has_worked(loop: dict[str, Any]) -> None:
    assert talk(loop, lambda: None, 1, writes=True) == ("done", ["ok"])


def test_a_model_that_repeats_itself_is_stopped(loop: dict[str, Any]) -> None:
    why, answers = talk(loop, lambda: "same", 20)
    assert why == "stuck"
    assert answers[:2] == ["same", "same"]
    assert all(answer.startswith("error: same call again") for answer in answers[2:])


def test_a_tool_that_always_fails_ends_the_run(loop: dict[str, Any]) -> None:
    def act() -> None:
        raise OSError("503")

    why, answers = talk(loop, act, 20)
    assert (why, len(answers)) == ("stuck", 4)


SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


@pytest.fixture(scope="module")
def verify() -> Callable[..., bool]:
    found: Callable[..., bool] = run_block("examples/webhook-signature-verification.md")["verify"]
    return found


def signature(key: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(key, b"m1.1800000000.{}", hashlib.sha256)).decode()


def test_what_is_signed_with_the_secret_is_let_in(verify: Callable[..., bool]) -> None:
    assert verify([SECRET], "m1", "1800000000", signature(b"k" * 32), b"{}", 1800000000)


@pytest.mark.parametrize("missing", range(3))
def test_a_missing_header_is_refused(verify: Callable[..., bool], missing: int) -> None:
    headers: list[str | None] = ["m1", "1800000000", signature(b"k" * 32)]
    headers[missing] = None
    assert not verify([SECRET], *headers, b"{}", 1800000000)


@pytest.mark.parametrize("strange", ["m\udce9", "mü"])
def test_a_header_that_is_not_ascii_is_refused(verify: Callable[..., bool], strange: str) -> None:
    assert not verify([SECRET], strange, "1800000000", signature(b"k" * 32), b"{}", 1800000000)


@pytest.mark.parametrize("unset", ["", "whsec_"])
def test_a_secret_that_is_not_set_lets_nobody_in(verify: Callable[..., bool], unset: str) -> None:
    assert not verify([unset], "m1", "1800000000", signature(b""), b"{}", 1800000000)


def test_recall_counts_each_passage_and_leaves_out_questions_without_one() -> None:
    recall_at = run_block("skills/rag-retrieval-quality.md")["recall_at"]
    gold = {"several": {"a", "c", "d", "e"}, "one": {"x"}, "none": set[str]()}
    assert recall_at(2, {"several": ["a", "b", "c"], "one": ["x"]}, gold) == (0.25 + 1) / 2


EXPRESS = """
import express from "express";
import { AppError, errorHandler, notFound } from "./errors.js";
const lines = [];
const app = express();
app.use(express.json());
app.post("/body", (req, res) => res.json(req.body));
app.get("/upstream", () => { throw Object.assign(new Error("bad key sk-1"), { status: 401, headers: "sk-1" }); });
app.get("/deadlock", () => { throw Object.assign(new Error("deadlock"), { code: "40P01" }); });
app.get("/own", () => { throw new AppError(502, "partner", "partner down", { cause: new Error("reset") }); });
app.use(notFound);
app.use(errorHandler((level, fields) => lines.push({ level, ...fields })));
const server = app.listen(0, async () => {
  const at = `http://127.0.0.1:${server.address().port}`;
  const found = {};
  for (const path of ["/upstream", "/deadlock", "/own", "/none"]) found[path] = (await fetch(at + path)).status;
  const bad = { method: "POST", headers: { "content-type": "application/json" }, body: '{"password": "hunter2"' };
  found["/body"] = (await fetch(at + "/body", bad)).status;
  console.log(JSON.stringify({ found, lines }));
  server.close();
  server.closeAllConnections();
});
"""


@pytest.mark.slow
def test_express_maps_only_its_own_errors_to_4xx_and_logs_no_body(tmp_path: Path) -> None:
    programs = brought(lambda: node_programs(CONTENT))
    (tmp_path / "node_modules").symlink_to(programs.parent)
    (block,) = [one for one in read_blocks(RESOURCES / "examples/express-error-handling.md") if one.file == "errors.ts"]
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "errors.ts").write_text(block.text)
    (tmp_path / "main.js").write_text(EXPRESS)
    compiled = [str(programs / "tsc"), "errors.ts", "--target", "esnext", "--module", "nodenext", "--skipLibCheck"]
    subprocess.run(compiled, cwd=tmp_path, check=True, timeout=60)
    node = shutil.which("node")
    assert node is not None
    done = subprocess.run([node, "main.js"], cwd=tmp_path, capture_output=True, check=True, text=True, timeout=60)
    report = json.loads(done.stdout)
    assert report["found"] == {"/upstream": 500, "/deadlock": 503, "/own": 502, "/none": 404, "/body": 400}
    assert [line["level"] for line in report["lines"]] == ["error", "error", "error", "warn", "warn"]
    assert "reset" in report["lines"][2]["trace"]
    assert "hunter2" not in done.stdout
    assert "headers" not in done.stdout
