"""ConfigMaps and Secrets that a pod needs, with their keys, and the commands that create or complete them.

a pod ──▶ list_environment_needs(), list_volume_needs(), list_pull_needs() ──▶ ConfigNeed ──▶ format_creations()

Pure. Optional references are left out: the pod starts without the object.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.resources import CONFIG_MAPS, SECRETS
from pykruise.pods.corrections import create_pull_secret
from pykruise.pods.template.config_content import list_environment_references, list_volume_references

_ROOT_CA: Final = "kube-root-ca.crt"
"""ConfigMap that every namespace gets."""


class ConfigNeed(msgspec.Struct, frozen=True, kw_only=True):
    """A ConfigMap or Secret that a pod needs."""

    kind: str
    name: str
    literals: tuple[str, ...] = ()
    """Keys that variables of containers read."""
    files: tuple[str, ...] = ()
    """Keys that volumes contain."""
    is_mounted: bool = False
    """Whether a volume contains the object."""
    is_pull_secret: bool = False
    """Whether images are pulled with it."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that the object must have."""
        return tuple(dict.fromkeys((*self.literals, *self.files)))


def list_environment_needs(pod: Document, container: str = "") -> Sequence[ConfigNeed]:
    """Return the objects without which containers of the pod cannot be created: those of their environments.
    `container`: the only container to read; empty for all containers.
    """
    return _merge(_list_environment(pod["spec"], container))


def list_volume_needs(pod: Document) -> Sequence[ConfigNeed]:
    """Return the objects without which no container of the pod is created: those of its volumes. If a variable reads
    the same object, its key is included.
    """
    spec = pod["spec"]
    needs = _merge([*_list_volumes(spec), *_list_environment(spec)])
    return [need for need in needs if need.is_mounted]


def list_pull_needs(pod: Document) -> Sequence[ConfigNeed]:
    """Return the Secrets with which images of the pod are pulled."""
    names = (str(entry.get("name")) for entry in pod["spec"].get("imagePullSecrets") or ())
    return [ConfigNeed(kind=SECRETS.kind, name=name, is_pull_secret=True) for name in dict.fromkeys(names)]


def _merge(needs: Iterable[ConfigNeed]) -> Sequence[ConfigNeed]:
    """Return one need for each object."""
    merged: dict[tuple[str, str], ConfigNeed] = {}
    for need in needs:
        before = merged.get((need.kind, need.name), need)
        merged[need.kind, need.name] = msgspec.structs.replace(
            before,
            literals=tuple(dict.fromkeys((*before.literals, *need.literals))),
            files=tuple(dict.fromkeys((*before.files, *need.files))),
            is_mounted=before.is_mounted or need.is_mounted,
        )
    return list(merged.values())


def _list_environment(spec: Mapping[str, Any], only: str = "") -> Iterator[ConfigNeed]:
    lists = (spec.get(field) or () for field in ("initContainers", "containers", "ephemeralContainers"))
    for container in (container for listed in lists for container in listed):
        if only not in ("", container["name"]):
            continue
        for reference in list_environment_references(container):
            if not reference.is_optional:
                yield ConfigNeed(kind=reference.kind, name=reference.name, literals=reference.keys)


def _list_volumes(spec: Mapping[str, Any]) -> Iterator[ConfigNeed]:
    for volume in spec.get("volumes") or ():
        for reference in list_volume_references(volume):
            if reference.name != _ROOT_CA and not reference.is_optional:
                yield ConfigNeed(
                    kind=reference.kind, name=reference.name, files=reference.keys, is_mounted=True
                )


def format_creations(needs: Iterable[ConfigNeed], namespace: str) -> str:
    """Return the instruction with one command for each of these objects, which do not exist."""
    created = (f"{need.kind} {need.name} ({_format_creation(need, namespace)})" for need in needs)
    return f"create {' and '.join(created)}"


def _format_creation(need: ConfigNeed, namespace: str) -> str:
    if need.is_pull_secret:
        return create_pull_secret(namespace, need.name)
    noun = "configmap" if need.kind == CONFIG_MAPS.kind else "secret generic"
    options = [
        *(f"--from-file={key}=FILE" for key in need.files),
        *(f"--from-literal={key}=VALUE" for key in need.literals if key not in need.files),
    ]
    if need.is_mounted and not need.files:
        options.insert(0, "--from-file=FILE")
    # kubectl does not accept this option together with other options
    contents = " ".join(options) or "--from-env-file=FILE"
    return f"kubectl create {noun} -n {namespace} {need.name} {contents}"


def format_completions(needs: Iterable[ConfigNeed], namespace: str) -> str:
    """Return the instruction with one command for each of these objects, which exist without `keys`."""
    added = (
        f"key {' and '.join(need.keys)} to {need.kind} {need.name} ({_format_completion(need, namespace)})"
        for need in needs
    )
    return f"add {' and '.join(added)}"


def _format_completion(need: ConfigNeed, namespace: str) -> str:
    field = "data" if need.kind == CONFIG_MAPS.kind else "stringData"
    values = ",".join(f'"{key}":"VALUE"' for key in need.keys)
    patch = f'{{"{field}":{{{values}}}}}'
    return f"kubectl patch {need.kind.lower()} -n {namespace} {need.name} --type=merge -p '{patch}'"
