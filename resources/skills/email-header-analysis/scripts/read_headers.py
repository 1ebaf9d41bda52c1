#!/usr/bin/env python3
"""Say from the headers of a message who sent it, what was proven about that, and where it was held up.

Standard library only, Python 3.11+; no DNS, no network: it reports what receivers wrote, and checks it against itself.

    python3 read_headers.py FILE [--trust HOST]... [--json]        (- is standard input; .eml, mbox or pasted headers)

Exit codes: 0 From is proven, 1 it is not, or something speaks against it, 2 the input holds no mail headers.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import re
import signal
import sys
import textwrap
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import HeaderParser
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from typing import Any

KNOWN = {"received", "from", "authentication-results", "dkim-signature", "message-id", "return-path", "arc-seal"}
TWO_LEVEL = re.compile(r"^(?:com?|org|net|gov|edu|ac|ne|or|gob|nom|id|ltd|plc|me|sch|nhs)\.[a-z]{2}$")
"""Suffixes of two labels, nearly: without DNS or a list nobody can know where an organisation begins."""
ADDRESS = re.compile(r"\[(?:IPv6:)?([0-9a-fA-F.:]+)\]|\((?:[^()]*\s)?(\d+(?:\.\d+){3}|[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*)\)|sender IP is ([0-9a-fA-F.:]+)")
GREETING = re.compile(r"\((?:EHLO|HELO)\s[^()]*\)|\bhelo=[^\s()]*", re.IGNORECASE)  # as qmail, Yahoo and Exim write what the client said
REVERSE = re.compile(r"\(([\w.-]+?)\.?\s+\[")  # the name of the address, as the taking server looked it up
HOP = re.compile(r"^\s*(?:from\s+(?P<helo>\S+)(?P<claim>.*?))?(?:^|\s)by\s+(?P<by>\S+)(?P<rest>.*)$", re.DOTALL)
METHOD = re.compile(r"^\s*([\w-]+)(?:\s*/\s*\d+)?\s*=\s*([\w-]+)(.*)$", re.DOTALL)
PROPERTY = re.compile(  # what stands before the @ may be quoted, and hold another address
    r"\b([\w-]+(?:\.[\w-]+)?)\s*=\s*((?:\"(?:\\.|[^\"\\])*\"|[^\s;\"])+)"
)
NAME = re.compile(r"[A-Za-z][\w-]*[ \t]*:")
FIRST = re.compile(r"^(?:Delivered-To|Received|Return-Path|Authentication-Results|ARC-[\w-]+|DKIM-Signature|X-[\w-]+|MIME-Version):", re.MULTILINE)
FASTMAIL = re.compile(r"^(?:(?:\w+-)?compute-?\d+|[\w-]+\.(?:phl|nyi|ams))\.internal$")  # its servers behind the MX
SES_INBOUND = re.compile(r"^(?:inbound-smtp\.[\w-]+\.amazonaws\.com|amazonses\.com)$")  # who takes mail there, and who it says judged it
HIDDEN = {"Cf", "Cc", "Co", "Cs"}
LATE = 300
Json = dict[str, Any]


@dataclass
class Hop:
    """One server that took the message over: who gave it, who took it, when. Delay in seconds."""

    helo: str
    address: str
    by: str
    protocol: str
    when: datetime | None
    reverse: str = ""
    delay: int | None = None
    note: str = ""


@dataclass
class Verdict:
    """One result in a header Authentication-Results: the method, its result, and the domain it is about."""

    method: str
    result: str
    domain: str
    comment: str
    facts: dict[str, str] = field(default_factory=dict)


def clean(text: str, most: int = 300) -> str:
    """Return *text* on one line, with characters that a terminal would obey or hide shown as <U+...>."""
    text = " ".join(text.split())[:most]
    return "".join(f"<U+{ord(one):04X}>" if unicodedata.category(one) in HIDDEN else one for one in text)


def decoded(text: str) -> str:
    """Return a header's text with encoded words read; one that cannot be read stays as it is."""
    try:
        parts = decode_header(text)
    except (HeaderParseError, ValueError):
        return text
    read = []
    for part, charset in parts:
        if isinstance(part, str):
            read.append(part)
            continue
        try:
            read.append(part.decode(charset or "ascii", "replace"))
        except (LookupError, ValueError):
            read.append(part.decode("latin-1"))
    return "".join(read)


