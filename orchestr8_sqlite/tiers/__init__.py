"""The three tiers: precomputed answers, the keyword index, and fuzzy matching. One module each."""
