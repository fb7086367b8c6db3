from __future__ import annotations

import logging
import os
import select
import shutil
import socket
import ssl
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trustme

from recipes.stores.sockets import Conn, over_tls
from recipes.stores.tls import (
    CLOSED,
    ENDED,
    context_for,
    of_established,
    refused_by_tls,
    tls_text,
    tls_words,
)
from recipes.stores.tls_alpn import AlpnContext
from recipes.stores.tls_files import FileContext


class Files:
    """A CA, and a certificate with its key."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.authority = trustme.CA()
        self.ca, self.cert, self.key = (folder / name for name in ("ca.pem", "cert.pem", "key.pem"))
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.leaf = self.authority.issue_cert("localhost")
        self.leaf.private_key_and_cert_chain_pem.write_to_path(str(self.cert))
        self.leaf.private_key_pem.write_to_path(str(self.key))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "files")


def test_no_tls_without_the_scheme() -> None:
    assert context_for("etcd", {}) is None
    assert context_for("zookeeper", {"tls_ca": None}) is None
    with pytest.raises(ValueError, match="etcd:// does not encrypt: tls_ca= needs etcds://"):
        context_for("etcd", {"tls_ca": "x"})


def test_a_context_checks_certificates_and_names(files: Files) -> None:
    for options in ({}, {"tls_ca": files.ca}, {"tls_cert": str(files.cert), "tls_key": files.key}):
        context = context_for("etcds", options)
        assert isinstance(context, FileContext)
        for one in (context, context._loaded):
            assert (one.verify_mode, one.check_hostname) == (ssl.CERT_REQUIRED, True)
    mine = ssl.create_default_context()
    assert context_for("zookeepers", {"ssl_context": mine}) is mine


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"ssl_context": "x"}, TypeError, "ssl_context= is an ssl.SSLContext, not str"),
        ({"tls_ca": 7}, TypeError, "tls_ca= is the path of a PEM file, not int"),
        ({"tls_ca": "/no/such"}, ValueError, "tls_ca='/no/such': No such file"),
        ({"tls_cert": "/no/such"}, ValueError, "tls_cert='/no/such': No such file"),
        ({"tls_key": "/no/such"}, ValueError, "tls_key= needs tls_cert="),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        context_for("etcds", options)


def test_files_that_do_not_fit(files: Files, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ssl_context= says it all already: load what tls_ca= names"):
        context_for("etcds", {"ssl_context": ssl.create_default_context(), "tls_ca": files.ca})
    with pytest.raises(ValueError, match=r"ca='.*key\.pem': no certificates in PEM"):
        context_for("etcds", {"tls_ca": files.key})
    other = Files(tmp_path / "other")
    with pytest.raises(ValueError, match=r"tls_key='.*': no certificate with its key in PEM"):
        context_for("etcds", {"tls_cert": files.cert, "tls_key": other.key})


def test_an_encrypted_key_asks_nobody(files: Files) -> None:
    from cryptography.hazmat.primitives import serialization as to

    key = to.load_pem_private_key(files.key.read_bytes(), None)
    files.key.write_bytes(
        key.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, to.BestAvailableEncryption(b"x"))
    )
    with pytest.raises(ValueError, match="the key is encrypted; load it into an ssl_context="):
        context_for("etcds", {"tls_cert": files.cert, "tls_key": files.key})


def shake(client: ssl.SSLContext, server: trustme.LeafCert) -> str | None:
    """Shake hands, or raise what the client raises; returns the protocol that was agreed on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2", "http/1.1"])
    server.configure_cert(context)
    near, far = socket.socketpair()

    def serve() -> None:
        try:
            context.wrap_socket(far, server_side=True).close()
        except OSError:
            far.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(near, server_hostname="localhost") as made:
            return made.selected_alpn_protocol()
    finally:
        near.close()
        thread.join()


