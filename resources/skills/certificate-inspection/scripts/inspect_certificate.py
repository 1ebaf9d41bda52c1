#!/usr/bin/env python3
"""Read certificates of a file or a host and say what is wrong: expiry, names, order of the chain, trust, key.

Standard library only, Python 3.11+; calls the `openssl` program. Uses the network only with --host.

    python3 inspect_certificate.py FILE [--name api.example.com] [--key private.pem] [--ca root.pem] [--json]
    python3 inspect_certificate.py --host example.com[:443] [--servername NAME] [--starttls smtp] [--days 30]

Exit codes: 0 nothing wrong, 1 problems found, 2 the certificate cannot be read or the host not be reached.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import re
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PEM = re.compile(
    rb"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----.*?-----END (?:TRUSTED |X509 )?CERTIFICATE-----", re.DOTALL
)
HINTS = {
    "2": "issuer not found: intermediate missing, or a private CA (--ca)",
    "10": "expired",
    "18": "self-signed leaf",
    "19": "root of the chain is not in the trust store: private CA or intercepting proxy (--ca)",
    "20": "issuer not found: intermediate missing, private CA (--ca) or no trust store here",
    "21": "intermediate missing",
    "26": "not made for servers (extended key usage)",
    "79": "a CA certificate in the chain is not marked as CA",
}
CHAIN_LIMIT = 500
RSA = "RSA-PSS+SHA256:RSA-PSS+SHA384:RSA-PSS+SHA512:RSA+SHA256:RSA+SHA384:RSA+SHA512"
OTHER = "ECDSA+SHA256:ECDSA+SHA384:ECDSA+SHA512:ed25519"


def openssl(*arguments: str | Path, data: bytes = b"", seconds: int = 20) -> subprocess.CompletedProcess[bytes]:
    """Run openssl; raise ValueError where it is missing or hangs."""
    try:
        return subprocess.run(["openssl", *arguments], input=data, capture_output=True, timeout=seconds, check=False)
    except FileNotFoundError:
        raise ValueError("the program openssl is not installed") from None
    except subprocess.TimeoutExpired:
        raise ValueError(f"no answer within {seconds} seconds: firewall, or a port that waits (--starttls)") from None


def read_file(path: Path) -> list[bytes]:
    """Return the certificates of a PEM, DER or PKCS#7 file as PEM."""
    with path.open("rb") as handle:
        data = handle.read(1 << 24)
    if found := PEM.findall(data):
        return found
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("it is UTF-16, which servers refuse too: convert it with iconv -f utf-16 -t ascii")
    kinds = {
        b"CERTIFICATE REQUEST": "a signing request: openssl req -noout -text",
        b"PRIVATE KEY": "only a private key",
    }
    for mark, what in kinds.items():
        if mark in data:
            raise ValueError(f"no certificate in it, it is {what}")
    form = "PEM" if b"BEGIN PKCS7" in data else "DER"
    ways = (
        ("pkcs12", "-nokeys", "-passin", "pass:"),  # first: x509 takes the leaf alone out of it
        ("x509", "-inform", form),
        ("pkcs7", "-inform", form, "-print_certs"),
    )
    for command in ways:
        if data and (found := PEM.findall(openssl(*command, data=data).stdout)):
            return found
    if data[:1] == b"\x30":
        raise ValueError("neither certificate nor PKCS#7 in DER; PKCS#12 (.p12, .pfx)? see references/convert.md")
    raise ValueError("the file is empty" if not data.strip() else "no certificate in it")


def file_problems(path: Path) -> list[str]:
    """Return what of a PEM file a server cannot read, although certificates are found in it."""
    with path.open("rb") as handle:
        data = handle.read(1 << 24)
        rest = handle.read(1)
    found = ["the file is longer than 16 MB, the rest is not read"] if rest else []
    lost = len(re.findall(rb"BEGIN (?:TRUSTED |X509 )?CERTIFICATE-", data)) - len(PEM.findall(data))
    if lost > 0:
        found.append(f"{lost} certificates in the file have no END line: cut off?")
    if re.search(rb"-----END [A-Z0-9 ]+-----[ \t]*[^\s]", data):
        found.append("text follows an END line on the same line: servers refuse the file, put a line break there")
    if re.search(rb"^(?!\xef\xbb\xbf-----BEGIN)(?!.*-----END)[^\r\n]*[^\r\n-]-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-", data, re.MULTILINE):
        found.append("text stands before BEGIN on the same line: servers skip that certificate, put a line break there")
    return found


