"""Serves requests: the open index, one version of it per request, and a cache of answers."""
