"""A web server of files, as publishers and those who pull meet them: it takes PUT, or not; it can be made to fail."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

RANGE = re.compile(r"bytes=(\d+)-")
DROPPED = -1
"""Instead of a status: the connection is closed without an answer."""


class Request(NamedTuple):
    """What a client asked for."""

    method: str
    name: str
    authorization: str | None
    start: int


class Answer(NamedTuple):
    """What is answered instead of the file: another status or content, less than was promised, or somewhere else."""

    status: int = 200
    content: bytes | None = None
    cut_to: int | None = None
    location: str | None = None
    stored: int | None = None


NO_FAULT = Answer()


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that hang up."""


class FileServer:
    """Files of a folder at `url`. Whatever `fault` returns for a request is answered instead; None for no fault."""

    def __init__(self, folder: Path, *, tags: bool, heeds_conditions: bool, ranges: bool) -> None:
        self.folder = folder
        self.requests: list[Request] = []
        self.fault: Callable[[Request], Answer | None] = lambda _: None
        self.tags, self.heeds_conditions, self.ranges = tags, heeds_conditions, ranges
        self._server = _Quiet(("127.0.0.1", 0), lambda *given: _Handler(self, *given))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(0.01))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def names(self, method: str) -> list[str]:
        """Return what was asked for by *method*, in order."""
        return [one.name for one in self.requests if one.method == method]

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def file_server(
    folder: Path, *, tags: bool = True, heeds_conditions: bool = True, ranges: bool = True
) -> Iterator[FileServer]:
    """Yield a server of the files in *folder*.

    Args:
        tags: Whether it sends ETags.
        heeds_conditions: Whether it heeds If-Match and If-None-Match.
        ranges: Whether it sends parts of files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    server = FileServer(folder, tags=tags, heeds_conditions=heeds_conditions, ranges=ranges)
    try:
        yield server
    finally:
        server.close()


def tag_of(content: bytes) -> str:
    return f'"{md5(content, usedforsecurity=False).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, files: FileServer, *given: object) -> None:
        self._files = files
        super().__init__(*given)  # type: ignore[arg-type]

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        asked = self._asked()
        fault = self._files.fault(asked) or Answer()
        if fault.status == DROPPED:
            self.close_connection = True
            return
        file = self._files.folder / asked.name
        content = fault.content if fault.content is not None else file.read_bytes() if file.is_file() else None
        if fault.status != 200 or content is None:
            self._say(404 if content is None and fault.status == 200 else fault.status, b"no", location=fault.location)
            return
        if asked.start and self._files.ranges:
            if asked.start >= len(content):
                self._say(416, b"")
                return
            self._say(206, content[asked.start :], f"bytes {asked.start}-{len(content) - 1}/{len(content)}", fault)
        else:
            self._say(200, content, None, fault)

    def do_PUT(self) -> None:
        asked = self._asked()
        content = self.rfile.read(int(self.headers["Content-Length"]))
        fault = self._files.fault(asked)
        if fault is not None and fault.stored is None:
            if fault.status == DROPPED:
                self.close_connection = True
            else:
                self._say(fault.status, b"no", location=fault.location)
            return
        file = self._files.folder / asked.name
        now = tag_of(file.read_bytes()) if file.is_file() else None
        wanted, unwanted = self.headers.get("If-Match"), self.headers.get("If-None-Match")
        if self._files.heeds_conditions and ((wanted and wanted != now) or (unwanted and now)):
            self._say(412, b"")
            return
        file.write_bytes(content if fault is None else content[: fault.stored])
        self._say(201, b"")

    def _asked(self) -> Request:
        found = RANGE.fullmatch(self.headers.get("Range", ""))
        name, authorization = self.path.removeprefix("/"), self.headers.get("Authorization")
        asked = Request(self.command, name, authorization, int(found[1]) if found else 0)
        self._files.requests.append(asked)
        return asked

    def _say(
        self,
        status: int,
        content: bytes,
        part: str | None = None,
        fault: Answer = NO_FAULT,
        *,
        location: str | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if part is not None:
            self.send_header("Content-Range", part)
        if location is not None:
            self.send_header("Location", location)
        if self._files.tags and status == 200:
            self.send_header("ETag", tag_of(content))
        self.end_headers()
        self.wfile.write(content if fault.cut_to is None else content[: fault.cut_to])
        self.close_connection = fault.cut_to is not None
