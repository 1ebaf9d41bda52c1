"""The clients that can be told of this server: where each keeps its configuration, in which shape, and how to edit it.

known      the clients, their files on each platform, their dialects
launch     the command that starts this server
jsonc      edits in JSON with comments that leave every other byte alone
toml       the same in TOML
documents  an entry for this server → text to paste, or a file's new text
files      reading, backing up and replacing a configuration file
"""
