"""Certificates of the sandbox, and the kubeconfig with them."""

import base64
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from pykruise.kube.clock import parse_time
from pykruise.sandbox.certificates import build_kubeconfig, issue, write_kubeconfig

NOW = parse_time("2026-01-01T12:00:00Z")


def test_a_certificate_is_for_the_loopback_and_signed_by_its_own_authority() -> None:
    # when
    issued = issue(now=NOW)
    # then
    leaf, authority = (x509.load_pem_x509_certificate(pem) for pem in (issued.chain, issued.authority))
    leaf.verify_directly_issued_by(authority)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    key = leaf.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)


def test_a_certificate_is_valid_from_shortly_before_now_for_a_year() -> None:
    # given
    issued = issue(now=NOW)
    leaf = x509.load_pem_x509_certificate(issued.chain)
    # then
    assert leaf.not_valid_before_utc == datetime(2026, 1, 1, 11, tzinfo=UTC)
    assert leaf.not_valid_after_utc == datetime(2027, 1, 1, 12, tzinfo=UTC)
    assert issued.expires == leaf.not_valid_after_utc.timestamp()


def test_every_authority_is_its_own() -> None:
    assert issue(now=NOW).authority != issue(now=NOW).authority


def test_a_kubeconfig_names_one_cluster_with_everything_needed_to_reach_it() -> None:
    # given
    issued = issue(now=NOW)
    # when
    document = build_kubeconfig("https://127.0.0.1:6443", issued.authority, "secret", "play")
    # then
    assert document["current-context"] == "play"
    (cluster,) = document["clusters"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
    authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"])
    assert authority == issued.authority
    ssl.create_default_context(cadata=authority.decode())
    assert document["users"] == [{"name": "play", "user": {"token": "secret"}}]
    assert document["contexts"][0]["context"] == {"cluster": "play", "user": "play"}


def test_a_kubeconfig_file_is_for_its_owner_only(tmp_path: Path) -> None:
    # given
    path = tmp_path / "new" / "config"
    document = build_kubeconfig("https://127.0.0.1:1", b"ca", "secret")
    old_mask = os.umask(0)
    try:
        # when
        write_kubeconfig(path, document)
    finally:
        os.umask(old_mask)
    # then
    assert path.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(path.read_text()) == document


def test_a_kubeconfig_replaces_the_old_one_whole_or_not_at_all(tmp_path: Path) -> None:
    # given
    path = tmp_path / "config"
    path.write_text("old")
    path.chmod(0o644)
    # when it cannot be written
    with pytest.raises(yaml.YAMLError):
        write_kubeconfig(path, {"a": object()})
    # then
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    # when it can
    write_kubeconfig(path, {"a": 1})
    # then
    assert yaml.safe_load(path.read_text()) == {"a": 1}
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unwritable_path_is_an_os_error(tmp_path: Path) -> None:
    # given a file in place of the folder
    (tmp_path / "file").write_text("")
    # then
    with pytest.raises(OSError, match="file"):
        write_kubeconfig(tmp_path / "file" / "config", {"a": 1})
