"""From the records of a library to an index file: built whole, brought up to date, checked, put in place."""
