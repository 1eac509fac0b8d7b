"""Workloads that are targets of other objects: cached views of workloads, and a reader that uses the API server.

bytes of a workload ──▶ project_target() ──▶ TargetView (TARGET_VIEWS: how workloads are cached)
group, kind, name   ──▶ WorkloadReader   ──▶ the document, or its scale

Pure, except for the readers.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.cache.remembering import Recent, register_limit
from pykruise.kube.client.client import Client
from pykruise.kube.client.discovery import Discovery
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, decode, encode_canonical, get_path
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONFIG_MAPS, DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS, Resource
from pykruise.kube.values.group_kinds import GroupKind, group_of
from pykruise.kube.values.owners import OwnerReference, controller_of
from pykruise.kube.values.selectors import EVERYTHING, Selector, SelectorError, parse_selector
from pykruise.pods.view.keys import TEMPLATE_HASH_LABEL
from pykruise.pods.workload.allowed_workloads import CONFIGURATION, WhiteList, WhiteListError, read_white_list
from pykruise.runtime.read import Mirrors
from pykruise.runtime.views import BY_CONTROLLER, Views

REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"

CLONE_SETS: Final = Resource("apps.kruise.io", "v1beta1", "clonesets", "CloneSet")
STATEFUL_SETS_OF_KRUISE: Final = Resource("apps.kruise.io", "v1beta1", "statefulsets", "StatefulSet")

_OF_OTHERS: Final = (CLONE_SETS, STATEFUL_SETS_OF_KRUISE)
_KUBERNETES: Final = (DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS)

CLONE_SET: Final = GroupKind(CLONE_SETS.group, CLONE_SETS.kind)
DEPLOYMENT: Final = GroupKind("apps", "Deployment")
REPLICA_SET: Final = GroupKind("apps", "ReplicaSet")


class TargetView(msgspec.Struct, frozen=True, kw_only=True):
    """A workload of any kind, with the fields that other kinds need to manage its pods."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    observed_generation: int = 0
    is_deleting: bool = False
    is_paused: bool = False
    replicas: int = 1
    """The value of spec.replicas, or, for a Job, of spec.parallelism."""
    labels: Mapping[str, str] = {}
    controller_uid: str = ""
    controller: tuple[GroupKind, str] | None = None
    """Kind and name of the controller."""
    selector: Selector = EVERYTHING
    template_hash: str = ""
    """Value of the label pod-template-hash of a ReplicaSet."""
    update_revision: str = ""
    revision: str = ""
    """Value of an annotation of a Deployment, which changes when its pod template changes."""
    template_digest: str = ""
    """Digest of spec.template without the label pod-template-hash. So a Deployment and its ReplicaSet have equal
    digests.
    """
    template_labels: Mapping[str, str] = {}
    """Labels of the pods that the workload creates."""

    def is_spread_as(self, other: "TargetView") -> bool:
        """Whether all fields that the kind WorkloadSpread needs are equal."""
        return (
            self.uid == other.uid
            and self.replicas == other.replicas
            and self.is_deleting == other.is_deleting
            and self.revision == other.revision
            and self.update_revision == other.update_revision
            and self.template_digest == other.template_digest
        )


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    replicas: int | None = None
    parallelism: int | None = None
    paused: bool | None = None
    selector: dict[str, Any] | None = None
    template: dict[str, Any] | None = None


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int | None = None
    update_revision: str | None = None


class _Workload(msgspec.Struct):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Workload).decode


def project_target(raw: bytes | msgspec.Raw) -> TargetView:
    """Return the view of a workload. Raises msgspec.DecodeError if the bytes are not a workload."""
    workload = _decode(raw)
    meta, spec, status = workload.metadata, workload.spec or _Spec(), workload.status or _Status()
    wanted = spec.parallelism if spec.parallelism is not None else spec.replicas
    owner = next((reference for reference in meta.owner_references or () if reference.controller), None)
    return TargetView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        generation=meta.generation,
        observed_generation=status.observed_generation or 0,
        is_deleting=meta.deletion_timestamp is not None,
        is_paused=spec.paused or False,
        replicas=1 if wanted is None else wanted,
        labels=meta.labels or {},
        controller_uid=owner.uid if owner is not None else "",
        controller=(GroupKind(group_of(owner.api_version) or "", owner.kind), owner.name)
        if owner is not None
        else None,
        selector=_parse_selector_or_everything(spec.selector),
        template_hash=(meta.labels or {}).get(TEMPLATE_HASH_LABEL, ""),
        update_revision=status.update_revision or "",
        revision=(meta.annotations or {}).get(REVISION_ANNOTATION, ""),
        template_digest=_compute_digest(spec.template) if spec.template else "",
        template_labels=_read_template_labels(spec.template),
    )


def _parse_selector_or_everything(document: Mapping[str, Any] | None) -> Selector:
    try:
        return parse_selector(document) if document is not None else EVERYTHING
    except SelectorError:
        return EVERYTHING


def _read_template_labels(template: Mapping[str, Any] | None) -> Mapping[str, str]:
    metadata = (template or {}).get("metadata") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    return labels


def _compute_digest(template: Document) -> str:
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {
        key: value for key, value in (metadata.get("labels") or {}).items() if key != TEMPLATE_HASH_LABEL
    }
    metadata = {key: value for key, value in metadata.items() if value}
    return hashlib.sha256(encode_canonical({**template, "metadata": metadata})).hexdigest()


