"""Turns a library's records into an index file: builds it whole or updates it, checks it and puts it in place."""
