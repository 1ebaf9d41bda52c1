"""The skills of an index as a client would read them: its Agent Skills, or every fragment as if it were one."""

from orchestr8_sqlite.budget.listing import Skill
from orchestr8_sqlite.index.catalog import Catalog

FRAGMENTS = """
SELECT coalesce(nullif(json_extract(f.metadata, '$.name'), ''), f.name) AS name, f.description,
       coalesce(json_extract(f.metadata, '$.when_to_use'), '') AS when_to_use,
       coalesce(json_extract(f.metadata, '$."disable-model-invocation"'), 0) IN (1, 'true') AS manual,
       EXISTS (SELECT 1 FROM skill_file b WHERE b.path = 'SKILL.md' AND b.fragment_id = f.id) AS is_skill,
       f.uri
  FROM fragment f ORDER BY name, f.uri
"""


def read_skills(catalog: Catalog, *, whole: bool) -> list[Skill]:
    """Return the Agent Skills of an index by name; with *whole* all fragments, each as if it were a skill."""
    return [
        Skill(str(name), f"{description} - {when}" if when else description, bool(manual), uri)
        for name, description, when, manual, is_skill, uri in catalog.rows(FRAGMENTS)
        if whole or is_skill
    ]
