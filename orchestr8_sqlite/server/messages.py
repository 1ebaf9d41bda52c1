"""Bytes from a client → a JSON-RPC message, the members of a batch, or an error that says what is wrong."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import TypeAdapter, ValidationError

ARRAY = re.compile(rb"[ \t\r\n]*\[")
MOST_IN_BATCH = 100
"""Most messages in a batch: each may ask for an answer of a megabyte."""

_array: TypeAdapter[list[Any]] = TypeAdapter(list[Any])


class NoMessage(Exception):
    """The bytes are not a message; `error` is the answer to them."""

    def __init__(self, error: JSONRPCError) -> None:
        super().__init__(error.error.message)
        self.error = error


Batch = Sequence[JSONRPCMessage | NoMessage]
"""The members of a batch; one that is not a message gets its own error."""


def read_message(data: bytes, what: str) -> JSONRPCMessage:
    """Return the message in *data*; *what* is `line` or `body`, for the error.

    Raises:
        NoMessage: *data* is not a message.
    """
    try:
        message = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError:
        raise NoMessage(_judge(data, what)) from None
    if isinstance(message, JSONRPCNotification) and b'"id"' in data and _has_id(data):
        raise NoMessage(_judge(data, what))  # the SDK reads a notification, its sender meant a request
    return message


def is_array(data: bytes) -> bool:
    """Tell whether *data* begins like a batch."""
    return ARRAY.match(data) is not None


def read_batch(data: bytes, what: str) -> Batch:
    """Return the members of the batch in *data*.

    Source: JSON-RPC 2.0, section 6, and revision 2025-03-26, "Batching" and "Initialization".

    Raises:
        NoMessage: *data* is not a batch.
    """
    try:
        members = _array.validate_json(data)
    except ValidationError:
        raise NoMessage(fault(f"The {what} is not JSON in UTF-8.", PARSE_ERROR)) from None
    if not 1 <= len(members) <= MOST_IN_BATCH:
        raise NoMessage(fault(f"A batch has 1 to {MOST_IN_BATCH} messages, not {len(members):,}."))
    return [_read_member(member) for member in members]


def _read_member(value: object) -> JSONRPCMessage | NoMessage:
    try:
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        return NoMessage(_judge_value(value, "message"))
    if isinstance(message, JSONRPCNotification) and isinstance(value, dict) and "id" in value:
        return NoMessage(_judge_value(value, "message"))
    if isinstance(message, JSONRPCRequest) and (message.method == "initialize" or envelope(message) is not None):
        return NoMessage(fault(f"{message.method} must be sent by itself, not in a batch.", request_id=message.id))
    return message


def envelope(message: JSONRPCMessage) -> Mapping[str, Any] | None:
    """Return the `_meta` of a request if it names the revision, as requests since 2026-07-28 do."""
    meta = (message.params or {}).get("_meta") if isinstance(message, JSONRPCRequest) else None
    return meta if isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta else None


def fault(message: str, code: int = INVALID_REQUEST, request_id: str | int | None = None) -> JSONRPCError:
    """Return the error for something that is not a valid request."""
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def dump(message: JSONRPCMessage, *, null_id: bool = False) -> bytes:
    """Return the bytes of *message* to send.

    Args:
        null_id: Whether an error without a known request id carries the id `null`, instead of no id.
    """
    unread = isinstance(message, JSONRPCError) and message.id is None and not null_id
    return message.model_dump_json(by_alias=True, exclude_unset=True, exclude={"id"} if unread else None).encode()


def _judge(data: bytes, what: str) -> JSONRPCError:
    try:
        value: Any = json.loads(data.decode())
    except (ValueError, RecursionError):
        return fault(f"The {what} is not JSON in UTF-8.", PARSE_ERROR)
    return _judge_value(value, what)


def _judge_value(value: object, what: str) -> JSONRPCError:
    request_id = value.get("id") if isinstance(value, dict) else None
    message = f"The {what} is not a JSON-RPC 2.0 request or notification."
    return fault(message, request_id=request_id if _is_identifier(request_id) else None)


def _has_id(data: bytes) -> bool:
    """Tell whether the JSON object in *data* has an id; a number too long to parse counts as one."""
    try:
        return "id" in json.loads(data)
    except ValueError:
        return True


def _is_identifier(value: object) -> bool:
    """Tell whether *value* can be the id of an answer: an integer, or text that UTF-8 can encode."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    return isinstance(value, int) and not isinstance(value, bool)
