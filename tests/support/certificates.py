"""Certificates for tests with TLS: a CA, and the certificates that it signs. Only `server_context` uses files: it
loads its chain from the given folder."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class Authority:
    """A CA for one test. `parent`: the CA that signs its certificate; None: it is self-signed. `valid`: begin and end;
    None: from an hour ago for a day."""

    def __init__(
        self,
        name: str = "test authority",
        *,
        parent: "Authority | None" = None,
        valid: tuple[float, float] | None = None,
    ) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = parent or self
        builder = _builder(self._name, issuer._name, self._key.public_key(), valid)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = builder.sign(issuer._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        """The authority's certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        common_name: str,
        *,
        hosts: tuple[str, ...] = (),
        key: Key | None = None,
        valid: tuple[float, float] | None = None,
    ) -> tuple[bytes, bytes]:
        """A certificate and its key (None: a new one), both PEM."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = _builder(name, self._name, key.public_key(), valid)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_name_of(host) for host in hosts]), False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), key_pem(key)

    def server_context(
        self, folder: Path, *, hosts: tuple[str, ...] = ("127.0.0.1",), asks_clients: bool = False
    ) -> ssl.SSLContext:
        """TLS context of a server for `hosts`, which accepts clients of this CA."""
        certificate, key = self.issue("server", hosts=hosts)
        chain = folder / "server.pem"
        chain.write_bytes(certificate + key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.pem.decode())
        context.load_cert_chain(chain)
        if asks_clients:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def key_pem(key: Key, *, password: bytes = b"") -> bytes:
    """A private key, encrypted when a password is given."""
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey,
    valid: tuple[float, float] | None,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    default = now - datetime.timedelta(hours=1), now + datetime.timedelta(days=1)
    start, end = (
        default if valid is None else (datetime.datetime.fromtimestamp(at, datetime.UTC) for at in valid)
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _name_of(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
