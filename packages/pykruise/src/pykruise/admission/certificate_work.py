"""Work that needs the `cryptography` package: creating certificates and reading facts from them.

stored certificates, host ──▶ examine() ──▶ CertificateFacts (certificates.py decides by them)
stored certificates, host, now ──▶ renew_certificates() ──▶ Certificates

If this module is run as a program, it calls one of the two functions and exits. A manager needs them only at its start
and once in several years. So it runs them in another process, and does not keep the 10 MB of the library in memory
(certificate_process.py).

Pure, except for the randomness of keys. Durations, names and key formats are OpenKruise's, so that OpenKruise's manager
can use the certificates of pykruise's manager, and the other way round. When the CA is replaced, the previous CA stays
in the CA bundle of the API servers until it expires. So they still trust replicas that use a certificate of the
previous CA.
"""

import sys
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID

from pykruise.admission import certificates
from pykruise.admission.certificates import (
    YEAR_S,
    CertificateFacts,
    CertificateRequest,
    Certificates,
    Period,
    judge,
)
from pykruise.kube.cache.remembering import remember
from pykruise.kube.clock import Instant
from pykruise.kube.values.x509 import (
    make_alternative_names,
    make_certificate_builder,
    make_key_usage,
    pem_of,
    to_datetime,
)

VALID_S: Final = 10 * YEAR_S
AUTHORITY_MUST_LAST_S: Final = YEAR_S
"""A CA that expires within this number of seconds is replaced when the certificate is renewed."""

SKEW_S: Final = 3600.0
"""Certificates are valid from this number of seconds before their creation, because an API server's clock may
be slow.
"""

AUTHORITY_NAME: Final = "webhook-cert-ca"
KEY_BITS: Final = 2048

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def renew_certificates(stored: Certificates | None, *, host: str, now: Instant) -> Certificates:
    """Return certificates for `host`: a new pair (certificate and key), signed by the stored CA, or by a new CA if the
    stored CA expires too soon.

    After a change of the CA, previous CAs that have not expired stay in the bundle. The creation of an RSA key takes a
    tenth of a second.
    """
    authority = _find_lasting_authority(stored, now=now)
    former = _parse_bundle(stored.authority) if stored is not None else []
    if authority is None:
        authority = _make_authority(now=now)
    key, certificate = authority
    former = [item for item in former if item != certificate]
    serving = _make_key()
    bundle = [
        certificate,
        *(certificate for certificate in former if certificate.not_valid_after_utc > to_datetime(now)),
    ]
    return Certificates(
        authority_key=_encode_key(key),
        authority=b"".join(pem_of(certificate) for certificate in bundle),
        key=_encode_key(serving),
        certificate=pem_of(_make_serving_certificate(serving, certificate, key, host=host, now=now)),
    )


@remember(entries=8, longest=64 * 1024)
def examine(stored: Certificates, *, host: str) -> CertificateFacts:
    """Return facts about the pair and its CA. `host` is the name that the certificate must cover."""
    authorities = tuple(
        certificate.fingerprint(hashes.SHA256()).hex() for certificate in _parse_bundle(stored.authority)
    )
    if not (stored.key and stored.certificate and stored.authority):
        return CertificateFacts(problem="a key or a certificate is missing", authorities=authorities)
    try:
        key = _load_key(stored.key)
        certificate, *intermediates = x509.load_pem_x509_certificates(stored.certificate)
        bundle = authorities_of(stored.authority)
    except ValueError as error:
        return CertificateFacts(
            problem=f"a key or a certificate cannot be read: {error}", authorities=authorities
        )
    if _encode_public(key.public_key()) != _encode_public(certificate.public_key()):
        return CertificateFacts(problem="the key does not belong to the certificate", authorities=authorities)
    signers = _list_signers(certificate, intermediates, bundle)
    if not signers:
        return CertificateFacts(problem="the CA did not sign the certificate", authorities=authorities)
    return CertificateFacts(
        periods=(
            _build_period("certificate", certificate),
            *(_build_period("authority", signer) for signer in signers),
        ),
        uncovered="" if _is_covered(certificate, host) else f"the certificate does not cover {host}",
        authorities=authorities,
    )


def _list_signers(
    certificate: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    bundle: Sequence[x509.Certificate],
) -> Sequence[x509.Certificate]:
    """Return the CAs from the one that signed the certificate to the first one in the bundle; empty if there is no such
    chain.
    """
    signers: list[x509.Certificate] = []
    for _ in range(len(intermediates) + 1):
        signed = signers[-1] if signers else certificate
        trusted = next((item for item in bundle if _is_signed_by(signed, item)), None)
        if trusted is not None:
            return [*signers, trusted]
        signer = next((item for item in intermediates if _is_signed_by(signed, item)), None)
        if signer is None:
            return ()
        signers.append(signer)
    return ()


