"""One page that shows an index: what is collected for it, and how it becomes a file that needs no network."""
