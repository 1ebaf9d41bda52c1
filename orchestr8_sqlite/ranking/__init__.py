"""From a request to the fragments that suit it, with their scores and what explains them."""
