"""What clients' own listings of skills show of a library: their rules as data, and the application of them."""
