"""GET: one object, a page of a list, or a watch.

Call ──▶ get() / list_page() / watch() ──▶ stored bytes, joined; decoded only for tables and metadata forms

A list is a snapshot at one revision. A continue token has the revision and the position of the next page, so that
later pages belong to the same snapshot until it is compacted (410).
"""

import base64
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, Final

import orjson

from pykruise.kube.documents import decode
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.core import Core, trigger_of
from pykruise.sandbox.apiserver.objects.storage import Compacted, FutureRevision, Page, Stored
from pykruise.sandbox.apiserver.printing.forms import list_in_form, render_object
from pykruise.sandbox.apiserver.requests.call import Call, CallAnswer, parse_flag, parse_whole_number
from pykruise.sandbox.apiserver.requests.encoding import (
    encode_event_line,
    encode_object,
    list_body,
    relabel,
    replace_revision,
)
from pykruise.sandbox.apiserver.requests.selection import Selection, selection_of
from pykruise.sandbox.apiserver.requests.statuses import (
    Refusal,
    build_status_document,
    continue_token_expired,
    make_bad_request,
    make_expired,
    make_invalid_options,
    make_method_not_supported,
    make_not_found,
    make_too_large_resource_version,
    make_unclassified_error,
)
from pykruise.sandbox.apiserver.requests.watches import WatchStream, find_event_type

_SHORTEST_WATCH_S: Final = 1_800.0
_BLUEPRINT: Final = "kubernetes.io/initial-events-list-blueprint"
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


async def get(core: Core, call: Call) -> CallAnswer:
    """Respond with one object. The storage must have reached the request's `resourceVersion`. Raises Refusal."""
    asked = _parse_revision(call)
    if asked > core.storage.revision:
        raise make_too_large_resource_version(asked, core.storage.revision)
    stored = core.get(call.entry, call.namespace, call.name)
    if stored is None:
        raise make_not_found(call.entry.resource, call.name)
    return CallAnswer(200, await core.answer(call, stored))


async def list_page(core: Core, call: Call) -> CallAnswer:
    """Respond with a list, or with a page of it. Raises Refusal."""
    _check_list_options(call)
    parse_whole_number(call.query, "timeoutSeconds")  # the time is not needed, but the value must be a number
    selection = selection_of(call.entry, call.query)
    limit = parse_whole_number(call.query, "limit") or 0
    page, start = _scan_first_page(core, call, limit)
    items, last, more = _select(core, call, selection, page, max(limit, 0))
    token = ""
    remaining: int | None = None
    if more:
        token = _build_token(page.revision, f"{last.path}\0" if last else start)
        # With a selector, the number of remaining objects that match is unknown.
        remaining = more if selection.is_everything else None
    raws = await _render_items(core, call, items)
    if not call.form.is_plain:
        body = list_in_form(
            call.entry,
            raws,
            form=call.form,
            now=core.clock(),
            revision=page.revision,
            token=token,
            remaining=remaining,
        )
    else:
        body = list_body(call.entry, raws, revision=page.revision, token=token, remaining=remaining)
    return CallAnswer(200, body, is_object=False)


async def _render_items(core: Core, call: Call, items: Sequence[Stored]) -> list[bytes]:
    entry = call.entry
    if entry.converter is None:
        raws = [relabel(stored.raw, entry.api_version) for stored in items]
    else:
        docs = await entry.converter.from_storage([decode(stored.raw) for stored in items])
        raws = [encode_object(doc) for doc in docs]
    if not call.shows_managed:
        return raws
    show = core.ownership.show
    return [show(entry, raw, stored) for raw, stored in zip(raws, items, strict=True)]


def _scan_first_page(core: Core, call: Call, limit: int) -> tuple[Page, str]:
    """Return the page for the request's continue token, resourceVersion and limit, and the path at which it starts."""
    token = call.query.get("continue", "")
    asked = _parse_revision(call)
    current = core.storage.revision
    exact = 0
    start = ""
    if token:
        if asked:
            raise make_bad_request("specifying resource version is not allowed when using continue")
        exact, start = _read_token(token)
        if exact > current:
            raise make_bad_request("continue key is not valid: its resource version has not been reached")
    elif asked > current:
        raise make_too_large_resource_version(asked, current)
    elif asked and (
        call.query.get("resourceVersionMatch") == "Exact" or (limit > 0 and not _read_version_match(call))
    ):
        exact = asked
    try:
        page = core.storage.scan(
            call.entry.shelf,
            namespace=call.namespace,
            start=start,
            limit=max(limit, 0),
            revision=max(exact, 0),
        )
    except Compacted as err:
        if token:
            raise continue_token_expired(_build_token(-1, start)) from err
        raise make_expired("The resourceVersion for the provided list is too old.") from err
    except FutureRevision as err:  # pragma: no cover  (checked above)
        raise make_too_large_resource_version(exact, current) from err
    return page, start