def _build_period(what: str, certificate: x509.Certificate) -> Period:
    return Period(
        what=what,
        start=certificate.not_valid_before_utc.timestamp(),
        end=certificate.not_valid_after_utc.timestamp(),
    )


def find_problem(stored: Certificates, *, host: str, now: Instant, lasting_s: float) -> str:
    """Return why a server for `host` cannot use the pair at the time `now + lasting_s`; empty if it can."""
    return judge(examine(stored, host=host), now=now, lasting_s=lasting_s)


def shares_authority(left: bytes, right: bytes) -> bool:
    """Whether a client that trusts the bundle `left` trusts the first CA of `right`."""
    pair = (
        Certificates(authority_key=b"", authority=data, key=b"", certificate=b"") for data in (left, right)
    )
    return certificates.shares_authority(*(examine(certificates, host="") for certificates in pair))


def authorities_of(bundle: bytes) -> list[x509.Certificate]:
    """Return the certificates of a bundle. Raises ValueError if it has no certificate or an unreadable certificate."""
    return x509.load_pem_x509_certificates(bundle)


def _parse_bundle(bundle: bytes) -> list[x509.Certificate]:
    try:
        return authorities_of(bundle)
    except ValueError:
        return []


def _find_lasting_authority(
    stored: Certificates | None, *, now: Instant
) -> tuple[PrivateKey, x509.Certificate] | None:
    """Return the stored CA and its key, if both are usable and the CA is valid for at least another year; otherwise
    None.
    """
    if stored is None or not stored.authority_key or not stored.authority:
        return None
    try:
        key = _read_key(stored.authority_key)
        certificate = authorities_of(stored.authority)[0]
    except ValueError:
        return None
    fits = key.public_key() == certificate.public_key() and _is_authority(certificate)
    began = certificate.not_valid_before_utc <= to_datetime(now)
    lasts = certificate.not_valid_after_utc >= to_datetime(now + AUTHORITY_MUST_LAST_S)
    return (key, certificate) if fits and began and lasts else None


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _is_covered(certificate: x509.Certificate, host: str) -> bool:
    """Whether clients accept the certificate for a host: a name or an IP address. The rule is that of Go's clients."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    try:
        return ip_address(host) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        return any(_is_name_of(pattern, host) for pattern in names.get_values_for_type(x509.DNSName))


def _is_name_of(pattern: str, host: str) -> bool:
    """Whether a DNS name in a certificate covers a host. `*` as the whole first label stands for any one label; upper
    and lower case are equal.
    """
    first, _, rest = pattern.lower().partition(".")
    label, _, domain = host.lower().removesuffix(".").partition(".")
    return rest == domain and (first == label or (first == "*" and rest != ""))


def _make_authority(*, now: Instant) -> tuple[PrivateKey, x509.Certificate]:
    key = _make_key()
    public = key.public_key()
    certificate = (
        make_certificate_builder(subject=AUTHORITY_NAME, key=public, start=now - SKEW_S, end=now + VALID_S)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(make_key_usage(signs_certificates=True, enciphers_keys=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def _make_serving_certificate(
    key: rsa.RSAPrivateKey,
    authority: x509.Certificate,
    authority_key: PrivateKey,
    *,
    host: str,
    now: Instant,
) -> x509.Certificate:
    return (
        make_certificate_builder(
            subject=host,
            issuer=authority.subject,
            key=key.public_key(),
            issuer_key=authority_key.public_key(),
            start=authority.not_valid_before_utc.timestamp(),
            end=now + VALID_S,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(make_key_usage(signs_certificates=False, enciphers_keys=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(make_alternative_names(_list_alternative_names(host)), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _list_alternative_names(host: str) -> Sequence[str]:
    return ("localhost", host) if host != "localhost" else ("localhost",)


def _make_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)


def _encode_key(key: PrivateKey) -> bytes:
    """Return a key as PEM. RSA keys have the format PKCS#1, as in OpenKruise."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


@remember(entries=8, longest=64 * 1024)
def _read_key(pem: bytes) -> PrivateKey:
    """Parse a private key. Raises ValueError unless it is an RSA or EC key without a password.

    The check of an RSA key takes 50 ms. The result is remembered, because every reconcile reads the same key.
    """
    key = _load_key(pem)
    if not isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
        raise ValueError(f"a key of type {type(key).__name__} is not supported")
    return key


def _load_key(pem: bytes) -> PrivateKeyTypes:
    """Parse a private key of any type. Raises ValueError for an unreadable key and for a key with a password."""
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _encode_public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def main() -> None:
    """Read a request from standard input, and write the result to standard output."""
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=CertificateRequest)
    answer: Certificates | CertificateFacts
    if asked.renew_at is not None:
        answer = renew_certificates(asked.stored, host=asked.host, now=asked.renew_at)
    else:
        assert asked.stored is not None
        answer = examine(asked.stored, host=asked.host)
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main()
