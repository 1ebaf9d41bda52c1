"""The MCP server: an adapter from the protocol to `Service`. The only package that imports the SDK.

Importing the SDK takes half a second. `ending`, and `start` and `descriptors` of `stdio/`, protect the process during
that time, so they do not need the SDK.
"""
