"""Checks a server by using it as a client would: both protocol eras, the tools, one search, and its exit."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence

from orchestr8_sqlite import __version__
from orchestr8_sqlite.clients.launch import SERVER
from orchestr8_sqlite.doctor.conversation import Conversation, Launch, ServerReply
from orchestr8_sqlite.doctor.report import Check, CheckVerdict, ok, omitted, problem
from orchestr8_sqlite.text.tokens import estimate_tokens
from orchestr8_sqlite.text.wording import counted

HANDSHAKE_REVISION = "2025-11-25"
MODERN_REVISION = "2026-07-28"
MAX_TOOL_TOKENS = 900
"""Maximum tokens that the definitions of all tools may cost a model."""

CLIENT_INFO = {"name": "orchestr8-sqlite doctor", "version": __version__}
INITIALIZE = {"protocolVersion": HANDSHAKE_REVISION, "capabilities": {}, "clientInfo": CLIENT_INFO}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN_REVISION,
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
REPORT = "please report this"


def check_server(command: Sequence[str], query: str, *, patience: float) -> Iterator[Check]:
    """Yield the checks of the server that *command* starts; no wait takes longer than *patience* seconds."""
    look = f"see what it writes to standard error: {shlex.join(command)}"
    try:
        with Conversation(Launch(command), patience=patience) as server:
            yield from _check_handshake_era(server, query, patience, look)
        with Conversation(Launch(command), patience=patience) as server:
            yield _check_modern_era(server, look)
            server.finish()
    except OSError as error:
        yield problem("start", f"{command[0]} cannot be started: {error.strerror}", "install orchestr8-sqlite again")


def check_launch(launch: Launch, *, patience: float) -> Check:
    """Return the first problem of the server that *launch* starts, or an ok if it is this server and answers.

    The advice is empty if the best remedy is to configure the client again.
    """
    look = f"see what it writes to standard error: {shlex.join(launch.command)}"
    try:
        with Conversation(launch, patience=patience) as server:
            checks = []
            for check in _check_handshake_era(server, "test", patience, look):
                if check.verdict is CheckVerdict.PROBLEM:
                    return check
                checks.append(check)
    except OSError as error:
        missing = error.filename if isinstance(error, FileNotFoundError) else None
        finding = f"{missing} does not exist" if missing else f"{launch.command[0]} cannot be started: {error.strerror}"
        return problem("start", finding, "")
    return ok("start", checks[0].finding)


def _check_handshake_era(server: Conversation, query: str, patience: float, look: str) -> Iterator[Check]:
    greeting = server.ask("initialize", INITIALIZE)
    yield _check_greeting(server, greeting, look)
    if greeting.result is not None:
        server.tell("notifications/initialized")
        yield _check_tools(server.ask("tools/list", {}), look)
        yield _check_search(server, query, look)
    else:
        yield omitted("tools", "not asked: there was no handshake")
        yield omitted("search", "not asked: there was no handshake")
    end = server.finish()
    yield _check_strays(server.strays)
    yield _check_end(end, patience, look)


def _check_greeting(server: Conversation, reply: ServerReply, look: str) -> Check:
    name = f"initialize {HANDSHAKE_REVISION}"
    if reply.result is None:
        return problem(name, _trouble(server, reply), look)
    info = reply.result.get("serverInfo", {})
    who = f"{info.get('name')} {info.get('version')} after {reply.milliseconds:,.0f} ms"
    if info.get("name") != SERVER:
        return problem(name, f"{who}, which is another server", "")
    revision = reply.result.get("protocolVersion")
    if revision != HANDSHAKE_REVISION:
        return problem(
            name, f"{who}, but it answered with revision {revision}", "upgrade the packages mcp and mcp-types"
        )
    return ok(name, who)


def _check_modern_era(server: Conversation, look: str) -> Check:
    name = f"server/discover {MODERN_REVISION}"
    reply = server.ask("server/discover", {"_meta": MODERN_META})
    if reply.result is None:
        return problem(name, _trouble(server, reply), look)
    supported = reply.result.get("supportedVersions", [])
    if MODERN_REVISION not in supported:
        return problem(
            name, f"it supports {', '.join(supported) or 'nothing'}", "upgrade the packages mcp and mcp-types"
        )
    return ok(name, f"after {reply.milliseconds:,.0f} ms")


def _check_tools(reply: ServerReply, look: str) -> Check:
    if reply.result is None:
        return problem("tools", _error(reply), look)
    tools = reply.result.get("tools")
    if not isinstance(tools, list) or not tools:
        return problem("tools", "the server offers none", REPORT)
    tokens = estimate_tokens(json.dumps(tools, ensure_ascii=False, separators=(",", ":")))
    finding = f"{', '.join(str(tool.get('name')) for tool in tools)}: ~{tokens:,} tokens"
    if tokens > MAX_TOOL_TOKENS:
        return problem("tools", f"{finding}, more than {MAX_TOOL_TOKENS}", REPORT)
    return ok("tools", finding)


def _check_search(server: Conversation, query: str, look: str) -> Check:
    reply = server.ask("tools/call", {"name": "search", "arguments": {"query": query}})
    if reply.result is None or reply.result.get("isError"):
        finding = server.first_error() or _error(reply) or _text(reply.result or {})
        return problem("search", finding, look)
    return ok("search", f"{query!r} answered in {reply.milliseconds:,.0f} ms")


def _check_strays(strays: Sequence[bytes]) -> Check:
    if not strays:
        return ok("stdout", "only messages")
    advice = "find what prints: a wrapper script or a shell profile around the command, or a package that it loads"
    return problem("stdout", f"{counted(len(strays), 'line')} besides the messages, first {strays[0][:60]!r}", advice)


def _check_end(reply: ServerReply, patience: float, look: str) -> Check:
    if reply.message is None:
        return problem("exit", f"still running {patience:g} s after the end of input", look)
    if reply.message["exit"] != 0:
        return problem("exit", f"exit code {reply.message['exit']}", look)
    return ok("exit", f"0, {reply.milliseconds:,.0f} ms after the end of input")


def _trouble(server: Conversation, reply: ServerReply) -> str:
    """Return why there is no result: the server's error, or that it ended, and its last words."""
    words = server.last_words()
    why = "it ended before it answered" if server.has_ended and reply.message is None else _error(reply)
    return why + (f"; it last wrote: {words[:200]}" if words and reply.message is None else "")


def _error(reply: ServerReply) -> str:
    """Return the error of a reply, or that no reply came; empty for a result."""
    error = (reply.message or {}).get("error")
    if isinstance(error, dict):
        return f"error {error.get('code')}: {error.get('message')}"
    return "" if reply.message else f"no answer after {reply.milliseconds / 1000:.1f} s"


def _text(result: Mapping[str, object]) -> str:
    """Return the first text of a tool's result."""
    content = result.get("content")
    first = content[0] if isinstance(content, list) and content else None
    return str(first.get("text", "")) if isinstance(first, dict) else "an empty answer"