def test_files_that_change_are_read_again(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = context_for("etcds", {"tls_ca": files.ca})
    assert context is not None
    other = Files(tmp_path / "other")
    shake(context, files.leaf)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(context, other.leaf)
    shutil.copy(other.ca, files.ca)
    shake(context, other.leaf)
    with caplog.at_level(logging.WARNING, "recipes"):
        files.ca.unlink()
        shake(context, other.leaf)  # what was read before
        files.ca.write_text("half a")
        shake(context, other.leaf)
    assert "No such file" in caplog.text
    assert "no certificates in PEM; what was read before is used" in caplog.text
    files.authority.cert_pem.write_to_path(str(files.ca))
    shake(context, files.leaf)
    context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")


def test_the_protocol_is_asked_for_whatever_the_files_hold_later(files: Files, tmp_path: Path) -> None:
    context = context_for("etcds+grpc", {"tls_ca": files.ca})
    assert context is not None
    assert shake(context, files.leaf) is None
    context.set_alpn_protocols(["h2"])
    assert shake(context, files.leaf) == "h2"
    other = Files(tmp_path / "other")
    shutil.copy(other.ca, files.ca)
    assert shake(context, other.leaf) == "h2"


def test_each_connection_asks_for_its_own_protocol_by_a_context_of_many(files: Files) -> None:
    context = ssl.create_default_context(cafile=str(files.ca))
    grpc, http = AlpnContext(context, "h2"), AlpnContext(context, "http/1.1")
    assert isinstance(grpc, ssl.SSLContext)
    for _ in range(2):
        assert shake(grpc, files.leaf) == "h2"
        assert shake(context, files.leaf) is None
        assert shake(http, files.leaf) == "http/1.1"
        context.set_alpn_protocols(["http/1.1"])  # somebody else does
        assert shake(grpc, files.leaf) == "h2"
        context.set_alpn_protocols(["h2"])
        assert shake(http, files.leaf) == "http/1.1"


def test_a_connection_that_cannot_be_made_leaves_the_context_as_others_need_it(files: Files) -> None:
    context = ssl.create_default_context(cafile=str(files.ca))
    grpc = AlpnContext(context, "h2")
    with pytest.raises(ValueError, match=r"empty string|server_hostname"):
        grpc.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="")
    assert shake(context, files.leaf) is None


def odd(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] whatever (_ssl.c:1006)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("WRONG_VERSION_NUMBER", "does not speak TLS on this port"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "tls_cert="),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "tls_cert="),
        ("TLSV1_ALERT_UNKNOWN_CA", "does not know the CA"),
        ("ODD", "TLS failed (ODD)"),
    ],
)
def test_a_refusal_in_words(reason: str, words: str) -> None:
    error = odd(reason)
    assert words in tls_words(error)
    assert tls_text(str(error.strerror)) == (tls_words(error), True)
    assert refused_by_tls(error)


def test_a_certificate_that_is_not_accepted_in_words() -> None:
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_message = "certificate has expired."
    assert tls_words(error) == "the server's certificate is not accepted: certificate has expired"
    text = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1006)"
    assert tls_text(text) == (tls_words(error), True)


def test_a_connection_that_went_away_is_no_refusal() -> None:
    assert not refused_by_tls(ssl.SSLEOFError())
    assert not refused_by_tls(ConnectionResetError())
    assert tls_words(ssl.SSLEOFError()) == CLOSED
    assert str(of_established(ssl.SSLEOFError())) == ENDED
    assert tls_text("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred (_ssl.c:1)") == (CLOSED, False)
    assert tls_text("Connection refused") == ("Connection refused", False)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), f"^{ENDED}$"),
        (ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed"), f"^{ENDED}$"),
        (odd("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
        (BrokenPipeError(32, "Broken pipe"), "Broken pipe"),
    ],
)
def test_the_end_of_a_connection_that_has_shaken_hands_is_no_question_of_tls(
    error: OSError, words: str
) -> None:
    class Ending(socket.socket):
        def send(self, *_: object) -> int:
            raise error

        recv = send  # type: ignore[assignment]

    near, far = socket.socketpair()
    conn = Conn(Ending(fileno=near.detach()))
    with pytest.raises(OSError, match=words):
        conn.send(b"x", time.monotonic() + 5)
    with pytest.raises(OSError, match=words):
        conn.receive_own()
    conn.close()
    far.close()


def test_a_connection_that_was_reset_before_the_handshake_leaves_no_socket() -> None:
    """What Python has made of it by then is in the frames of the error alone."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as sock:
        sock.connect(listener.getsockname())
        peer, _ = listener.accept()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        assert select.select([sock], [], [], 10.0)[0]
        number = sock.fileno()
        with pytest.raises(ConnectionResetError) as caught:
            over_tls(sock, ssl.create_default_context(), "localhost")
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
        del caught  # until here it has kept the frames, and what is in them


def test_an_interrupt_amid_taking_a_connection_over_leaves_it_to_the_caller() -> None:
    """Python's TLS socket and the plain one have the same descriptor for a moment: it is closed once."""

    class Struck(socket.socket):
        def gettimeout(self) -> None:
            raise KeyboardInterrupt

    ours, theirs = socket.socketpair()
    with theirs, Struck(fileno=ours.detach()) as sock:
        with pytest.raises(KeyboardInterrupt):
            over_tls(sock, ssl.create_default_context(), "localhost")
        assert os.fstat(sock.fileno())
