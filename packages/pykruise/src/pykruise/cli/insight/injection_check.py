"""Whose fault it is that pods of a workload are refused: its own template's, or of what is put into them on their way.

a pod of the template ──dry run──▶ refused fields ──▶ PodOrigins.of_field (pure) ──▶ an object and its field
                      ──▶ PodOrigins.untraced (pure) ──dry run──▶ refused or not

The kinds that put something into pods say what is theirs (`KIND.pods.origins`). The dry run asks the API server as the
manager's write does; it writes nothing, and who may not create pods learns nothing from it.
"""

from collections.abc import Mapping, Sequence

from pykruise.admission.pods.chain import pod_kinds
from pykruise.cli.insight.cluster_reading import Sight
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode, deep_copy, get_path
from pykruise.kube.errors import ApiError, InvalidError
from pykruise.kube.resources import PODS
from pykruise.plans.kind import Kind
from pykruise.plans.pod_steps import PodOrigin, PodOrigins


async def refused_origin(client: Client, sight: Sight) -> PodOrigin | None:
    """Admission plugin or webhook that adds to new pods what the API server refuses; None: none, or unknown."""
    template = get_path(sight.document, "spec", "template")
    namespace = sight.document["metadata"].get("namespace", "")
    if not isinstance(template, dict) or not namespace:
        return None
    pod = _pod_of(sight.document, template)
    try:
        stored = {kind.name: await _stored(client, kind, namespace) for kind, _ in _origins()}
        if fields := await _refused_fields(client, namespace, pod):
            return _of_fields(fields, sight.document, stored)
        return await _of_untraced(client, sight.document, pod, stored)
    except ApiError:
        return None


def _origins() -> list[tuple[Kind, PodOrigins]]:
    """The kinds that put something into pods, and how to know what."""
    return [(kind, steps.origins) for kind, steps in pod_kinds() if steps.origins is not None]


async def _stored(client: Client, kind: Kind, namespace: str) -> Sequence[Document]:
    listed = await client.list(kind.resource, namespace if kind.resource.namespaced else "")
    return [decode(raw) for raw in listed.items]


async def _refused_fields(client: Client, namespace: str, pod: Document) -> list[str]:
    """Paths of a pod that the API server refuses, with what webhooks put into it."""
    try:
        await client.create(PODS, namespace, pod, dry_run=True)
    except InvalidError as error:
        return [cause.field for cause in error.causes]
    return []


def _of_fields(
    fields: Sequence[str], workload: Document, stored: Mapping[str, Sequence[Document]]
) -> PodOrigin | None:
    origins = (
        origins.of_field(field, workload, stored[kind.name])
        for field in fields
        for kind, origins in _origins()
        if origins.of_field is not None
    )
    return next((origin for origin in origins if origin is not None), None)


async def _of_untraced(
    client: Client, workload: Document, pod: Document, stored: Mapping[str, Sequence[Document]]
) -> PodOrigin | None:
    """The first of what dry runs leave out with which the pod is refused."""
    for kind, origins in _origins():
        if origins.untraced is None:
            continue
        for origin, changed in origins.untraced(workload, pod, stored[kind.name]):
            if await _refused_fields(client, workload["metadata"]["namespace"], changed):
                return origin
    return None


def _pod_of(owner: Document, template: Document) -> Document:
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
