"""Mutation testing of what security rests on: small changes of the code, each of which some test has to notice.

`make mutation` runs mutmut as `[tool.mutmut]` in pyproject.toml says. A mutant that no test notices must be explained
in `explained.txt`, mostly as one that behaves like the code; one that is not there is a gap in the tests.
"""
