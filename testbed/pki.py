"""Certificates and keys for one control plane. Each start creates a new certificate authority."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=365)
CLOCK_SKEW = timedelta(hours=1)


class Authority:
    """A certificate authority in memory."""

    def __init__(self, name: str = "pykruise-testbed") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _common_name(name)
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        builder = self._builder(self._name, self._key.public_key()).add_extension(constraints, critical=True)
        builder = builder.add_extension(_key_usage(authority=True), critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.certificate: bytes = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue_serving_pair(self, addresses: Iterable[str], names: Iterable[str]) -> tuple[bytes, bytes]:
        """Return a server's certificate for these IP addresses and host names, and its key, both in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subjects: list[x509.GeneralName] = [x509.IPAddress(ip_address(address)) for address in addresses]
        subjects += [x509.DNSName(name) for name in names]
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = self._builder(_common_name("pykruise-testbed-server"), key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName(subjects), critical=False)
        builder = builder.add_extension(_key_usage(authority=False), critical=True)
        builder = builder.add_extension(usage, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        issuer_key = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(now + LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key), critical=False
            )
        )


def make_signing_key_pair() -> tuple[bytes, bytes]:
    """Return a private key and its public key in PEM, for the tokens of service accounts."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return _private_pem(key), public


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
