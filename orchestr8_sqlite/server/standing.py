"""What the server costs a client in every conversation, however large the library is."""

from typing import NamedTuple

from orchestr8_sqlite.server.definitions import PROFILES
from orchestr8_sqlite.server.identity import read_instructions
from orchestr8_sqlite.settings import Place, Profile
from orchestr8_sqlite.text.tokens import compact_json, estimate_tokens


class Standing(NamedTuple):
    """Estimated tokens of the definitions of tools, as `tools/list` sends them, and of the instructions."""

    tools: int
    instructions: int


def standing_tokens(database: Place, profile: Profile = Profile.LIBRARY) -> Standing:
    """Return what a server over the index at *database* costs in every conversation."""
    definitions = [tool.model_dump(by_alias=True, exclude_none=True) for tool in PROFILES[profile]]
    return Standing(estimate_tokens(compact_json(definitions)), estimate_tokens(read_instructions(database, profile)))
