"""Changes that a running pod accepts, found by comparing the templates of two revisions.

old + target revision ──▶ find_difference() ──▶ UpdateSpec, or NotInPlace with the reason
old + new template    ──▶ diff_specs() ──▶ operations that change the spec of the first into that of the second

Pure. Templates are compared by meaning: a default that only one of them contains, a null, or another notation of a
quantity is not a difference. Changes that are possible in place: images of regular containers and of native sidecars
(init containers that keep running), labels, annotations and finalizers, and (behind a feature gate) cpu and memory
quantities that keep the quality of service class.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
import orjson

from pykruise.kube.documents import Document, get_path, is_same
from pykruise.kube.patches import diff_json
from pykruise.kube.patches.json_patch import Operation
from pykruise.kube.pod_rules.pod_resources import fill_pod_resources
from pykruise.pods.in_place.pod import InPlaceSettings
from pykruise.pods.in_place.resources import BOUNDS, RESIZABLE, compute_effective_resources, qos_of
from pykruise.pods.in_place.update_spec import (
    DELETE_FINALIZERS,
    FINALIZERS,
    MAPS,
    WHOLE_POD,
    RefMetadata,
    UpdateSpec,
)
from pykruise.pods.template.config_content import START_ANNOTATION, find_unrestartable, read_recorded
from pykruise.pods.template.defaults import add_defaults, pull_policy_of_image
from pykruise.pods.template.metadata import read_pod_metadata
from pykruise.pods.view import keys
from pykruise.pods.view.containers import env_sources_of
from pykruise.pods.workload.revisions import encode_meaning


class NotInPlace(msgspec.Struct, frozen=True):
    """The pod must be recreated, and the reason."""

    reason: str


class Template(Protocol):
    """A stored revision."""

    @property
    def template(self) -> Document:
        """The pod template."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations of the revision itself."""


Path = tuple[str | int, ...]


class _Change(msgspec.Struct, frozen=True):
    path: Path
    kind: Literal["added", "removed", "changed"]


