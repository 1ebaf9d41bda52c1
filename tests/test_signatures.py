"""Signatures: what a channel says is signed as a whole, with keys of minisign, and checked before the fetching."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from minisign import KeyPair, PublicKey, Signature
from releases import edit, index_of, ship, version_of
from support import Invoke

from orchestr8_sqlite.errors import SettingsError
from orchestr8_sqlite.shipping.signatures import sign, write_keys
from orchestr8_sqlite.system import is_posix

CHANNEL = "stable.channel.json"

KNOWN_KEY = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
KNOWN_SIGNATURE = """untrusted comment: signature from minisign secret key
RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=
trusted comment: timestamp:1556193335\tfile:test
y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==
"""
"""Of the bytes `test`, made by minisign itself. Source: github.com/jedisct1/rust-minisign-verify, README."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, str]:
    """Return the file of a secret key and the text of its public one."""
    secret, _, text = write_keys(tmp_path / "team")
    return secret, text


def test_what_minisign_signed_is_read_as_minisign_reads_it() -> None:
    PublicKey.from_base64(KNOWN_KEY).verify(b"test", Signature.from_bytes(KNOWN_SIGNATURE.encode()))


@pytest.mark.parametrize("form", ["file", "text"])
def test_signed_release_is_pulled_by_whoever_has_the_public_key(
    invoke: Invoke, store: Path, keys: tuple[Path, str], form: str
) -> None:
    ship(1, store, key=keys[0])
    key = str(keys[0].with_suffix(".pub")) if form == "file" else keys[1]
    assert invoke("pull", store, "--require-signature", key)[0] == 0
    assert version_of(Path("index.db")) == 1


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here")
def test_signature_is_over_what_jq_prints_of_the_other_fields(
    invoke: Invoke, store: Path, keys: tuple[Path, str]
) -> None:
    bounds = ("--fail-under", "recall@5=0")
    assert invoke("publish", index_of(1), "--to", store, "--sign", keys[0], *bounds)[0] == 0
    printed = subprocess.run(["jq", "-cS", "del(.signature)", store / CHANNEL], stdout=subprocess.PIPE, check=True)
    signature = json.loads((store / CHANNEL).read_text(encoding="utf-8"))["signature"]
    PublicKey.from_base64(keys[1]).verify(printed.stdout, Signature.from_bytes(signature.encode()))


@pytest.mark.parametrize(
    "fields",
    [
        {"serial": 9},
        {"published": "2031-01-01T00:00:00Z"},
        {"gate": {"bounds": []}},
        {"earlier": []},
        {"more": 1},
        {"signature": ""},
        {"signature": "nonsense"},
        {"signature": KNOWN_SIGNATURE},
    ],
)
def test_whatever_is_changed_after_the_signing_is_refused(
    invoke: Invoke, store: Path, keys: tuple[Path, str], fields: dict[str, object]
) -> None:
    ship(1, store, key=keys[0])
    ship(2, store, key=keys[0])
    assert invoke("pull", store, "--require-signature", keys[1], "-o", "first.db")[0] == 0
    edit(store, **fields)
    code, _, said = invoke("pull", store, "--require-signature", keys[1])
    assert (code, said.count("\n"), Path("index.db").exists()) == (1, 1, False)
    assert "is not signed" in said


def test_release_signed_with_another_key_is_refused(invoke: Invoke, store: Path, keys: tuple[Path, str]) -> None:
    ship(1, store, key=keys[0])
    other = KeyPair.generate().public_key.to_base64().decode()
    code, _, said = invoke("pull", store, "--require-signature", other)
    assert (code, "is not signed by the required key" in said) == (1, True)


def test_unsigned_release_is_published_again_with_a_signature(
    invoke: Invoke, store: Path, keys: tuple[Path, str]
) -> None:
    ship(1, store)
    assert invoke("pull", store, "--require-signature", keys[1])[0] == 1
    assert ship(1, store, key=keys[0]).serial == 2
    assert invoke("pull", store, "--require-signature", keys[1])[0] == 0


