"""What a server's log says of the use of a library: searches, what was loaded, and what was asked for in vain."""
