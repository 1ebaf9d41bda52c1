"""Compile a library of Markdown fragments into one SQLite file and answer from it."""

__version__ = "0.1.0"