def find_difference(
    old: Template | None,
    target: Template | None,
    *,
    revision: str,
    settings: InPlaceSettings,
    grace_seconds: int = 0,
    ignore_claims: bool = False,
) -> UpdateSpec | NotInPlace:
    """Difference that brings a pod of `old` to `target`. It is the same for all pods of `old`.

    `revision` identifies the target on pods (a name; for a DaemonSet a hash). `old=None`: the pod's revision is no
    longer stored. `ignore_claims`: the kind never recreates pods (InPlaceOnly), so changed volume claim templates are
    ignored.
    """
    if old is None or target is None:
        return NotInPlace("the revision that the pod was created from is unknown")
    if settings.compare_claims and not ignore_claims and _has_other_claims(old, target):
        return NotInPlace("the volumeClaimTemplates changed too")
    try:
        return _compare_templates(
            old.template,
            target.template,
            UpdateSpec(revision=revision, grace_seconds=max(grace_seconds, 0)),
            settings,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Any client may have written the revision. Data that are not a pod template are not compared.
        return NotInPlace(f"the template of a revision cannot be read: {error}")


def _has_other_claims(old: Template, target: Template) -> bool:
    """Whether the claim templates differ. False when a revision has no hash, because pods that an older manager created
    must not be recreated.
    """
    before = old.annotations.get(keys.CLAIM_TEMPLATES_HASH_ANNOTATION)
    after = target.annotations.get(keys.CLAIM_TEMPLATES_HASH_ANNOTATION)
    return before is not None and after is not None and before != after


def _compare_templates(
    old: Document, new: Document, spec: UpdateSpec, settings: InPlaceSettings
) -> UpdateSpec | NotInPlace:
    if not old.get("spec") or not new.get("spec"):
        return NotInPlace("the template of a revision cannot be read: it has no spec")
    before, after = _make_comparable(old, new)
    images: dict[str, str] = {}
    resources: dict[str, dict[str, dict[str, str]]] = {}
    has_metadata = False
    for change in _find_changes(before, after, ()):
        match change.path, change.kind:
            case ("metadata", *_), _:
                has_metadata = True
            case ("spec", "containers", int(index), "image"), "changed":
                image = new["spec"]["containers"][index]["image"]
                images[_read_container_name(old, index)] = _require_text(image, "an image")
            case ("spec", "initContainers", int(index), "image"), "changed" if _is_sidecar(new, index):
                sidecar = new["spec"]["initContainers"][index]
                images[_require_text(sidecar["name"], "a container's name")] = _require_text(
                    sidecar["image"], "an image"
                )
            case (
                ("spec", "containers", int(index), "resources", str(bound), str(resource)),
                "changed",
            ) if settings.vertical_scaling and bound in BOUNDS and resource in RESIZABLE:
                amount = compute_effective_resources(new["spec"]["containers"][index])[bound][resource]
                bounds = resources.setdefault(_read_container_name(old, index), {})
                bounds.setdefault(bound, {})[resource] = str(amount)
            case (
                ("spec", "resources", str(bound), str(resource)),
                "changed" | "added",
            ) if settings.can_resize_pods and bound in BOUNDS and resource in RESIZABLE:
                amount = _compute_pod_resources(new)[bound][resource]
                bounds = resources.setdefault(WHOLE_POD, {})
                bounds.setdefault(bound, {})[resource] = str(amount)
            case _:
                return NotInPlace(_explain_obstacle(change, settings))
    if resources and _compute_qos(old) != _compute_qos(new):
        return NotInPlace(
            f"the QoS class would change from {_compute_qos(old)} to {_compute_qos(new)}; "
            "Kubernetes does not allow this for a running pod"
        )
    changed: UpdateSpec = msgspec.structs.replace(spec, images=images, resources=resources)
    if not has_metadata:
        return changed
    if obstacle := _explain_content(old, new, settings):
        return NotInPlace(obstacle)
    sources = _find_sources(new) if settings.env_from_metadata else {}
    return _with_metadata(changed, read_pod_metadata(old), read_pod_metadata(new), sources)


def _compute_qos(template: Document) -> str:
    return qos_of(template["spec"])


def _compute_pod_resources(template: Document) -> Document:
    """`spec.resources` that a pod of the template gets; empty if the pod gets none."""
    spec: Document = {
        **template["spec"],
        "containers": [
            {**container, "resources": compute_effective_resources(container)}
            for container in template["spec"]["containers"]
        ],
    }
    fill_pod_resources(spec)
    return spec.get("resources") or {}


def _read_container_name(template: Document, index: int) -> str:
    return _require_text(template["spec"]["containers"][index]["name"], "a container's name")


def _is_sidecar(template: Document, index: int) -> bool:
    """Whether this init container keeps running beside the regular ones, so that its image can change in place.

    An init container that was not a sidecar in the old template also differs in its restartPolicy.
    """
    policy: str | None = template["spec"]["initContainers"][index].get("restartPolicy")
    return policy == "Always"


def _require_text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r}, not text")
    return value


def _explain_obstacle(change: _Change, settings: InPlaceSettings) -> str:
    metadata = (
        "labels, annotations, cpu and memory" if settings.vertical_scaling else "labels and annotations"
    )
    return f"{_format_path(change.path)} was {change.kind}; in place only images, {metadata} can change"


def _explain_content(old: Document, new: Document, settings: InPlaceSettings) -> str:
    """Return why a container would not read the new content of its ConfigMaps and Secrets; empty if all containers read
    it.
    """
    before, after = (read_recorded(template).get(START_ANNOTATION) for template in (old, new))
    if after is None or after == before:
        return ""
    name = next(iter(find_unrestartable(new, restarts=settings.env_from_metadata)), None)
    if name is None:
        return ""
    return (
        f"container {name} reads a ConfigMap or Secret only when it starts, and the content was changed; it would "
        f"restart in place if one of its variables had the fieldPath metadata.annotations['{START_ANNOTATION}']"
    )


