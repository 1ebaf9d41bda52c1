"""The script of the skill email-header-analysis believes the receiver only, and works out what that proves."""

from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("email-header-analysis", "read_headers.py")
RESULTS = "mx.google.com; dkim=pass header.i=@{dkim} header.s=s1 header.b=A; spf=pass (x; y) smtp.mailfrom=b@{spf}"


def mail(
    *more: str,
    dkim: str = "example.com",
    spf: str = "example.com",
    author: str = "Shop <shop@example.com>",
    results: str | None = None,
    dmarc: str = "",
) -> str:
    """Return a mail that Gmail took over from 8.8.4.9, with headers that came with it below."""
    written = results if results is not None else RESULTS.format(dkim=dkim, spf=spf) + dmarc
    return "\n".join(
        [
            "Received: by 2002:a05:7300:1 with SMTP id x; Wed, 25 Nov 2026 08:10:12 -0800 (PST)",
            "Received: from out.example.com (out.example.com. [8.8.4.9])",
            " by mx.google.com with ESMTPS id a1 for <bob@example.net>; Wed, 25 Nov 2026 16:10:10 +0000",
            *([f"Authentication-Results: {written}"] if written else []),
            "Received: from app (unknown [10.0.0.7]) by out.example.com with ESMTPSA; Wed, 25 Nov 2026 15:40:10 +0000",
            f"From: {author}",
            "Date: Wed, 25 Nov 2026 15:40:00 +0000",
            *more,
            "",
            "the body",
        ]
    )


def read(text: str, *options: str) -> dict[str, Any]:
    return run_json(*SCRIPT, "-", *options, stdin=text)


@pytest.mark.parametrize(
    ("dkim", "spf", "proven"),
    [
        ("example.com", "provider.example", "proven"),
        ("provider.example", "bounce.example.com", "proven"),
        ("provider.example", "bounce.provider.example", "not proven"),
        ("badexample.com", "example.com.evil.example", "not proven"),
    ],
)
def test_from_is_proven_by_a_result_that_is_aligned_with_it(dkim: str, spf: str, proven: str) -> None:
    report = read(mail(dkim=dkim, spf=spf))
    assert report["proven"] == proven
    assert run_script(*SCRIPT, "-", stdin=mail(dkim=dkim, spf=spf)).returncode == (proven != "proven")


@pytest.mark.parametrize(
    ("results", "more", "proven"),
    [
        ("spf=pass smtp.helo=example.com; spf=pass smtp.mailfrom=b@provider.example", (), "not proven"),
        ("spf=pass smtp.helo=example.com", ("Return-Path: <b@provider.example>",), "not proven"),
        ("spf=pass smtp.helo=example.com", ("Return-Path: <>",), "proven"),
        ("spf=pass smtp.mailfrom=<> smtp.helo=example.com", ("Return-Path: <>",), "proven"),
        ("spf=pass smtp.mailfrom=<b@example.com>", (), "proven"),
    ],
)
def test_a_greeting_counts_for_an_empty_return_path_only(results: str, more: tuple[str, ...], proven: str) -> None:
    report = read(mail(*more, results=f"mx.google.com; {results}"))
    assert report["proven"] == proven
    assert any("greeting" in one for one in report["reasons"]) == (proven != "proven")


def test_a_suffix_of_two_labels_is_not_an_organisation() -> None:
    report = read(mail(dkim="other.co.uk", spf="other.co.uk", author="a@shop.co.uk"))
    assert report["proven"] == "not proven"
    assert read(mail(dkim="mail.shop.co.uk", author="a@shop.co.uk"))["proven"] == "proven"


def test_results_that_came_with_the_mail_prove_nothing() -> None:
    forged = "Authentication-Results: mx.google.com; dkim=pass header.d=example.com; dmarc=pass header.from=example.com"
    for header in (forged, forged.replace("mx.google.com; ", ""), forged.replace("mx.google.com", "mx.evil.example")):
        report = read(mail(header, results=""))
        assert report["proven"] == "not proven"
        assert len(report["ignored_results"]) == 1
    trusted = read(mail(forged.replace("mx.google.com", "mx.own.example"), results=""), "--trust", "mx.own.example")
    assert trusted["proven"] == "proven"


