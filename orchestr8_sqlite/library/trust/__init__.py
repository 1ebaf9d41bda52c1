"""Finds content in library files that an assistant should not obey unreviewed."""
