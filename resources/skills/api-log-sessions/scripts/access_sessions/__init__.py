"""What join_sessions.py is made of: lines, requests of one client, sessions, and the report."""