def test_where_the_receiver_judged_dmarc_otherwise_the_receiver_is_right() -> None:
    report = read(mail(dmarc="; dmarc=fail (p=REJECT dis=NONE) header.from=example.com"))
    assert report["proven"] == "not proven"
    assert "this reckoning differs" in " ".join(report["reasons"])
    about_another = read(mail(dkim="evil.example", spf="evil.example", dmarc="; dmarc=pass header.from=evil.example"))
    assert about_another["proven"] == "not proven"


def test_microsoft_writes_results_without_its_name() -> None:
    text = mail(results="").replace("mx.google.com", "DB1.mail.protection.outlook.com").replace(
        "From: Shop",
        "X-Forefront-Antispam-Report: CIP:8.8.4.9;SCL:5;SFV:SPM;CAT:SPOOF;\nFrom: Shop",
    )  # fmt: skip
    results = (
        "Authentication-Results: spf=fail (sender IP is 8.8.4.9) smtp.mailfrom=example.com; dkim=none (not signed);"
        "dmarc=fail action=oreject header.from=example.com;compauth=fail reason=000\n"
    )
    report = read(results + text)
    assert (report["proven"], report["compauth"]) == ("not proven", "fail 000")
    assert report["dmarc"]["action"] == "oreject"
    assert report["filters"] == ["Microsoft: SCL 5, SFV SPM, CAT SPOOF"]


def test_hops_have_delays_and_those_before_the_handover_are_claims() -> None:
    report = read(mail())
    assert [(hop["by"], hop["delay_s"], hop["trusted"]) for hop in report["hops"]] == [
        ("out.example.com", None, False), ("mx.google.com", 1800, True), ("2002:a05:7300:1", 2, True)
    ]  # fmt: skip
    assert report["handed_over"] == {"address": "8.8.4.9", "helo": "out.example.com", "to": "mx.google.com"}
    assert [one for one in report["findings"] if one.startswith("delay: 30 min between out.example.com")]


def test_a_clock_that_is_wrong_is_not_called_a_delay() -> None:
    text = mail().replace("16:10:10 +0000", "15:30:10 +0000")
    findings = read(text)["findings"]
    assert [one for one in findings if "mx.google.com is at least 10 min behind" in one]
    assert read(text)["hops"][1]["note"].endswith("a clock is wrong")
    late = mail().replace("Date: Wed, 25 Nov 2026 15:40:00", "Date: Wed, 25 Nov 2026 17:40:10")
    assert [one for one in read(late)["findings"] if one.startswith("clock: Date is 2 h later")]


@pytest.mark.parametrize(
    ("author", "words"),
    [
        ('"boss@example.com" <x@evil.example>', "an address at example.com, the real one is at evil.example"),
        ("=?utf-8?q?Boss_=3Cboss=40example=2Ecom=3E?= <x@evil.example>", "an address at example.com"),
        ("a@example.com, b@evil.example", "2 addresses"),
        ("a@xn--pple-43d.com", "CYRILLIC, LATIN"),
        ("=?utf-8?b?Qm/igI5zcw==?= <a@example.com>", "U+200E"),
    ],
)
def test_names_that_deceive_are_named(author: str, words: str) -> None:
    report = read(mail(author=author))
    assert words in " ".join(report["findings"])


def test_an_answer_that_would_go_elsewhere_is_named() -> None:
    findings = read(mail("Reply-To: accounts@evil.example"))["findings"]
    assert findings[0] == "caution: Reply-To leads to evil.example, From is example.com"
    assert "Reply-To" not in " ".join(read(mail("Reply-To: help@support.example.com"))["findings"])


