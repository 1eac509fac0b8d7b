"""String formats of OpenAPI schemas, as a Kubernetes API server checks them.

`format: date-time` in a CRD ──▶ check_for("date-time") ──▶ a predicate on strings; None for unknown formats

Names are compared without dashes. Formats that the API server itself ignores (int32, …) are not here.
"""

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Callable, Mapping
from functools import cache
from urllib.parse import urlsplit

FormatCheck = Callable[[str], bool]


def check_for(name: str) -> FormatCheck | None:
    """The predicate of a format, or None when values of that format are not checked."""
    return _CHECKS.get(name.replace("-", ""))


def _make_pattern_check(pattern: str) -> FormatCheck:
    """Return a predicate that compiles its pattern on first use: most servers need few patterns, and compiling all of
    them would delay every start.
    """

    @cache
    def compiled() -> re.Pattern[str]:
        return re.compile(pattern, re.ASCII)

    return lambda text: compiled().fullmatch(text) is not None


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    if not match or not _is_date(match["date"]):
        return False
    hour, minute, second = int(match["h"]), int(match["m"]), int(match["s"])
    return hour < 24 and minute < 60 and second < 60


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _make_ip_check(version: int) -> FormatCheck:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version and "%" not in text
        except ValueError:
            return False

    return check


def _is_cidr(text: str) -> bool:
    if not re.fullmatch(r"[^/]+/\d+", text, re.ASCII):
        return False
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return True


def _is_uri(text: str) -> bool:
    if not text or any(ord(char) <= 32 or ord(char) == 127 for char in text):
        return False
    if text.startswith("/"):
        return True
    try:
        return bool(urlsplit(text).scheme)
    except ValueError:
        return False


def _is_hostname(text: str) -> bool:
    labels = text.removesuffix(".").split(".")
    return 0 < len(text) <= 255 and all(_HOST_LABEL.fullmatch(label) for label in labels)


def _is_email(text: str) -> bool:
    return re.fullmatch(r"[^@\s<>]+@[^@\s<>]+|[^<>@]*<[^@\s<>]+@[^@\s<>]+>", text) is not None


def _is_isbn10(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "").upper()
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    return sum((10 - i) * (10 if d == "X" else int(d)) for i, d in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(d) * (3 if i % 2 else 1) for i, d in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    return _IS_CARD(re.sub(r"\D", "", text))


def _make_uuid_check(version: str, variant: str) -> FormatCheck:
    return _make_pattern_check(
        rf"[0-9a-fA-F]{{8}}-?[0-9a-fA-F]{{4}}-?{version}-?{variant}-?[0-9a-fA-F]{{12}}"
    )


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATE_TIME = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})[Tt ](?P<h>\d{2}):(?P<m>\d{2}):(?P<s>\d{2})(\.\d+)?([Zz]|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)
_HOST_LABEL = re.compile(r"[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?", re.ASCII)
_ANY4 = "[0-9a-fA-F]{4}"
_VARIANT = "[89abAB][0-9a-fA-F]{3}"
_IS_CARD = _make_pattern_check(
    r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}"
)

_CHECKS: Mapping[str, FormatCheck] = {
    "bsonobjectid": _make_pattern_check("[0-9a-fA-F]{24}"),
    "byte": _is_base64,
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _make_pattern_check(
        r"[+-]?(\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h|d|w|"
        r"(nano|micro|milli)?s(ec(ond)?s?)?|min(ute)?s?|hours?|hrs?|days?|weeks?)"
        r"(\s*(\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h))*|[+-]?0"
    ),
    "email": _is_email,
    "hexcolor": _make_pattern_check("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": _make_ip_check(4),
    "ipv6": _make_ip_check(6),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "mac": _make_pattern_check(
        "([0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5,7})|([0-9a-fA-F]{4}(\\.[0-9a-fA-F]{4}){2,3})"
    ),
    "password": lambda text: True,
    "rgbcolor": _make_pattern_check(
        r"rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])(\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])){2}\s*\)"
    ),
    "ssn": _make_pattern_check(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _is_uri,
    "uuid": _make_uuid_check(_ANY4, _ANY4),
    "uuid3": _make_uuid_check("3[0-9a-fA-F]{3}", _ANY4),
    "uuid4": _make_uuid_check("4[0-9a-fA-F]{3}", _VARIANT),
    "uuid5": _make_uuid_check("5[0-9a-fA-F]{3}", _VARIANT),
}
