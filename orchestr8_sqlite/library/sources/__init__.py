"""The sources that orchestr8.toml names: fetched, checked against a lock file, kept in a cache, read like roots."""
