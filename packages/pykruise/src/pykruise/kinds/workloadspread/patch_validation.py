"""What is wrong with a subset's patch: it is tried on the target's template, as pods get it.

subset + target ──▶ template with claim volumes ──▶ injection.tried() ──▶ rules of pods ──▶ field errors

Pure. Paths begin at the patch: `spec.subsets[0].patch.containers[1].image`. A patch gets one kind of error: one
that cannot be merged is not looked at any further.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.workloadspread.injection import tried
from pykruise.kinds.workloadspread.targets import BUILT_IN, KRUISE
from pykruise.kinds.workloadspread.types import Subset
from pykruise.kinds.workloadspread.view import STATEFUL_SET
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.field_errors import invalid
from pykruise.kube.group_kinds import GroupKind
from pykruise.pods.placement_validation import toleration_errors
from pykruise.pods.subset_placement import PlacementError
from pykruise.pods.template_defaults import with_defaults
from pykruise.pods.template_shape import shape_problem
from pykruise.pods.template_validation import pod_spec_errors

__all__ = ["patch_errors", "template_of"]

_WITH_CLAIMS: Final = frozenset(
    {GroupKind(KRUISE, "CloneSet"), *(one for one in BUILT_IN if one.kind == STATEFUL_SET)}
)


def template_of(target: Mapping[str, Any], kind: GroupKind) -> Document:
    """The pod template of a workload. Volumes of its claim templates are there as pods have them; one of the same
    name in the template gives way, as in StatefulSets."""
    spec: Mapping[str, Any] = target.get("spec") or {}
    template: Mapping[str, Any] = spec.get("template") or {}
    claims: Sequence[Mapping[str, Any]] = (
        (spec.get("volumeClaimTemplates") or ()) if kind in _WITH_CLAIMS else ()
    )
    if not claims:
        return dict(template)
    names = [(one.get("metadata") or {}).get("name") or "" for one in claims]
    pod: Mapping[str, Any] = template.get("spec") or {}
    others = [one for one in pod.get("volumes") or () if one.get("name") not in names]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return {**template, "spec": {**pod, "volumes": [*others, *volumes]}}


def patch_errors(
    subset: Subset, target: tuple[GroupKind, str] | None, document: Mapping[str, Any] | None, *, path: str
) -> Iterator[Cause]:
    """Errors of a patch at `path`. Without a target that can be read nothing is checked."""
    if document is None or target is None or target[0] not in BUILT_IN or shape_problem(document):
        return
    template = template_of(document, target[0])
    try:
        pod = with_defaults(tried(template, subset))
    except PlacementError as error:
        yield invalid(path, subset.patch, str(error))
        return
    spec: Mapping[str, Any] = pod.get("spec") or {}
    yield from pod_spec_errors(spec, path)
    yield from toleration_errors(spec.get("tolerations") or (), f"{path}.tolerations")
