"""Clients trust the same certificate chains as Go programs."""

import ssl
from pathlib import Path

import pytest

from pykruise.kube.http.trust import make_client_context
from support.certificates import Authority


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Let a client and a server in this process shake hands. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)


@pytest.mark.parametrize("trusts_root", [True, False])
def test_a_chain_may_end_at_a_trusted_intermediate(tmp_path: Path, trusts_root: bool) -> None:
    # given a server whose certificate an intermediate signed
    root = Authority("root")
    intermediate = Authority("intermediate", parent=root)
    server = intermediate.server_context(tmp_path)
    trusted = intermediate.pem + (root.pem if trusts_root else b"")
    # when, then
    shake_hands(make_client_context(trusted.decode()), server)


def test_a_certificate_of_another_authority_is_rejected(tmp_path: Path) -> None:
    server = Authority("one").server_context(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(make_client_context(Authority("another").pem.decode()), server)
