"""Admission's response to a manifest, and the fields that admission would change.

manifest ──dry run──▶ ask_admission() ──▶ AdmissionVerdict      spec now, spec wanted ──▶ list_changed_paths()
    ──▶ lines for people
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.emptiness import drop_empty
from pykruise.cli.insight.effect_forecast import FieldChange
from pykruise.cli.insight.known_kinds import convert_to_hub
from pykruise.kube.client.client import Client
from pykruise.kube.client.warnings import WarningTransport
from pykruise.kube.documents import LAST_APPLIED, Document, decode, deep_copy, is_same
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource

STRICT: Final = "Strict"
"""Field validation that reports unknown fields as errors; a misspelt field would otherwise be ignored silently."""


class AdmissionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Response of a cluster to a manifest."""

    resource: Resource
    key: Key
    live: Document | None = None
    """The object as it is stored now; None if the object does not exist."""
    wanted: Document | None = None
    """The object as it would be stored, with defaults; None if admission rejects it."""
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Warnings of the API server and of admission, as `kubectl apply` prints them."""

    @property
    def change(self) -> str:
        """created, changed, unchanged or refused."""
        if self.wanted is None:
            return "refused"
        if self.live is None:
            return "created"
        return "unchanged" if is_same(self.live.get("spec"), self.wanted.get("spec")) else "changed"

    @property
    def about(self) -> dict[str, Any]:
        """Fields of a `Foreseen` that `plan` shows for an object of any kind."""
        old, new = (entry and entry.get("spec") for entry in (self.live, self.wanted))
        return {
            "kind": self.resource.kind,
            "namespace": self.key.namespace,
            "name": self.key.name,
            "change": self.change,
            "errors": self.errors,
            "warnings": self.warnings,
            "fields": tuple(list_changed_paths(old, new, "spec")) if old is not None and self.wanted else (),
        }


async def ask_admission(client: Client, resource: Resource, key: Key, document: Document) -> AdmissionVerdict:
    """Ask admission in a dry run, in the manifest's own version. The verdict contains the object in the hub version.
    Raises errors that are not a verdict on the object.
    """
    own = msgspec.structs.replace(resource, version=document["apiVersion"].rpartition("/")[2])
    live = await _get_stored(client, resource, key)
    there = live if own == resource or live is None else await _get_stored(client, own, key)
    warnings: dict[str, None] = {}
    heard = client.replace_transport(WarningTransport(client.transport, warnings.setdefault))
    try:
        wanted = await _compute_stored_object(heard, own, key, there, document)
        return AdmissionVerdict(
            resource=resource,
            key=key,
            live=live,
            wanted=live if wanted is there else convert_to_hub(wanted),
            warnings=tuple(warnings),
        )
    except ApiError as error:
        if not _is_refusal(error):
            raise
        if there is not None and any(cause.field == _PATCH for cause in error.causes):
            error = await _find_refusal_of_creation(client, own, key, document) or error
        return AdmissionVerdict(
            resource=resource, key=key, live=live, errors=errors_of(error), warnings=tuple(warnings)
        )


_PATCH: Final = "patch"
"""Field of a rejection whose message quotes the whole object, because the API server could not decode the patched
object.
"""


async def _find_refusal_of_creation(
    client: Client, resource: Resource, key: Key, document: Document
) -> ApiError | None:
    """Return the rejection of a creation of the same object, because its message is short; None if the creation is not
    rejected for the same reason.
    """
    try:
        await client.create(resource, key.namespace, document, dry_run=True, field_validation=STRICT)
    except ApiError as error:
        return error if error.code == 400 else None
    return None


async def _get_stored(client: Client, resource: Resource, key: Key) -> Document | None:
    try:
        return decode(await client.get(resource, key.namespace, key.name))
    except NotFoundError:
        return None


async def _compute_stored_object(
    client: Client, resource: Resource, key: Key, live: Document | None, document: Document
) -> Document:
    """Return the object as it would be stored, with defaults. Raises the error with which admission rejects it."""
    if live is None:
        return decode(
            await client.create(resource, key.namespace, document, dry_run=True, field_validation=STRICT)
        )
    patch = patch_to_apply(live, document)
    if not patch:
        return live
    answer = await client.patch(
        resource,
        key.namespace,
        key.name,
        patch,
        patch_type=PatchType.MERGE,
        dry_run=True,
        field_validation=STRICT,
    )
    return decode(answer)


def patch_to_apply(live: Document, document: Document) -> Document:
    """Return the merge patch that `kubectl apply` would send: it sets the manifest's fields and removes fields that
    only the last applied manifest had.

    The last applied manifest is in the annotation that kubectl writes; without the annotation the patch removes
    nothing.
    """
    before = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    last: Any = decode(before.encode()) if before else {}
    wanted = document.get("spec") or {}
    kept = ("labels", "annotations")
    metadata = {part: document["metadata"][part] for part in kept if document["metadata"].get(part)}
    spec = _merge_patch(live.get("spec") or {}, wanted, last.get("spec") or {})
    changes = _merge_patch(live["metadata"], metadata, last.get("metadata") or {})
    return {**({"spec": spec} if spec else {}), **({"metadata": changes} if changes else {})}


def _merge_patch(live: Mapping[str, Any], wanted: Mapping[str, Any], last: Mapping[str, Any]) -> Document:
    patch: Document = {}
    for name, value in wanted.items():
        there = live.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            before = last.get(name)
            if inner := _merge_patch(there, value, before if isinstance(before, Mapping) else {}):
                patch[name] = inner
        elif not is_same(there, value):
            patch[name] = deep_copy(value)
    for name in last:
        if name not in wanted and name in live and name not in ("name", "namespace"):
            patch[name] = None
    return patch


def _is_refusal(error: ApiError) -> bool:
    """Whether the error is a verdict on the object; missing permissions and unreachable webhooks are not."""
    return error.code in (400, 409, 422) or (error.code == 403 and "webhook" in str(error))


def errors_of(error: ApiError) -> tuple[str, ...]:
    """Return every field error of a rejection with its path; without field errors, return the message."""
    causes = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in error.causes]
    return tuple(causes) or (str(error),)


def list_changed_paths(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, path: str
) -> Iterator[FieldChange]:
    """Yield the paths at which two documents differ. Items of lists are compared by name when all of them have one. An
    empty field, such as `resources: {}`, is treated like an absent field.
    """
    yield from _list_changed_paths(drop_empty(old) or {}, drop_empty(new) or {}, path)


def _list_changed_paths(old: Any, new: Any, path: str) -> Iterator[FieldChange]:
    if is_same(old, new):
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _list_changed_paths(old.get(key), new.get(key), f"{path}.{key}")
        return
    if isinstance(old, list) and isinstance(new, list) and _are_named(old) and _are_named(new):
        before, after = ({item["name"]: item for item in items} for items in (old, new))
        for name in sorted({*before, *after}):
            yield from _list_changed_paths(before.get(name), after.get(name), f"{path}[{name}]")
        return
    yield FieldChange(path=path, old=old, new=new)


def _are_named(items: Sequence[Any]) -> bool:
    return all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items)