SIGNED = "DKIM-Signature: v=1; a={a}; d=example.com; s=s1;\n\th={h}; bh=x;{more} b=y"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"h": "To:Subject:Date"}, "h= lacks From"),
        ({"more": " l=100;"}, "anybody can append"),
        ({"a": "rsa-sha1"}, "RFC 8301"),
        ({"more": " x=1700000000;"}, "expired"),
        ({"h": "From:Subject"}, "does not cover date"),
    ],
)
def test_weak_signatures_are_named_with_the_record_of_their_key(facts: dict[str, str], words: str) -> None:
    tags = {"a": "rsa-sha256", "h": "From:To:Subject:Date", "more": ""} | facts
    report = read(mail(SIGNED.format(**tags)))
    assert words in " ".join(report["findings"])
    assert report["signatures"][0]["key"] == "s1._domainkey.example.com"
    assert not [
        one for one in read(mail(SIGNED.format(a="rsa-sha256", h="From:Date", more="")))["findings"] if "sign" in one
    ]


def test_a_signature_without_from_does_not_prove_from_alone() -> None:
    bare, full = (SIGNED.format(a="rsa-sha256", h=fields, more="") for fields in ("To:Subject", "From:Date"))
    lone = mail(bare, spf="bounce.provider.example")
    assert "danger: the signature that proves From does not cover it" in " ".join(read(lone)["findings"])
    assert run_script(*SCRIPT, "-", stdin=lone).returncode == 1
    for text in (mail(bare, full, spf="bounce.provider.example"), mail(bare, spf="example.com"), mail(full)):
        assert not [one for one in read(text)["findings"] if one.startswith("danger")]


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (["List-Id: <a>"], "without List-Unsubscribe"),
        (["List-Unsubscribe: <mailto:a@example.com>"], "without an https address"),
        (["List-Unsubscribe: <https://example.com/u?t=geheim>"], "List-Unsubscribe=One-Click is missing"),
        (["List-Unsubscribe: <https://example.com/u>", "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
          SIGNED.format(a="rsa-sha256", h="From:Date:List-Unsubscribe", more="")], "covers both"),
    ],
)  # fmt: skip
def test_bulk_mail_without_working_one_click_is_named(headers: list[str], words: str) -> None:
    text = mail(*headers)
    assert words in " ".join(read(text)["findings"])
    assert "geheim" not in run_script(*SCRIPT, "-", stdin=text).stdout


def test_one_click_that_is_covered_by_a_signature_that_passed_is_no_finding() -> None:
    signature = SIGNED.format(a="rsa-sha256", h="From:Date:List-Unsubscribe:List-Unsubscribe-Post", more="")
    text = mail(
        "List-Unsubscribe: <https://example.com/u>", "List-Unsubscribe-Post: List-Unsubscribe=One-Click", signature
    )
    assert not [one for one in read(text)["findings"] if "click" in one]
    assert [
        one
        for one in read(text.replace("@example.com header.s", "@other.example header.s"))["findings"]
        if "click" in one
    ]


