"""Secrets and ConfigMaps that a pod's volumes need before its containers can be created.

spec.volumes ──▶ mounts_of() ──▶ `ConfigMap a`, `Secret b`

Pure. A pod whose volumes cannot be mounted does not report the reason: it is Pending, and its containers wait with
ContainerCreating, as if its node pulled a large image. Only nodes of recent versions of Kubernetes distinguish the two
cases, by the condition PodReadyToStartContainers. Managers have no permission to read Secrets, so messages list
everything the pod needs instead of what is missing.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from pykruise.kube.clock import Instant

SCHEDULED_IN_S: Final = 60.0
"""Maximum seconds that a running scheduler needs to examine a pod."""

ENDED_IN_S: Final = 60.0
"""Maximum seconds that a live node needs to terminate a pod after the pod's grace period."""


CREATED_IN_S: Final = 60.0
"""Seconds after which the obstacle of a pod without created containers lists what its volumes need."""
NOT_CREATED: Final = frozenset({"ContainerCreating", "PodInitializing"})
"""Waiting reasons of containers until the pod's volumes are mounted."""
MOST_NAMED: Final = 8


class CreatingView(msgspec.Struct, frozen=True, gc=False):
    """A pod with a node but without created containers."""

    since: Instant
    """Time at which the pod got its node."""
    mounts: tuple[str, ...]
    """Secrets and ConfigMaps that its volumes need; empty only if the pod `is_unseen`."""
    is_unseen: bool = False
    """Whether the kubelet has not reported any container of the pod, not even as waiting."""


class _Secret(msgspec.Struct, gc=False, rename="camel"):
    secret_name: str = ""
    optional: bool | None = None


class _Named(msgspec.Struct, gc=False):
    name: str = ""
    optional: bool | None = None


class _Source(msgspec.Struct, gc=False, rename="camel"):
    secret: _Named | None = None
    config_map: _Named | None = None


class _Projected(msgspec.Struct, gc=False):
    sources: tuple[_Source, ...] | None = None


class _Volume(msgspec.Struct, gc=False, rename="camel"):
    secret: _Secret | None = None
    config_map: _Named | None = None
    projected: _Projected | None = None


_decode = msgspec.json.Decoder(tuple[_Volume, ...] | None).decode


def mounts_of(volumes: msgspec.Raw) -> tuple[str, ...]:
    """First few names in the order of the spec, without the ConfigMap that every pod has."""
    if not bytes(volumes):
        return ()
    try:
        known = _decode(volumes) or ()
    except msgspec.ValidationError:
        return ()
    needed = dict.fromkeys(need for volume in known for need in _find_needed(volume))
    return tuple(f"{kind} {name}" for kind, name in needed)[:MOST_NAMED]


def _find_needed(volume: _Volume) -> Iterator[tuple[str, str]]:
    if volume.secret is not None and not volume.secret.optional and volume.secret.secret_name:
        yield "Secret", volume.secret.secret_name
    if (named := volume.config_map) is not None and not named.optional and named.name:
        yield "ConfigMap", named.name
    for source in (volume.projected.sources or ()) if volume.projected is not None else ():
        if (secret := source.secret) is not None and not secret.optional and secret.name:
            yield "Secret", secret.name
        named = source.config_map
        if named is not None and not named.optional and named.name not in ("", "kube-root-ca.crt"):
            yield "ConfigMap", named.name
