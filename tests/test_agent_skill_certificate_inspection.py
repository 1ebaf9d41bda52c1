"""The script of the skill certificate-inspection reads certificates and says what is wrong with them."""

import shutil
import socket
import ssl
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("certificate-inspection", "inspect_certificate.py")
CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def issue(folder: Path, name: str, by: str, extensions: str) -> None:
    """Make name.key and name.pem, valid for 90 days, signed by the certificate *by*."""
    request, settings = folder / f"{name}.csr", folder / f"{name}.cnf"
    settings.write_text(extensions)
    openssl("req", *CURVE, "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", request)
    signer: list[str | Path] = [
        "-CA",
        folder / f"{by}.pem",
        "-CAkey",
        folder / f"{by}.key",
        "-CAcreateserial",
        "-extfile",
        settings,
    ]
    openssl("x509", "-req", "-in", request, *signer, "-days", "90", "-out", folder / f"{name}.pem")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a root, an authority below it and a leaf for *.example.com and localhost."""
    folder = tmp_path_factory.mktemp("certificates")
    root: list[str | Path] = [
        "-keyout",
        folder / "root.key",
        "-out",
        folder / "root.pem",
        "-days",
        "3650",
        "-subj",
        "/CN=root",
    ]
    openssl("req", "-x509", *CURVE, *root)
    issue(folder, "middle", "root", "basicConstraints=critical,CA:TRUE\n")
    names = "subjectAltName=DNS:*.example.com,DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n"
    issue(folder, "leaf", "middle", names)
    texts = {name: (folder / f"{name}.pem").read_text() for name in ("root", "middle", "leaf")}
    (folder / "chain.pem").write_text(texts["leaf"] + texts["middle"])
    (folder / "reversed.pem").write_text(texts["middle"] + texts["leaf"])
    return folder


def problems(folder: Path, name: str, *arguments: str | Path) -> list[str]:
    report = run_json(*SCRIPT, folder / name, "--ca", folder / "root.pem", *arguments)
    found: list[str] = report["problems"]
    return found


def test_a_good_chain_has_no_problems(certificates: Path) -> None:
    report = run_json(*SCRIPT, certificates / "chain.pem", "--ca", certificates / "root.pem")
    assert (report["problems"], report["trust"], report["chain"]) == ([], "ok", [0, 1])
    leaf = report["certificates"][0]
    assert (leaf["subject"], leaf["issuer"], leaf["bits"], leaf["ca"]) == ("CN=leaf", "CN=middle", 256, False)
    assert leaf["names"] == ["*.example.com", "localhost", "127.0.0.1"]
    assert (leaf["days"], leaf["usage"]) == (90.0, "TLS Web Server Authentication")
    done = run_script(*SCRIPT, certificates / "chain.pem", "--ca", certificates / "root.pem")
    assert done.returncode == 0
    assert "PRIVATE" not in done.stdout


def test_a_missing_intermediate_and_an_unknown_root_are_told_apart(certificates: Path) -> None:
    missing = problems(certificates, "leaf.pem")
    assert len(missing) == 1
    assert "intermediate missing" in missing[0]
    (certificates / "full.pem").write_text(
        "".join((certificates / f"{name}.pem").read_text() for name in ("leaf", "middle", "root"))
    )
    unknown = run_json(*SCRIPT, certificates / "full.pem")["problems"]
    assert len(unknown) == 1
    assert "root of the chain is not in the trust store" in unknown[0]


def test_a_chain_in_the_wrong_order_is_noticed(certificates: Path) -> None:
    assert problems(certificates, "reversed.pem") == ["wrong order: should be 2, 1"]


@pytest.mark.parametrize("name", ["api.example.com", "LOCALHOST", "127.0.0.1"])
def test_a_name_that_the_leaf_covers_is_fine(certificates: Path, name: str) -> None:
    assert problems(certificates, "chain.pem", "--name", name) == []


@pytest.mark.parametrize("name", ["example.com", "a.b.example.com", "leaf", "127.0.0.2"])
def test_a_star_stands_for_one_label_and_the_common_name_for_none(certificates: Path, name: str) -> None:
    found = problems(certificates, "chain.pem", "--name", name)
    assert found == [f"does not cover {name}: has *.example.com, localhost, 127.0.0.1"]


def test_expiry_is_judged_by_a_third_of_the_lifetime_or_the_days_given(certificates: Path) -> None:
    end = run_json(*SCRIPT, certificates / "leaf.pem")["certificates"][0]["not_after"]
    at = ["--at", end[:10]]  # the midnight before
    late = problems(certificates, "chain.pem", *at)
    assert [text.rpartition(" in ")[0] for text in late[:2]] == ["certificate 1 expires", "certificate 2 expires"]
    assert problems(certificates, "chain.pem", *at, "--days", "0") == []


def test_a_certificate_is_expired_after_its_time_and_not_valid_before(certificates: Path) -> None:
    over = problems(certificates, "chain.pem", "--at", "2099-01-01")
    assert over[0].startswith("certificate 1 expired")
    assert "expired" in over[-1]
    assert "not valid before" in problems(certificates, "chain.pem", "--at", "2001-01-01")[0]


def test_a_date_with_an_offset_is_shown_as_the_utc_that_it_is(certificates: Path) -> None:
    done = run_script(*SCRIPT, certificates / "chain.pem", "--at", "2030-01-01T06:00+09:00")
    assert "as of 2029-12-31T21:00 UTC" in done.stdout


def test_a_key_of_another_certificate_is_noticed(certificates: Path) -> None:
    assert problems(certificates, "chain.pem", "--key", certificates / "leaf.key") == []
    other = certificates / "middle.key"
    assert problems(certificates, "chain.pem", "--key", other) == [f"{other} belongs to another certificate"]


def test_a_leaf_without_names_and_with_a_short_key_is_told(tmp_path: Path) -> None:
    settings = tmp_path / "a.cnf"
    settings.write_text("[req]\ndistinguished_name=dn\nx509_extensions=v3\n[dn]\n[v3]\nbasicConstraints=CA:FALSE\n")
    target: list[str | Path] = [
        "-keyout",
        tmp_path / "a.key",
        "-out",
        tmp_path / "a.pem",
        "-config",
        settings,
        "-subj",
        "/CN=a",
    ]
    openssl("req", "-x509", "-newkey", "rsa:1024", "-nodes", *target)
    found = run_json(*SCRIPT, tmp_path / "a.pem", "--name", "a", "--days", "5")["problems"]
    assert found[0] == "certificate 1 is weak: 1024-bit rsaEncryption"
    assert found[1] == "no subject alternative name: clients ignore the common name"
    assert "self-signed" in found[2]


def test_binary_forms_are_read_as_well(certificates: Path) -> None:
    openssl("x509", "-in", certificates / "leaf.pem", "-outform", "DER", "-out", certificates / "leaf.der")
    bundle: list[str | Path] = [
        "-certfile",
        certificates / "chain.pem",
        "-outform",
        "DER",
        "-out",
        certificates / "chain.p7b",
    ]
    openssl("crl2pkcs7", "-nocrl", *bundle)
    for name, count in (("leaf.der", 1), ("chain.p7b", 2)):
        assert len(run_json(*SCRIPT, certificates / name)["certificates"]) == count


def serve(context: ssl.SSLContext, listener: socket.socket) -> None:
    for _ in range(2):  # each kind of key is asked for
        connection, _ = listener.accept()
        with connection:
            try:
                with context.wrap_socket(connection, server_side=True) as secure:
                    secure.recv(1)
            except OSError:
                pass


def test_what_a_server_sends_is_read_and_checked_against_its_name(certificates: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "chain.pem", certificates / "leaf.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(context, listener), daemon=True)
        thread.start()
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        report: dict[str, Any] = run_json(*SCRIPT, "--host", host, "--ca", certificates / "root.pem")
        thread.join(10)
    assert (report["problems"], report["trust"], len(report["certificates"])) == ([], "ok", 2)
    assert report["protocol"].startswith("TLSv1.")


def test_the_second_certificate_of_a_server_is_judged_too(certificates: Path, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "chain.pem", certificates / "leaf.key")
    names: list[str | Path] = ["-subj", "/CN=old", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "20"]
    files: list[str | Path] = ["-keyout", tmp_path / "old.key", "-out", tmp_path / "old.pem"]
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", *names, *files)
    context.load_cert_chain(tmp_path / "old.pem", tmp_path / "old.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(context, listener), daemon=True)
        thread.start()
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        at = (datetime.now(UTC) + timedelta(days=30)).date().isoformat()
        report: dict[str, Any] = run_json(*SCRIPT, "--host", host, "--ca", certificates / "root.pem", "--at", at)
        thread.join(10)
    assert report["certificates"][0]["subject"] == "CN=leaf"
    assert "second certificate: certificate 1 expired" in report["problems"][0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "damaged"),
        (b"x" * 300_000, "no certificate in it"),  # openssl stops reading early
    ],
    ids=["empty", "damaged", "long"],
)
def test_what_holds_no_certificate_is_refused_in_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.pem"
    path.write_bytes(content)
    assert_refused(run_script(*SCRIPT, path), words)


def test_a_key_or_a_request_is_named_as_such(certificates: Path) -> None:
    assert_refused(run_script(*SCRIPT, certificates / "leaf.key"), "only a private key")
    assert_refused(run_script(*SCRIPT, certificates / "leaf.csr"), "signing request")


def test_a_missing_file_and_a_wrong_host_are_refused(tmp_path: Path) -> None:
    assert_refused(run_script(*SCRIPT, tmp_path / "none.pem"), "No such file")
    assert_refused(run_script(*SCRIPT, "--host", "https://example.com"), "without https://")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert_refused(run_script(*SCRIPT, "--host", f"127.0.0.1:{port}"), "cannot inspect 127.0.0.1")


def test_a_name_beyond_ascii_is_covered_by_its_ascii_form(tmp_path: Path) -> None:
    openssl(
        "req", "-x509", *CURVE, "-days", "90", "-subj", "/CN=a", "-addext", "subjectAltName=DNS:xn--bcher-kva.example",
        "-keyout", tmp_path / "a.key", "-out", tmp_path / "a.pem",
    )  # fmt: skip
    done = run_script(*SCRIPT, tmp_path / "a.pem", "--name", "bücher.example")
    assert "covered by xn--bcher-kva.example" in done.stdout


def test_each_of_several_names_is_checked(certificates: Path) -> None:
    found = problems(certificates, "chain.pem", "--name", "a.b.example.com", "--name", "localhost")
    assert [problem.split(":")[0] for problem in found] == ["does not cover a.b.example.com"]


def test_a_file_that_a_server_cannot_load_is_told_although_its_certificates_are_found(certificates: Path) -> None:
    leaf, middle = ((certificates / f"{name}.pem").read_text() for name in ("leaf", "middle"))
    (certificates / "glued.pem").write_text(leaf.rstrip() + middle)
    told = "text follows an END line on the same line: servers refuse the file, put a line break there"
    assert problems(certificates, "glued.pem") == [told]
    with pytest.raises(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificates / "glued.pem", certificates / "leaf.key")
    (certificates / "cut.pem").write_text(leaf + middle[:200])
    assert problems(certificates, "cut.pem")[0] == "1 certificates in the file have no END line: cut off?"


def test_certificates_beyond_the_limit_are_told(certificates: Path) -> None:
    (certificates / "many.pem").write_text((certificates / "root.pem").read_text() * 501)
    assert problems(certificates, "many.pem")[0] == "501 certificates, only the first 500 are read"


def test_the_whole_chain_is_read_from_pkcs12_without_a_password(certificates: Path) -> None:
    target: list[str | Path] = ["-inkey", certificates / "leaf.key", "-out", certificates / "chain.p12"]
    openssl("pkcs12", "-export", "-in", certificates / "chain.pem", *target, "-passout", "pass:")
    report = run_json(*SCRIPT, certificates / "chain.p12", "--ca", certificates / "root.pem")
    assert ([one["subject"] for one in report["certificates"]], report["problems"]) == (["CN=leaf", "CN=middle"], [])


def test_a_certificate_in_utf_16_is_named_as_such(certificates: Path) -> None:
    path = certificates / "wide.pem"
    path.write_text((certificates / "leaf.pem").read_text(), encoding="utf-16")
    assert_refused(run_script(*SCRIPT, path), "UTF-16", "iconv")


def test_a_certificate_behind_a_text_on_the_same_line_is_told(certificates: Path) -> None:
    leaf, middle = ((certificates / f"{name}.pem").read_text() for name in ("leaf", "middle"))
    told = "text stands before BEGIN on the same line: servers skip that certificate, put a line break there"
    for text, found in (("# api" + leaf + middle, [told]), ("# api\n" + leaf + "\ufeff" + middle, [])):
        (certificates / "commented.pem").write_text(text, "utf-8")
        assert problems(certificates, "commented.pem") == found