def _read_version_match(call: Call) -> str:
    return call.query.get("resourceVersionMatch", "")


def _select(
    core: Core, call: Call, selection: Selection, page: Page, limit: int
) -> tuple[list[Stored], Stored | None, int]:
    """Return up to `limit` matching objects, the last object that was checked, and the number of unchecked objects."""
    if selection.is_everything:
        return list(page.items), page.items[-1] if page.items else None, page.following
    result: list[Stored] = []
    while True:
        for position, stored in enumerate(page.items):
            if selection.matches(stored):
                result.append(stored)
                if limit and len(result) == limit:
                    return result, stored, len(page.items) - position - 1 + page.following
        if not page.following:
            return result, None, 0
        # Continue until the page is full, as a real API server does: selectors do not make pages shorter.
        page = core.storage.scan(
            call.entry.shelf,
            namespace=call.namespace,
            start=f"{page.items[-1].path}\0",
            limit=max(limit, 1_000),
            revision=page.revision,
        )


def _check_list_options(call: Call) -> None:
    query = call.query
    match = _read_version_match(call)
    options: list[Cause] = []
    if match:
        field = "resourceVersionMatch"
        if not query.get("resourceVersion"):
            text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            options.append(causes.make_forbidden_error(field, text))
        if query.get("continue"):
            options.append(
                causes.make_forbidden_error(
                    field, "resourceVersionMatch is forbidden when continue is provided"
                )
            )
        if match not in ("Exact", "NotOlderThan"):
            options.append(causes.make_not_supported_error(field, match, ["Exact", "NotOlderThan", ""]))
        if match == "Exact" and query.get("resourceVersion") == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            options.append(causes.make_forbidden_error(field, text))
    if "sendInitialEvents" in query:
        options.append(
            causes.make_forbidden_error("sendInitialEvents", "sendInitialEvents is forbidden for list")
        )
    if options:
        raise make_invalid_options("ListOptions", options)


def _check_watch_options(call: Call) -> None:
    query = call.query
    match = _read_version_match(call)
    field = "resourceVersionMatch"
    options: list[Cause] = []
    initial = "sendInitialEvents" in query
    if initial and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        options.append(causes.make_forbidden_error(field, text))
    if match:
        if not initial:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            options.append(causes.make_forbidden_error(field, text))
        if match != "NotOlderThan":
            options.append(causes.make_not_supported_error(field, match, ["NotOlderThan"]))
        if query.get("continue"):
            options.append(
                causes.make_forbidden_error(
                    field, "resourceVersionMatch is forbidden when continue is provided"
                )
            )
    if options:
        raise make_invalid_options("ListOptions", options)


def watch(core: Core, call: Call) -> WatchStream:
    """Open the stream of changes of a collection, or of one object. Raises Refusal.

    Without a resourceVersion, and with "0", the stream begins with the current objects as ADDED. With
    `sendInitialEvents` and `allowWatchBookmarks`, a bookmark follows them. If the resourceVersion is too old, the only
    event is an ERROR.
    """
    if "watch" not in call.entry.verbs:
        raise make_method_not_supported(call.entry.resource, "watch")
    _check_watch_options(call)
    selection = selection_of(call.entry, call.query, name=call.name)
    asked = _parse_revision(call)
    bookmarks = parse_flag(call.query, "allowWatchBookmarks")
    with_state = parse_flag(call.query, "sendInitialEvents") or (
        asked == 0 and "sendInitialEvents" not in call.query
    )
    if "sendInitialEvents" in call.query and asked > core.storage.revision:
        raise make_too_large_resource_version(asked, core.storage.revision)
    initial: Iterator[bytes | Awaitable[bytes]]
    failed = False
    if with_state:
        marks = parse_flag(call.query, "sendInitialEvents") and bookmarks
        page = core.storage.scan(call.entry.shelf, namespace=call.namespace)
        initial = _list_present_lines(core, call, selection, page, end_mark=marks)
        after = core.storage.revision
    else:
        after = asked or core.storage.revision
        try:
            initial = _list_past_lines(core, call, selection, after)
        except Compacted as err:
            failed = True
            refusal = make_expired(f"too old resource version: {asked} ({err.oldest - 1})")
            initial = iter([encode_event_line("ERROR", orjson.dumps(build_status_document(refusal.status)))])
        after = max(after, core.storage.revision)
    stream = WatchStream(
        core.hub,
        shelf=call.entry.shelf,
        trigger=trigger_of(call.entry, call.namespace, selection),
        namespace=call.namespace,
        selection=selection,
        form=f"{call.entry.api_version} {call.form.name} {call.shows_managed}",
        encode=lambda kind, stored, revision: _build_line(core, call, kind, stored, revision),
        after=after,
        initial=initial,
        bookmark=(lambda revision: _build_bookmark(call, revision)) if bookmarks else None,
        timeout_s=_compute_watch_timeout_s(core, call),
        revision=lambda: core.storage.revision,
        later=_without_columns if call.form.shows == "table" else None,
    )
    if failed:
        stream.end()
    return stream


