"""True token counts, from a real tokenizer."""

import warnings
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bpe_openai import Encoding


@cache
def _o200k() -> "Encoding":
    """Return the encoding; importing its library loads its data, which takes most of a second."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the library opens its data in an old way
        import bpe_openai
    return bpe_openai.get_encoding("o200k_base")


def true_tokens(text: str) -> int:
    """Return how many o200k_base tokens *text* has."""
    return len(_o200k().encode(text, disallowed_special=()))
