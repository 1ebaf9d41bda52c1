"""Checks of the library that ships: its form, its links, and that the code in it is code."""
