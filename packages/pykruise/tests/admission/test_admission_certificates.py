"""Certificates: their contents, their renewal, and certificates that other programs accept or create."""

import ipaddress
import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import structs

from pykruise.admission.certificate_work import (
    authorities_of,
    find_problem,
    renew_certificates,
    shares_authority,
)
from pykruise.admission.certificates import DAY_S, RENEW_BEFORE_S, YEAR_S, Certificates, read_renew_before
from pykruise.kube.clock import parse_time
from pykruise.kube.values.x509 import make_alternative_names, make_certificate_builder, pem_of
from support.certificates import Authority, key_pem
from support.external_certificates import provide_certificates

NOW = parse_time("2026-01-31T12:00:00Z")
HOST = "kruise-webhook-service.kruise-system.svc"

FRESH = renew_certificates(None, host=HOST, now=NOW)
"""Made once: RSA keys take their time."""


def problem(stored: Certificates, *, at: float = NOW, host: str = HOST, days: float = 180) -> str:
    return find_problem(stored, host=host, now=at, lasting_s=days * DAY_S)


def leaf(stored: Certificates) -> x509.Certificate:
    return x509.load_pem_x509_certificate(stored.certificate)


def test_a_new_pair_is_good_for_its_host_for_nearly_ten_years() -> None:
    assert problem(FRESH) == ""
    assert problem(FRESH, at=NOW + 9 * YEAR_S) == ""
    assert "expires at 2036-01" in problem(FRESH, at=NOW + 10 * YEAR_S - 100 * DAY_S)
    assert problem(FRESH, host="elsewhere.svc") == "the certificate does not cover elsewhere.svc"


def test_certificates_meet_the_requirements_of_go_clients() -> None:
    certificate, [authority] = leaf(FRESH), authorities_of(FRESH.authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", HOST]
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment, usage.key_cert_sign) == (True, True, False)
    extended = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is True
    assert authority.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is True
    [name] = authority.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == "webhook-cert-ca"
    assert certificate.not_valid_before_utc == authority.not_valid_before_utc
    assert FRESH.key.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    assert FRESH.authority_key.startswith(b"-----BEGIN RSA PRIVATE KEY-----")


def test_a_client_whose_clock_is_behind_trusts_it_too() -> None:
    assert leaf(FRESH).not_valid_before_utc.timestamp() == NOW - 3600


def test_an_address_is_covered_as_an_address() -> None:
    """admission case 6"""
    stored = renew_certificates(FRESH, host="10.0.0.5", now=NOW)
    names = leaf(stored).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.0.0.5")]
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert problem(stored, host="10.0.0.5") == ""


@pytest.mark.parametrize(
    ("name", "is_covering"),
    [
        ("*.kruise-system.svc", True),
        ("Kruise-Webhook-Service.kruise-system.SVC", True),
        ("*.svc", False),
        ("*", False),
        ("kruise-*.kruise-system.svc", False),
        ("*.other.svc", False),
    ],
)
def test_a_wildcard_covers_one_label_and_case_does_not_count(name: str, is_covering: bool) -> None:
    """The rule of Go's crypto/x509, with which OpenKruise and API servers check the certificate."""
    authority = Authority()
    certificate, key = authority.issue("x", hosts=(name,))
    stored = Certificates(authority=authority.pem, authority_key=b"", key=key, certificate=certificate)
    assert (problem(stored, at=time.time(), days=0.5) == "") == is_covering
    assert problem(stored, at=time.time(), days=0.5, host="elsewhere") == (
        "the certificate does not cover elsewhere"
    )


def test_a_long_name_fits() -> None:
    host = f"{'s' * 63}.{'n' * 63}.svc"
    assert problem(renew_certificates(FRESH, host=host, now=NOW), host=host) == ""


def test_a_pair_that_expires_soon_is_renewed_by_the_same_authority() -> None:
    """admission cases 3 and 4"""
    # given a pair that is valid for 100 days, signed by an authority that is valid for longer
    later = NOW + 5 * YEAR_S
    short = _short_lived(FRESH, now=later, days=100)
    assert problem(short, at=later, days=30) == ""
    assert "expires at" in problem(short, at=later, days=180)
    # when
    new = renew_certificates(short, host=HOST, now=later)
    # then
    assert problem(new, at=later) == ""
    assert new.authority == FRESH.authority
    assert new.authority_key == FRESH.authority_key
    assert (new.key, new.certificate) != (FRESH.key, FRESH.certificate)


