"""ConfigMaps and Secrets that a pod template names, and the template that records their content.

template ──▶ find_follow_errors() ──▶ field errors of the option roll-on-config
template ──▶ list_config_uses() ──▶ ConfigUse: object, and the containers that read it only when they start
ConfigUses + digests ──▶ make_annotations() ──▶ record_content() ──▶ the template with annotations of the content

Pure. The template with the annotations is stored as a revision, so a changed content is a changed revision, and every
rule about revisions applies to it. The annotations contain digests only. The digest of a Secret is keyed with its UID,
so the digest cannot be used to check a guessed content.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from pykruise.kube.documents import Document, encode_canonical
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.resources import CONFIG_MAPS, SECRETS
from pykruise.pods.view.containers import env_sources_of
from pykruise.pods.view.secrets import read_contents
from pykruise.pods.workload.options import ALL_OBJECTS, ROLL_ON_CONFIG

CONTENT_ANNOTATION: Final = "pykruise.io/config-content"
"""Annotation with the digest of the objects that regular containers mount as volumes."""

START_ANNOTATION: Final = "pykruise.io/config-at-start"
"""Annotation with the digest of the objects that containers read only when they start, a space, and the names of these
containers.
"""

CONTENT_ANNOTATIONS: Final = (CONTENT_ANNOTATION, START_ANNOTATION)

MOST_OBJECTS: Final = 64
"""Maximum number of ConfigMaps and Secrets whose content one workload follows."""

_ABSENT: Final = "-"


class ConfigUse(msgspec.Struct, frozen=True, order=True):
    """A ConfigMap or Secret that a template names."""

    kind: str
    name: str
    is_optional: bool = False
    """Whether pods start without the object."""
    is_mounted: bool = False
    """Whether a running container gets new content, because the object is a volume that is mounted without subPath."""
    at_start: tuple[str, ...] = ()
    """Containers that read the object only when they start: env, envFrom, subPath, or an init container."""


class ConfigReference(NamedTuple):
    """A volume's or a variable's reference to a ConfigMap or Secret."""

    kind: str
    name: str
    is_optional: bool
    """Whether pods start without the object."""
    keys: tuple[str, ...]
    """Keys that the reference names."""


_FIELDS: Final = ((SECRETS.kind, "secret"), (CONFIG_MAPS.kind, "configMap"))
"""Kinds, each with the prefix of the names of its fields."""


def list_config_uses(template: Mapping[str, Any]) -> Sequence[ConfigUse]:
    """Return the ConfigMaps and Secrets that volumes and environments of the template name, sorted.

    Pull secrets are not among them: no container reads them. A part of a wrong type is ignored.
    """
    spec = _read_object(template, "spec")
    uses: dict[tuple[str, str], list[ConfigUse]] = {}
    for use in (*_list_volume_uses(spec), *_list_environment_uses(spec)):
        uses.setdefault((use.kind, use.name), []).append(use)
    return sorted(_merge_uses(same) for same in uses.values())


def _merge_uses(uses: Sequence[ConfigUse]) -> ConfigUse:
    return ConfigUse(
        kind=uses[0].kind,
        name=uses[0].name,
        is_optional=all(use.is_optional for use in uses),
        is_mounted=any(use.is_mounted for use in uses),
        at_start=tuple(sorted({name for use in uses for name in use.at_start})),
    )


def _list_volume_uses(spec: Mapping[str, Any]) -> Iterator[ConfigUse]:
    readers = _find_volume_readers(spec)
    for volume in _read_objects(spec, "volumes"):
        mounted, at_start = readers.get(str(volume.get("name")), (False, frozenset()))
        for reference in list_volume_references(volume):
            yield ConfigUse(
                reference.kind, reference.name, reference.is_optional, mounted, tuple(sorted(at_start))
            )


def list_volume_references(volume: Mapping[str, Any]) -> Iterator[ConfigReference]:
    """Yield the objects in a volume, with the keys of its items."""
    projected = _read_object(volume, "projected")
    for source in (volume, *_read_objects(projected, "sources")):
        for kind, field in _FIELDS:
            reference = _read_object(source, field)
            name = reference.get("secretName") or reference.get("name")
            keys = tuple(str(item.get("key")) for item in _read_objects(reference, "items"))
            if isinstance(name, str) and name:
                yield ConfigReference(kind, name, reference.get("optional") is True, keys)


def _find_volume_readers(spec: Mapping[str, Any]) -> dict[str, tuple[bool, frozenset[str]]]:
    """Return for each mounted volume whether a container gets new content while it runs, and the containers that read
    it only when they start.
    """
    readers: dict[str, tuple[bool, frozenset[str]]] = {}
    for container, runs_on in _list_containers(spec):
        for mount in _read_objects(container, "volumeMounts"):
            is_fixed = bool(mount.get("subPath") or mount.get("subPathExpr")) or not runs_on
            volume = str(mount.get("name"))
            is_mounted, at_start = readers.get(volume, (False, frozenset()))
            names = {str(container.get("name"))} if is_fixed else set()
            readers[volume] = (is_mounted or not is_fixed, at_start | names)
    return readers


def _list_environment_uses(spec: Mapping[str, Any]) -> Iterator[ConfigUse]:
    for container, _ in _list_containers(spec):
        at_start = (str(container.get("name")),)
        for reference in list_environment_references(container):
            yield ConfigUse(reference.kind, reference.name, reference.is_optional, False, at_start)


def list_environment_references(container: Mapping[str, Any]) -> Iterator[ConfigReference]:
    """Yield the objects that variables of a container read, with the key of the variable. `envFrom` has no key."""
    references = [
        *((_read_object(entry, "valueFrom"), "KeyRef") for entry in _read_objects(container, "env")),
        *((entry, "Ref") for entry in _read_objects(container, "envFrom")),
    ]
    for source, suffix in references:
        for kind, field in _FIELDS:
            reference = _read_object(source, f"{field}{suffix}")
            name, keys = reference.get("name"), (str(reference["key"]),) if "key" in reference else ()
            if isinstance(name, str) and name:
                yield ConfigReference(kind, name, reference.get("optional") is True, keys)


def _list_containers(spec: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Containers, and whether each runs as long as the pod: regular containers and native sidecars."""
    for container in _read_objects(spec, "initContainers"):
        yield container, container.get("restartPolicy") == "Always"
    for container in _read_objects(spec, "containers"):
        yield container, True


