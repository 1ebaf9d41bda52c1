"""The lists that a library answers with: its categories, and the fragments of one."""

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS, SCHEME
from orchestr8_sqlite.text.tokens import estimate_tokens
from orchestr8_sqlite.text.wording import counted, one_line

LIST_TOKENS = 3000
LONGEST_LIST = 500


def registry(catalog: Catalog) -> str:
    """Return the categories with their counts, and how to ask."""
    lines = ["# Registry"]
    for category, count in catalog.category_counts().items():
        lines.append(f"- {SCHEME}://{CATEGORY_FOLDERS[category]} ({count:,})")
    lines.append(f"Search all: {SCHEME}://match?query=… · one category: {SCHEME}://<category>/match?query=…")
    lines.append(
        "Parameters: terms, mode=index|catalog|full, categories, tags, maxResults, maxTokens, minScore, ranker, explain"
    )
    return "\n".join(lines)


def category_list(catalog: Catalog, category: str) -> str:
    """Return the fragments of *category* by URI, as many as fit into LIST_TOKENS, and how many are left out."""
    folder = CATEGORY_FOLDERS[category]
    count = catalog.category_counts().get(category, 0)
    lines = [
        f"# {folder}: {counted(count, 'fragment')}",
        f"Read: {SCHEME}://{folder}/<name> · search: {SCHEME}://{folder}/match?query=…",
    ]
    used = sum(map(estimate_tokens, lines))
    for row in catalog.fragments(category, limit=LONGEST_LIST):
        name = row.uri.removeprefix(f"{SCHEME}://{folder}/")
        line = f"- {name} (~{row.token_estimate}): {one_line(row.title, 60)}"
        used += estimate_tokens(line) + 1
        if used > LIST_TOKENS:
            break
        lines.append(line)
    left_out = count - (len(lines) - 2)
    if left_out:
        lines.append(f"… and {left_out:,} more; search to find them.")
    return "\n".join(lines)
