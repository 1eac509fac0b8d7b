"""Revisions: which template a pod was built from, kept as ControllerRevision objects.

template ──▶ Candidate (data bytes, meaning) ─┐
stored ControllerRevisions ──▶ RevisionView ──┴▶ choose_update() ──▶ which one pods should be of, and the
                                                  write that makes it so, if any
                                              └▶ choose_current(), to_truncate()

Pure; serves every kind. Two templates are the same when they *mean* the same: nulls, empty values and the way
a quantity is written do not count, so objects that another manager stored never cause a rollout. The bytes,
and so the hash in the name, are those that a manager written in Go makes of the same template.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, canonical
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.kube.values.go_text import go_json
from pykruise.kube.values.hashing import fnv32, hash_text
from pykruise.kube.values.quantities import Quantity, format_quantity
from pykruise.pods.template.defaults import with_claim_defaults, with_defaults
from pykruise.pods.view import keys
from pykruise.pods.view.names import RevisionHash, RevisionName, revision_name, short_hash


class RevisionView(msgspec.Struct, frozen=True, kw_only=True):
    """One stored ControllerRevision."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    number: int
    """The `revision` field: the higher, the later it was wanted."""
    created_at: Instant | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    controller_uid: str = ""
    controller_version: str = ""
    """The version in its owner reference, `v1alpha1`: that of the owner by which its data was written."""
    is_deleting: bool = False
    template: Document
    """The pod template, without the `$patch` directive. Of a SidecarSet: the fields of its spec."""
    meaning: bytes
    """Equal for templates that mean the same."""

    @property
    def hash(self) -> RevisionHash:
        """The last part of its name, which pods of it carry."""
        return short_hash(self.name)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """The revision that a live template would be stored as."""

    template: Document
    data: bytes
    meaning: bytes


class UpdateChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The revision that pods should be of, and the one write that has to come first (at most one is set)."""

    revision: RevisionView
    collision_count: int
    create: Document | None = None
    """The ControllerRevision to be created; `revision` is what it will be."""
    patch: Document | None = None
    """Merge patch of `revision`: an older one is wanted again."""


_FALSE_IS_ABSENT: Final = frozenset(
    {
        "chapAuthDiscovery",
        "chapAuthSession",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "readOnly",
        "sslEnabled",
        "stdin",
        "stdinOnce",
        "tty",
    }
)
_ZERO_IS_ABSENT: Final = frozenset(
    {
        "failureThreshold",
        "hostPort",
        "initialDelaySeconds",
        "partition",
        "periodSeconds",
        "successThreshold",
        "timeoutSeconds",
    }
)
_EMPTY_TEXT_IS_ABSENT: Final = frozenset(
    {
        "containerName",
        "dnsPolicy",
        "effect",
        "fsType",
        "host",
        "hostIP",
        "hostname",
        "image",
        "imagePullPolicy",
        "medium",
        "nodeName",
        "operator",
        "prefix",
        "priorityClassName",
        "protocol",
        "restartPolicy",
        "schedulerName",
        "scheme",
        "serviceAccount",
        "serviceAccountName",
        "subPath",
        "subPathExpr",
        "subdomain",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "workingDir",
    }
)
_TEXT_MAPS: Final = frozenset({"annotations", "labels", "matchLabels", "nodeSelector"})
"""Maps whose values are the user's: nothing in them is dropped."""
_QUANTITY_MAPS: Final = frozenset({"limits", "overhead", "requests"})
_QUANTITIES: Final = frozenset({"divisor", "sizeLimit"})
_EMPTY_OBJECT_COUNTS: Final = frozenset({"labelSelector", "namespaceSelector"})
"""Fields in which `{}` means everything and absence means nothing."""
_CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")


def typed_form(template: Mapping[str, Any]) -> Document:
    """The template as a typed Go client writes it: empty optional fields gone, quantities canonical, and the
    fields that such a client always writes (`creationTimestamp: null`, `resources: {}`) present.
    """
    form: Document = {field: _typed(value, field) for field, value in template.items() if field != "$patch"}
    form["metadata"] = {"creationTimestamp": None, **(form.get("metadata") or {})}
    spec = form["spec"] = dict(form.get("spec") or {})
    for field in _CONTAINER_LISTS:
        if spec.get(field):
            spec[field] = [{**item, "resources": item.get("resources") or {}} for item in spec[field]]
    return form


def _typed(value: Any, field: str) -> Any:
    if isinstance(value, Mapping):
        return _typed_object(value, field)
    if isinstance(value, list):
        return [_typed_env(_typed(item, field), field) for item in value]
    if field in _QUANTITIES:
        return _quantity(value)
    return value