def organisation(domain: str) -> str:
    labels = domain.strip(".").lower().split(".")
    return ".".join(labels[-3 if TWO_LEVEL.match(".".join(labels[-2:])) else -2 :])


def house(name: str) -> str:
    """Return the organisation of a server; some receivers have servers below several domains."""
    if SES_INBOUND.match(name.lower()):
        return "inbound-smtp.amazonaws.com"
    own = "messagingengine.com" if FASTMAIL.match(name.lower()) else organisation(name)
    return {"exchangelabs.com": "outlook.com", "office365.com": "outlook.com", "me.com": "icloud.com"}.get(own, own)


def alignment(domain: str, author: str) -> str:
    """Return how *domain* relates to that of the visible From: strict, relaxed, or no."""
    domain, author = domain.lower().strip("."), author.lower().strip(".")
    if not domain or not author:
        return "no"
    return "strict" if domain == author else "relaxed" if organisation(domain) == organisation(author) else "no"


def related(one: str, other: str) -> bool:
    """Return whether two domains are the same, or one lies below the other: then no list of suffixes is needed."""
    one, other = (f".{domain.lower().strip('.')}" for domain in (one, other))
    return one.endswith(other) or other.endswith(one)


def marked(text: str, inside: bool) -> Iterator[tuple[str, bool, bool]]:
    """Return each character, whether it is of a comment, which nest, and whether it is quoted, *inside* comments too."""
    depth, quoted, escaped = 0, False, False
    for one in text:
        ends = False
        if escaped:
            escaped = False
        elif one == "\\":
            escaped = True
        elif one == '"' and (inside or not depth):
            quoted = not quoted
        elif not quoted and one in "()":
            ends = one == ")" and depth == 1
            depth = max(0, depth + (1 if one == "(" else -1))
        yield one, depth > 0 or ends, quoted


def without_comments(text: str, inside: bool = False) -> tuple[str, str]:
    """Return *text* without its comments, and the comments."""
    parts = list(marked(text, inside))
    return "".join(one for one, comment, _ in parts if not comment), "".join(one for one, comment, _ in parts if comment)


def folded(text: str) -> tuple[str, int]:
    """Return *text* with a space before lines of the headers that have no name, as pasting drops it, and their number."""
    head, blank, rest = re.split(r"(\r?\n[ \t]*\r?\n)", text + "\n\n", maxsplit=1)
    bare = re.compile(rf"(?<=\n)(?=\S)(?!{NAME.pattern})")
    return bare.sub(" ", head) + blank + rest, len(bare.findall(head))


