"""Functions on words and texts alone: keywords, normal forms, Markdown, tokens, wording, fences, word lists."""
