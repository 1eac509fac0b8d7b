"""One parsed request: its resource, its options, its user.

server.py builds a Call from method, path, query, headers and body ──▶ reads, writes, deletion, … execute it

The options of all writes (dryRun, fieldManager, fieldValidation) are read and checked here.
"""

from collections.abc import Mapping, Sequence

import msgspec

from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.sandbox.apiserver.access.users import ADMIN, User
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.requests.negotiation import Form
from pykruise.sandbox.apiserver.requests.statuses import make_bad_request, make_invalid_options


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a served resource."""

    method: str
    entry: CatalogEntry
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    """Header values by lower-case name."""
    body: bytes | None = None
    user: User = ADMIN
    form: Form = Form()
    shows_managed: bool = True
    """Whether objects in the response have managedFields."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """Texts for the Warning header."""

    @property
    def dry_run(self) -> bool:
        """Whether the request is a dry run: it is executed, but its result is not stored."""
        return self.query.get("dryRun") == "All"

    @property
    def field_validation(self) -> str:
        """Treatment of unknown fields: `Ignore`, `Warn` (the default) or `Strict`."""
        return self.query.get("fieldValidation") or "Warn"


class CallAnswer(msgspec.Struct, frozen=True):
    """The response to a call: an object, a Status or a list, as JSON bytes."""

    status: int
    body: bytes
    is_object: bool = True
    """Whether the body is an object of the resource (rendered in the requested form) rather than a Status or a list."""
    content_type: str = ""
    """Content type of a body that is not JSON."""


def check_write_options(call: Call, kind: str, extra: Sequence[Cause] = ()) -> None:
    """Reject invalid values of dryRun, fieldManager and fieldValidation. `kind`: such as `CreateOptions`."""
    query = call.query
    if not query and not extra:
        return
    options = list(extra)
    manager = query.get("fieldManager", "")
    if len(manager) > 128:
        options.append(causes.make_too_long_error("fieldManager", 128))
    elif not manager.isprintable():
        options.append(
            causes.make_invalid_error("fieldManager", manager, "should only contain printable characters")
        )
    dry_run = query.get("dryRun")
    if dry_run not in (None, "", "All"):
        options.append(make_unsupported_dry_run([dry_run]))
    validation = query.get("fieldValidation", "")
    if validation not in ("", "Ignore", "Warn", "Strict"):
        options.append(
            causes.make_not_supported_error("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"])
        )
    if options:
        raise make_invalid_options(kind, options)


def make_unsupported_dry_run(values: Sequence[object]) -> Cause:
    """Error for a dryRun value other than All; it shows the list of values."""
    listed = ", ".join(causes.format_shown(value) for value in values)
    text = f'Unsupported value: []string{{{listed}}}: supported values: "All"'
    return Cause(reason="FieldValueNotSupported", message=text, field="dryRun")


def parse_flag(query: Mapping[str, str], name: str) -> bool:
    """Parse a boolean parameter: absent, `0` and `false` are false, all others are true, as on a real API server."""
    return name in query and query[name].lower() not in ("0", "false")


def parse_whole_number(query: Mapping[str, str], name: str) -> int | None:
    """Parse a numeric parameter; None when it is absent or empty. Raises Refusal (400)."""
    text = query.get(name, "")
    if not text:
        return None
    digits = text[1:] if text[0] in "+-" else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        raise make_bad_request(f'strconv.ParseInt: parsing "{text[:40]}": invalid syntax')
    return int(text)
