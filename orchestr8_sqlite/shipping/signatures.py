"""Signs what a channel says, and checks such signatures, with keys and signatures of minisign.

Source: https://jedisct1.github.io/minisign/; the package py-minisign reads and writes its files.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from orchestr8_sqlite.errors import RefusedRelease, SettingsError
from orchestr8_sqlite.settings import read_signing_password
from orchestr8_sqlite.shipping.statement import Statement, canonical

if TYPE_CHECKING:
    from minisign import SecretKey


def sign(content: bytes, key: Path, comment: str) -> str:
    """Return the signature of *content*, with *comment*, which it covers too.

    Raises:
        SettingsError: The file *key* cannot be used.
    """
    with _opened(key) as secret:
        made = secret.sign(content, untrusted_comment="orchestr8-sqlite", trusted_comment=comment)
        return bytes(made).decode() + "\n"


def is_signed_by(statement: Statement, key: Path) -> bool:
    """Tell whether *statement* is signed by the secret key in the file *key*.

    Raises:
        SettingsError: The file *key* cannot be used.
    """
    from minisign import Error, Signature  # noqa: PLC0415 - most commands check no signature

    with _opened(key) as secret:
        public = secret.get_public_key()
    try:
        public.verify(canonical(statement.fields), Signature.from_bytes(statement.signature.encode()))
    except Error:
        return False
    return True


@contextmanager
def _opened(key: Path) -> Iterator["SecretKey"]:
    """Yield the secret key in a file; it is wiped afterwards.

    Raises:
        SettingsError: It cannot be used.
    """
    from minisign import Error, SecretKey  # noqa: PLC0415 - most commands sign nothing

    try:
        with SecretKey.from_bytes(key.read_bytes()) as secret:
            if secret.is_encrypted():
                password = read_signing_password()
                if password is None:
                    raise SettingsError(f"The key {key} has a password: set ORCHESTR8_SIGNING_PASSWORD.")
                secret.decrypt(password)
            yield secret
    except OSError as problem:
        raise SettingsError(f"The key {key} cannot be read: {problem.strerror}.") from None
    except Error as problem:
        raise SettingsError(f"The key {key} cannot sign: {problem}; name a secret key of minisign.") from None


def require_signature(statement: Statement, key: str, place: str) -> None:
    """Return if *statement* is signed by *key*: the file of a public key of minisign, or its second line.

    Raises:
        SettingsError: The key cannot be used.
        RefusedRelease: The statement is not signed, by another key, or was changed since.
    """
    from minisign import Error, PublicKey, Signature  # noqa: PLC0415 - most commands check no signature

    try:
        file = Path(key)
        public = PublicKey.from_bytes(file.read_bytes()) if file.is_file() else PublicKey.from_base64(key)
    except (OSError, Error):
        raise SettingsError(
            f"{key} is not a public key: name the .pub file that `keygen` or minisign wrote, or its second line."
        ) from None
    if not statement.signature:
        raise RefusedRelease(f"{place} is not signed, and a signature is required; publish it with --sign.")
    try:
        public.verify(canonical(statement.fields), Signature.from_bytes(statement.signature.encode()))
    except Error as problem:
        raise RefusedRelease(f"{place} is not signed by the required key ({problem}).") from None


def write_keys(path: Path) -> tuple[Path, Path, str]:
    """Write a new key pair without a password; return the file of the secret key, of the public one, and the latter.

    Raises:
        SettingsError: One of the files exists or cannot be written.
    """
    from minisign import KeyPair  # noqa: PLC0415 - most commands make no keys

    secret, public = path.with_name(path.name + ".key"), path.with_name(path.name + ".pub")
    pair = KeyPair.generate()
    try:
        for file, content, mode in (
            (secret, bytes(pair.secret_key), 0o600),
            (public, bytes(pair.public_key), 0o644),
        ):
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
                opened.write(content + b"\n")
    except OSError as problem:
        raise SettingsError(f"The key {problem.filename or path} cannot be written: {problem.strerror}.") from None
    return secret, public, pair.public_key.to_base64().decode()
