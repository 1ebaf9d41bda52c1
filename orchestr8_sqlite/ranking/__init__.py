"""Finds the fragments that fit a request, scores them, and explains the scores."""
