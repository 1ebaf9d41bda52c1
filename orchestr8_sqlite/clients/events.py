"""What a client sends to a hook before its model reads a prompt, and what it takes back.

It is one JSON object each way, on standard input and output. A client goes on if a hook ends with code 1, and blocks
the prompt if it ends with 2.

Source: code.claude.com/docs/en/hooks, "UserPromptSubmit"; openai/codex, codex-rs/hooks/schema;
geminicli.com/docs/hooks/reference, "BeforeAgent". Seen in Claude Code 2.1.197, Codex 0.169.0, Gemini CLI 0.61.0.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from orchestr8_sqlite.errors import RequestError


class Event(NamedTuple):
    """A prompt, and the client's name of the moment; empty if a person typed the prompt."""

    prompt: str
    name: str = ""


def read_event(text: str) -> Event:
    """Return the event of a client, or of a person if *text* is no JSON object.

    Raises:
        RequestError: It is an object without a prompt.
    """
    if not text.lstrip().startswith("{"):
        return Event(text)
    try:
        sent = json.loads(text)
        prompt, name = sent["prompt"], sent.get("hook_event_name", "")
    except (ValueError, KeyError, RecursionError):
        prompt = name = None
    if not isinstance(prompt, str) or not isinstance(name, str):
        raise RequestError(
            'Standard input must be a prompt, or what a client sends: {"prompt": …, "hook_event_name": …}.'
        )
    return Event(prompt, name)


def reply(event: Event, lines: Sequence[str]) -> str:
    """Return what to print: *lines* as the context that the client adds to the prompt; nothing if there are none."""
    text = "\n".join(lines)
    if not text or not event.name:
        return text
    added = {"hookEventName": event.name, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": added}, ensure_ascii=False)