def read_message(data: bytes) -> tuple[Message, list[str]]:
    notes = []
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        data = data.decode("utf-16", "replace").encode()
    elif data[1:2] == b"\0":
        data = data.decode("utf-16-le", "replace").encode()
    if data[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
        raise ValueError("an Outlook .msg file: open it and save it as .eml, or copy the internet headers")
    text = textwrap.dedent(data.decode("utf-8-sig", "replace")).lstrip()
    if all(line.startswith(">") for line in text.splitlines() if line) and not text.startswith(">From "):
        text = re.sub(r"^> ?", "", text, flags=re.MULTILINE)
    text = re.sub(r"^>?From \S.*\r?\n", "", text)
    if not NAME.match(text) and (start := FIRST.search(text)):
        notes.append("lines before the headers were left out")
        text = text[start.start() :]
    text, joined = folded(text)
    if joined:
        notes.append(f"{joined} lines had lost the space before them and were joined to the header above")
    message = HeaderParser().parsestr(text)
    names = {name.lower() for name in message.keys()}  # noqa: SIM118
    if not names & KNOWN:
        raise ValueError("no mail headers in it: use `Show original` or `View source`, not the text of the mail")
    rest = str(message.get_payload() or "").lstrip()
    if more := len(re.findall(r"^From \S+ .*\b\d{4}\s*\n[\w-]+:", rest, re.MULTILINE)):
        notes.append(f"an mbox: {more} more messages follow, only the first was read")
    if re.match(r"(?:Received|Authentication-Results|DKIM-Signature|ARC-[\w-]+|X-[\w-]+|Return-Path):", rest):
        notes.append("header lines go on behind a blank line: paste the headers without blank lines, the rest was not read")
    if "received" not in names:
        notes.append("no Received header: a draft, a sent copy, or cut headers; hops and results are missing")
    return message, notes


def values(message: Message, name: str) -> list[str]:
    """Return all headers of a *name*, from the top, that is the last server first."""
    return [str(value) for value in message.get_all(name, [])]


def read_hops(message: Message) -> list[Hop]:
    """Return the hops in the order of travel: the first server first."""
    hops = []
    for value in reversed(values(message, "Received")):
        plain, _, stamp = value.rpartition(";")
        match = HOP.match(" ".join((plain or value).split()))
        when = moment(stamp)
        if not match:
            hops.append(Hop("", "", clean(value, 60), "", when, note="cannot be read"))
            continue
        claim = f"{match['helo'] or ''} {match['claim'] or ''}"
        # what the client called itself may be an address in brackets: it counts only where the server wrote no other
        seen = ADDRESS.search(GREETING.sub("", match["claim"] or ""))
        found = seen or ADDRESS.match(match["helo"] or "") or re.match(r"([0-9a-fA-F.:]+)\s+\((?:EHLO|HELO) ", claim)  # the last by Yahoo
        protocol = re.search(r"\bwith\s+([\w-]+(?: SMTP)?)", match["rest"])
        named_by = REVERSE.search(claim)  # Exim writes the name that it found where others write what the client said
        unnamed = "?" if "([" in claim and "(Exim" not in match["rest"] else ""
        hops.append(Hop(clean((match["helo"] or "").strip("[]"), 80), next(filter(None, found.groups()), "") if found else "",
                        clean(match["by"].rstrip(";"), 80), protocol[1] if protocol else "", when,
                        named_by[1] if named_by else unnamed))  # fmt: skip
    before = None
    for hop in hops:
        if hop.when and before:
            hop.delay = int((hop.when - before).total_seconds())
            if hop.delay < 0:
                hop.note = "earlier than the server before it: a clock is wrong"
        before = hop.when or before
    return hops


def moment(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(re.sub(r"\(.*?\)", "", text).strip())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def private(address: str) -> bool:
    try:
        return not ipaddress.ip_address(address).is_global
    except ValueError:
        return True


def named(hop: Hop) -> bool:
    return bool(re.search(r"\.[a-zA-Z][\w-]*\.?$", hop.by))


def home_of(hops: list[Hop]) -> str:
    """Return the organisation of the receiver: that of the last server that has a name instead of an address."""
    names = (hop.by for hop in reversed(hops) if named(hop))
    return house(next(names, ""))


def handover(hops: list[Hop]) -> Hop | None:
    """Return the hop at which a stranger gave the message to the receiver: below it everything can be invented."""
    home = home_of(hops)
    boundary = last = None
    for hop in reversed(hops):
        if house(hop.by) != home and named(hop):
            return boundary or last
        last = hop
        if hop.address and not private(hop.address):
            boundary = hop
            if house(hop.reverse or hop.helo) != home or hop.by.lower().endswith(".mail.protection.outlook.com"):
                break  # what calls itself like the receiver is not the receiver, if its address has another name
    return boundary


def read_results(text: str) -> tuple[str, list[Verdict]]:
    """Return who wrote a header Authentication-Results, and its verdicts. Microsoft leaves out who.

    Receivers write the sender's address into comments: with a quoted `);` in it that text becomes a result of its own.
    So what holds only where quotes in comments mean nothing, as in the standard, is left out.
    """
    writer, found = read_verdicts(text, inside=False)
    safe = {(one.method, one.result, one.domain) for one in read_verdicts(text, inside=True)[1]}
    return writer, [one for one in found if (one.method, one.result, one.domain) in safe]


def read_verdicts(text: str, inside: bool) -> tuple[str, list[Verdict]]:
    parts, start = [], 0
    for place, (one, comment, quoted) in enumerate(marked(text, inside)):
        if one == ";" and not comment and not quoted:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    writer = ""
    if not METHOD.match(without_comments(parts[0], inside)[0]):
        writer = (without_comments(parts.pop(0), inside)[0].split() or [""])[0]
    found = []
    for part in parts:
        plain, said = without_comments(part, inside)
        if not (match := METHOD.match(plain)):
            continue
        facts = {key.lower(): value.strip('"<>') for key, value in PROPERTY.findall(match[3])}
        names = {"spf": ("smtp.mailfrom", "smtp.helo"), "dkim": ("header.d", "header.i"), "dmarc": ("header.from",)}
        domain = next((facts[name] for name in names.get(match[1].lower(), ()) if facts.get(name)), "")
        found.append(Verdict(match[1].lower(), match[2].lower(), domain.rpartition("@")[2].lower(), clean(said, 200), facts))
    return clean(writer, 80), found


def tags(text: str) -> dict[str, str]:
    """Return the tags of a signature, names in lower case, white space in values left out."""
    pairs = (part.partition("=") for part in text.split(";"))
    return {name.strip().lower(): re.sub(r"\s+", "", value) for name, _, value in pairs if name.strip()}


def signatures(message: Message, last: datetime | None) -> list[Json]:
    found = []
    for text in values(message, "DKIM-Signature"):
        tag = tags(text)
        covered = [name.lower() for name in tag.get("h", "").split(":") if name]
        faults = []
        if "from" not in covered:
            faults.append("h= lacks From: it signs nothing that matters; a verifier must reject it")
        if "l" in tag:
            faults.append("l= leaves text behind the signed length open: anybody can append")
        if "sha1" in tag.get("a", ""):
            faults.append("rsa-sha1 must not be accepted (RFC 8301)")
        if tag.get("x", "").isdigit() and last and last.timestamp() > int(tag["x"]):
            faults.append("expired before the message arrived (x=)")
        if missing := [name for name in ("subject", "to", "date") if name not in covered and name in message]:
            faults.append(f"does not cover {', '.join(missing)}: replayable with other ones")
        found.append({"domain": tag.get("d", "").lower(), "selector": tag.get("s", ""), "algorithm": tag.get("a", ""),
                      "key": f"{tag.get('s', '')}._domainkey.{tag.get('d', '')}", "covers": covered, "faults": faults})  # fmt: skip
    return found


def leaves_author_open(check: Json, signed: list[Json]) -> bool:
    """Say whether *check* passed by signatures that do not cover From, and by no other one."""
    behind = [one for one in signed if one["domain"] == check["domain"].lower() and check["selector"] in ("", one["selector"])]
    return check["method"] == "dkim" and bool(behind) and not any("from" in one["covers"] for one in behind)


def addresses(texts: list[str]) -> list[tuple[str, str]]:
    """Return names and addresses; none where comments nest so deep that nobody could read them."""
    try:
        return getaddresses([" ".join(text.split()) for text in texts])
    except RecursionError:
        return []


def sender(message: Message) -> Json:
    """Return the names under which a message came, each as address and organisation."""
    def first(name: str) -> tuple[str, str]:
        # addresses are parsed before encoded words are read: a decoded comma or angle bracket is part of the name
        pairs = addresses(values(message, name)[:1])
        return (decoded(pairs[0][0]), pairs[0][1]) if pairs else ("", "")

    authors = addresses(values(message, "From"))
    shown, address = first("From")
    return {
        "from": clean(address), "shown": clean(shown), "authors": len([one for one in authors if "@" in one[1]]),
        "domain": address.rpartition("@")[2].lower(), "from_headers": len(values(message, "From")),
        "raw_name": shown, "subject": clean(decoded(" ".join(message.get("Subject", "").split()))),
        "raw_subject": decoded(message.get("Subject", "")),
        **{key: clean(first(name)[1]) for key, name in (("sender", "Sender"), ("reply_to", "Reply-To"), ("return_path", "Return-Path"))},
    }  # fmt: skip


def scripts_of(text: str) -> set[str]:
    return {unicodedata.name(one, "?").split()[0] for one in text if one.isalpha()}


def identity_findings(who: Json) -> Iterator[str]:
    domain = who["domain"]
    if who["from_headers"] != 1 or who["authors"] != 1:
        yield f"danger: {who['from_headers']} From headers with {who['authors']} addresses: programs show different ones"
    if not domain:
        return
    inside = re.findall(r"[\w.+-]+@([\w-]+(?:\.[\w-]+)+)", who["raw_name"])
    if strange := [one for one in inside if alignment(one, domain) == "no"]:
        yield f"danger: the shown name holds an address at {clean(strange[0])}, the real one is at {clean(domain)}"
    readable = domain
    if "xn--" in domain:
        try:
            readable = domain.encode("ascii").decode("idna")
        except UnicodeError:
            yield f"danger: {domain} is no valid international name"
    if not readable.isascii():
        mixed = any(len(scripts_of(label)) > 1 for label in readable.split("."))
        kinds = ", ".join(sorted(scripts_of(readable)))
        yield f"{'danger' if mixed else 'caution'}: {clean(domain)} reads {clean(readable)}, letters of {kinds}: look-alike?"
    hidden = {one for one in who["raw_name"] + who["raw_subject"] if unicodedata.category(one) == "Cf"}
    if hidden:
        yield "caution: invisible characters in name or subject: " + ", ".join(f"U+{ord(one):04X}" for one in sorted(hidden))
    for key, name in (("reply_to", "Reply-To"), ("sender", "Sender")):
        other = who[key].rpartition("@")[2].lower()
        if other and alignment(other, domain) == "no":
            yield f"caution: {name} leads to {clean(other)}, From is {clean(domain)}"


def judge_dmarc(who: Json, results: list[Verdict], signed: list[Json]) -> tuple[str, list[str], list[Json]]:
    """Return whether From is proven, why, and each check with its alignment."""
    checks = []
    # DMARC takes the name of the greeting (HELO) for an empty return path only
    returned = who["return_path"] or any(one.facts.get("smtp.mailfrom") for one in results if one.method == "spf")
    for one in results:
        if one.method in ("spf", "dkim"):
            greeting = one.method == "spf" and returned and not one.facts.get("smtp.mailfrom")
            checks.append({"method": one.method, "result": one.result, "domain": one.domain,
                           "selector": one.facts.get("header.s", ""),
                           "aligned": "no" if greeting else alignment(one.domain, who["domain"]),
                           "comment": "name in the greeting (HELO), counts for an empty return path only" if greeting else one.comment})  # fmt: skip
    passed = [one for one in checks if one["result"] == "pass"]
    aligned = [one for one in passed if one["aligned"] != "no"]
    said = next((one for one in results if one.method == "dmarc"), None)
    reasons = []
    for one in aligned:
        reasons.append(f"{one['method']} passed for {clean(one['domain'])}, {one['aligned']} alignment with From")
    for one in passed:
        if one["aligned"] == "no" and alignment(one["domain"], who["domain"]) != "no":
            reasons.append(f"{one['method']} passed for {clean(one['domain'])}, but: {one['comment']}")
        elif one["aligned"] == "no":
            reasons.append(f"{one['method']} passed, but for {clean(one['domain'])}: says nothing about {clean(who['domain'])}")
    for one in checks:
        if one["result"] not in ("pass", "none"):
            reasons.append(f"{one['method']} {one['result']} for {clean(one['domain'])} {one['comment']}".strip())
    if said:
        if said.domain and said.domain != who["domain"]:
            reasons.append(f"the DMARC result is about {clean(said.domain)}, not about the From shown here")
            said = None
        elif (said.result == "pass") != bool(aligned) and said.result in ("pass", "fail"):
            reasons.append(f"the receiver says dmarc={said.result}, this reckoning differs: strict alignment, the tree walk "
                           "of RFC 9989, or a suffix unknown here; the receiver asked DNS and is right")  # fmt: skip
    if said and said.result in ("pass", "fail"):
        state = "proven" if said.result == "pass" else "not proven"
    else:
        state = "proven" if any(related(one["domain"], who["domain"]) for one in aligned) else "not proven"
        if aligned and state == "not proven":
            reasons.append(f"that counts only if {clean(organisation(who['domain']))} is one organisation, not a suffix "
                           "under which strangers register: the receiver wrote no DMARC result")  # fmt: skip
    if not results:
        reasons.append("no trusted header Authentication-Results" + (": signatures alone prove nothing" if signed else ""))
    return state, reasons, checks


def read_arc(message: Message, results: list[Verdict]) -> Json:
    seals = {tag.get("i", ""): tag for tag in map(tags, values(message, "ARC-Seal"))}
    firsts = {}
    for text in values(message, "ARC-Authentication-Results"):
        instance, _, rest = text.partition(";")
        number = tags(instance).get("i", "")
        writer, verdicts = read_results(rest)
        firsts[number] = {"by": writer, "results": [f"{one.method}={one.result} {clean(one.domain)}".strip() for one in verdicts]}
    result = next((one.result for one in results if one.method == "arc"), "")
    order = sorted(seals, key=lambda one: int(one) if one.isdigit() else 0)
    return {"sealed_by": [clean(seals[one].get("d", "")) for one in order],
            "chain": [seals[one].get("cv", "") for one in order], "first_saw": firsts.get("1", {}), "result": result}  # fmt: skip


def unsubscribing(message: Message, signed: list[Json], results: list[Verdict]) -> Iterator[str]:
    link, post = message.get("List-Unsubscribe", ""), message.get("List-Unsubscribe-Post", "")
    bulk = [name for name in ("List-Id", "List-Unsubscribe", "Feedback-ID", "X-Campaign-ID") if name in message]
    if message.get("Precedence", "").strip().lower() in ("bulk", "list"):
        bulk.append("Precedence")
    if not bulk:
        return
    if not link:
        yield f"caution: looks like bulk mail ({', '.join(bulk)}) without List-Unsubscribe"
    elif not re.search(r"<\s*https://", link):
        yield "caution: List-Unsubscribe without an https address: no one-click unsubscribing"
    elif "".join(post.split()).lower() != "list-unsubscribe=one-click":
        yield "caution: List-Unsubscribe-Post: List-Unsubscribe=One-Click is missing"
    else:
        passed = {one.domain for one in results if one.method == "dkim" and one.result == "pass"}
        covering = [one for one in signed if {"list-unsubscribe", "list-unsubscribe-post"} <= set(one["covers"])]
        if not covering:
            yield "caution: no DKIM signature covers both List-Unsubscribe headers: one-click does not count (RFC 8058)"
        elif passed and not any(one["domain"] in passed for one in covering):
            yield "caution: the signature that covers List-Unsubscribe did not pass: one-click does not count (RFC 8058)"


def delay_findings(hops: list[Hop], date: str) -> Iterator[str]:
    sent = moment(date)
    if date and not sent:
        yield f"caution: Date cannot be read: {clean(date, 60)}"
    late = max((hop for hop in hops if (hop.delay or 0) > LATE), key=lambda hop: hop.delay or 0, default=None)
    if late:
        giver = late.helo or "the server before"
        yield f"delay: {span(late.delay)} between {giver} and {late.by}: look at the queue of {giver} first"
    for hop in hops:
        if (hop.delay or 0) < -1:
            yield f"clock: {hop.by} is at least {span(-(hop.delay or 0))} behind the server before it; delays beside it are wrong"
    start = next((hop for hop in hops if hop.when), None)
    first = start.when if start else None
    if sent and first and (sent - first).total_seconds() > LATE:
        yield f"clock: Date is {span(int((sent - first).total_seconds()))} later than the first server's time"
    elif sent and first and (first - sent).total_seconds() > 86_400:
        yield f"caution: Date is {span(int((first - sent).total_seconds()))} older than the first hop: held back, or replayed"
    elif start and sent and first and (first - sent).total_seconds() > LATE:
        yield f"delay: {span(int((first - sent).total_seconds()))} between Date and the first hop: held back by {start.helo or start.by}"


def span(seconds: int | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(abs(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    text = " ".join(f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")) if n) or "0 s"
    return f"-{text}" if seconds < 0 else text


def filters(message: Message) -> list[str]:
    """Return what the spam filter of the receiver wrote, as far as it is public."""
    found = []
    forefront = dict(re.findall(r"([A-Z]+):([^;]*)", message.get("X-Forefront-Antispam-Report", "")))
    kept = [f"{key} {forefront[key]}" for key in ("SCL", "SFV", "CAT", "SRV") if forefront.get(key)]
    if kept:
        found.append("Microsoft: " + clean(", ".join(kept)))
    for name in ("X-Spam-Status", "X-Spamd-Result", "X-Spam-Score"):
        if name in message:
            found.append(f"{name}: {clean(message[name], 160)}")
    return found


def believe(message: Message, own_hops: int, home: str, trusted: list[str]) -> tuple[list[list[Verdict]], list[str], bool]:
    """Return the results that the receiver wrote, who wrote the others, and whether all of the first stand above its Received.

    A header below the first Received of somebody else came with the message. One without a name is Microsoft's, once.
    """
    believed: list[list[Verdict]] = []
    ignored = []
    seen, above = 0, True
    homes = {house(one) for one in trusted} | ({home} if home not in ("", "outlook.com") else set())
    for name, text in message.items():
        seen += name.lower() == "received"
        if name.lower() == "authentication-results":
            writer, verdicts = read_results(str(text))
            own = house(writer) in homes if writer else home == "outlook.com" and not believed
            if own and (seen <= own_hops or writer in trusted):
                believed.append(verdicts)
                above &= seen < own_hops
            else:
                ignored.append(writer or "(no name)")
    return believed, ignored, above


def analyse(message: Message, trusted: list[str]) -> Json:
    hops = read_hops(message)
    edge = handover(hops)
    last = hops[-1].when if hops else None
    believed, ignored, above = believe(message, len(hops) - hops.index(edge) if edge else len(hops), home_of(hops), trusted)
    kinds = [sorted({one.method for one in verdicts}) for verdicts in believed]  # iCloud writes one for each method and signature
    once = home_of(hops) == "icloud.com" and all(len(kind) == 1 and (kind == ["dkim"] or kinds.count(kind) == 1) for kind in kinds)
    once |= home_of(hops) == "messagingengine.com" and above  # Fastmail writes several, above its Received: the sender's stand below
    # Proton writes one for each method, all of these: one that came with the mail stands below the one of the same method
    apart = home_of(hops) == "protonmail.ch" and all(len(kind) == 1 for kind in kinds)
    apart &= {"spf", "dkim", "dmarc"} <= {one for kind in kinds for one in kind}
    results: list[Verdict] = []
    for verdicts in believed:  # a method that a header above it has as well came with the mail
        known = set() if once else {one.method for one in results}
        results += [one for one in verdicts if one.method not in known]
    who = sender(message)
    signed = signatures(message, last)
    state, reasons, checks = judge_dmarc(who, results, signed)
    if len(believed) > 1 and not once:
        reasons.append(f"{len(believed)} headers bear the receiver's name: a receiver must remove those that came with the mail")
    findings = list(identity_findings(who)) + list(delay_findings(hops, message.get("Date", "")))
    if len(believed) > 1 and not (once or apart) and state == "proven" and judge_dmarc(who, believed[0], signed)[0] != "proven":
        findings.append("danger: the topmost results do not prove From, only a lower header that may have come with the mail")
    aligned = [one for one in checks if one["result"] == "pass" and one["aligned"] != "no"]
    if state == "proven" and aligned and all(leaves_author_open(one, signed) for one in aligned):
        findings.append("danger: the signature that proves From does not cover it: anybody can change From and it still passes")
    for one in signed:
        findings += [f"signature {clean(one['domain'])}: {fault}" for fault in one["faults"]]
    findings += list(unsubscribing(message, signed, results))
    arc = read_arc(message, results)
    if state == "not proven" and arc["sealed_by"]:
        findings.append(f"forwarded: sealed by {', '.join(arc['sealed_by'])}, which saw: "
                        f"{', '.join(arc['first_saw'].get('results', [])) or '?'}; worth what those servers are worth to you")  # fmt: skip
    if "DKIM2-Signature" in message:
        findings.append("note: DKIM2-Signature present; the drafts are not final and it is not read here")
    dmarc = next((one for one in results if one.method == "dmarc"), None)
    compauth = next((one for one in results if one.method == "compauth"), None)
    return {
        "from": who["from"], "shown_name": who["shown"], "subject": who["subject"], "return_path": who["return_path"],
        "reply_to": who["reply_to"], "proven": state, "reasons": reasons, "checks": checks,
        "dmarc": {"result": dmarc.result, "policy": dmarc.comment, "action": dmarc.facts.get("action", "")} if dmarc else {},
        "compauth": f"{compauth.result} {compauth.facts.get('reason', '')}".strip() if compauth else "",
        "handed_over": {"address": edge.address, "helo": edge.helo, "to": edge.by} if edge else {},
        "ignored_results": ignored, "signatures": signed, "arc": arc, "filters": filters(message), "findings": findings,
        "hops": [{"from": hop.helo, "address": hop.address, "by": hop.by, "protocol": hop.protocol,
                  "time": hop.when.isoformat() if hop.when else "", "delay_s": hop.delay, "note": hop.note,
                  "trusted": edge is None or number >= hops.index(edge)}
                 for number, hop in enumerate(hops)],
    }  # fmt: skip


def show(report: Json) -> None:
    print(f"from    {report['shown_name']} <{report['from']}>")
    print(f"subject {report['subject']}")
    print(f"proven  {'yes: this domain sent or signed it' if report['proven'] == 'proven' else 'NO: anybody may have written this From'}")
    for reason in report["reasons"]:
        print(f"        {reason}")
    if report["dmarc"]:
        print(f"dmarc   {report['dmarc']['result']} {report['dmarc']['policy']} {report['dmarc']['action']}".rstrip())
    if report["compauth"]:
        print(f"compauth {report['compauth']}")
    if edge := report["handed_over"]:
        print(f"sent by {edge['address'] or '(no address written)'} (called itself {edge['helo']}) handed it to {edge['to']}; hops before that are claims")
    for text in report["filters"]:
        print(f"filter  {text}")
    for note in report["notes"]:
        print(f"note    {note}")
    if report["ignored_results"]:
        print(f"note    results not by the receiver, ignored: {', '.join(report['ignored_results'])} (--trust HOST accepts one)")
    for finding in report["findings"]:
        print(f"finding {finding}")
    print(f"\n{'delay':>12}  {'time (UTC)':<20} hop")
    for hop in report["hops"]:
        mark = " " if hop["trusted"] else "?"
        source = f"{hop['from']} [{hop['address']}]" if hop["address"] else hop["from"] or "(itself)"
        print(f"{span(hop['delay_s']):>12}{mark} {hop['time'][:19]:<20} {source} -> {hop['by']} {hop['protocol']} {hop['note']}".rstrip())
    for one in report["signatures"]:
        print(f"\nkey     {clean(one['key'])} TXT, {clean(one['algorithm'])}")
    if report["arc"]["sealed_by"]:
        print(f"arc     {', '.join(report['arc']['sealed_by'])}; cv {', '.join(report['arc']['chain'])}; "
              f"the receiver says {report['arc']['result'] or 'nothing'}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Say from the headers of a message who sent it and what was proven.")
    parser.add_argument("file", help="the message or its headers, - for standard input")
    parser.add_argument("--trust", action="append", default=[], metavar="HOST", help="believe the results of HOST too")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        data = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
        if not data.strip():
            raise ValueError("the file is empty")
        message, notes = read_message(data)
        report = analyse(message, args.trust) | {"notes": notes}
    except (OSError, ValueError) as error:
        print(f"cannot read {args.file}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=1)) if args.json else show(report)
    return 0 if report["proven"] == "proven" and not any(one.startswith("danger") for one in report["findings"]) else 1


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
