"""Library roots → records and diagnostics. Nothing is dropped in silence: each file is a record or a diagnostic."""
