"""Reads and writes files on a web server: with time limits, and without sending a token where it does not belong."""

import base64
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from orchestr8_sqlite import __version__
from orchestr8_sqlite.errors import SettingsError, SourceError
from orchestr8_sqlite.settings import read_source_token
from orchestr8_sqlite.shipping.stores import PIECE, Changed, Missing

WAIT_SECONDS = 30.0
"""How long a server may send or take nothing."""

LEAST_RATE = 2048
"""Bytes per second that a server must send on average, after WAIT_SECONDS."""

MISSING = (404, 410)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Follows redirects of GET and HEAD to the same scheme only; `unredirected` headers such as a token stay behind."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,  # noqa: ANN401 - as in the base class
        newurl: str,
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            fp.close()
            raise SourceError(f"{_shown(req.full_url)} redirects to another scheme; name the address it leads to.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Web:
    """Files below one address, such as `https://host/indexes`.

    Use::

        web = Web("https://host/indexes")
        content, tag = web.read("stable.channel.json", most=1 << 18)
        web.write("stable.channel.json", new, tag)
    """

    def __init__(self, address: str) -> None:
        """Raise SettingsError if *address* cannot be used, or the token in the environment cannot be sent to it."""
        parts = urlsplit(address)
        if not parts.hostname or parts.query or parts.fragment:
            raise SettingsError(f"{_shown(address)} is not the address of a folder on a web server.")
        if parts.username is not None or parts.password is not None:
            raise SettingsError(f"{_shown(address)} holds a password: set it as ORCHESTR8_TOKEN=USER:PASSWORD.")
        self.address = address.rstrip("/")
        self._token = self._read_token()
        self._opener = urllib.request.build_opener(_SameScheme)

    def read(self, name: str, most: int) -> tuple[bytes, str | None]:
        """Return the content of a file and its ETag, if it has one.

        Raises:
            Missing: There is no such file.
            SourceError: It cannot be read, or has more than *most* bytes.
        """
        with self._asked("GET", name, {"Cache-Control": "no-cache"}) as answer:
            content = b""
            for piece in self._pieces(answer, name):
                content += piece
                if len(content) > most:
                    raise SourceError(f"{self.address}/{name} has more than {most:,} bytes.")
            return content, answer.headers.get("ETag")

    def read_from(self, name: str, start: int) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a file from *start* on, if the server can do that, in pieces, each with its place.

        Raises:
            Missing: There is no such file.
            SourceError: It cannot be read.
        """
        wanted = {"Range": f"bytes={start}-"} if start else {}
        with self._asked("GET", name, wanted) as answer:
            place = start if answer.status == http.HTTPStatus.PARTIAL_CONTENT else 0
            if place and not str(answer.headers.get("Content-Range", "")).startswith(f"bytes {start}-"):
                raise SourceError(f"{self.address}/{name} came from another place than was asked for.")
            for piece in self._pieces(answer, name):
                yield place, piece
                place += len(piece)

    def write(self, name: str, content: bytes | Path, expected: str | None = None, *, is_new: bool = False) -> None:
        """Write a file.

        Args:
            expected: The ETag of the file to replace; None to replace any.
            is_new: Only write if there is no such file.

        Raises:
            Changed: Another file is there.
            SourceError: It could not be written.
        """
        condition = {"If-Match": expected} if expected else {"If-None-Match": "*"} if is_new else {}
        if isinstance(content, bytes):
            self._put(name, content, len(content), condition)
            return
        with content.open("rb") as file:
            self._put(name, file, content.stat().st_size, condition)

    def _put(self, name: str, content: bytes | IO[bytes], size: int, condition: Mapping[str, str]) -> None:
        kind = "application/json" if name.endswith(".json") else "application/octet-stream"
        said = {"Content-Length": str(size), "Content-Type": kind, **condition}
        with self._asked("PUT", name, said, content) as answer:
            for _ in self._pieces(answer, name):
                """The server's words are of no interest, but its connection ends with them."""

    @contextmanager
    def _asked(
        self, method: str, name: str, headers: Mapping[str, str], content: bytes | IO[bytes] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield the server's answer, if it is one of success; turn everything else into our errors."""
        said = {"User-Agent": f"orchestr8-sqlite/{__version__}", "Accept-Encoding": "identity", **headers}
        request = urllib.request.Request(f"{self.address}/{name}", content, said, method=method)  # noqa: S310
        if self._token is not None:
            request.add_unredirected_header("Authorization", self._token)
        try:
            with self._opener.open(request, timeout=WAIT_SECONDS) as answer:
                yield answer
        except urllib.error.HTTPError as problem:
            with problem:
                raise self._translated(problem, method, name) from None
        except urllib.error.URLError as problem:
            raise SourceError(f"{self.address} cannot be reached: {_reason(problem.reason)}.") from None
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise SourceError(f"{self.address}/{name} broke off: {_reason(problem)}.") from None

    def _translated(self, problem: urllib.error.HTTPError, method: str, name: str) -> Exception:
        if problem.code in MISSING and method == "GET":
            return Missing(name)
        if problem.code == http.HTTPStatus.PRECONDITION_FAILED:
            return Changed(name)
        what = f"{self.address}/{name} answered {method} with {problem.code}"
        if problem.code in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            return SourceError(f"{what}: set ORCHESTR8_TOKEN and ORCHESTR8_TOKEN_FOR to a token that may do that.")
        if problem.code in (http.HTTPStatus.METHOD_NOT_ALLOWED, http.HTTPStatus.NOT_IMPLEMENTED):
            return SourceError(f"{what}: this server takes no files; publish to one that takes PUT, or by a command.")
        return SourceError(f"{what}.")

    def _pieces(self, answer: http.client.HTTPResponse, name: str) -> Iterator[bytes]:
        """Yield the body of an answer; a server that sends too slowly or too little is an error."""
        began, count = time.monotonic(), 0
        while piece := answer.read1(PIECE):
            count += len(piece)
            spent = time.monotonic() - began
            if spent > WAIT_SECONDS and count < LEAST_RATE * spent:
                raise SourceError(f"{self.address}/{name} comes too slowly: {count:,} bytes in {spent:.0f} s.")
            yield piece
        if answer.length:  # read1 does not complain of a body that ends early
            raise SourceError(f"{self.address}/{name} broke off: {answer.length:,} bytes are missing.")

    def _read_token(self) -> str | None:
        """Return the value of the header Authorization, if the token in the environment is for this server."""
        found = read_source_token()
        parts = urlsplit(self.address)
        if found is None or _origin(found[1]) != _origin(self.address):
            return None
        if parts.scheme != "https" and parts.hostname not in LOOPBACK:
            raise SettingsError(f"ORCHESTR8_TOKEN is not sent to {self.address}, where all could read it; use https.")
        token = found[0]
        if ":" in token:  # no bearer token has one: RFC 6750, section 2.1
            return f"Basic {base64.b64encode(token.encode()).decode()}"
        return f"Bearer {token}"


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or usual


def _reason(problem: object) -> str:
    return str(getattr(problem, "strerror", None) or problem or type(problem).__name__)


def _shown(address: str) -> str:
    """Return an address without a password."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
