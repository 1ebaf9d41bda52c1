"""The index file: its schema, opening, checksums, comparing, the bounds of `sql`, exporting, leftovers of builds."""
