"""Kubernetes' rules for labels, qualified names and DNS names, and their error messages.

Every rule is a function from a value to the list of its errors, empty when it is valid. The messages are those of
Kubernetes, without the field path and the value, which the caller adds. Pure.
"""

import re

from pykruise.kube.cache.remembering import remember

__all__ = [
    "is_dns1035_label",
    "is_dns1123_label",
    "is_dns1123_subdomain",
    "is_qualified_name",
    "is_valid_label_key",
    "is_valid_label_value",
]

_NAME_FMT = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_FMT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FMT = rf"{_LABEL_FMT}(\.{_LABEL_FMT})*"
_DNS1035_FMT = "[a-z]([-a-z0-9]*[a-z0-9])?"

_NAME = re.compile(_NAME_FMT)
_VALUE = re.compile(f"({_NAME_FMT})?")
_LABEL = re.compile(_LABEL_FMT)
_SUBDOMAIN = re.compile(_SUBDOMAIN_FMT)
_DNS1035 = re.compile(_DNS1035_FMT)

_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    f" character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_FMT}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must"
    " start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345',"
    f" regex used for validation is '({_NAME_FMT})?')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and"
    " end with an alphanumeric character (e.g. 'my-name',  or '123-abc',"
    f" regex used for validation is '{_LABEL_FMT}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
    " start and end with an alphanumeric character (e.g. 'example.com',"
    f" regex used for validation is '{_SUBDOMAIN_FMT}')"
)
_DNS1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
    " character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123',"
    f" regex used for validation is '{_DNS1035_FMT}')"
)


def is_qualified_name(value: str) -> list[str]:
    """Return the problems of `name` or `prefix/name`: the name at most 63 bytes, the prefix a DNS subdomain."""
    return list(_list_remembered_name_errors(value)) if len(value) <= _LONGEST_KNOWN else _name_errors(value)


_LONGEST_KNOWN = 320
"""Longest name that is remembered. A valid qualified name has at most 253 + 1 + 63 bytes."""


@remember(entries=4_096, longest=400)  # the same few keys are on every object
def _list_remembered_name_errors(value: str) -> tuple[str, ...]:
    return tuple(_name_errors(value))


def _name_errors(value: str) -> list[str]:
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a qualified name {_NAME_RULE} {hint}"]
    errors = _list_prefix_errors(prefix) if slash else []
    if not name:
        errors.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        errors.append(f"name part {_describe_too_long(63)}")
    if not _NAME.fullmatch(name):
        errors.append(f"name part {_NAME_RULE}")
    return errors


def is_valid_label_key(value: str) -> list[str]:
    """Return the problems of a label key, which is a qualified name."""
    return is_qualified_name(value)


def is_valid_label_value(value: str) -> list[str]:
    """Return the problems of a label value. A valid one is empty, or has at most 63 bytes: letters, digits, `-`, `_`,
    `.`, first and last a letter or digit.
    """
    errors = [_describe_too_long(63)] if len(value.encode()) > 63 else []
    if not _VALUE.fullmatch(value):
        errors.append(_VALUE_RULE)
    return errors


def is_dns1123_label(value: str) -> list[str]:
    """Return the problems of the name of a namespace, container or volume: at most 63 bytes of lower case letters,
    digits and `-`.
    """
    errors = [_describe_too_long(63)] if len(value.encode()) > 63 else []
    if not _LABEL.fullmatch(value):
        errors.append("must not contain dots" if _SUBDOMAIN.fullmatch(value) else _LABEL_RULE)
    return errors


def is_dns1123_subdomain(value: str) -> list[str]:
    """Return the problems of the name of most objects: DNS labels joined by dots, at most 253 bytes."""
    errors = [_describe_too_long(253)] if len(value.encode()) > 253 else []
    if not _SUBDOMAIN.fullmatch(value):
        errors.append(_SUBDOMAIN_RULE)
    return errors


def is_dns1035_label(value: str) -> list[str]:
    """Return the problems of the name of a Service: a DNS label that starts with a letter, at most 63 bytes."""
    errors = [_describe_too_long(63)] if len(value.encode()) > 63 else []
    if not _DNS1035.fullmatch(value):
        errors.append(_DNS1035_RULE)
    return errors


def _list_prefix_errors(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    return [f"prefix part {error}" for error in is_dns1123_subdomain(prefix)]


def _describe_too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"
