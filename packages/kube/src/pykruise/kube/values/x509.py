"""Builds X.509 certificates that the verifiers of Go and of OpenSSL accept.

names, keys, times ──▶ make_certificate_builder() + make_key_usage() + make_alternative_names() ──▶ signed by its issuer

Pure. Current verifiers read only subject alternative names, require a CA to be marked as one, and require matching
key usages. A certificate names its issuer's key, so that a renewed CA can be distinguished from the previous one.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from pykruise.kube.clock import Instant

__all__ = [
    "make_alternative_names",
    "make_certificate_builder",
    "make_common_name",
    "make_key_usage",
    "pem_of",
    "to_datetime",
]

PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


def make_certificate_builder(
    *,
    subject: str,
    issuer: x509.Name | None = None,
    key: PublicKey,
    issuer_key: PublicKey | None = None,
    start: Instant,
    end: Instant,
) -> x509.CertificateBuilder:
    """Return a builder for a certificate of `key` that is valid from `start` to `end`, issued by `issuer` (None:
    self-signed).
    """
    name = make_common_name(subject)
    authority = issuer_key or key
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(to_datetime(start))
        .not_valid_after(to_datetime(end))
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority), critical=False)
    )


def make_common_name(text: str) -> x509.Name:
    """Return a name that has only a common name, limited to 64 characters by X.509."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def make_key_usage(*, signs_certificates: bool, enciphers_keys: bool = False) -> x509.KeyUsage:
    """Return the usage of a key: handshakes and, if set, signing certificates (a CA) or RSA key exchange (a server)."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=enciphers_keys,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def make_alternative_names(hosts: Iterable[str]) -> x509.SubjectAlternativeName:
    """Return the names and addresses of a server; a text that parses as an IP address is an address."""
    return x509.SubjectAlternativeName([_to_general_name(host) for host in hosts])


def to_datetime(instant: Instant) -> datetime:
    """Return an instant in the form of the `cryptography` package."""
    return datetime.fromtimestamp(instant, UTC)


def pem_of(certificate: x509.Certificate) -> bytes:
    """Return the certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def _to_general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
