"""Code in the shipped library does the right thing off its happy path: a failing dependency, no input, a forger.

The blocks assert their own happy path; `test_shipped_code_runs.py` runs those assertions.
"""

import base64
import hashlib
import hmac
import json
import os
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
import { AppError, errorHandler, notFound } from "./block.js";
const lines = [];
const app = express();
app.use(express.json());
app.post("/body", (req, res) => res.json(req.body));
app.get("/upstream", () => { throw Object.assign(new Error("bad key sk-1"), { status: 401, headers: "sk-1" }); });
app.get("/deadlock", () => { throw Object.assign(new Error("deadlock"), { code: "40P01" }); });
app.get("/item/:id", (req, res) => res.json(req.params.id));
app.get("/own", () => { throw new AppError(502, "partner", "partner down", { cause: new Error("reset") }); });
app.use(notFound);
app.use(errorHandler((level, fields) => lines.push({ level, ...fields })));
const server = app.listen(0, async () => {
  const at = `http://127.0.0.1:${server.address().port}`;
  const found = {};
  for (const path of ["/upstream", "/deadlock", "/own", "/none", "/item/%A"])
    found[path] = (await fetch(at + path)).status;
  const bad = { method: "POST", headers: { "content-type": "application/json" }, body: '{"password": "hunter2"' };
  found["/body"] = (await fetch(at + "/body", bad)).status;
  console.log(JSON.stringify({ found, lines }));
  server.close();
  server.closeAllConnections();
});
"""


@pytest.fixture
def node_run(tmp_path: Path) -> Callable[[str, str], Any]:
    """Return what compiles the TypeScript of a document beside a main program, runs it and reads its JSON."""
    programs = brought(lambda: node_programs(CONTENT))
    options = "block.ts --target esnext --module nodenext --types node --skipLibCheck".split()

    def run(document: str, main: str) -> object:
        (tmp_path / "node_modules").symlink_to(programs.parent)
        (tmp_path / "package.json").write_text('{"type": "module"}')
        block = next(one for one in read_blocks(RESOURCES / document) if one.language == "typescript")
        (tmp_path / "block.ts").write_text(block.text)
        (tmp_path / "main.js").write_text(main)
        subprocess.run([str(programs / "tsc"), *options], cwd=tmp_path, check=True, timeout=60)
        node = shutil.which("node")
        assert node is not None
        done = subprocess.run([node, "main.js"], cwd=tmp_path, capture_output=True, check=True, text=True, timeout=60)
        found: object = json.loads(done.stdout)
        return found

    return run


@pytest.mark.slow
def test_express_maps_only_its_own_errors_to_4xx_and_logs_no_body(node_run: Callable[[str, str], Any]) -> None:
    report = node_run("examples/express-error-handling.md", EXPRESS)
    assert report["found"] == {
        "/upstream": 500,
        "/deadlock": 503,
        "/own": 502,
        "/none": 404,
        "/item/%A": 400,
        "/body": 400,
    }
    assert [line["level"] for line in report["lines"]] == ["error", "error", "error", "warn", "warn", "warn"]
    assert "reset" in report["lines"][2]["trace"]
    assert "hunter2" not in str(report)
    assert "headers" not in str(report)


TOKENS = """
import express from "express";
import { createAuth } from "./block.js";
let time = 1.7e12, down = false, wait;
const rows = new Map(), families = new Set();
const store = {
  insert: async (row) => void (families.add(row.family), rows.set(row.hash, row)),
  find: async (hash) => rows.get(hash),
  rotate: async (hash, at, since, next) => {
    if (down) throw new Error("down");
    const row = rows.get(hash);
    await wait;
    if (!row || !families.has(row.family)) return undefined;
    const used = row.usedAt;
    row.usedAt ??= at;
    if (used === null || used >= since) rows.set(next.hash, next);
    return used;
  },
  deleteFamily: async (family) => {
    families.delete(family);
    for (const [hash, row] of rows) if (row.family === family) rows.delete(hash);
  },
};
const app = express();
app.use("/", createAuth(new Uint8Array(32).fill(1), store, async () => "u1", () => time).router);
app.use((_err, _req, res, _next) => res.sendStatus(500));
const server = app.listen(0, async () => {
  const post = async (path, cookie = "") => {
    const headers = { "content-type": "application/json", cookie };
    const at = `http://127.0.0.1:${server.address().port}${path}`;
    const reply = await fetch(at, { method: "POST", headers, body: '{"email": "a", "password": "b"}' });
    return [reply.status, reply.headers.getSetCookie()[0]?.split(";")[0]];
  };
  let [, cookie] = await post("/login");
  down = true;
  const found = { down: (await post("/refresh", cookie))[0] };
  down = false;
  time += 11_000;
  found.retried = (await post("/refresh", cookie))[0];
  time += 11_000;
  found.reused = (await post("/refresh", cookie))[0];
  [, cookie] = await post("/login");
  let go;
  wait = new Promise((resolve) => (go = resolve));
  const slow = post("/refresh", cookie);
  await new Promise((resolve) => setTimeout(resolve, 100));
  await post("/logout", cookie);
  go();
  found.loggedOut = (await slow)[0];
  console.log(JSON.stringify(found));
  server.close();
  server.closeAllConnections();
});
"""


@pytest.mark.slow
def test_a_refresh_survives_a_database_error_and_not_a_log_out(node_run: Callable[[str, str], Any]) -> None:
    found = node_run("examples/express-jwt-auth.md", TOKENS)
    assert found == {"down": 500, "retried": 200, "reused": 401, "loggedOut": 401}


UPLOADS = """
import fs from "node:fs";
import http from "node:http";
import express from "express";
import sharp from "sharp";
process.env.UPLOAD_DIR = `${process.cwd()}/data`;
const { deliver, uploads } = await import("./block.js");
fs.writeFileSync("big.bin", Buffer.alloc(20_000_000));
const pixels = { create: { width: 9, height: 9, channels: 3, background: "red" } };
const image = await sharp(pixels).png().toBuffer();
console.error = () => {};
const app = express();
app.use(uploads(async () => "clean", async () => { throw new Error("database down"); }, () => "ann"));
app.get("/:file", (req, res) => deliver(res, { file: req.params.file, mime: "application/pdf", name: "a.pdf" }));
const server = app.listen(0, async () => {
  const at = `http://127.0.0.1:${server.address().port}`;
  const body = new FormData();
  body.append("file", new Blob([image]), "a.png");
  const found = { unsaved: (await fetch(`${at}/uploads`, { method: "POST", body })).status };
  found.left = fs.readdirSync("data/files", { recursive: true }).filter((name) => name.endsWith(".webp"));
  found.missing = (await fetch(`${at}/none.bin`)).status;
  for (let i = 0; i < 3; i++)
    await new Promise((next) => {
      http.get(`${at}/big.bin`, (res) => res.once("data", () => { res.destroy(); setTimeout(next, 200); }));
    });
  const target = (n) => { try { return fs.readlinkSync(`/proc/self/fd/${n}`); } catch { return ""; } };
  const files = fs.existsSync("/proc/self/fd") ? fs.readdirSync("/proc/self/fd").map(target) : [];
  found.open = files.filter((name) => name.endsWith("big.bin")).length;
  console.log(JSON.stringify(found));
  server.close();
  server.closeAllConnections();
});
"""


@pytest.mark.slow
def test_an_upload_that_was_not_saved_and_a_download_that_was_cut_leave_nothing(
    node_run: Callable[[str, str], Any],
) -> None:
    found = node_run("examples/file-upload-safe.md", UPLOADS)
    assert found == {"unsaved": 503, "left": [], "missing": 404, "open": 0}


STREAM = """
import fs from "node:fs";
import { gzipSync, gunzipSync } from "node:zlib";
import { convert } from "./block.js";
fs.writeFileSync("in.gz", gzipSync('{"a": 1}\\nnull\\nbroken\\n{"a": 2}'));
const stats = await convert("in.gz", "out.gz", async (record) => record);
const failed = await convert("in.gz", "none.gz", async () => { throw new Error("service down"); }).catch(String);
const out = String(gunzipSync(fs.readFileSync("out.gz")));
console.log(JSON.stringify({ stats, failed, out, files: fs.readdirSync(".") }));
"""


@pytest.mark.slow
def test_a_line_that_is_no_object_is_counted_and_a_failed_call_leaves_no_file(
    node_run: Callable[[str, str], Any],
) -> None:
    found = node_run("examples/node-stream-pipeline.md", STREAM)
    assert found["stats"] == {"read": 4, "written": 2, "rejected": 2}
    assert (found["out"], found["failed"]) == ('{"a":1}\n{"a":2}\n', "Error: service down")
    assert not [name for name in found["files"] if name.startswith("none.gz")]


@pytest.mark.skipif(shutil.which("flock") is None, reason="there is no flock here")
def test_a_script_started_by_cron_and_by_a_person_runs_once(tmp_path: Path) -> None:
    script, *_ = [one for one in read_blocks(RESOURCES / "examples/bash-script-template.md") if one.language == "bash"]
    (tmp_path / "backup-list").write_text(script.text)
    (tmp_path / "find").write_text("#!/bin/sh\necho started >&2\nread line\n")
    for program in ("backup-list", "find"):
        (tmp_path / program).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    start = [str(tmp_path / "backup-list"), str(tmp_path)]
    with subprocess.Popen(start, env={"PATH": path}, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        assert first.stderr is not None
        assert first.stderr.readline() == b"started\n"
        session = {"PATH": path, "XDG_RUNTIME_DIR": str(tmp_path)}
        second = subprocess.run(start, env=session, stdin=subprocess.DEVNULL, check=False, timeout=30)
        first.communicate(b"\n", timeout=30)
    assert (first.returncode, second.returncode) == (0, 75)
