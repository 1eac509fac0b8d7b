"""Objects that a pod references by name and cannot start without: ConfigMaps and Secrets.

containers: env valueFrom, envFrom ──▶ Reference ─┐
volumes: configMap, secret, projected ──▶ Reference ─┴▶ lack_of(reference, object) ──▶ the message

Pure. Same rules as the kubelet's environment (makeEnvironmentVariables) and volume plugins. Nothing waits for a
reference that is `optional`. A volume never waits for the ConfigMap kube-root-ca.crt, which Kubernetes publishes in
every namespace and the sandbox does not.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

CONFIG_MAP: Final = "configmap"
SECRET: Final = "secret"
_PUBLISHED: Final = "kube-root-ca.crt"


class Reference(msgspec.Struct, frozen=True, gc=False):
    """An object of the pod's namespace, and its required keys."""

    kind: str
    """`configmap` or `secret`, as in kubelets' messages."""
    name: str
    keys: tuple[str, ...] = ()


class _Key(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    key: str = ""
    optional: bool | None = None


class ValueSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`valueFrom` of a variable."""

    config_map_key_ref: _Key | None = None
    secret_key_ref: _Key | None = None


class Environment(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An entry of `env`."""

    value_from: ValueSource | None = None

    def list_references(self) -> Iterator[Reference]:
        """Yield the objects that the value comes from."""
        value_source = self.value_from
        if value_source is not None:
            yield from _list_key_references(CONFIG_MAP, value_source.config_map_key_ref)
            yield from _list_key_references(SECRET, value_source.secret_key_ref)


class _Whole(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    optional: bool | None = None


class EnvironmentSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An entry of `envFrom`."""

    config_map_ref: _Whole | None = None
    secret_ref: _Whole | None = None

    def list_references(self) -> Iterator[Reference]:
        """Yield the objects that the variables come from."""
        for kind, whole in ((CONFIG_MAP, self.config_map_ref), (SECRET, self.secret_ref)):
            if whole is not None and not whole.optional:
                yield Reference(kind, whole.name)


class _Item(msgspec.Struct, frozen=True, gc=False):
    key: str = ""


class _Source(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    secret_name: str = ""
    optional: bool | None = None
    items: tuple[_Item, ...] | None = None


class ProjectedSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A source of a projected volume."""

    config_map: _Source | None = None
    secret: _Source | None = None


class _ProjectedVolume(msgspec.Struct, frozen=True, gc=False):
    sources: tuple[ProjectedSource, ...] | None = None


class VolumeSources(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Objects that an entry of `volumes` reads."""

    name: str = ""
    config_map: _Source | None = None
    secret: _Source | None = None
    projected: _ProjectedVolume | None = None

    def list_references(self) -> Iterator[Reference]:
        """Yield the objects that must exist before the volume can be mounted."""
        yield from _list_source_references(CONFIG_MAP, self.config_map)
        yield from _list_source_references(SECRET, self.secret)
        for source in (self.projected.sources if self.projected else None) or ():
            yield from _list_source_references(CONFIG_MAP, source.config_map)
            yield from _list_source_references(SECRET, source.secret)


def _list_key_references(kind: str, key: _Key | None) -> Iterator[Reference]:
    if key is not None and not key.optional:
        yield Reference(kind, key.name, (key.key,))


def _list_source_references(kind: str, source: _Source | None) -> Iterator[Reference]:
    if source is None or source.optional:
        return
    name = source.secret_name or source.name
    if (kind, name) != (CONFIG_MAP, _PUBLISHED):
        yield Reference(kind, name, tuple(item.key for item in source.items or ()))


def references_of(parts: Iterable[Any]) -> tuple[Reference, ...]:
    """The references of all parts, in their order."""
    return tuple(reference for part in parts for reference in part.list_references())


def lack_of(reference: Reference, value: Mapping[str, Any] | None, *, namespace: str) -> str:
    """The missing part, in the kubelet's words for environment variables; empty when nothing is missing. `value`: the
    stored object; None if it is missing.
    """
    if value is None:
        return f'{reference.kind} "{reference.name}" not found'
    keys = {*(value.get("data") or ()), *(value.get("binaryData") or ())}
    for key in reference.keys:
        if key not in keys:
            kind = "ConfigMap" if reference.kind == CONFIG_MAP else "Secret"
            return f"couldn't find key {key} in {kind} {namespace}/{reference.name}"
    return ""
