"""Identity of the sandbox's API server, and its address for clients: certificates and a kubeconfig.

    issue(now) ──▶ Certificate (CA, serving certificate and key as PEM) ──▶ HttpFront
    url + CA + token ──▶ build_kubeconfig() ──▶ write_kubeconfig() ──▶ a file that only its owner can read

Every start creates a new CA. Its private key is discarded after it has signed the serving certificate.
"""

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from pykruise.kube.clock import Instant
from pykruise.kube.values.x509 import make_alternative_names, make_certificate_builder, make_key_usage, pem_of
from pykruise.kube.whole_files import replace_file
from pykruise.kube.yaml_documents import format_yaml

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_VALID_S: Final = 365 * 86400.0
_SKEW_S: Final = 3600.0
"""The validity of a certificate starts this number of seconds before now, because a client's clock may be behind."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """A serving certificate with its key, and the certificate of the CA that signed it; all PEM."""

    authority: bytes
    chain: bytes
    key: bytes
    expires: Instant


def issue(*, now: Instant, hosts: Sequence[str] = LOOPBACK) -> Certificate:
    """Create a CA that issues a certificate (ECDSA P-256, valid until a year after `now`) for these hosts."""
    start, end = now - _SKEW_S, now + _VALID_S
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = (
        make_certificate_builder(subject="pykruise-sandbox-ca", key=ca_key.public_key(), start=start, end=end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(make_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    leaf = (
        make_certificate_builder(
            subject="pykruise-sandbox",
            issuer=ca.subject,
            key=key.public_key(),
            issuer_key=ca_key.public_key(),
            start=start,
            end=end,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(make_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(make_alternative_names(hosts), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return Certificate(
        authority=pem_of(ca),
        chain=pem_of(leaf),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        expires=end,
    )


# --- kubeconfig ---


def build_kubeconfig(url: str, ca_pem: bytes, token: str, context: str = "pykruise") -> dict[str, Any]:
    """Build a kubeconfig with one cluster, one user and one context, all named `context`."""
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
    """Write a kubeconfig that only its owner can read (mode 0600), atomically.

    Missing folders are created. Raises OSError when the file cannot be written; then an existing file stays unchanged.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, format_yaml(dict(document)))