def _format_path(path: Path) -> str:
    """Format a path like `spec.containers[0].env[1].value`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


# Comparison


def diff_specs(old: Any, new: Any) -> list[Operation]:
    """Return the operations that change the spec of the template `old` into the spec of `new`, with paths like
    `/spec/containers/0/image`. Specs with the same meaning have no operations. If one is not a pod template, they are
    compared as they are written.
    """
    try:
        templates = _make_comparable(old, new)
    except (AttributeError, KeyError, TypeError, ValueError):
        templates = old, new
    before, after = (get_path(template, "spec") for template in templates)
    return diff_json({"spec": before}, {"spec": after})


def _make_comparable(old: Document, new: Document) -> tuple[Any, Any]:
    """Both templates in one form with all defaults, so that only real differences remain."""
    templates = [add_defaults(template) for template in _with_same_pull_policies(old, new)]
    before, after = [_with_requests(template) for template in templates]
    return orjson.loads(encode_meaning(before)), orjson.loads(encode_meaning(after))


def _with_same_pull_policies(old: Document, new: Document) -> tuple[Document, Document]:
    """Add the API server's default imagePullPolicy to a container if only the other template contains an
    imagePullPolicy for it.

    The default depends on the image's tag, so it is added only in this case: a new tag alone must not look like a new
    policy.
    """
    pairs = list(zip(old["spec"].get("containers") or (), new["spec"].get("containers") or (), strict=False))
    before = [_fill_pull_policy(pair, other) for pair, other in pairs]
    after = [_fill_pull_policy(other, pair) for pair, other in pairs]
    return _with_containers(old, before), _with_containers(new, after)


def _fill_pull_policy(container: Document, other: Document) -> Document:
    if container.get("imagePullPolicy") or not other.get("imagePullPolicy"):
        return container
    return {**container, "imagePullPolicy": pull_policy_of_image(container.get("image") or "")}


def _with_containers(template: Document, first: Sequence[Document]) -> Document:
    containers = [*first, *(template["spec"].get("containers") or ())[len(first) :]]
    return {**template, "spec": {**template["spec"], "containers": containers}}


def _with_requests(template: Document) -> Document:
    containers = [
        {**container, "resources": compute_effective_resources(container)}
        for container in template["spec"]["containers"]
    ]
    spec = {**template["spec"], "containers": containers}
    if spec.get("resources"):
        spec["resources"] = _compute_pod_resources(template)
    return {**template, "spec": spec}


def _find_changes(old: Any, new: Any, path: Path) -> Iterator[_Change]:
    """Find all differences, descending as long as both sides have the same shape."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            if name not in new:
                yield _Change((*path, name), "removed")
            elif name not in old:
                yield _Change((*path, name), "added")
            else:
                yield from _find_changes(old[name], new[name], (*path, name))
    elif isinstance(old, list) and isinstance(new, list):
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from _find_changes(before, after, (*path, index))
        for index in range(min(len(old), len(new)), max(len(old), len(new))):
            yield _Change((*path, index), "added" if len(new) > len(old) else "removed")
    elif not is_same(old, new):
        yield _Change(path, "changed")


# Metadata


def _with_metadata(
    spec: UpdateSpec, before: Document, after: Document, sources: Mapping[str, set[tuple[str, str]]]
) -> UpdateSpec:
    """Split the metadata: keys that a container's environment reads change together with that container. `sources`:
    metadata keys that each container reads.
    """
    refs: dict[str, dict[str, dict[str, str]]] = {}
    patch: Document = {}
    for field in MAPS:
        entries: Document = {}
        for key, value in _diff_maps(before.get(field) or {}, after.get(field) or {}).items():
            containers = [name for name, result in sources.items() if (field, key) in result]
            if value is None or not containers:
                # A variable keeps the value of a removed key: no container is restarted because a key was removed.
                entries[key] = value
                continue
            for name in containers:
                refs.setdefault(name, {}).setdefault(field, {})[key] = value
        if entries:
            patch[field] = entries
    patch |= _diff_finalizers(before.get("finalizers") or (), after.get("finalizers") or ())
    changed: UpdateSpec = msgspec.structs.replace(
        spec,
        ref_metadata={name: RefMetadata(**result) for name, result in refs.items()},
        update_env_from_metadata=bool(refs),
        metadata_patch={"metadata": patch} if patch else {},
    )
    return changed


def _find_sources(template: Document) -> dict[str, set[tuple[str, str]]]:
    """Metadata keys that each regular container reads: `labels` or `annotations`, and the key."""
    return {
        container["name"]: {(source.field, source.key) for source in env_sources_of(container)}
        for container in template["spec"].get("containers") or ()
    }


def _diff_maps(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str | None]:
    """Added and changed entries, and None for each removed entry."""
    changes: dict[str, str | None] = {
        key: _require_text(value, f"the value of {key}")
        for key, value in new.items()
        if old.get(key) != value
    }
    changes.update((key, None) for key in old if key not in new)
    return changes


def _diff_finalizers(old: Sequence[str], new: Sequence[str]) -> Document:
    changes: Document = {}
    if added := [name for name in new if name not in old]:
        changes[FINALIZERS] = added
    if gone := [name for name in old if name not in new]:
        changes[DELETE_FINALIZERS] = gone
    return changes
