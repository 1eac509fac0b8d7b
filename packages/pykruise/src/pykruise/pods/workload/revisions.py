"""Revisions: the templates that pods were created from, stored as ControllerRevision objects.

template ──▶ Candidate (data bytes, meaning) ─┐
stored ControllerRevisions ──▶ RevisionView ──┴▶ choose_update() ──▶ the revision that pods should have, and the
                                                  write that stores it, if any
                                              └▶ choose_current(), to_truncate()

Pure; serves every kind. Two templates are equal when they *mean* the same: nulls, empty values and the notation of a
quantity are ignored, so objects that another manager stored never cause a rollout. The bytes, and so the hash in the
name, are the ones that a manager written in Go creates from the same template.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, encode_canonical
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.kube.schemas.builtin_types import BuiltinField, fields_of
from pykruise.kube.values.go_text import encode_go_json
from pykruise.kube.values.hashing import hash_fnv32, hash_text
from pykruise.kube.values.quantities import Quantity, format_quantity
from pykruise.pods.template.defaults import add_claim_defaults, add_defaults_of_1_8
from pykruise.pods.view import keys
from pykruise.pods.view.names import RevisionHash, RevisionName, format_revision_name, shorten_hash


class RevisionView(msgspec.Struct, frozen=True, kw_only=True):
    """A stored ControllerRevision."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    number: int
    """The `revision` field. The revision with the higher number became the update revision later."""
    created_at: Instant | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    controller_uid: str = ""
    controller_version: str = ""
    """API version in its owner reference, such as `v1alpha1`: the owner's version in which the data was written."""
    is_deleting: bool = False
    template: Document
    """The pod template, without the `$patch` directive. For a SidecarSet: fields of its spec."""
    meaning: bytes
    """Equal for templates with the same meaning."""

    @property
    def hash(self) -> RevisionHash:
        """The last part of the name, which pods of the revision have in their label."""
        return shorten_hash(self.name)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """The revision in which a live template would be stored."""

    template: Document
    data: bytes
    meaning: bytes


class UpdateChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The revision that pods should have, and the write that must precede all writes to pods. At most one of `create`
    and `patch` is set.
    """

    revision: RevisionView
    collision_count: int
    create: Document | None = None
    """The ControllerRevision to create; `revision` is its future view."""
    patch: Document | None = None
    """Merge patch of `revision`, an older revision that is wanted again."""


_TEXT_MAPS: Final = frozenset({"annotations", "labels", "matchLabels", "nodeSelector"})
"""Maps whose keys and values come from the user: no entry is dropped."""
_QUANTITY_MAPS: Final = frozenset({"limits", "overhead", "requests"})
_QUANTITIES: Final = frozenset({"divisor", "sizeLimit"})
_EMPTY_OBJECT_COUNTS: Final = frozenset({"labelSelector", "namespaceSelector"})
"""Fields in which `{}` selects everything and absence selects nothing."""
_ZEROS: Final[Mapping[str, Any]] = {"bool": False, "int32": 0, "int64": 0, "string": ""}
"""Types whose empty value Go leaves out, if the field has `omitempty`. A pointer keeps its value."""
_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"
_POD: Final = "io.k8s.api.core.v1.PodSpec"
_CLAIM: Final = "io.k8s.api.core.v1.PersistentVolumeClaim"
_CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")


def to_typed_form(template: Mapping[str, Any]) -> Document:
    """The template in the form of a typed Go client: without empty optional fields, with canonical quantities, and
    with fields that such a client always writes (`creationTimestamp: null`, `resources: {}`).

    Fields that a SidecarSet shares with the spec of a pod are recognized too.
    """
    form: Document = {}
    for name, value in template.items():
        if name != "$patch":
            known = _list_fields(_TEMPLATE).get(name) or _list_fields(_POD).get(name)
            form[name] = _to_typed(value, name, known)
    form["metadata"] = {"creationTimestamp": None, **(form.get("metadata") or {})}
    spec = form["spec"] = dict(form.get("spec") or {})
    for field in _CONTAINER_LISTS:
        if spec.get(field):
            spec[field] = [{**item, "resources": item.get("resources") or {}} for item in spec[field]]
    return form


def _list_fields(definition: str) -> Mapping[str, BuiltinField]:
    return fields_of(definition) or {}


def _to_typed(value: Any, field: str, known: BuiltinField | None) -> Any:
    """`known`: type of the field; None for a field that the newest Kubernetes does not know."""
    kind = known.kind.removeprefix("*") if known is not None else ""
    if isinstance(value, list):
        item_kind = kind.removeprefix("[]")
        return [
            _to_typed_object(item, field, item_kind) if isinstance(item, Mapping) else item for item in value
        ]
    if isinstance(value, Mapping):
        return _to_typed_object(value, field, kind)
    if kind == "quantity" or (not kind and field in _QUANTITIES):
        return _format_quantity(value)
    return value


def _to_typed_object(value: Mapping[str, Any], field: str, kind: str) -> Document:
    if kind == "{}string" or (not kind and field in _TEXT_MAPS):
        return dict(value)
    if kind == "{}quantity" or (not kind and field in _QUANTITY_MAPS):
        return {name: _format_quantity(amount) for name, amount in value.items()}
    fields = _list_fields(kind)
    result: Document = {}
    for name, item in value.items():
        known = fields.get(name)
        if not _is_left_out(item, name, known):
            result[name] = _to_typed(item, name, known)
    for name, known in fields.items():
        if known.kind.startswith("*") and not known.omits_empty:
            result.setdefault(name, None)  # a typed client writes null for a pointer without `omitempty`
    if field == "resourceFieldRef":
        result.setdefault("divisor", "0")
    if field == "volumeClaimTemplate":
        result["metadata"] = {"creationTimestamp": None, **result.get("metadata", {})}
        result["spec"] = {
            **result.get("spec", {}),
            "resources": result.get("spec", {}).get("resources") or {},
        }
    return result


def _is_left_out(item: Any, name: str, known: BuiltinField | None) -> bool:
    """Whether a typed client leaves this value of a field out. `known`: the field's type; None if it is unknown."""
    if item is None or item == []:
        return True
    if known is not None:
        if item == {}:
            return known.omits_empty and known.kind.startswith("{}")
        zero = _ZEROS.get(known.kind)
        return known.omits_empty and type(item) is type(zero) and item == zero
    return item == {} and name in _TEXT_MAPS | _QUANTITY_MAPS


