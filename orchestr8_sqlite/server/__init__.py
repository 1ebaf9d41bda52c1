"""The MCP server: an adapter from the protocol to `Service`. The only package that imports the SDK.

What runs before the first answer (`start`, `early`, `identity`, `descriptors`) does without it:
importing the SDK takes most of a second.
"""
