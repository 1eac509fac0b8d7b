"""Who the sandbox's API server is, and how clients find it: certificates and a kubeconfig.

    issue(now) ──▶ Certificate (CA, serving certificate and key as PEM) ──▶ HttpFront
    url + CA + token ──▶ kubeconfig_document() ──▶ write_kubeconfig() ──▶ a file only its owner can read

A new authority is made at every start; its private key is thrown away once it has signed the one certificate.
"""

import base64
import os
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pykruise.kube.clock import Instant

__all__ = ["Certificate", "issue", "kubeconfig_document", "write_kubeconfig"]

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_VALID_FOR: Final = timedelta(days=365)
_SKEW: Final = timedelta(hours=1)
"""Certificates are valid from a little before now, for clients whose clock is behind."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """A serving certificate with its key, and the authority that signed it; all PEM."""

    authority: bytes
    chain: bytes
    key: bytes
    expires: Instant


def issue(*, now: Instant, hosts: Sequence[str] = LOOPBACK) -> Certificate:
    """A certificate (ECDSA P-256, a year from `now`) for these names and addresses, by a CA of its own."""
    start = datetime.fromtimestamp(now, UTC) - _SKEW
    end = start + _SKEW + _VALID_FOR
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pykruise-sandbox-ca")])
    ca = (
        _builder(ca_name, ca_name, ca_key, start, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pykruise-sandbox")])
    leaf = (
        _builder(name, ca_name, key, start, end, issuer_key=ca_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return Certificate(
        authority=_pem(ca),
        chain=_pem(leaf),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        expires=end.timestamp(),
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    start: datetime,
    end: datetime,
    *,
    issuer_key: ec.EllipticCurvePrivateKey | None = None,
) -> x509.CertificateBuilder:
    authority = (issuer_key or key).public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


# --- kubeconfig ---


def kubeconfig_document(url: str, ca_pem: bytes, token: str, context: str = "pykruise") -> dict[str, Any]:
    """A kubeconfig with one cluster, one user and one context, all of that name."""
    authority = base64.b64encode(ca_pem).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": context, "user": {"token": token}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }


def write_kubeconfig(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Write a kubeconfig for the owner's eyes only (mode 0600), whole or not at all.

    Missing folders are made. Raises OSError when the file cannot be written; what was there stays then.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # has mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yaml.safe_dump(dict(document), file, sort_keys=False)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
