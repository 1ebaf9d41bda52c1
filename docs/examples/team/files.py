"""A web server of the files in the current folder that takes PUT: the least that `publish` and `pull` need.

It prints its address and asks nobody who they are. For a real server see "Places" in docs/publishing.md.
"""

from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(SimpleHTTPRequestHandler):
    def do_PUT(self) -> None:
        name = Path(self.path).name
        part = Path(f".{name}.part")
        part.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
        part.replace(name)  # in one step: nobody reads half a file
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