def _typed_object(value: Mapping[str, Any], field: str) -> Document:
    if field in _TEXT_MAPS:
        return dict(value)
    if field in _QUANTITY_MAPS:
        return {name: _quantity(amount) for name, amount in value.items()}
    result: Document = {}
    for name, item in value.items():
        if item is None or item == [] or (item == {} and name in _TEXT_MAPS | _QUANTITY_MAPS):
            continue
        if item is False and name in _FALSE_IS_ABSENT:
            continue
        if item == 0 and name in _ZERO_IS_ABSENT:
            continue
        if item == "" and name in _EMPTY_TEXT_IS_ABSENT:
            continue
        result[name] = _typed(item, name)
    if field == "resourceFieldRef":
        result.setdefault("divisor", "0")
    if field == "volumeClaimTemplate":
        result["metadata"] = {"creationTimestamp": None, **result.get("metadata", {})}
        result["spec"] = {
            **result.get("spec", {}),
            "resources": result.get("spec", {}).get("resources") or {},
        }
    return result


def _typed_env(item: Any, field: str) -> Any:
    if field == "env" and isinstance(item, dict) and item.get("value") == "":
        return {name: value for name, value in item.items() if name != "value"}
    return item


def _quantity(value: Any) -> Any:
    try:
        return format_quantity(value)
    except ValueError:
        return value  # not a quantity: the API server will say so; here it just stays what it is


def _amount(value: Any) -> Any:
    try:
        return str(Quantity.parse(value).nano)
    except ValueError:
        return value


def meaning(template: Mapping[str, Any]) -> bytes:
    """Equal for templates that mean the same, with any writer.

    A template and the same template with the defaults that webhooks write into it mean the same.
    """
    return canonical(template_essence(template))


def template_essence(template: Mapping[str, Any]) -> Document:
    """Text of the template's meaning: with all defaults, and without fields that have no effect."""
    essence: Document = _essence(typed_form(_with_defaults(template)))
    return essence


def _with_defaults(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template with its defaults, where it has the shape of one (a SidecarSet's revision has not)."""
    if not isinstance(template.get("spec"), Mapping):
        return template
    try:
        return with_defaults(template)
    except (AttributeError, TypeError, ValueError):
        return template  # a stored part of a wrong type: reported by who reads it, and compared as it is


def typed_claim(claim: Any) -> Any:
    """A volumeClaimTemplate as a typed Go client writes it."""
    if not isinstance(claim, Mapping):
        return claim
    result: Document = _typed_object(with_claim_defaults(claim), "")
    result["metadata"] = {"creationTimestamp": None, **(result.get("metadata") or {})}
    spec: Document = dict(result.get("spec") or {})
    result["spec"] = {**spec, "resources": spec.get("resources") or {}}
    result["status"] = result.get("status") or {}
    return result


def _essence(value: Any, field: str = "") -> Any:
    """Without nulls and empty values, but for those that mean something; quantities as amounts."""
    if field in _QUANTITIES:
        return _amount(value)
    if isinstance(value, dict):
        if field in _TEXT_MAPS:
            return value
        if field in _QUANTITY_MAPS:
            return {name: _amount(amount) for name, amount in value.items()}
        kept = {name: _essence(item, name) for name, item in value.items()}
        return {
            name: item
            for name, item in kept.items()
            if item is not None and item != [] and (item != {} or name in _EMPTY_OBJECT_COUNTS)
        }
    if isinstance(value, list):
        return [_essence(item) for item in value]
    return value


def revision_data(template: Mapping[str, Any]) -> bytes:
    """The `data` of a revision, byte for byte as Go writes it: the template and `"$patch":"replace"`."""
    patch = {**typed_form(template), "$patch": "replace"}
    return go_json({"spec": {"template": patch}}, sort_keys=True).encode()


def revision_hash(data: bytes, collision_count: int) -> RevisionHash:
    """The last part of the name: FNV-1 of the data and the decimal collision count, safely encoded."""
    return RevisionHash(hash_text(fnv32(data + str(collision_count).encode())))


def candidate(template: Mapping[str, Any]) -> Candidate:
    """Revision in which a live template would be stored."""
    plain = {field: value for field, value in template.items() if field != "$patch"}
    return Candidate(template=plain, data=revision_data(template), meaning=meaning(template))


class _Owner(msgspec.Struct, rename="camel"):
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Stored(msgspec.Struct, rename="camel"):
    metadata: _Meta
    revision: int = 0
    data: Any = None


_decode = msgspec.json.Decoder(_Stored).decode


def project_revision(raw: bytes | msgspec.Raw) -> RevisionView:
    """A stored revision from its JSON text; one of another kind's shape has an empty template.

    Raises msgspec.DecodeError for anything that is no ControllerRevision.
    """
    stored = _decode(raw)
    meta = stored.metadata
    template = _template_of(stored.data)
    controller = next((owner for owner in meta.owner_references or () if owner.controller), _Owner())
    return RevisionView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version or 0),
        number=stored.revision,
        created_at=parse_time(meta.creation_timestamp) if meta.creation_timestamp else None,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        controller_uid=controller.uid,
        controller_version=controller.api_version.rpartition("/")[2],
        is_deleting=meta.deletion_timestamp is not None,
        template=template,
        meaning=meaning(template),
    )


