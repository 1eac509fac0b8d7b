"""Origin of the rejection of a workload's pods: the workload's template, or an object that changes pods at their
creation.

a pod of the template ──dry run──▶ refused fields ──▶ PodOrigins.of_field (pure) ──▶ an object and its field
                      ──▶ PodOrigins.untraced (pure) ──dry run──▶ refused or not
rejected containers and volumes ──▶ PodOrigins.of_part (pure) ──▶ the objects that add them

Kinds that change new pods declare their changes (`KIND.pods.origins`). The dry run sends a pod with the labels,
annotations and spec of the template, without what the manager adds to its pods. It writes nothing. Without permission
to create pods, only the origins of containers and volumes (`PodOrigins.of_part`) are found.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from pykruise.admission.pods.chain import list_pod_kinds
from pykruise.cli.insight.optional_reads import read_optional
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode, deep_copy, get_path, labels_of
from pykruise.kube.errors import ApiError, ForbiddenError, InvalidError
from pykruise.kube.ids import Key
from pykruise.kube.resources import NAMESPACES, PODS
from pykruise.plans.kind import Kind
from pykruise.plans.pod_steps import Labels, PodOrigin, PodOrigins


async def find_refused_origin(client: Client, workload: Document) -> PodOrigin | None:
    """Return the object whose change of new pods the API server rejects, with its field; None if there is no such
    object, or if it is unknown.
    """
    template = get_path(workload, "spec", "template")
    namespace = workload["metadata"].get("namespace", "")
    if not isinstance(template, dict) or not namespace:
        return None
    pod = _build_pod(workload, template)
    try:
        stored = {kind.name: await _list_stored(client, kind, namespace) for kind, _ in _find_origins()}
        refusal = await _try_to_create(client, namespace, pod)
        if refusal is None:
            return await _find_untraced(client, workload, pod, stored)
        if isinstance(refusal, ForbiddenError):
            return None
        labels = await _read_namespace_labels(client, namespace)
        return _find_origin_of_fields([cause.field for cause in refusal.causes], workload, stored, labels)
    except ApiError:
        return None


async def find_refused_additions(
    client: Client, workload: Document, kind: Kind, document: Document, *, fields: Collection[str]
) -> Mapping[PodOrigin, ApiError]:
    """Return the additions of an object of this kind with which the API server rejects new pods of the workload, each
    with the API server's error. `fields`: fields of the object that define the additions to try. Only additions that a
    dry run does not make are tried (`PodOrigins.untraced`), and at most MOST_PARTS of them. The result is empty if the
    API server also rejects the pods without additions.
    """
    origins = kind.pods.origins if kind.pods is not None else None
    template = get_path(workload, "spec", "template")
    if origins is None or origins.untraced is None or not isinstance(template, dict):
        return {}
    namespace, pod = workload["metadata"]["namespace"], _build_pod(workload, template)
    changes = (change for change in origins.untraced(workload, pod, [document]) if change[0].field in fields)
    try:
        if await _try_to_create(client, namespace, pod) is not None:
            return {}
        return {
            origin: error
            async for origin, error in _list_rejected(client, namespace, islice(changes, MOST_PARTS))
        }
    except ApiError:
        return {}


async def find_part_origins(
    client: Client, workload: Document, parts: Sequence[tuple[str, str]]
) -> Mapping[tuple[str, str], PodOrigin]:
    """Return the objects that add some of these containers and volumes to the new pods of a workload, by the kind and
    the name of the part. The result does not contain containers and volumes of the template itself.
    """
    namespace = workload["metadata"].get("namespace", "")
    result: dict[tuple[str, str], PodOrigin] = {}
    try:
        labels = await _read_namespace_labels(client, namespace)
        for kind, origins in _find_origins():
            if origins.of_part is None:
                continue
            stored = await _list_stored(client, kind, namespace)
            for part in parts[:MOST_PARTS]:
                if (origin := origins.of_part(part, workload, stored, labels)) is not None:
                    result[part] = origin
    except ApiError:
        return {}
    return result


MOST_PARTS: Final = 5
"""Maximum number of containers and volumes whose origins are searched, and of additions that are tried."""


async def _read_namespace_labels(client: Client, namespace: str) -> Labels:
    document = await read_optional(client, NAMESPACES, Key("", namespace))
    return None if document is None else labels_of(document)


def _find_origins() -> list[tuple[Kind, PodOrigins]]:
    """Return the kinds that change new pods, with their origins."""
    return [(kind, steps.origins) for kind, steps in list_pod_kinds() if steps.origins is not None]


async def _list_stored(client: Client, kind: Kind, namespace: str) -> Sequence[Document]:
    listed = await client.list(kind.resource, namespace if kind.resource.namespaced else "")
    return [decode(raw) for raw in listed.items]


async def _try_to_create(
    client: Client, namespace: str, pod: Document
) -> InvalidError | ForbiddenError | None:
    """Return the error with which the API server rejects a pod, after webhooks have changed it; None if it accepts the
    pod. The pod is not created. The creation of a pod is forbidden, for example, if its PriorityClass does not exist.
    """
    try:
        await client.create(PODS, namespace, pod, dry_run=True)
    except (InvalidError, ForbiddenError) as error:
        return error
    return None


def _find_origin_of_fields(
    fields: Sequence[str], workload: Document, stored: Mapping[str, Sequence[Document]], labels: Labels
) -> PodOrigin | None:
    origins = (
        origins.of_field(field, workload, stored[kind.name], labels)
        for field in fields
        for kind, origins in _find_origins()
        if origins.of_field is not None
    )
    return next((origin for origin in origins if origin is not None), None)


async def _find_untraced(
    client: Client, workload: Document, pod: Document, stored: Mapping[str, Sequence[Document]]
) -> PodOrigin | None:
    """Return the first origin whose change makes the API server reject the pod. Only changes that a
    dry run does not make are tried (`PodOrigins.untraced`).
    """
    for kind, origins in _find_origins():
        if origins.untraced is None:
            continue
        changes = origins.untraced(workload, pod, stored[kind.name])
        async for origin, _ in _list_rejected(client, workload["metadata"]["namespace"], changes):
            return origin
    return None


async def _list_rejected(
    client: Client, namespace: str, changes: Iterable[tuple[PodOrigin, Document]]
) -> AsyncIterator[tuple[PodOrigin, ApiError]]:
    """Yield the origins whose changed pod the API server rejects, each with its error."""
    for origin, changed in changes:
        error = await _try_to_create(client, namespace, changed)
        if error is not None:
            yield origin, error


def _build_pod(owner: Document, template: Document) -> Document:
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{owner['metadata']['name']}-",
            "labels": dict(meta.get("labels") or {}),
            "annotations": dict(meta.get("annotations") or {}),
        },
        "spec": deep_copy(template.get("spec") or {}),
    }
