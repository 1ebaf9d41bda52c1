"""Secrets are found where a scanner finds them that others keep: secretlint with its recommended rules.

It comes from a package registry, into tests/node_modules.
"""

import json
import random
import string
import subprocess
from collections.abc import Iterator, Mapping

import pytest
from environments import NODE_FOLDER, node_command
from support import brought
from test_trust import SECRETS, found

pytestmark = pytest.mark.slow

CONSONANTS = "".join(sorted(set(string.ascii_letters) - set("aeiouAEIOU")))
ALPHABETS = (CONSONANTS + string.digits, "BCDFGHJKLM" + string.digits, "bcdfghjklm" + string.digits)
"""Letters of tokens; without vowels they make no word by chance that a placeholder would hold."""

PREFIXES = (
    *("A" + "KIA", "AS" + "IA", "gh" + "p_", "gh" + "o_", "gh" + "u_", "gh" + "s_", "gh" + "r_", "github" + "_pat_"),
    *("gl" + "pat-", "np" + "m_", "xo" + "xb-274938160527-", "xo" + "xp-274938160527-", "S" + "G.", "shp" + "at_"),
    *("shp" + "ca_", "shp" + "pa_", "shp" + "ss_", "hf" + "_", "lin" + "_api_", "nt" + "n_27493816052", "gs" + "k_"),
    *("sk" + "-ant-api03-", "gl" + "sa_", "hv" + "s.", "hv" + "b.", "hv" + "r.", "da" + "pi", "dckr" + "_pat_"),
    *("fi" + "gd_", "op" + "s_eyJ", "vc" + "p_", "vc" + "i_", "vc" + "a_", "vc" + "r_", "vc" + "k_"),
)
LENGTHS = (*range(14, 60), 74, 82, 93, 100, 110, 140, 200, 300)
NO_RULE = frozenset(
    (
        *("1Password token", "Atlassian token", "AWS access key", "Azure storage key", "DigitalOcean token"),
        *("Discord token", "Google API key", "LangSmith key", "OpenRouter key", "Postman key", "PyPI token"),
        *("Replicate token", "Square secret", "Telegram token", "xAI key", "private key"),
    )
)
"""Kinds that the recommended rules do not know, or that they find with more beside it: an account, an end."""


def peer(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return by name the rules of secretlint that each text breaks."""
    command = brought(lambda: node_command(str(NODE_FOLDER / "scan_secrets.mjs")))
    ran = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    return dict(json.loads(ran.stdout))


def drawn() -> Iterator[str]:
    """Yield the prefixes of secrets before random letters, as many as any issuer gives."""
    choice = random.Random(1)
    for prefix in PREFIXES:
        for length in LENGTHS:
            yield from (prefix + "".join(choice.choices(alphabet, k=length)) for alphabet in ALPHABETS)


def test_secrets_of_each_kind_are_secrets_to_others_too() -> None:
    by_kind = peer({kind: f"key = {secret}\n" for kind, secret in SECRETS.items()})
    assert {kind for kind, rules in by_kind.items() if not rules} == NO_RULE


def test_what_others_take_for_a_secret_is_one_here() -> None:
    texts = {secret: f"key = {secret}\n" for secret in drawn()}
    theirs = {secret for secret, rules in peer(texts).items() if rules}
    assert len(theirs) > 300
    missed = [secret for secret in sorted(theirs) if "secret" not in {code for code, _ in found(texts[secret])}]
    assert missed == []