def _without_columns(line: bytes) -> bytes:
    """Remove the columns from each table after the first: kubectl prints a header for each table with columns."""
    event = orjson.loads(line)
    if event["object"].get("kind") == "Table":
        event["object"]["columnDefinitions"] = None
    return orjson.dumps(event)


def _compute_watch_timeout_s(core: Core, call: Call) -> float:
    """Duration of a watch in seconds. If the request states none, half an hour to an hour at random, so that watches do
    not all end together.
    """
    asked = parse_whole_number(call.query, "timeoutSeconds")
    return float(asked) if asked and asked > 0 else _SHORTEST_WATCH_S * (1.0 + core.rng.random())


def _list_present_lines(
    core: Core, call: Call, selection: Selection, page: Page, *, end_mark: bool
) -> Iterator[bytes | Awaitable[bytes]]:
    for stored in page.items:
        if selection.matches(stored):
            yield _build_line(core, call, "ADDED", stored, stored.revision)
    if end_mark:
        empty: dict[str, Any] = {
            "kind": call.entry.list_kind,
            "apiVersion": call.entry.api_version,
            "metadata": {},
            "items": None,
        }
        blueprint = base64.b64encode(orjson.dumps(empty) + b"\n").decode()
        yield _build_bookmark(
            call, page.revision, annotations={_INITIAL_EVENTS_END: "true", _BLUEPRINT: blueprint}
        )


def _list_past_lines(
    core: Core, call: Call, selection: Selection, after: int
) -> Iterator[bytes | Awaitable[bytes]]:
    """Yield the lines of the known changes after a revision. Raises Compacted immediately, not when the first line is
    read.
    """
    changes = core.storage.list_changes_since(call.entry.shelf, after)

    def lines() -> Iterator[bytes | Awaitable[bytes]]:
        for change in changes:
            stored = change.new or change.old
            assert stored is not None
            if call.namespace and stored.key.namespace != call.namespace:
                continue
            kind = find_event_type(change, selection)
            shown = change.old if kind == "DELETED" else change.new
            if kind and shown is not None:
                yield _build_line(core, call, kind, shown, change.revision)

    return lines()


def _build_line(core: Core, call: Call, kind: str, stored: Stored, revision: int) -> bytes | Awaitable[bytes]:
    raw = stored.raw if kind != "DELETED" else replace_revision(stored, revision)
    entry = call.entry
    if entry.converter is None and call.form.is_plain:
        shown = relabel(raw, entry.api_version)
        return encode_event_line(
            kind, core.ownership.show(entry, shown, stored) if call.shows_managed else shown
        )
    return _render_line(core, call, kind, raw, stored)


async def _render_line(core: Core, call: Call, kind: str, raw: bytes, stored: Stored) -> bytes:
    shown = await core.show(call.entry, raw)
    if call.shows_managed:
        shown = core.ownership.show(call.entry, shown, stored)
    if not call.form.is_plain:
        shown = render_object(call.entry, shown, form=call.form, now=core.clock())
    return encode_event_line(kind, shown)


def _build_bookmark(call: Call, revision: int, annotations: dict[str, str] | None = None) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    doc = {
        "kind": call.entry.resource.kind,
        "apiVersion": call.entry.api_version,
        "metadata": metadata,
    }
    return encode_event_line("BOOKMARK", orjson.dumps(doc))


# --- resource versions and tokens ----------------------------------------


def _parse_revision(call: Call) -> int:
    """The requested resourceVersion; 0 when it is absent or "0", which both mean any version."""
    text = call.query.get("resourceVersion", "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        shown = quote_text(text)
        raise make_unclassified_error(
            f"resourceVersion: Invalid value: {shown}: strconv.ParseUint: parsing {shown}: invalid syntax"
        )
    return int(text)


def _build_token(revision: int, start: str) -> str:
    data = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start})
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read_token(token: str) -> tuple[int, str]:
    """Return revision (-1: the newest) and start of a continue token. Raises Refusal (400)."""
    try:
        padded = token + "=" * (-len(token) % 4)
        result = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        revision, start, version = result["rv"], result["start"], result["v"]
    except (ValueError, KeyError, TypeError) as err:
        raise _make_bad_token_error(f"continue key is not valid: {err}") from err
    if version != "meta.k8s.io/v1":
        raise _make_bad_token_error(
            f"continue key is not valid: server does not recognize this encoded version {version}"
        )
    if type(revision) is not int or revision == 0 or revision < -1 or not isinstance(start, str) or not start:
        raise _make_bad_token_error(
            "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
        )
    return revision, start


def _make_bad_token_error(text: str) -> Refusal:
    return make_bad_request(f"invalid continue token: {text}")
