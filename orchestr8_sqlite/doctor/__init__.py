"""The checks that `doctor` makes: of this installation, of an index, of a running server, of clients' files.

report         the result of a check
index          the index, without a server
conversation   talks to a server process
server         a server, used as a client would use it
configurations the files of the clients
"""
