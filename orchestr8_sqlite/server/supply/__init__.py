"""Where the served index comes from: it is built, or kept up to date, by a process beside the server."""