def test_a_forwarder_that_sealed_what_it_saw_is_named() -> None:
    arc = [
        "ARC-Seal: i=1; a=rsa-sha256; cv=none; d=lists.example.org; s=k; b=z",
        "ARC-Authentication-Results: i=1; lists.example.org; dkim=pass header.d=example.com; dmarc=pass",
    ]
    report = read(mail(*arc, dkim="lists.example.org", spf="lists.example.org"))
    assert report["arc"]["sealed_by"] == ["lists.example.org"]
    assert "lists.example.org, which saw: dkim=pass example.com, dmarc=pass" in " ".join(report["findings"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_line_ends_and_mbox_are_read_and_encoded_words_shown(tmp_path: Path, encoding: str) -> None:
    text = "From bob Wed Nov 25 16:00:00 2026\n" + mail("Subject: =?utf-8?b?R3LDvMOfZQ==?= =?koi9?q?x?=")
    file = tmp_path / "a.eml"
    file.write_bytes(text.replace("\n", "\r\n").encode(encoding))
    report = run_json(*SCRIPT, file)
    assert (report["proven"], report["subject"]) == ("proven", "Grüßex")


def test_headers_behind_a_blank_line_are_not_lost_in_silence() -> None:
    text = mail().replace("Received: from app", "\nReceived: from app")
    assert "behind a blank line" in read(text)["notes"][0]


def test_what_holds_no_headers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    for content in (b"", b"Dear Bob,\n\nhello: you\n", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", bytes(range(256)) * 9):
        path.write_bytes(content)
        assert_refused(run_script(*SCRIPT, path), "a.eml")


def test_characters_that_a_terminal_obeys_are_not_printed() -> None:
    out = run_script(*SCRIPT, "-", stdin=mail("Subject: =?utf-8?q?a=1B[31m=E2=80=AEb?=")).stdout
    assert "\x1b" not in out
    assert "a<U+001B>[31m<U+202E>b" in out


def test_headers_in_raw_utf_8_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m.eml"
    path.write_bytes("\ufeff".encode() + mail("Subject: Grüße \u202eabc", author="a@börse.example").encode())
    report = run_json(*SCRIPT, path)
    assert (report["from"], report["subject"]) == ("a@börse.example", "Grüße <U+202E>abc")
    assert "caution: invisible characters in name or subject: U+202E" in report["findings"]


def test_a_header_in_an_old_charset_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "m.eml"
    path.write_bytes(mail("Subject: Grüße", "Precedence: bülk", "X-Spam-Status: jä").encode("latin-1"))
    assert run_json(*SCRIPT, path)["subject"] == "Gr\ufffd\ufffde"


def test_pasted_headers_may_all_be_indented() -> None:
    indented = "".join(f"    {line}\n" for line in mail("Subject: x").partition("\n\n")[0].splitlines())
    assert read(indented)["from"] == "shop@example.com"


def test_the_other_messages_of_an_mbox_are_counted() -> None:
    report = read(
        f"From a@x.org Wed Nov 25 10:00:00 2026\n{mail()}\n\nFrom b@x.org Wed Nov 25 10:00:00 2026\n{mail()}\n"
    )
    assert report["notes"] == ["an mbox: 1 more messages follow, only the first was read"]


def test_hops_before_the_receiver_are_claims_even_if_no_address_was_written() -> None:
    report = read(
        "Received: from evil by mx.receiver.example; Wed, 25 Nov 2026 16:10:10 +0000\n"
        "Received: from bank by evil.example; Wed, 25 Nov 2026 16:10:00 +0000\n"
        "Authentication-Results: mx.receiver.example; dmarc=pass header.from=bank.example\n"
        "From: boss@bank.example\nDate: soon\n\n"
    )
    assert (report["proven"], report["ignored_results"]) == ("not proven", ["mx.receiver.example"])
    assert [hop["trusted"] for hop in report["hops"]] == [False, True]
    assert "caution: Date cannot be read: soon" in report["findings"]


def test_two_names_below_a_suffix_that_may_be_public_prove_nothing_without_a_dmarc_result() -> None:
    facts: dict[str, Any] = {"author": "a@victim.github.io", "dkim": "evil.github.io", "spf": "other.example"}
    report = read(mail(**facts))
    assert report["proven"] == "not proven"
    assert any("only if github.io is one organisation" in reason for reason in report["reasons"])
    assert read(mail(**facts, dmarc="; dmarc=pass header.from=victim.github.io"))["proven"] == "proven"


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("Microsoft Mail Internet Headers Version 2.0\n" + mail(), "lines before the headers"),
        ("Original Message\nFrom:\tEve <eve@evil.example>\nSPF:\tPASS\n\n" + mail(), "lines before the headers"),
        ("\n".join(f"> {line}" for line in mail().split("\n")), ""),
        (mail().replace("\n by", "\nby"), "1 lines had lost the space"),
        (mail().replace("\n by", "\nby").replace("\n", "\r\n"), "1 lines had lost the space"),
    ],
)
def test_headers_are_found_in_what_people_paste(text: str, note: str) -> None:
    report = read(text)
    assert (report["from"], report["proven"]) == ("shop@example.com", "proven")
    assert [one[: len(note)] for one in report["notes"]] == ([note] if note else [])


def test_utf_16_without_a_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(mail().encode("utf-16-le"))
    assert run_json(*SCRIPT, tmp_path / "a.eml")["proven"] == "proven"


MICROSOFT = """\
Received: from AM0PR08CA0012.eurprd08.prod.outlook.com (2603:10a6:208:d2::25)
 by AM0PR08MB1234.eurprd08.prod.outlook.com (2603:10a6:208:1::1) with
 Microsoft SMTP Server (version=TLS1_3, cipher=X) id 15.21.25.21; Wed, 25 Nov 2026 08:00:04 +0000
Received: from AM5EUR03FT012.eop-EUR03.prod.protection.outlook.com
 (2603:10a6:208:d2:cafe::2) by AM0PR08CA0012.outlook.office365.com
 (2603:10a6:208:d2::25) with Microsoft SMTP Server id 15.21.48.17 via Frontend Transport;
 Wed, 25 Nov 2026 08:00:04 +0000
Authentication-Results: spf=pass (sender IP is {address})
 smtp.mailfrom=example.com; dkim=pass (signature was verified)
 header.d=example.com;dmarc=pass action=none header.from=example.com;compauth=pass reason=100
Received: from {helo} ({address}) by
 AM5EUR03FT012.mail.protection.outlook.com (10.167.242.9) with Microsoft SMTP
 Server id 15.21.48.17 via Frontend Transport; Wed, 25 Nov 2026 08:00:03 +0000
Received: from a.outlook.com (9.9.9.9) by b.mail.protection.outlook.com; Wed, 25 Nov 2026 08:00:02 +0000
From: Shop <shop@example.com>
Subject: x

the body
"""


@pytest.mark.parametrize("address", ["8.8.4.9", "2a00:1450:4001::1"])
@pytest.mark.parametrize("helo", ["out.example.com", "x.outlook.com"])
def test_the_chain_of_servers_of_microsoft_365_is_that_of_one_receiver(address: str, helo: str) -> None:
    report = read(MICROSOFT.format(address=address, helo=helo))
    assert (report["proven"], report["ignored_results"]) == ("proven", [])
    assert report["handed_over"] == {
        "address": address,
        "helo": helo,
        "to": "AM5EUR03FT012.mail.protection.outlook.com",
    }


def test_who_calls_itself_like_the_receiver_is_not_the_receiver() -> None:
    text = """\
Received: from mx.corp.example (unknown [8.8.4.9]) by mx.corp.example with ESMTPS id 4; Wed, 25 Nov 2026 08:00:05 +0000
Received: from mail.bank.example (mail.bank.example [9.9.9.9])
 by mx.corp.example with ESMTPS; Wed, 25 Nov 2026 08:00:03 +0000
Authentication-Results: mx.corp.example; dkim=pass header.d=bank.example; dmarc=pass header.from=bank.example
From: Bank <x@bank.example>

the body
"""
    report = read(text)
    assert (report["proven"], report["handed_over"]["address"]) == ("not proven", "8.8.4.9")


def test_results_that_icloud_writes_one_by_one_are_its_own_and_no_forgery() -> None:
    text = """\
Received: from ci74p00im.me.com by p116-mailgateway-smtp-746c (mailgateway 2403B92)
 with SMTP id 4; Wed, 25 Nov 2026 08:00:05 GMT
Received: from out.example.com (out.example.com [8.8.4.9])
 by ci74p00im.me.com (Postfix) with ESMTPS; Wed, 25 Nov 2026 08:00:03 +0000
Authentication-Results: bimi.icloud.com; bimi=none
Authentication-Results: dmarc.icloud.com; dmarc=pass header.from=example.com
Authentication-Results: dkim-verifier.icloud.com; dkim=pass (1024-bit key) header.d=example.com header.b=A
Authentication-Results: dkim-verifier.icloud.com; dkim=pass (1024-bit key) header.d=provider.example header.b=B
Authentication-Results: spf.icloud.com; spf=pass (x) smtp.mailfrom=b@example.com
From: Shop <shop@example.com>

the body
"""
    report = read(text)
    assert report["proven"] == "proven"
    assert not [one for one in report["reasons"] if "bear the receiver's name" in one]
    forged = text.replace("From:", "Authentication-Results: dmarc.icloud.com; dmarc=pass header.from=b.example\nFrom:")
    assert [one for one in read(forged)["reasons"] if "bear the receiver's name" in one]


def test_the_address_that_yahoo_saw_is_named() -> None:
    text = """\
Received: from 127.0.0.1
 by atlas-production.omega.yahoo.com pod-id a.gq1.yahoo.com with HTTP; Wed, 25 Nov 2026 08:00:05 +0000
Authentication-Results: atlas-production.omega.yahoo.com;
 dkim=pass header.i=@example.com header.s=2 arc_overridden_status=X;
 spf=pass smtp.mailfrom=b.example.com; dmarc=pass(p=REJECT) header.from=example.com
Received: from 8.8.4.9 (EHLO out.example.com) by 10.253.233.86 with SMTPs; Wed, 25 Nov 2026 08:00:04 +0000
From: Shop <shop@example.com>

the body
"""
    report = read(text)
    assert (report["proven"], report["handed_over"]["address"]) == ("proven", "8.8.4.9")


def test_a_result_that_stands_again_below_the_receivers_own_proves_nothing() -> None:
    own = "mx.google.com; dkim=none; spf=pass (x; y) smtp.mailfrom=b@evil.example"
    forged = "\nAuthentication-Results: mx.google.com; dkim=pass header.d=example.com"
    assert read(mail(results=own + forged))["proven"] == "not proven"
    parted = "mx.google.com; spf=pass (x; y) smtp.mailfrom=b@evil.example" + forged  # two filters, one header each
    assert read(mail(results=parted))["proven"] == "proven"


@pytest.mark.parametrize(
    "line",
    [
        "from [8.8.8.8] (unknown [8.8.4.9]) by mx.example.net (Postfix) with ESMTP",
        "from [192.168.1.5] (customer.isp.example [8.8.4.9]) by mx.example.net (Postfix) with ESMTP",
        "from [8.8.4.9] (helo=[8.8.8.8]) by mx.example.net with esmtp (Exim 4.98)",
        "from unknown (HELO [8.8.8.8]) (8.8.4.9) by mx.example.net with SMTP",
        "from 8.8.4.9 (EHLO [8.8.8.8]) by mx.example.net with SMTPs",
        "from [8.8.4.9] by mx.example.net with SMTP",
        "from mx.example.net ([8.8.4.9]) by mx.example.net with SMTP",  # no name found, as Gmail and sendmail write it
    ],
)
def test_an_address_that_the_client_called_itself_is_not_where_it_connected_from(line: str) -> None:
    forged = "Received: from a.example.com (a.example.com [9.9.9.9]) by mx.example.net; Wed, 25 Nov 2026 15:00:00 +0000"
    report = read(f"Received: {line}; Wed, 25 Nov 2026 16:00:00 +0000\n{forged}\nFrom: a@example.com\n\n")
    assert report["handed_over"]["address"] == "8.8.4.9"
    assert [hop["trusted"] for hop in report["hops"]] == [False, True]


def test_a_mail_that_waited_before_its_first_hop_was_held_back_by_who_gave_it() -> None:
    text = mail().replace("Date: Wed, 25 Nov 2026 15:40:00", "Date: Wed, 25 Nov 2026 11:40:00")
    findings = [one for one in read(text)["findings"] if one.startswith("delay")]
    assert findings[1:] == ["delay: 4 h 10 s between Date and the first hop: held back by app"]


@pytest.mark.parametrize(
    "results",
    [
        'spf=pass smtp.mailfrom="shop@example.com"@evil.example',
        r'spf=pass smtp.mailfrom="\"shop@example.com\"@evil.example"',
        r'spf=pass smtp.mailfrom="\"x;dkim=pass header.d=example.com \"@evil.example"',
        r'spf=pass (of "x\);dkim=pass header.d=example.com;\("@evil.example) smtp.mailfrom=a@evil.example',
        'spf=pass smtp.mailfrom="x smtp.mailfrom=b@example.com"@evil.example',
        'spf=pass smtp.mailfrom=a@evil.example (of "x);dkim=pass header.d=example.com;("@evil.example)',
        'spf=pass smtp.mailfrom=a@evil.example (of "x) smtp.mailfrom=b@example.com ("@evil.example)',
        "spf=pass smtp.mailfrom=a@evil.example ) (x;dkim=pass header.d=example.com)",
        'dkim=pass header.i="@example.com"@evil.example',
    ],
)
def test_a_quoted_part_before_the_at_sign_proves_nothing(results: str) -> None:
    report = read(mail(results=f"mx.google.com; {results}"))
    assert report["proven"] == "not proven"
    assert {(one["domain"], one["aligned"]) for one in report["checks"]} <= {("evil.example", "no")}


def test_a_from_that_no_program_can_read_is_a_danger() -> None:
    report = read(mail(author="(" * 5000 + " shop@example.com"))
    assert (report["proven"], report["from"]) == ("not proven", "")
    assert [one for one in report["findings"] if one.startswith("danger: 1 From headers with 0 addresses")]


def test_results_with_a_name_are_none_of_microsoft_365() -> None:
    text = (
        MICROSOFT.format(address="8.8.4.9", helo="evil.example")
        .replace(
            "dkim=pass (signature was verified)\n header.d=example.com;dmarc=pass action=none header.from=example.com",
            "dkim=none\n header.d=none;dmarc=none action=none header.from=example.com",
        )
        .replace("smtp.mailfrom=example.com", "smtp.mailfrom=evil.example")
    )
    forged = text.replace(
        "Received: from a.outlook.com",
        "Authentication-Results: x.outlook.com; dkim=pass header.d=example.com\nReceived: from a.outlook.com",
    )
    assert [read(one)["proven"] for one in (text, forged)] == ["not proven"] * 2


@pytest.mark.parametrize("writer", ["mx.google.com", "any.google.com"])
def test_a_proof_that_only_a_lower_header_of_the_receivers_name_gives_is_a_danger(writer: str) -> None:
    own = "mx.google.com; spf=pass (x; y) smtp.mailfrom=b@evil.example"  # no word of DKIM
    forged = f"\nAuthentication-Results: {writer}; dkim=pass header.d=example.com"
    done = run_script(*SCRIPT, "-", stdin=mail(results=own + forged))
    assert (done.returncode, "only a lower header" in done.stdout) == (1, True)
    good = (
        f"mx.google.com; dkim=pass header.d=example.com\nAuthentication-Results: {writer}; spf=pass smtp.mailfrom=b@x.y"
    )
    assert not any("only a lower header" in one for one in read(mail(results=good))["findings"])


FASTMAIL = """\
Received: from ams-compute-02.internal (ams-compute-02.internal [10.64.2.62])
 by slotai03m05 (Cyrus 3.13.7) with LMTPA; Tue, 29 Sep 2026 14:02:14 -0400
Received: from phl-mx-04 ([10.202.2.203]) by ams-compute-02.internal (LMTPProxy); Tue, 29 Sep 2026 14:02:14 -0400
Received: from phl-mx-04.messagingengine.com (localhost [127.0.0.1])
 by mailmx.phl.internal (Postfix) with ESMTP id A1; Tue, 29 Sep 2026 14:02:11 -0400
Received: from mailmx.phl.internal (localhost [127.0.0.1])
 by phl-mx-04.messagingengine.com (Authentication Milter) with ESMTP id 3; Tue, 29 Sep 2026 14:02:11 -0400
Authentication-Results: phl-mx-04.messagingengine.com; x-csa=none; x-me-sender=none
Authentication-Results: phl-mx-04.messagingengine.com; arc=none (no signatures found)
Authentication-Results: phl-mx-04.messagingengine.com; dkim=pass header.d=example.com header.s=s1;
 dmarc=pass (p=reject,d=none) header.from=example.com; spf=pass smtp.mailfrom=b@example.com
Received: from out.example.com (out.example.com [8.8.4.9])
 by phl-mx-04.messagingengine.com (Postfix) with ESMTPS id 28; Tue, 29 Sep 2026 14:02:10 -0400
From: Shop <shop@example.com>

the body
"""


def test_the_results_that_fastmail_writes_above_its_received_are_its_own() -> None:
    report = read(FASTMAIL)
    assert (report["proven"], report["handed_over"]["address"], report["ignored_results"]) == ("proven", "8.8.4.9", [])
    assert not report["findings"]
    genuine = "dmarc=pass (p=reject,d=none) header.from=example.com"
    forged = FASTMAIL.replace("dkim=pass", "dkim=none").replace("spf=pass", "spf=none").replace(genuine, "iprev=pass")
    forged = forged.replace("From:", f"Authentication-Results: phl-mx-04.messagingengine.com; {genuine}\nFrom:")
    assert any(one.startswith("danger: the topmost results") for one in read(forged)["findings"])


def test_microsoft_365_has_servers_below_exchangelabs() -> None:
    text = MICROSOFT.format(address="8.8.4.9", helo="out.example.com")
    top = "Received: from A.prod.exchangelabs.com (2603:10a6:208::1) by B.prod.exchangelabs.com (2603:10a6:208::2)"
    report = read(f"{top} with Microsoft SMTP Server; Wed, 25 Nov 2026 09:00:05 +0000\n{text}")
    assert (report["proven"], report["handed_over"]["address"], report["ignored_results"]) == ("proven", "8.8.4.9", [])


AMAZON = """\
Return-Path: <cal@example.com>
Received: from out.example.com (out.example.com [8.8.4.9])
 by inbound-smtp.us-east-1.amazonaws.com with SMTP id 8i6 for bob@example.net; Sat, 26 Apr 2025 16:24:59 +0000 (UTC)
Authentication-Results: amazonses.com;
 spf=pass (spfCheck: x) client-ip=8.8.4.9; envelope-from=cal@example.com; helo=out.example.com;
 dkim=pass header.i=@example.com;
 dmarc=pass header.from=example.com;
Received: by app.example.com with SMTP id 52; Sat, 26 Apr 2025 09:24:57 -0700 (PDT)
From: Cal <cal@example.com>

the body
"""


def test_amazon_ses_judges_under_another_name_than_that_of_its_servers() -> None:
    report = read(AMAZON)
    assert (report["proven"], report["handed_over"]["address"], report["ignored_results"]) == ("proven", "8.8.4.9", [])
    assert not report["findings"]
    elsewhere = AMAZON.replace("inbound-smtp.us-east-1", "ec2-8-8-4-4.compute-1")
    assert (read(elsewhere)["proven"], read(elsewhere)["ignored_results"]) == ("not proven", ["amazonses.com"])
    added = "Authentication-Results: amazonses.com; dmarc=pass header.from=example.com\nFrom:"
    forged = AMAZON.replace("=pass", "=fail").replace("From:", added)
    assert read(forged)["proven"] == "not proven"


PROTON = """\
Authentication-Results: mail.protonmail.ch; arc=none smtp.remote-ip=8.8.4.9
Authentication-Results: mail.protonmail.ch; spf=pass smtp.mailfrom=bounce.provider.example
Authentication-Results: mail.protonmail.ch; dmarc=pass (p=none dis=none) header.from=example.com
Authentication-Results: mail.protonmail.ch; dkim=pass (2048-bit key) header.d=example.com
Received: from out.example.com (out.example.com [8.8.4.9])
 by mailin043.protonmail.ch (Postfix) with ESMTPS id 1 for <u@proton.me>; Fri, 11 Sep 2026 08:37:56 +0000 (UTC)
From: Office <office@example.com>

the body
"""


def test_proton_writes_one_header_for_each_method() -> None:
    assert (read(PROTON)["proven"], read(PROTON)["findings"]) == ("proven", [])
    added = "Authentication-Results: mail.protonmail.ch; dmarc=pass header.from=example.com\nFrom:"
    forged = PROTON.replace("=pass", "=fail").replace("From:", added)
    assert read(forged)["proven"] == "not proven"
    without = "".join(line for line in PROTON.splitlines(keepends=True) if "dkim=" not in line)
    silent = without.replace("spf=pass", "spf=none")
    another = PROTON.replace("mailin043.protonmail.ch", "mx.example.net").replace(
        "mail.protonmail.ch", "mx.example.net"
    )
    for one in (silent, another):
        assert any(finding.startswith("danger: the topmost results") for finding in read(one)["findings"])
