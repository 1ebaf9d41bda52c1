"""What docs/authoring.md shows as a good fragment is one, and its bad one loses against it."""

import re
from pathlib import Path

from support import MakeLibrary, build

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.ranking.lookup import find

GUIDE = (Path(__file__).parents[1] / "docs" / "authoring.md").read_text(encoding="utf-8")
GOOD, BAD = re.findall(r"^```markdown\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
REQUEST = "the container is 2 GB and deploys take forever"


def library(make_library: MakeLibrary) -> Path:
    linked = "# A Dockerfile\n\nA linked document.\n"
    return make_library(
        {
            "skills/docker-image-diet.md": GOOD,
            "best-practices/container-optimization.md": BAD,
            "examples/docker-multistage-nodejs.md": linked,
        }
    )


def test_the_template_is_a_fragment_of_which_nothing_is_reported(make_library: MakeLibrary, tmp_path: Path) -> None:
    with Catalog.open(build(library(make_library), tmp_path / "index.db")) as catalog:
        found = catalog.db.execute("SELECT path, code FROM diagnostic WHERE path LIKE 'skills/%'").fetchall()
        assert found == []
        written, counted = catalog.db.execute(
            "SELECT author_tokens, token_estimate FROM fragment WHERE uri = 'orchestr8://skills/docker-image-diet'"
        ).fetchone()
        assert abs(written - counted) <= 10


def test_a_symptom_finds_the_good_fragment_and_not_the_bad_one(make_library: MakeLibrary, tmp_path: Path) -> None:
    with Catalog.open(build(library(make_library), tmp_path / "index.db")) as catalog:
        result = find(catalog, make_request({"query": REQUEST}))
    assert [candidate.uri for candidate in result.candidates[:1]] == ["orchestr8://skills/docker-image-diet"]
    assert REQUEST in GUIDE.split("## A bad one")[1]
