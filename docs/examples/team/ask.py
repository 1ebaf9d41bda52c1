"""Calls a tool of an MCP server over HTTP, as an assistant does, and prints the text of the answer.

Use: python3 ask.py http://127.0.0.1:8765/mcp search '{"query": "a flaky call"}'
"""

import json
import sys
from urllib.request import Request, urlopen

REVISION = "2026-07-28"

url, tool, arguments = sys.argv[1:]
params = {
    "name": tool,
    "arguments": json.loads(arguments),
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
    },
}
headers = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": REVISION,
    "Mcp-Method": "tools/call",
    "Mcp-Name": tool,
}
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
with urlopen(Request(url, body, headers), timeout=30) as answer:
    result = json.load(answer)["result"]
print(*(part["text"] for part in result["content"]), sep="\n")
sys.exit(result.get("isError", False))