def _template_of(data: Any) -> Document:
    """The template; of a kind that stores something else (SidecarSet), the fields that it stores."""
    spec = data.get("spec") if isinstance(data, dict) else None
    if not isinstance(spec, dict):
        return {}
    template = spec.get("template") if "template" in spec else spec
    if not isinstance(template, dict):
        return {}
    return {field: value for field, value in template.items() if field != "$patch"}


def sorted_revisions(revisions: Iterable[RevisionView]) -> list[RevisionView]:
    """Oldest first: by number, then creation, then name."""
    return sorted(
        revisions, key=lambda revision: (revision.number, revision.created_at or 0.0, revision.name)
    )


BodyMaker = Callable[[RevisionName, RevisionHash, int], Document]
"""Name, hash and number → the metadata and number of the ControllerRevision to be created (without data)."""


def choose_update(
    wanted: Candidate,
    revisions: Sequence[RevisionView],
    *,
    owner: str,
    collision_count: int,
    others: Mapping[str, RevisionView],
    body: BodyMaker,
    annotations: Mapping[str, str],
) -> UpdateChoice:
    """The revision that the live template stands for.

    `revisions` are the owner's, sorted; `others` are further ones of the namespace by name, which may hold
    the name that a new one would get. `annotations` are those of an older revision that is wanted again.
    The latest stored one that means the same is used; an older one gets the highest number again; none: a new
    one is made, under another name (collision count) when its name is taken by something different.
    """
    number = revisions[-1].number + 1 if revisions else 1
    if revisions and revisions[-1].meaning == wanted.meaning:
        return UpdateChoice(revision=revisions[-1], collision_count=collision_count)
    same = [revision for revision in revisions if revision.meaning == wanted.meaning]
    if same:
        missing = {key: value for key, value in annotations.items() if same[-1].annotations.get(key) != value}
        patch: Document = {"revision": number}
        if missing:
            patch["metadata"] = {"annotations": missing}
        return UpdateChoice(revision=same[-1], collision_count=collision_count, patch=patch)
    return _new_revision(
        wanted,
        number=number,
        owner=owner,
        collision_count=collision_count,
        taken={**others, **{revision.name: revision for revision in revisions}},
        body=body,
    )


def _new_revision(
    wanted: Candidate,
    *,
    number: int,
    owner: str,
    collision_count: int,
    taken: Mapping[str, RevisionView],
    body: BodyMaker,
) -> UpdateChoice:
    while True:
        name_hash = revision_hash(wanted.data, collision_count)
        name = revision_name(owner, name_hash)
        holder = taken.get(name)
        if holder is None:
            break
        if holder.meaning == wanted.meaning:
            # Left behind by an owner of the same name: it says the same, so pods may be of it. Once it is
            # collected, the next plan makes it anew under this very name.
            return UpdateChoice(revision=holder, collision_count=collision_count)
        collision_count += 1
    document = body(name, name_hash, number)
    document["data"] = json.loads(wanted.data)
    metadata = document["metadata"]
    view = RevisionView(
        namespace=metadata.get("namespace", ""),
        name=name,
        uid="",
        resource_version=0,
        number=number,
        labels=metadata.get("labels", {}),
        annotations=metadata.get("annotations", {}),
        template=wanted.template,
        meaning=wanted.meaning,
    )
    return UpdateChoice(revision=view, collision_count=collision_count, create=document)


def revision_body(
    name: RevisionName,
    name_hash: RevisionHash,
    number: int,
    *,
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    owner: Mapping[str, Any],
    hash_label: str = keys.REVISION_HASH_LABEL,
) -> Document:
    """A ControllerRevision document without its data; `labels` are those of the template."""
    return {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**labels, hash_label: name_hash},
            "annotations": dict(annotations),
            "ownerReferences": [dict(owner)],
        },
        "revision": number,
    }


def choose_current(revisions: Iterable[RevisionView], name: str, *, update: RevisionView) -> RevisionView:
    """The revision that the status names as current; when it is not stored any more, the update revision."""
    return next((revision for revision in revisions if revision.name == name), update)


def to_truncate(
    revisions: Sequence[RevisionView], *, live: Collection[RevisionHash], limit: int
) -> list[RevisionView]:
    """Revisions to delete so that `limit` remain besides the live ones; the oldest go first.

    `revisions` are sorted; `live` are the hashes of current and update revision and of all active pods.
    """
    idle = [revision for revision in revisions if revision.hash not in live and not revision.is_deleting]
    return idle[: max(len(idle) - limit, 0)]
