"""Certificates as another program, such as cert-manager, provides them."""

from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from pykruise.admission.certificates import Certificates

__all__ = ["provide_certificates"]

Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_YEAR_S: Final = 365 * 86400.0


def provide_certificates(
    host: str, *, start: float, end: float, intermediates: int = 0, key: Key | None = None
) -> Certificates:
    """A root CA that is valid for years, so many CAs below it, and a certificate for the host; the pair contains the
    certificates between the root and the host."""
    until = max(end, start + 10 * _YEAR_S)
    signer: Key = ec.generate_private_key(ec.SECP256R1())
    issuer = "root"
    root = _sign(issuer, signer, issuer, signer, start=start, end=until, is_authority=True)
    between: list[x509.Certificate] = []
    for number in range(intermediates):
        name, own = f"intermediate-{number}", ec.generate_private_key(ec.SECP256R1())
        between.insert(0, _sign(name, own, issuer, signer, start=start, end=until, is_authority=True))
        issuer, signer = name, own
    key = key or ec.generate_private_key(ec.SECP256R1())
    leaf = _sign(host, key, issuer, signer, start=start, end=end, is_authority=False)
    return Certificates(
        authority_key=b"",
        authority=_encode(root),
        key=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        certificate=b"".join(map(_encode, (leaf, *between))),
    )


def _sign(
    name: str, key: Key, issuer: str, signer: Key, *, start: float, end: float, is_authority: bool
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(start, UTC))
        .not_valid_after(datetime.fromtimestamp(end, UTC))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return builder.sign(signer, None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _encode(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
