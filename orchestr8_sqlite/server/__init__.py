"""The MCP server: an adapter from the protocol to `Service`. The only package that imports the SDK."""

from orchestr8_sqlite.server.run import run

__all__ = ["run"]
