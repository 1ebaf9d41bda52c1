"""The views of the page: the question that each answers, and how to ask it without the page."""

from orchestr8_sqlite.inspection.data import View

TOKENS_BY_CATEGORY = """
SELECT category, count(*) AS fragments, sum(token_estimate) AS tokens
  FROM fragment
 GROUP BY category
 ORDER BY tokens DESC
"""
TOKENS_BY_TAG = """
SELECT t.tag, count(*) AS fragments, sum(f.token_estimate) AS tokens
  FROM tag t JOIN fragment f ON f.id = t.fragment_id
 GROUP BY t.tag
 ORDER BY tokens DESC
"""
TOKENS_BY_ROOT = """
SELECT r.name AS root, r.owner, count(*) AS fragments, sum(f.token_estimate) AS tokens
  FROM fragment f JOIN source s ON s.id = f.source_id JOIN root r ON r.name = s.root
 GROUP BY r.name
 ORDER BY tokens DESC
"""
FRAGMENTS = """
SELECT uri, category, tags, token_estimate, source
  FROM fragment_detail
 ORDER BY uri
"""
WEIGHTS = """
SELECT uri, sum(weight) AS weight
  FROM field_detail WHERE stem = 'retri'
 GROUP BY uri
 ORDER BY 2 DESC, 1
"""
SCENARIOS = """
SELECT f.uri, s.text
  FROM scenario s JOIN fragment f ON f.id = s.fragment_id
 ORDER BY f.uri, s.ordinal
"""
NEAR_COPIES = """
SELECT a.uri, b.uri
  FROM near_copy n JOIN fragment a ON a.id = n.first_id JOIN fragment b ON b.id = n.fragment_id WHERE a.id <> b.id
 ORDER BY 1, 2
"""
HUBS = """
SELECT to_uri, count(*) AS pointing
  FROM reference_detail WHERE to_uri IS NOT NULL
 GROUP BY to_uri
 ORDER BY pointing DESC, to_uri
"""
ORPHANS = """
SELECT uri
  FROM fragment WHERE uri NOT IN (SELECT to_uri FROM reference_detail WHERE to_uri IS NOT NULL)
 ORDER BY uri
"""
DANGLING = """
SELECT from_uri, target, line
  FROM reference_detail WHERE to_uri IS NULL
 ORDER BY from_uri, ordinal
"""
UNREVIEWED = """
SELECT severity, code, root, path, line, message, fix
  FROM unreviewed
 ORDER BY severity, code, root, path
"""
FINDINGS = """
SELECT level, code, root, path, line, message, reviewer, reason, until
  FROM finding
 ORDER BY level, code
"""
PROVENANCE = """
SELECT uri, root, path, git_commit, sha256
  FROM provenance WHERE uri IS NOT NULL
 ORDER BY uri
"""
DESCRIPTIONS = """
SELECT name, length(description) AS characters
  FROM fragment
 ORDER BY name
"""
DIGESTS = """
SELECT uri, sha256
  FROM provenance WHERE uri IS NOT NULL
 ORDER BY uri
"""
LISTED = """
SELECT text, origin
  FROM library_query
 ORDER BY id
"""

VIEWS: list[View] = [
    {
        "id": "library",
        "title": "Library",
        "question": "Where are the tokens?",
        "sql": [TOKENS_BY_CATEGORY.strip(), TOKENS_BY_TAG.strip(), TOKENS_BY_ROOT.strip()],
        "command": "stats",
    },
    {
        "id": "fragments",
        "title": "Fragments",
        "question": "Which fragments have this tag, owner or problem?",
        "sql": [FRAGMENTS.strip()],
        "command": "list",
    },
    {
        "id": "search",
        "title": "Search",
        "question": "What does a request find, and why?",
        "sql": [WEIGHTS.strip()],
        "command": 'explain "retry a flaky call"',
    },
    {
        "id": "coverage",
        "title": "Coverage",
        "question": "Is each fragment found for what it says it is for, while that line is hidden?",
        "sql": [SCENARIOS.strip()],
        "command": "eval --self",
    },
    {
        "id": "overlaps",
        "title": "Overlaps",
        "question": "Which fragments compete for the same requests?",
        "sql": [NEAR_COPIES.strip()],
        "command": "lint ROOT --overlap",
    },
    {
        "id": "references",
        "title": "References",
        "question": "What do fragments point to, and what does nothing point to?",
        "sql": [HUBS.strip(), ORPHANS.strip(), DANGLING.strip()],
        "command": "load URI --related",
    },
    {
        "id": "findings",
        "title": "Findings",
        "question": "What is wrong, what should not be obeyed, and who has accepted it?",
        "sql": [UNREVIEWED.strip(), FINDINGS.strip(), PROVENANCE.strip()],
        "command": "lint ROOT",
    },
    {
        "id": "budget",
        "title": "Budget",
        "question": "What would a client's own listing keep of this library?",
        "sql": [DESCRIPTIONS.strip()],
        "command": "budget",
    },
    {
        "id": "since",
        "title": "Changes",
        "question": "What came, went or changed, and which requests find something else?",
        "sql": [DIGESTS.strip()],
        "command": "diff OLD.db",
    },
    {
        "id": "usage",
        "title": "Usage",
        "question": "What is searched, loaded and asked for in vain?",
        "sql": [LISTED.strip()],
        "command": "usage LOG",
    },
]
"""In the order of the tabs."""
