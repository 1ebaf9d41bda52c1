"""The clients that can use this server: where each keeps its configuration, in which format, and how to edit it.

known      the clients, their files on each platform, their dialects
launch     the command that starts this server
jsonc      edits JSON with comments, leaving every other byte alone
toml       edits TOML
documents  an entry for this server → text to paste, or a file's new text
hooks      the hook that asks this library before each prompt, in a client's settings
events     what a client sends to such a hook, and what it takes back
files      reading, backing up and replacing a configuration file
"""
