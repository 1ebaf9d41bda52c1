"""Bytes of a client → a message of JSON-RPC, or the one sentence that says why they hold none."""

import json
from typing import Any

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError


class NoMessage(Exception):
    """The bytes are no message; `error` is the answer to them."""

    def __init__(self, error: JSONRPCError) -> None:
        super().__init__(error.error.message)
        self.error = error


def read_message(data: bytes, what: str) -> JSONRPCMessage:
    """Return the message that *data* holds, a `line` or a `body`.

    Raises:
        NoMessage: It holds none.
    """
    try:
        message = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError:
        raise NoMessage(_judge(data, what)) from None
    if isinstance(message, JSONRPCNotification) and b'"id"' in data and _has_id(data):
        raise NoMessage(_judge(data, what))  # for the SDK it is a notification, for its sender a request
    return message


def fault(message: str, code: int = INVALID_REQUEST, request_id: str | int | None = None) -> JSONRPCError:
    """Return the answer to what is no request that can be answered."""
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def _judge(data: bytes, what: str) -> JSONRPCError:
    try:
        value: Any = json.loads(data.decode())
    except (ValueError, RecursionError):
        return fault(f"The {what} is not JSON in UTF-8.", PARSE_ERROR)
    request_id = value.get("id") if isinstance(value, dict) else None
    message = f"The {what} is no JSON-RPC 2.0 request or notification."
    return fault(message, request_id=request_id if _is_identifier(request_id) else None)


def _has_id(data: bytes) -> bool:
    """Tell whether the JSON object of *data* has an id; a number that is too long to be read is one, too."""
    try:
        return "id" in json.loads(data)
    except ValueError:
        return True


def _is_identifier(value: object) -> bool:
    """Tell whether *value* can be the id of an answer: a number without fraction, or text that UTF-8 can hold."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    return isinstance(value, int) and not isinstance(value, bool)
