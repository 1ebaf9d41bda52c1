"""The index file: schema, opening, checksums, diff, export, limits of `sql`, leftovers of killed builds."""
