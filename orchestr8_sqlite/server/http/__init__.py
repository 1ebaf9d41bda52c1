"""The server over HTTP: access, limits, and the worker processes that answer."""
