"""The checks that `doctor` makes: of this installation, of an index, of a running server, of clients' files.

report         what a check says
index          the index, without a server
conversation   a server process and the messages to and from it
server         a server, asked as a client would ask it
configurations the files of the clients
"""
