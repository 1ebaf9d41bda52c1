"""`serve`: the MCP server."""

from orchestr8_sqlite.cli.options import Database


def serve(db: Database = None) -> None:
    """Serve the index to an AI coding assistant: MCP over standard input and output.

    Example: claude mcp add orchestr8 -- orchestr8-sqlite serve --db index.db
    """
    from orchestr8_sqlite.server.start import serve_stdio
    from orchestr8_sqlite.settings import read_settings

    serve_stdio(read_settings(db))
