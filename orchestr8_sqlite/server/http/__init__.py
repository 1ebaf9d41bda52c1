"""The server over HTTP: who may ask, how much, and the worker processes that answer."""
