"""`suggest`: names the fragments that a prompt is about, for hooks of clients."""

from orchestr8_sqlite.cli.options import Database


def suggest(db: Database = None) -> None:
    """Read a prompt and name what the library surely has for it, for hooks of clients.

    Standard input has the prompt, as text or as the JSON that a client sends to a hook. Prints at most two lines, and
    nothing for most prompts. Never ends with exit code 2, by which a hook blocks a prompt.

    Example: echo "undo my last commit" | orchestr8-sqlite suggest
    """
    from orchestr8_sqlite.cli.hook import run_hook

    run_hook(db)