def _short_lived(stored: Certificates, *, now: float, days: float) -> Certificates:
    """A pair by the same authority that expires in `days` days."""
    [authority], signer = authorities_of(stored.authority), load_pem_private_key(stored.authority_key, None)
    assert isinstance(signer, rsa.RSAPrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        make_certificate_builder(
            subject="short",
            issuer=authority.subject,
            key=key.public_key(),
            issuer_key=signer.public_key(),
            start=NOW,
            end=now + days * DAY_S,
        )
        .add_extension(make_alternative_names([HOST]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return Certificates(
        authority_key=stored.authority_key,
        authority=stored.authority,
        key=key_pem(key),
        certificate=pem_of(certificate),
    )


def test_an_authority_that_expires_within_a_year_is_replaced_and_trusted_until_it_expires() -> None:
    late = NOW + 9.5 * YEAR_S
    new = renew_certificates(FRESH, host=HOST, now=late)
    first, former = authorities_of(new.authority)
    assert [former] == authorities_of(FRESH.authority)
    assert first != former
    assert problem(new, at=late) == ""
    assert shares_authority(new.authority, FRESH.authority)
    assert not shares_authority(FRESH.authority, new.authority)
    # and it is dropped once it has expired
    much_later = renew_certificates(new, host=HOST, now=late + YEAR_S)
    assert authorities_of(much_later.authority) == [first]


def test_a_pair_made_by_a_clock_that_was_wrong_by_years_is_renewed() -> None:
    """A replica whose clock was years ahead left certificates that are not valid yet."""
    future = renew_certificates(None, host=HOST, now=NOW + 3 * YEAR_S)
    assert "is valid only from" in problem(future)
    repaired = renew_certificates(future, host=HOST, now=NOW)
    assert problem(repaired) == ""


@pytest.mark.parametrize("field", ["key", "certificate", "authority", "authority_key"])
@pytest.mark.parametrize(
    "broken", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_broken_certificates_are_replaced(field: str, broken: bytes) -> None:
    values = {name: getattr(FRESH, name) for name in FRESH.__struct_fields__}
    stored = Certificates(**{**values, field: broken})
    # A missing key of the authority does no harm until there is something to sign.
    assert (problem(stored) == "") == (field == "authority_key")
    assert problem(renew_certificates(stored, host=HOST, now=NOW)) == ""


def test_keys_and_certificates_that_do_not_match_are_rejected() -> None:
    other = renew_certificates(FRESH, host=HOST, now=NOW)
    mixed = Certificates(
        authority=FRESH.authority,
        authority_key=FRESH.authority_key,
        key=other.key,
        certificate=FRESH.certificate,
    )
    assert problem(mixed) == "the key does not belong to the certificate"
    foreign = Certificates(
        authority=Authority().pem, authority_key=b"", key=FRESH.key, certificate=FRESH.certificate
    )
    assert problem(foreign) == "the CA did not sign the certificate"


@pytest.mark.parametrize("intermediates", [0, 1, 3])
def test_a_chain_of_authorities_is_followed_to_the_bundle(intermediates: int) -> None:
    stored = provide_certificates(HOST, start=NOW, end=NOW + 400 * DAY_S, intermediates=intermediates)
    assert problem(stored) == ""
    # but not if one of them is missing, or if the bundle contains another root
    pems = stored.certificate.split(b"-----BEGIN")
    if intermediates:
        cut = structs.replace(stored, certificate=b"-----BEGIN".join(pems[:-1]))
        assert problem(cut) == "the CA did not sign the certificate"
    other = provide_certificates(HOST, start=NOW, end=NOW + 400 * DAY_S)
    foreign = structs.replace(stored, authority=other.authority)
    assert problem(foreign) == "the CA did not sign the certificate"


def test_every_type_of_key_that_servers_can_use_is_accepted() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    stored = provide_certificates(HOST, start=NOW, end=NOW + 400 * DAY_S, key=key)
    assert problem(stored) == ""
    other = ed25519.Ed25519PrivateKey.generate()
    foreign = provide_certificates(HOST, start=NOW, end=NOW + 400 * DAY_S, key=other)
    swapped = structs.replace(stored, key=foreign.key)
    assert problem(swapped) == "the key does not belong to the certificate"


def test_a_pair_that_another_program_made_is_as_good() -> None:
    """The keys are elliptic, as cert-manager creates them."""
    authority = Authority()
    certificate, key = authority.issue("x", hosts=(HOST,))
    stored = Certificates(authority=authority.pem, authority_key=b"", key=key, certificate=certificate)
    assert problem(stored, at=time.time(), days=0.5) == ""


def test_openssl_takes_the_pair(tmp_path: Path) -> None:
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    chain.write_bytes(FRESH.certificate)
    key.write_bytes(FRESH.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    assert load_pem_private_key(FRESH.key, None).key_size == 2048  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("30d", 30),
        ("2m", 60),
        ("1y", 365),
        ("abc", 180),
        ("0d", 180),
        ("-3d", 180),
        ("", 180),
        (None, 180),
        ("3", 180),
        ("1h", 180),
        ("٣d", 180),
        ("9999999y", 180),
    ],
)
def test_the_renewal_time_before_expiry_can_be_configured(text: str | None, days: int) -> None:
    """admission case 5"""
    assert read_renew_before(text) == days * DAY_S
    assert RENEW_BEFORE_S == 180 * DAY_S
