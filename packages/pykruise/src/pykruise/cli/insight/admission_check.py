"""Admission's answer to a manifest, and the fields that admission would change.

manifest ──dry run──▶ asked() ──▶ Verdict      spec now, spec wanted ──▶ changed_paths() ──▶ lines for people
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.effect_forecast import FieldChange
from pykruise.cli.insight.known_kinds import hub_form
from pykruise.kube.client.client import Client
from pykruise.kube.documents import LAST_APPLIED, Document, decode, deep_copy, same
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource

STRICT: Final = "Strict"
"""Unknown fields are an error: one that is misspelt would change nothing, unseen."""


class AdmissionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a cluster to a manifest."""

    resource: Resource
    key: Key
    live: Document | None = None
    """The object as it is; None: there is none."""
    wanted: Document | None = None
    """As it would be stored: defaults and all; None: it is refused."""
    errors: tuple[str, ...] = ()

    @property
    def change(self) -> str:
        """created, changed, unchanged or refused."""
        if self.wanted is None:
            return "refused"
        if self.live is None:
            return "created"
        return "unchanged" if same(self.live.get("spec"), self.wanted.get("spec")) else "changed"

    @property
    def about(self) -> dict[str, Any]:
        """Fields of a Foreseen that `plan` shows for an object of any kind."""
        old, new = (entry and entry.get("spec") for entry in (self.live, self.wanted))
        return {
            "kind": self.resource.kind,
            "namespace": self.key.namespace,
            "name": self.key.name,
            "change": self.change,
            "errors": self.errors,
            "fields": tuple(changed_paths(old, new, "spec")) if old is not None and self.wanted else (),
        }


async def asked(client: Client, resource: Resource, key: Key, document: Document) -> AdmissionVerdict:
    """Ask admission in a dry run, in the version of the manifest; the answer is in the hub version. Raises what says
    nothing about the object."""
    own = msgspec.structs.replace(resource, version=document["apiVersion"].rpartition("/")[2])
    live = await _stored(client, resource, key)
    there = live if own == resource or live is None else await _stored(client, own, key)
    try:
        wanted = await _admitted(client, own, key, there, document)
        return AdmissionVerdict(
            resource=resource, key=key, live=live, wanted=live if wanted is there else hub_form(wanted)
        )
    except ApiError as error:
        if not _is_refusal(error):
            raise
        if there is not None and any(cause.field == _PATCH for cause in error.causes):
            error = await _as_of_a_creation(client, own, key, document) or error
        return AdmissionVerdict(resource=resource, key=key, live=live, errors=errors_of(error))


_PATCH: Final = "patch"
"""The field of a refusal that quotes the whole object: API servers could not read what a patch makes of it."""


async def _as_of_a_creation(
    client: Client, resource: Resource, key: Key, document: Document
) -> ApiError | None:
    """The same refusal as of a creation, whose message is short; None: a creation is refused for something else."""
    try:
        await client.create(resource, key.namespace, document, dry_run=True, field_validation=STRICT)
    except ApiError as error:
        return error if error.code == 400 else None
    return None


async def _stored(client: Client, resource: Resource, key: Key) -> Document | None:
    try:
        return decode(await client.get(resource, key.namespace, key.name))
    except NotFoundError:
        return None


async def _admitted(
    client: Client, resource: Resource, key: Key, live: Document | None, document: Document
) -> Document:
    """The object as it would be stored: defaults and all. Raises what admission refuses with."""
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
    """The merge patch that `kubectl apply` would send: what the manifest says, and without what it said before.

    What was said before is in the annotation that kubectl leaves; without it nothing is taken away.
    """
    before = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    last: Any = decode(before.encode()) if before else {}
    wanted = document.get("spec") or {}
    kept = ("labels", "annotations")
    metadata = {part: document["metadata"][part] for part in kept if document["metadata"].get(part)}
    spec = _difference(live.get("spec") or {}, wanted, last.get("spec") or {})
    changes = _difference(live["metadata"], metadata, last.get("metadata") or {})
    return {**({"spec": spec} if spec else {}), **({"metadata": changes} if changes else {})}


def _difference(live: Mapping[str, Any], wanted: Mapping[str, Any], last: Mapping[str, Any]) -> Document:
    patch: Document = {}
    for name, value in wanted.items():
        there = live.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            before = last.get(name)
            if inner := _difference(there, value, before if isinstance(before, Mapping) else {}):
                patch[name] = inner
        elif not same(there, value):
            patch[name] = deep_copy(value)
    for name in last:
        if name not in wanted and name in live and name not in ("name", "namespace"):
            patch[name] = None
    return patch


def _is_refusal(error: ApiError) -> bool:
    """A verdict on the object, and not on who asks or whether a webhook answers."""
    return error.code in (400, 409, 422) or (error.code == 403 and "webhook" in str(error))


def errors_of(error: ApiError) -> tuple[str, ...]:
    """Every field error of a refusal, each with its path; else the message."""
    causes = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in error.causes]
    return tuple(causes) or (str(error),)


def changed_paths(old: Any, new: Any, path: str) -> Iterator[FieldChange]:
    """Where two documents differ, lists of named things by name."""
    if same(old, new):
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from changed_paths(old.get(key), new.get(key), f"{path}.{key}")
        return
    if isinstance(old, list) and isinstance(new, list) and _are_named(old) and _are_named(new):
        before, after = ({item["name"]: item for item in items} for items in (old, new))
        for name in sorted({*before, *after}):
            yield from changed_paths(before.get(name), after.get(name), f"{path}[{name}]")
        return
    yield FieldChange(path=path, old=old, new=new)


def _are_named(items: Sequence[Any]) -> bool:
    return all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items)