def _format_quantity(value: Any) -> Any:
    try:
        return format_quantity(value)
    except ValueError:
        return value  # not a quantity: the API server reports it; the value stays unchanged here


def _parse_amount(value: Any) -> Any:
    try:
        return str(Quantity.parse(value).nano)
    except ValueError:
        return value


def encode_meaning(template: Mapping[str, Any]) -> bytes:
    """Bytes that are equal for templates with the same meaning, whichever client wrote them.

    A template means the same with and without the defaults that the webhooks of any version write into it.
    """
    return encode_canonical(reduce_to_essence(template))


def reduce_to_essence(template: Mapping[str, Any]) -> Document:
    """The template's meaning: with all defaults, and without fields that have no effect."""
    essence: Document = _to_essence(to_typed_form(_with_defaults(template)))
    return essence


def _with_defaults(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template with its defaults, if it has the form of a template (a SidecarSet's revision has another form)."""
    if not isinstance(template.get("spec"), Mapping):
        return template
    try:
        return add_defaults_of_1_8(template)
    except (AttributeError, TypeError, ValueError):
        return template  # a stored part of a wrong type: its readers report it, and here it is compared unchanged


def reduce_claim_to_essence(claim: Any) -> Any:
    """The meaning of a volumeClaimTemplate: with all defaults, and without a status, which has no effect."""
    essence = _to_essence(to_typed_claim(claim))
    return {**essence, "status": None} if isinstance(essence, dict) else essence


def to_typed_claim(claim: Any) -> Any:
    """A volumeClaimTemplate in the form of a typed Go client."""
    if not isinstance(claim, Mapping):
        return claim
    result: Document = _to_typed_object(add_claim_defaults(claim), "", _CLAIM)
    result["metadata"] = {"creationTimestamp": None, **(result.get("metadata") or {})}
    spec: Document = dict(result.get("spec") or {})
    result["spec"] = {**spec, "resources": spec.get("resources") or {}}
    result["status"] = result.get("status") or {}
    return result


def drop_zero_values(value: Any, *, keep: Collection[str] = ()) -> Any:
    """Drop nulls, `false` and empty texts, lists and objects at every depth: most fields of typed Go clients do not
    distinguish them from absence. An empty value of a field in `keep` is not dropped.
    """
    if isinstance(value, list):
        return [drop_zero_values(item, keep=keep) for item in value]
    if not isinstance(value, Mapping):
        return value
    result: Document = {}
    for name, item in value.items():
        reduced = item if name in _TEXT_MAPS else drop_zero_values(item, keep=keep)
        if reduced is None or reduced is False or (reduced in ("", [], {}) and name not in keep):
            continue
        result[name] = reduced
    return result


def _to_essence(value: Any, field: str = "") -> Any:
    """Drop nulls and empty values unless they have a meaning; convert quantities to amounts."""
    if field in _QUANTITIES:
        return _parse_amount(value)
    if isinstance(value, dict):
        if field in _TEXT_MAPS:
            return value
        if field in _QUANTITY_MAPS:
            return {name: _parse_amount(amount) for name, amount in value.items()}
        kept = {name: _to_essence(item, name) for name, item in value.items()}
        return {
            name: item
            for name, item in kept.items()
            if item is not None and item != [] and (item != {} or name in _EMPTY_OBJECT_COUNTS)
        }
    if isinstance(value, list):
        return [_to_essence(item) for item in value]
    return value


def encode_revision_data(template: Mapping[str, Any]) -> bytes:
    """The `data` of a revision with the same bytes as a Go client writes: the template and `"$patch":"replace"`."""
    patch = {**to_typed_form(template), "$patch": "replace"}
    return encode_go_json({"spec": {"template": patch}}, sort_keys=True).encode()


def hash_revision(data: bytes, collision_count: int) -> RevisionHash:
    """The last part of the name: FNV-1 of the data and the decimal collision count, safely encoded."""
    return RevisionHash(hash_text(hash_fnv32(data + str(collision_count).encode())))


def make_candidate(template: Mapping[str, Any]) -> Candidate:
    """The revision in which a live template would be stored."""
    plain = {field: value for field, value in template.items() if field != "$patch"}
    return Candidate(template=plain, data=encode_revision_data(template), meaning=encode_meaning(template))


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
    """Decode a stored revision from JSON text. A revision with data of another form has an empty template.

    Raises msgspec.DecodeError when the text is not a ControllerRevision.
    """
    stored = _decode(raw)
    meta = stored.metadata
    template = _read_template(stored.data)
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
        meaning=encode_meaning(template),
    )


def _read_template(data: Any) -> Document:
    """The template; for a kind that stores something else (SidecarSet), the stored fields."""
    spec = data.get("spec") if isinstance(data, dict) else None
    if not isinstance(spec, dict):
        return {}
    template = spec.get("template") if "template" in spec else spec
    if not isinstance(template, dict):
        return {}
    return {field: value for field, value in template.items() if field != "$patch"}


def sort_revisions(revisions: Iterable[RevisionView]) -> list[RevisionView]:
    """Sort revisions, oldest first: by number, then creation time, then name."""
    return sorted(
        revisions, key=lambda revision: (revision.number, revision.created_at or 0.0, revision.name)
    )


BodyMaker = Callable[[RevisionName, RevisionHash, int], Document]
"""Name, hash and number → metadata and number of the ControllerRevision to create (without data)."""


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
    """Choose the revision of the live template.

    `revisions` are the owner's, sorted. `others` are further revisions of the namespace by name, which may already have
    the name of a new one. `annotations` are set on an older revision that is wanted again. Of the owner's revisions
    with the same meaning, the one with the highest number is used. If another revision has a higher number, the chosen
    revision gets a new number above all others. If no revision has the same meaning, a new revision is created; if
    another revision has its name, the collision count changes the name.
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
    return _make_revision(
        wanted,
        number=number,
        owner=owner,
        collision_count=collision_count,
        taken={**others, **{revision.name: revision for revision in revisions}},
        body=body,
    )


def _make_revision(
    wanted: Candidate,
    *,
    number: int,
    owner: str,
    collision_count: int,
    taken: Mapping[str, RevisionView],
    body: BodyMaker,
) -> UpdateChoice:
    while True:
        name_hash = hash_revision(wanted.data, collision_count)
        name = format_revision_name(owner, name_hash)
        holder = taken.get(name)
        if holder is None:
            break
        if holder.meaning == wanted.meaning:
            # The revision belongs to a deleted owner with the same name. It has the same meaning, so pods may use it.
            # After garbage collection deletes it, the next plan creates it again with the same name.
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


def build_revision_body(
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
    """A ControllerRevision document without data; `labels` are the template's labels."""
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
    """The revision that the status names as current; the update revision if the current one is no longer stored."""
    return next((revision for revision in revisions if revision.name == name), update)


def to_truncate(
    revisions: Sequence[RevisionView], *, live: Collection[RevisionHash], limit: int
) -> list[RevisionView]:
    """Revisions to delete, oldest first, so that `limit` revisions remain besides the live ones.

    `revisions` are sorted. `live` are the hashes of the current and the update revision and of the pods.
    """
    idle = [revision for revision in revisions if revision.hash not in live and not revision.is_deleting]
    return idle[: max(len(idle) - limit, 0)]
