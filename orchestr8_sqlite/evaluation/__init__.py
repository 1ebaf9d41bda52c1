"""Measures how well an index answers, against judged queries."""