def _read_object(document: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = document.get(field)
    return value if isinstance(value, Mapping) else {}


def _read_objects(document: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    value = document.get(field)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


# Digests


def digest_content(kind: str, document: Mapping[str, Any]) -> str:
    """Digest of the keys and values of a ConfigMap or Secret; the digest of a Secret is keyed with its UID."""
    contents = read_contents(kind, document)
    values: Document = {name: contents[name] for name in ("data", "binaryData") if name in contents}
    key = str(document["metadata"].get("uid", "")).encode()[:64] if kind == SECRETS.kind else b""
    return blake2b(encode_canonical(values), key=key, digest_size=16).hexdigest()


def _join_digests(uses: Iterable[ConfigUse], digests: Mapping[tuple[str, str], str]) -> str:
    lines = [f"{use.kind}/{use.name} {digests.get((use.kind, use.name), _ABSENT)}" for use in uses]
    return blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


def make_annotations(uses: Sequence[ConfigUse], digests: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Return the annotations for these objects. `digests`: by kind and name; an object without one does not exist."""
    mounted = [use for use in uses if use.is_mounted]
    started = [use for use in uses if use.at_start]
    containers = sorted({name for use in started for name in use.at_start})
    annotations: dict[str, str] = {}
    if mounted:
        annotations[CONTENT_ANNOTATION] = _join_digests(mounted, digests)
    if started:
        annotations[START_ANNOTATION] = f"{_join_digests(started, digests)} {','.join(containers)}"
    return annotations


def record_content(template: Mapping[str, Any], annotations: Mapping[str, str]) -> Document:
    """Return the template with these annotations of the content. Other annotations of the content are removed."""
    metadata = dict(template.get("metadata") or {})
    kept = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key not in CONTENT_ANNOTATIONS
    }
    return {**template, "metadata": {**metadata, "annotations": {**kept, **annotations}}}


def read_recorded(template: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations of the content that a template has."""
    given = _read_object(_read_object(template, "metadata"), "annotations")
    return {key: given[key] for key in CONTENT_ANNOTATIONS if key in given}


def find_unrestartable(template: Mapping[str, Any], *, restarts: bool) -> Sequence[str]:
    """Return the containers that read content only when they start, and that do not restart in place when it changes,
    because none of their variables reads the annotation. `restarts`: whether a changed variable restarts its container.
    """
    text = read_recorded(template).get(START_ANNOTATION, "")
    names: Collection[str] = text.partition(" ")[2].split(",")
    restarting = {
        container.get("name")
        for container in _read_objects(_read_object(template, "spec"), "containers")
        if restarts
        and any(
            (source.field, source.key) == ("annotations", START_ANNOTATION)
            for source in env_sources_of(container)
        )
    }
    return [name for name in names if name and name not in restarting]


def find_follow_errors(
    metadata: Mapping[str, Any], template: Any, *, path: str = "metadata"
) -> Iterator[Cause]:
    """Yield an error when the option ROLL_ON_CONFIG names an object that the template does not name, or too many
    objects. `path`: path of the metadata with the option.
    """
    try:
        wanted = ROLL_ON_CONFIG.read(metadata.get("annotations") or {})
    except (AttributeError, TypeError, ValueError):
        return  # find_option_errors() reports it
    if wanted is None or not isinstance(template, Mapping):
        return
    field, uses = ROLL_ON_CONFIG.field_in(path), list_config_uses(template)
    text = metadata["annotations"][ROLL_ON_CONFIG.annotation]
    unknown = sorted(wanted - {ALL_OBJECTS, *(use.name for use in uses)})
    if unknown:
        problem = f"the template names no ConfigMap or Secret {unknown[0]}"
        yield make_invalid_error(field, text, problem)
    if len(select_uses(uses, wanted)) > MOST_OBJECTS:
        yield make_invalid_error(field, text, f"selects more than {MOST_OBJECTS} ConfigMaps and Secrets")


def select_uses(uses: Iterable[ConfigUse], wanted: Collection[str]) -> Sequence[ConfigUse]:
    """Return the objects that the option ROLL_ON_CONFIG selects and whose content containers read."""
    return [
        use
        for use in uses
        if (ALL_OBJECTS in wanted or use.name in wanted) and (use.is_mounted or use.at_start)
    ]
