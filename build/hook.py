"""Hatchling hook: compiles resources/ into the index that ships inside the wheel (and editable installs)."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUNDLED = "orchestr8_sqlite/bundled.db"


class BundledIndex(BuildHookInterface[Any]):
    """Builds the bundled index; a library with problems fails the packaging."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the index in the source tree and add it to what is packaged."""
        root = Path(self.root)
        sys.path.insert(0, str(root))
        from orchestr8_sqlite.builder.build import build_index

        build_index([root / "resources"], root / BUNDLED, strict=True)
        build_data["artifacts"].append(BUNDLED)