def read_host(host: str, port: int, servername: str, starttls: str, sigalgs: str = "") -> tuple[list[bytes], str]:
    """Return what a server sends, as PEM, and the protocol agreed on."""
    command = ["s_client", "-showcerts", "-connect", f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    if servername:
        command += ["-servername", servername]
    if starttls:
        command += ["-starttls", starttls]
    if sigalgs:
        command += ["-sigalgs", sigalgs]
    done = openssl(*command)
    said = done.stdout.decode(errors="replace")
    if found := PEM.findall(done.stdout):
        protocol = re.search(r"^New, (\S+), Cipher is (\S+)|^\s+Protocol\s*: (\S+)", said, re.MULTILINE)
        return found, " ".join(part for part in protocol.groups() if part) if protocol else "unknown"
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines()]
    told = [line for line in lines if re.search(r"error|errno|alert|not known|refused|failure", line, re.IGNORECASE)]
    why = told[0].split("SSL routines:")[-1] if told else "no certificate sent"
    raise ValueError(f"{why[-160:]}: wrong port, protocol before TLS (--starttls), or name unknown there")


def read_second(host: str, port: int, args: argparse.Namespace, first: bytes) -> dict[str, Any] | None:
    """Return what is said of the certificate with the other kind of key, which old clients get, if there is one."""
    rsa = read_certificate(first)["key"].startswith("rsa")
    try:
        pems, _ = read_host(host, port, args.servername, args.starttls, OTHER if rsa else RSA)
    except ValueError:
        return None
    return inspect(pems, argparse.Namespace(**{**vars(args), "key": None})) if pems[0] != first else None


def read_certificate(pem: bytes) -> dict[str, Any]:
    """Return the facts of one certificate out of the text that openssl prints."""
    names = ("-nameopt", "RFC2253,utf8,-esc_msb")
    done = openssl("x509", "-noout", "-text", "-pubkey", "-fingerprint", "-sha256", *names, data=pem)
    if done.returncode:
        raise ValueError("a certificate in it is damaged: openssl cannot read it")
    text = done.stdout.decode(errors="replace")

    def first(pattern: str) -> str:
        found = re.search(pattern, text)
        return found[1].strip() if found else ""

    dates = [datetime.strptime(first(rf"Not {end}\s*: (.*)"), "%b %d %H:%M:%S %Y %Z") for end in ("Before", "After ?")]
    names_text = first(r"Subject Alternative Name:.*\n\s*(.*)")
    return {
        "subject": first(r"Subject: ?(.*)"),
        "issuer": first(r"Issuer: ?(.*)"),
        "not_before": dates[0].replace(tzinfo=UTC).isoformat(),
        "not_after": dates[1].replace(tzinfo=UTC).isoformat(),
        "days": (dates[1] - dates[0]).total_seconds() / 86400,
        "names": [one.partition(":")[2] for one in names_text.split(", ") if one.startswith(("DNS:", "IP Address:"))],
        "ca": "CA:TRUE" in text,
        "usage": first(r"X509v3 Extended Key Usage:.*\n\s*(.*)"),
        "key": first(r"Public Key Algorithm: (.*)"),
        "bits": int(first(r"Public-Key: \((\d+) bit") or 0),
        "signature": first(r"Signature Algorithm: (.*)"),
        "serial": first(r"Serial Number:\s*(?:\d+ \(0x)?([0-9a-f:]+)").replace(":", ""),
        "sha256": first(r"(?i)sha256 Fingerprint=(.*)").replace(":", "").lower(),
        "subject_key": first(r"Subject Key Identifier:.*\n\s*(?:keyid:)?([0-9A-F:]+)"),
        "authority_key": first(r"Authority Key Identifier:.*\n\s*(?:keyid:)?([0-9A-F:]+)"),
        "public": first(r"(-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----)"),
    }


def issued(child: dict[str, Any], parent: dict[str, Any]) -> bool:
    keys = child["authority_key"], parent["subject_key"]
    return child["issuer"] == parent["subject"] and (not all(keys) or keys[0] == keys[1])


def build_chain(certificates: list[dict[str, Any]]) -> list[int]:
    """Return the places of the leaf and its issuers; empty for a bundle of authorities."""
    leaves = [place for place, one in enumerate(certificates) if not one["ca"]]
    if not leaves and len(certificates) > 1 and len({one["subject"] for one in certificates}) > 10:
        return []
    chain = [leaves[0] if leaves else 0]
    while certificates[chain[-1]]["subject"] != certificates[chain[-1]]["issuer"]:
        parents = [place for place, one in enumerate(certificates) if issued(certificates[chain[-1]], one)]
        if not parents or parents[0] in chain:
            break
        chain.append(parents[0])
    return chain


def covers(names: list[str], wanted: str) -> str:
    """Return the name of the certificate that covers *wanted*; a star stands for exactly one label."""
    try:
        address = ipaddress.ip_address(wanted)
        return next((one for one in names if re.fullmatch(r"[0-9A-Fa-f.:]+", one) and _same(one, address)), "")
    except ValueError:
        wanted = ascii_name(wanted.rstrip(".").lower())
    accepted = {wanted, "*." + wanted.partition(".")[2]} if wanted.count(".") > 1 else {wanted}
    return next((one for one in names if one.lower() in accepted), "")


