"""The server over standard input and output, from its first line to its end."""