def _build_target_views(resource: Resource) -> Views[TargetView]:
    return Views[TargetView](
        resource=resource,
        projector=lambda: project_target,
        indexes={BY_CONTROLLER: lambda target: (target.controller_uid,) if target.controller_uid else ()},
        # The controllers of these resources have their own caches, with other views.
        is_apart=resource in _OF_OTHERS,
    )


TARGET_RESOURCES: Final[Mapping[GroupKind, Resource]] = {
    GroupKind(kubernete.group, kubernete.kind): kubernete for kubernete in (*_KUBERNETES, *_OF_OTHERS)
}
"""Kind → resource of the workloads that have a cache."""

TARGET_VIEWS: Final[Mapping[GroupKind, Views[TargetView]]] = {
    kind: _build_target_views(resource) for kind, resource in TARGET_RESOURCES.items()
}


def deployment_of(namespace: str, replica_set: str, known: Mirrors) -> str:
    """Return the name of the Deployment that controls a ReplicaSet; empty if no Deployment does."""
    target = known.get(TARGET_VIEWS[REPLICA_SET], Key(namespace, replica_set))
    name = deployment_name_of(target) if target is not None else ""
    if target is None or not name or not target.controller_uid:
        return ""
    above = known.get(TARGET_VIEWS[DEPLOYMENT], Key(namespace, name))
    return name if above is not None and above.uid == target.controller_uid else ""


def deployment_name_of(replica_set: TargetView) -> str:
    """Return the name of the Deployment that the ReplicaSet names as its controller; empty if it names none.

    A Deployment can adopt a ReplicaSet whose name does not begin with the Deployment's name.
    """
    kind, name = replica_set.controller or (None, "")
    return name if kind == DEPLOYMENT else ""


class WorkloadReader:
    """Reads workloads of any kind from the API server. It remembers the results of discovery."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client
        self._discovery = Discovery(client)

    async def read(self, kind: GroupKind, namespace: str, name: str, *, version: str = "") -> Document | None:
        """Return the object; None if it does not exist or its kind is not served. Raises KubeError."""
        return await self._fetch(kind, namespace, name, version=version)

    async def read_scale(
        self, kind: GroupKind, namespace: str, name: str, *, version: str = ""
    ) -> Document | None:
        """Return the scale subresource of the object; None if there is none. Raises KubeError."""
        return await self._fetch(kind, namespace, name, version=version, subresource="scale")

    async def _fetch(
        self, kind: GroupKind, namespace: str, name: str, *, version: str, subresource: str = ""
    ) -> Document | None:
        resource = TARGET_RESOURCES.get(kind)
        resource = resource or await self._discovery.find_resource(kind.group, kind.kind, version=version)
        if resource is None:
            return None
        try:
            return decode(await self._client().get(resource, namespace, name, subresource=subresource))
        except NotFoundError:
            return None


class OwnerMissingError(Exception):
    """An owner does not exist or cannot be read yet, so the workload of a pod is unknown."""


_OWNER_S: Final = 60.0
"""Seconds for which the controller of an owner is remembered. It rarely changes."""

_MOST_OWNERS: Final = register_limit("owners of owners", entries=10_000, bytes_each=1_024)


class OwnerReader(WorkloadReader):
    """Reads the controllers of owners, and remembers them for a short time."""

    def __init__(self, client: Callable[[], Client], *, clock: Clock) -> None:
        super().__init__(client)
        self._clock = clock
        self._owners: Recent[str, tuple[float, OwnerReference | None] | None] = Recent(entries=_MOST_OWNERS)

    async def read_controller(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        """Return the controller of an owner; None if the owner has no controller. Raises OwnerMissingError,
        KubeError.
        """
        known = self._owners.get(owner.uid, None)
        now = self._clock()
        if known is not None and now < known[0]:
            return known[1]
        kind = GroupKind(group_of(owner.api_version) or "", owner.kind)
        version = owner.api_version.rpartition("/")[2]
        document = await self.read(kind, namespace, owner.name, version=version)
        if document is None:
            raise OwnerMissingError(f"{owner.kind} {namespace}/{owner.name} does not exist")
        owner_reference = controller_of(document)
        self._owners.put(owner.uid, (now + _OWNER_S, owner_reference))
        return owner_reference


_WHITE_LIST_S: Final = 5.0
"""Seconds for which a white list is remembered."""


class WhiteListReader:
    """Reads one white list from the ConfigMap kruise-configuration, and remembers it for a short time."""

    def __init__(self, client: Callable[[], Client], *, namespace: str, key: str, clock: Clock) -> None:
        """Create the reader. `namespace`: the manager's own namespace. `key`: key in the data of the ConfigMap."""
        self._client = client
        self._namespace = namespace
        self._key = key
        self._clock = clock
        self._found: tuple[float, WhiteList | WhiteListError] | None = None

    async def read(self) -> WhiteList:
        """Return the white list of further kinds; it is empty if there is no list. Raises WhiteListError, KubeError."""
        now = self._clock()
        if self._found is None or now >= self._found[0]:
            text = await read_configuration(self._client(), self._namespace, self._key)
            try:
                self._found = (now + _WHITE_LIST_S, read_white_list(text))
            except WhiteListError as error:
                self._found = (now + _WHITE_LIST_S, error)
        result = self._found[1]
        if isinstance(result, WhiteListError):
            raise result
        return result


async def read_configuration(client: Client, namespace: str, key: str) -> str | None:
    """Return the value of a key in the ConfigMap kruise-configuration; None if it does not exist. Raises KubeError."""
    try:
        result = decode(await client.get(CONFIG_MAPS, namespace, CONFIGURATION))
    except NotFoundError:
        return None
    text = get_path(result, "data", key)
    return text if isinstance(text, str) else None
