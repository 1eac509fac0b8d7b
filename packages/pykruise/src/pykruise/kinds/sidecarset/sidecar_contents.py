"""Parts that a SidecarSet adds to pods, read once from its spec or from a stored revision.

five fields of a spec ──▶ contents_of() ──▶ SidecarSetContents (sidecars, volumes, secrets, annotations, hashes)

Pure. All pods share these containers; sidecars are built from copies.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.sidecarset.hashes import Hashes, hashes_of, is_native
from pykruise.kinds.sidecarset.types import PatchPodMetadata, SidecarFields
from pykruise.kube.documents import Document
from pykruise.kube.schemas.typed_documents import drop_nulls

BEFORE: Final = "BeforeAppContainer"
AFTER: Final = "AfterAppContainer"
HOT: Final = "HotUpgrade"
COLD: Final = "ColdUpgrade"

RESTORED_FIELDS: Final = ("containers", "imagePullSecrets", "initContainers", "patchPodMetadata", "volumes")
"""Fields of a spec that a revision stores."""

_OWN_FIELDS: Final = frozenset(
    {
        "podInjectPolicy",
        "resourcesPolicy",
        "shareVolumeDevicePolicy",
        "shareVolumePolicy",
        "transferEnv",
        "upgradeStrategy",
    }
)


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """A container of a SidecarSet."""

    name: str
    container: Document
    """The plain container without the SidecarSet's own fields."""
    fields: SidecarFields
    is_init: bool = False
    is_native: bool = False

    @property
    def image(self) -> str:
        """Desired image."""
        return str(self.container.get("image") or "")

    @property
    def is_hot(self) -> bool:
        """Whether the sidecar has two containers, one of which works while the other one is idle. An init container can
        be hot only if it is a native sidecar.
        """
        strategy = self.fields.upgrade_strategy
        return strategy is not None and strategy.upgrade_type == HOT and (self.is_native or not self.is_init)

    @property
    def empty_image(self) -> str:
        """Image that the idle container runs."""
        strategy = self.fields.upgrade_strategy
        return strategy.hot_upgrade_empty_image if strategy else ""

    @property
    def goes_before(self) -> bool:
        """Whether the sidecar is placed before the pod's own containers."""
        policy = self.fields.pod_inject_policy or (AFTER if self.is_init else BEFORE)
        return policy == BEFORE


class SidecarSetContents(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is injected into a pod."""

    init_containers: tuple[Sidecar, ...] = ()
    containers: tuple[Sidecar, ...] = ()
    volumes: Mapping[str, Document] = {}
    """Volumes by name."""
    image_pull_secrets: tuple[Document, ...] = ()
    patch_pod_metadata: tuple[PatchPodMetadata, ...] = ()
    hashes: Hashes = Hashes()
    revision: str = ""
    """Name of the ControllerRevision; empty: no revision is stored yet."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all containers and native sidecars, sorted. Pods record these names."""
        native = [container.name for container in self.init_containers if container.is_native]
        return tuple(sorted({*(container.name for container in self.containers), *native}))


def name_hot_pair(name: str) -> tuple[str, str]:
    """Names of the two containers of a hot sidecar."""
    return f"{name}-1", f"{name}-2"


def list_sidecar_names(sidecars: Sequence[Sidecar]) -> list[str]:
    """Names of the sidecars' containers in a pod."""
    return [
        name
        for sidecar in sidecars
        for name in (name_hot_pair(sidecar.name) if sidecar.is_hot else (sidecar.name,))
    ]


def contents_of(
    spec: Mapping[str, Any], *, hashes: Hashes | None = None, revision: str = ""
) -> tuple[SidecarSetContents | None, str]:
    """Read the contents of a spec or revision, or return None and `<path>: <what is wrong>`."""
    try:
        init = tuple(
            _parse_sidecar(container, f"spec.initContainers[{number}]", is_init=True)
            for number, container in enumerate(spec.get("initContainers") or ())
        )
        containers = tuple(
            _parse_sidecar(container, f"spec.containers[{number}]", is_init=False)
            for number, container in enumerate(spec.get("containers") or ())
        )
        patches = _convert(
            spec.get("patchPodMetadata") or [], tuple[PatchPodMetadata, ...], "spec.patchPodMetadata"
        )
        volumes = _convert(spec.get("volumes") or [], list[dict[str, Any]], "spec.volumes")
        secrets = _convert(
            spec.get("imagePullSecrets") or [], tuple[dict[str, Any], ...], "spec.imagePullSecrets"
        )
        given = hashes if hashes is not None else hashes_of(spec)
    except (_UnreadableError, AttributeError, TypeError) as error:
        return None, str(error)
    contents = SidecarSetContents(
        init_containers=init,
        containers=containers,
        volumes={str(volume.get("name")): volume for volume in volumes},
        image_pull_secrets=secrets,
        patch_pod_metadata=patches,
        hashes=given,
        revision=revision,
    )
    return contents, ""


class _UnreadableError(ValueError):
    pass


def _convert(value: Any, kind: Any, path: str) -> Any:
    try:
        return msgspec.convert(drop_nulls(value), kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise _UnreadableError(f"{path}{where.rstrip('`')}: {what}") from error


def _parse_sidecar(value: Any, path: str, *, is_init: bool) -> Sidecar:
    if not isinstance(value, Mapping) or not isinstance(value.get("name") or "", str):
        raise _UnreadableError(f"{path}: is not a container")
    for field in ("env", "volumeMounts", "volumeDevices", "ports"):
        entries = value.get(field) or []
        if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
            raise _UnreadableError(f"{path}.{field}: is not a list of objects")
    return Sidecar(
        name=value.get("name") or "",
        container={field: item for field, item in value.items() if field not in _OWN_FIELDS},
        fields=_convert({f: value[f] for f in _OWN_FIELDS if f in value}, SidecarFields, path),
        is_init=is_init,
        is_native=is_init and is_native(value),
    )
