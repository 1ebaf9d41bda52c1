"""The MCP server: an adapter from the protocol to `Service`. The only package that imports the SDK.

Importing the SDK takes half a second. What protects the process meanwhile (`ending`; `start` and `descriptors` of
`stdio/`) does without it.
"""
