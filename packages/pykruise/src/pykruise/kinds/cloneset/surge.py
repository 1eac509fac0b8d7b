"""Whether an update needs pods beyond replicas: only if it takes pods out of service.

old pods + their changes ──▶ is_surging() ──▶ the numbers of working_set.py

Pure. A change of labels and annotations, or a resize that restarts no container, takes no pod out of service. Surge
pods for such an update would be deleted without having served. OpenKruise creates and deletes them (its issues 2369 and
2370). With an inPlaceUpdate hook, every update takes the pod out of service: the pod waits in PreparingUpdate, and then
in Updated until the hook is set again. So surge pods replace this pod, and it counts against maxUnavailable.
"""

from collections.abc import Sequence

from pykruise.kinds.cloneset.limits import CloneSetLimits, Mark
from pykruise.kinds.cloneset.snapshot import ReadableCloneSet
from pykruise.plans.in_place import Differences
from pykruise.pods.in_place import UpdateSpec, is_restarting_containers
from pykruise.pods.in_place.update_spec import WHOLE_POD
from pykruise.pods.view.names import RevisionHash
from pykruise.pods.view.pod_view import PodView


def is_surging(
    snapshot: ReadableCloneSet,
    limits: CloneSetLimits,
    *,
    pods: Sequence[PodView],
    marks: Sequence[Mark],
    differences: Differences,
) -> bool:
    """Whether maxSurge applies to the update. Only one pod of each older revision is inspected."""
    spec = snapshot.cloneset.spec
    if spec.is_on_delete:
        return False
    if limits.max_surge == 0 or not spec.is_in_place:
        return True
    hook = spec.hooks.in_place_update
    if hook is not None and hook.has_handlers:
        return True
    one_of_each: dict[RevisionHash, PodView] = {
        pod.revision: pod for pod, mark in zip(pods, marks, strict=True) if not mark.is_new
    }
    for revision, pod in one_of_each.items():
        change = differences.of_revision(revision)
        if not isinstance(change, UpdateSpec) or (WHOLE_POD in change.resources and snapshot.undeclaring):
            return True
        if is_restarting_containers(pod, change, settings=snapshot.settings.in_place):
            return True
    return not one_of_each
