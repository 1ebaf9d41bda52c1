"""The digest of a list of files, as orchestr8.lock pins a source and an entry of `skills/list` names a skill."""

import hashlib
from collections.abc import Mapping


def digest_list(digests: Mapping[str, str]) -> str:
    """Return the SHA-256 of a list of files, in the form of `sha256sum`, sorted by the bytes of the paths.

    Args:
        digests: By path, the SHA-256 of each file.
    """
    lines = (f"{digest}  {path}\n" for path, digest in sorted(digests.items(), key=lambda one: one[0].encode()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()