def test_new_key_signs_what_the_old_one_signed_before(
    invoke: Invoke, store: Path, keys: tuple[Path, str], tmp_path: Path
) -> None:
    assert [ship(1, store, key=keys[0]).serial for _ in range(2)] == [1, 1]
    secret, _, public = write_keys(tmp_path / "next")
    assert ship(1, store, key=secret).serial == 2
    assert invoke("pull", store, "--require-signature", public)[0] == 0


@pytest.mark.parametrize(("is_signed", "dropped"), [(False, "2 earlier releases"), (True, "1 earlier release")])
def test_key_vouches_for_no_release_that_it_did_not_sign(
    invoke: Invoke, store: Path, keys: tuple[Path, str], tmp_path: Path, is_signed: bool, dropped: str
) -> None:
    other = write_keys(tmp_path / "other")[0] if is_signed else None
    ship(1, store, key=keys[0])
    foreign = ship(2, store, key=other)
    code, _, said = invoke("publish", index_of(3), "--to", store, "--sign", keys[0], "--no-gate")
    assert (code, said) == (0, f"The channel was not signed with this key: it no longer lists {dropped} for --pin.\n")
    required = ("--require-signature", keys[1])
    assert "lists no release" in invoke("pull", store, "--pin", foreign.sha256, *required)[2]
    assert invoke("pull", store, *required)[0] == 0
    assert version_of(Path("index.db")) == 3
    assert invoke("publish", index_of(1), "--to", store, "--sign", keys[0], "--no-gate")[2] == ""
    assert [one["serial"] for one in json.loads((store / CHANNEL).read_text("utf-8"))["earlier"]] == [3]


def test_pin_and_lock_need_the_signature_too(invoke: Invoke, store: Path, keys: tuple[Path, str]) -> None:
    release = ship(1, store, key=keys[0])
    assert invoke("pull", store, "--lock")[0] == 0
    edit(store, program="somebody else's")
    for how in (["--locked"], [store, "--pin", release.sha256]):
        code, _, said = invoke("pull", *how, "--require-signature", keys[1], "-o", "other.db")
        assert (code, "is not signed by the required key" in said) == (1, True)
    assert not Path("other.db").exists()


def test_key_with_a_password_signs_with_the_password_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = KeyPair.generate()
    pair.secret_key.encrypt("correct horse", opslimit=1 << 15, memlimit=1 << 24)
    key = tmp_path / "team.key"
    key.write_bytes(bytes(pair.secret_key) + b"\n")
    with pytest.raises(SettingsError, match="set ORCHESTR8_SIGNING_PASSWORD"):
        sign(b"text", key, "comment")
    monkeypatch.setenv("ORCHESTR8_SIGNING_PASSWORD", "wrong")
    with pytest.raises(SettingsError, match="wrong password") as problem:
        sign(b"text", key, "comment")
    assert "wrong\n" not in str(problem.value)
    monkeypatch.setenv("ORCHESTR8_SIGNING_PASSWORD", "correct horse")
    pair.public_key.verify(b"text", Signature.from_bytes(sign(b"text", key, "comment").encode()))


def test_keys_are_private_to_their_owner_and_never_overwritten(invoke: Invoke, tmp_path: Path) -> None:
    code, said, _ = invoke("keygen", tmp_path / "team")
    assert code == 0
    assert PublicKey.from_file(tmp_path / "team.pub").to_base64().decode() in said
    assert not is_posix() or (tmp_path / "team.key").stat().st_mode & 0o077 == 0
    before = (tmp_path / "team.key").read_bytes()
    code, _, said = invoke("keygen", tmp_path / "team")
    assert (code, said.count("\n")) == (1, 1)
    assert (tmp_path / "team.key").read_bytes() == before


@pytest.mark.parametrize("key", ["nonsense", "", KNOWN_KEY[:-4]])
def test_what_is_no_public_key_is_one_sentence(invoke: Invoke, store: Path, key: str) -> None:
    ship(1, store)
    code, _, said = invoke("pull", store, "--require-signature", key)
    assert (code, "is not a public key" in said, said.count("\n")) == (1, True, 1)


def test_what_is_no_secret_key_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "team.key").write_text("nonsense", encoding="utf-8")
    with pytest.raises(SettingsError, match="cannot sign: invalid number of lines"):
        sign(b"text", tmp_path / "team.key", "comment")
