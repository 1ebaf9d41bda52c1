"""From what was found to text: answers, documents, listings, completions, prompts, files of skills."""
