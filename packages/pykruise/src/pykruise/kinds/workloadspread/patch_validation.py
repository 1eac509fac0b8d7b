"""Validation of a subset's patch: it is applied to the target's template in the same way as to pods.

subset + target ──▶ template with claim volumes ──▶ injection.try_patch() ──▶ rules of pods ──▶ field errors

Pure. Paths of errors begin with the path of the patch: `spec.subsets[0].patch.containers[1].image`. A patch that cannot
be merged is not checked further.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pykruise.kinds.workloadspread.injection import try_patch
from pykruise.kinds.workloadspread.targets import BUILT_IN
from pykruise.kinds.workloadspread.types import Subset
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.values.group_kinds import group_kind
from pykruise.pods.template.defaults import add_defaults
from pykruise.pods.template.metadata import patch_key_errors
from pykruise.pods.template.placement_validation import find_toleration_errors
from pykruise.pods.template.subset_placement import PlacementError
from pykruise.pods.template.typed_parts import TEMPLATES, explain_unreadable, fill_parts, part_of
from pykruise.pods.template.validation import find_pod_spec_errors


def template_of(target: Mapping[str, Any]) -> Document:
    """Return the pod template of a workload with the volumes that its claim templates add to pods. These volumes
    replace volumes of the template with the same name, as in StatefulSets.
    """
    spec: Mapping[str, Any] = target.get("spec") or {}
    template: Mapping[str, Any] = spec.get("template") or {}
    names = [
        get_path(template, "metadata", "name", default="")
        for template in spec.get("volumeClaimTemplates") or ()
    ]
    pod: Mapping[str, Any] = template.get("spec") or {}
    others = [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return {**template, "spec": {**pod, "volumes": [*others, *volumes]}}


def patch_errors(subset: Subset, target: Mapping[str, Any] | None, *, path: str) -> Iterator[Cause]:
    """Errors of a patch at `path`. If the target cannot be read, or pykruise does not know the template of the target's
    kind, only the keys of labels and annotations in the patch are checked.
    """
    yield from patch_key_errors(subset.patch, path)
    if target is None or group_kind(target["apiVersion"], target["kind"]) not in BUILT_IN:
        return
    spec = fill_parts(target.get("spec") or {}, TEMPLATES)
    if any(explain_unreadable(part_of(spec, path), kind) for path, kind in TEMPLATES.items()):
        return
    try:
        pod = add_defaults(try_patch(template_of({"spec": spec}), subset))["spec"]
    except PlacementError as error:
        yield make_invalid_error(path, subset.patch, str(error))
        return
    yield from find_pod_spec_errors(pod, path)
    yield from find_toleration_errors(pod.get("tolerations") or (), f"{path}.tolerations")


def find_errors_by_subset(
    subsets: Iterable[Subset], target: Mapping[str, Any] | None
) -> Iterator[tuple[str, Cause]]:
    """Errors of the patches of all subsets, each with the name of its subset."""
    for number, subset in enumerate(subsets):
        if subset.patch is not None:
            for error in patch_errors(subset, target, path=f"spec.subsets[{number}].patch"):
                yield subset.name, error
