"""The index in Datasette: the folder it starts from, the stored queries, and a plugin that it loads from there."""
