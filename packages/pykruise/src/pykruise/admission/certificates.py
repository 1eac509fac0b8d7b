"""Certificates of the webhook server as values, and the decision whether the server can use them.

stored certificates ──▶ certificate_work.py ──▶ CertificateFacts ──▶ judge(): why they are not usable, or nothing
                                                              └──▶ shares_authority()        stores.py keeps them

Pure, and without the `cryptography` package.
"""

import re
from typing import Final

import msgspec

from pykruise.kube.clock import Instant, format_time

DAY_S: Final = 86400.0
YEAR_S: Final = 365 * DAY_S

RENEW_BEFORE_S: Final = 180 * DAY_S
"""A certificate that expires within this number of seconds is renewed."""

_DURATION = re.compile(r"([0-9]{1,6})([dmy])", re.ASCII)
_UNITS_S: Final = {"d": DAY_S, "m": 30 * DAY_S, "y": YEAR_S}


class Certificates(msgspec.Struct, frozen=True, kw_only=True):
    """A CA, and the pair (certificate and key) that it signed, as PEM. Each field is as stored, so it may be empty or
    invalid.
    """

    authority_key: bytes
    authority: bytes
    """The CA bundle: the certificate of the CA, and then previous CAs that API servers must still trust."""
    key: bytes
    certificate: bytes


class Period(msgspec.Struct, frozen=True):
    """Time during which a certificate is valid."""

    what: str
    start: Instant
    end: Instant


class CertificateFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a pair and its CA, for a server with a certain host name."""

    problem: str = ""
    """Reason why the pair can never be used."""
    periods: tuple[Period, ...] = ()
    uncovered: str = ""
    """Reason why the certificate does not cover the host."""
    authorities: tuple[str, ...] = ()
    """Fingerprints of the bundle's certificates, in order; empty if the bundle is unreadable."""


class CertificateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to the program certificate_work.py: for CertificateFacts, or, if `renew_at` is set, for new
    Certificates.
    """

    stored: Certificates | None
    host: str
    renew_at: Instant | None = None


def read_renew_before(text: str | None) -> float:
    """Return CERTS_RENEW_BEFORE in seconds. Values have the form `30d`, `6m` (months of 30 days) or `1y`; any other
    value means 180 days.
    """
    match = _DURATION.fullmatch(text or "")
    seconds = int(match[1]) * _UNITS_S[match[2]] if match else 0.0
    return seconds if seconds > 0 else RENEW_BEFORE_S


def judge(facts: CertificateFacts, *, now: Instant, lasting_s: float) -> str:
    """Return why the server cannot use the pair at the time `now + lasting_s`; empty if it can."""
    if facts.problem:
        return facts.problem
    then = now + lasting_s
    for period in facts.periods:
        if period.end < then:
            return f"the {period.what} expires at {format_time(period.end)}"
        if period.start > then:
            return f"the {period.what} is valid only from {format_time(period.start)}"
    return facts.uncovered


def shares_authority(left: CertificateFacts, right: CertificateFacts) -> bool:
    """Whether a client that trusts the bundle of `left` trusts the first CA of `right`."""
    return bool(right.authorities) and right.authorities[0] in left.authorities
