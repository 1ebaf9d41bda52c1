"""Turns what was found into text: answers, documents, listings, completions, prompts, files of skills."""