def ascii_name(host: str) -> str:
    """Return a host name as certificates have it, `xn--` where it is not ASCII."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host


def _same(text: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return ipaddress.ip_address(text) == address
    except ValueError:
        return False


def verify(pems: list[bytes], chain: list[int], ca: Path | None, at: datetime) -> str:
    """Return ok, or what openssl says against the chain and the trust store."""
    with tempfile.TemporaryDirectory() as folder:
        leaf, rest = Path(folder, "leaf.pem"), Path(folder, "rest.pem")
        leaf.write_bytes(pems[chain[0]])
        rest.write_bytes(b"\n".join(pem for place, pem in enumerate(pems) if place != chain[0]) or b"\n")
        command: list[str | Path] = ["verify", "-purpose", "sslserver", "-attime", str(int(at.timestamp()))]
        command += ["-CAfile", ca] if ca else []
        command += ["-untrusted", rest] if len(pems) > 1 else []
        done = openssl(*command, leaf)
    if not done.returncode:
        return "ok"
    said = (done.stdout + done.stderr).decode(errors="replace")
    found = dict(re.findall(r"error (\d+) at \d+ depth lookup: ?(.*)", said))
    return "; ".join(HINTS.get(code, why.strip()) for code, why in found.items()) or said.strip().splitlines()[-1][:120]


def time_problems(one: dict[str, Any], at: datetime, days: int) -> str:
    start, end = (datetime.fromisoformat(one[key]) for key in ("not_before", "not_after"))
    left = (end - at).total_seconds() / 86400
    one["days_left"] = round(left, 1)
    if left < 0:
        return f"expired {-left:.1f} days ago"
    if start > at:
        return f"not valid before {start:%Y-%m-%d %H:%M} UTC: clock, or installed too early"
    if left < min(days, one["days"] / 3):
        return f"expires in {left:.1f} days"
    return ""


def leaf_problems(leaf: dict[str, Any], names: list[str], key: Path | None) -> list[str]:
    found = []
    if not leaf["names"]:
        found.append("no subject alternative name: clients ignore the common name")
    else:
        missing = [name for name in names if not covers(leaf["names"], name)]
        found += [f"does not cover {name}: has {', '.join(leaf['names'][:6])}" for name in missing]
    if leaf["usage"] and "TLS Web Server Authentication" not in leaf["usage"]:
        found.append(f"not for servers: {leaf['usage']}")
    if leaf["ca"]:
        found.append("the first certificate is an authority, not a leaf")
    if key:
        done = openssl("pkey", "-in", key, "-pubout", "-passin", "pass:")
        if done.returncode:
            found.append(f"{key} cannot be read: encrypted, or no private key")
        elif done.stdout.decode().split() != leaf["public"].split():
            found.append(f"{key} belongs to another certificate")
    return found


def inspect(pems: list[bytes], args: argparse.Namespace) -> dict[str, Any]:
    facts = {pem: read_certificate(pem) for pem in {*pems[:CHAIN_LIMIT]}}  # a joined bundle repeats some
    certificates = [{**facts[pem]} for pem in pems[:CHAIN_LIMIT]]
    chain, at = build_chain(certificates), args.at
    problems = file_problems(args.file) if args.file else []
    if len(pems) > CHAIN_LIMIT:
        problems.append(f"{len(pems)} certificates, only the first {CHAIN_LIMIT} are read")
    for place, one in enumerate(certificates, 1):
        weak = (
            [f"{one['bits']}-bit {one['key']}"] if one["bits"] < 2048 and one["key"].startswith(("rsa", "dsa")) else []
        )
        if re.search(r"(?i)md5|sha1", one["signature"]) and one["subject"] != one["issuer"]:
            weak.append(f"signed with {one['signature']}")
        said = [time_problems(one, at, args.days), *(f"is weak: {what}" for what in weak)]
        about = f"certificate {place}" + f" ({one['subject'][:50]})" * (len(certificates) > 3)
        problems += [f"{about} {what}" for what in said if what]
    trust = "not checked: a bundle, not a chain"
    if chain:
        problems += leaf_problems(certificates[chain[0]], args.name, args.key)
        if chain != list(range(len(chain))):
            problems.append(f"wrong order: should be {', '.join(str(place + 1) for place in chain)}")
        if extra := sorted(set(range(len(certificates))) - set(chain)):
            problems.append(f"not part of the chain: certificates {', '.join(str(place + 1) for place in extra[:10])}")
        trust = verify(pems[:CHAIN_LIMIT], chain, args.ca, at)
        problems += [f"not trusted: {trust}"] if trust != "ok" else []
    for one in certificates:
        del one["public"]
    return {"at": at.isoformat(), "certificates": certificates, "chain": chain, "trust": trust, "problems": problems}


def show(report: dict[str, Any], asked: list[str], most: int) -> None:
    print(f"source   {report['source']}: {len(report['certificates'])} certificates; as of {report['at'][:16]} UTC")
    if report["protocol"]:
        print(f"agreed   {report['protocol']}")
    for problem in report["problems"][:20]:
        print(f"problem  {problem}")
    if len(report["problems"]) > 20:
        print(f"... {len(report['problems']) - 20} more problems: --json")
    for place, one in enumerate(report["certificates"][:most]):
        root = one["subject"] == one["issuer"]
        kind = "leaf" if report["chain"][:1] == [place] else "root" if root else "issuer" if one["ca"] else "other"
        print(f"\n{place + 1} {kind:<6} {one['subject'] or '(no subject)'}")
        print(f"  issuer {'itself' if root else one['issuer']}")
        print(f"  valid  {one['not_before'][:16]} .. {one['not_after'][:16]} UTC, {one['days_left']} days left")
        if one["names"]:
            names = ", ".join(one["names"][:12])
            print(f"  names  {names}" + f" and {len(one['names']) - 12} more" * (len(one["names"]) > 12))
        bits, usage = f" {one['bits']} bit" * bool(one["bits"]), f", for {one['usage']}" * bool(one["usage"])
        print(f"  key    {one['key']}{bits}, {one['signature']}{usage}")
        print(f"  sha256 {one['sha256']}  serial {one['serial']}")
    if len(report["certificates"]) > most:
        print(
            f"... {len(report['certificates']) - most} more certificates: --max {len(report['certificates'])} or --json"
        )
    print(f"\ntrust    {report['trust']}")
    if second := report.get("second"):
        one = second["certificates"][0]
        print(f"second   {one['subject']} for clients without {report['certificates'][0]['key']}: {one['key']}, {one['days_left']} days left, sha256 {one['sha256']}")
    for name in asked if report["chain"] else []:
        covered = covers(report["certificates"][report["chain"][0]]["names"], name)
        print(f"name     {name}: " + (f"covered by {covered}" if covered else "NOT covered"))


def moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def split_host(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/@\[-][^\s:/@]*))(?::(\d{1,5}))?", text)
    if not found or int(found[3] or 443) > 65535:
        raise ValueError("this is no host: write example.com, example.com:8443 or [::1]:8443, without https://")
    return found[1] or found[2], int(found[3] or 443)


def main() -> int:
    parser = argparse.ArgumentParser(description="Read certificates of a file or host and say what is wrong.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", type=Path, nargs="?", help="PEM, DER or PKCS#7")
    source.add_argument("--host", help="HOST[:PORT] to connect to, port 443 by default")
    parser.add_argument("--servername", default="", help="name to ask for (SNI) and to check (default: the host)")
    parser.add_argument("--starttls", default="", choices=["smtp", "imap", "pop3", "ftp", "ldap", "postgres", "mysql"])
    parser.add_argument("--name", action="append", default=[], help="name or address the leaf must cover; repeatable")
    parser.add_argument("--key", type=Path, help="private key that must fit the leaf; never printed")
    parser.add_argument("--ca", type=Path, help="PEM of the authorities to trust besides the system's")
    parser.add_argument("--days", type=int, default=30, help="warn this early (default 30, or a third of the lifetime)")
    parser.add_argument("--at", type=moment, default=datetime.now(UTC), help="judge as of this date")
    parser.add_argument("--max", type=int, default=8, help="certificates shown (default 8)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    protocol = ""
    try:
        if args.host:
            host, port = split_host(args.host)
            args.name = args.name or [args.servername or host]
            pems, protocol = read_host(host, port, args.servername, args.starttls)
        else:
            pems = read_file(args.file)
        for given in (args.ca, args.key):
            if given and not given.is_file():
                raise ValueError(f"there is no file {given}")
        report = {"source": str(args.host or args.file), "protocol": protocol, **inspect(pems, args)}
        if args.host and (second := read_second(host, port, args, pems[0])):
            report["second"] = second
            report["problems"] += [f"second certificate: {problem}" for problem in second["problems"]]
    except (OSError, ValueError) as error:
        print(f"cannot inspect {args.host or args.file}: {error}", file=sys.stderr)
        return 2
    if hasattr(signal, "SIGPIPE"):  # end quietly under `| head`; not before, openssl may refuse its input
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if args.json:
        print(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        show(report, args.name, args.max)
    return int(bool(report["problems"]))


if __name__ == "__main__":
    sys.exit(main())
