"""The engine of in-place updates, which change a running pod instead of recreating it. All kinds use this package.

two revisions ──▶ find_difference() ──▶ UpdateSpec ──▶ start(pod) ──▶ writes
pod that may be in an update ──▶ find_next_step(pod) ──▶ writes, or the reason for waiting, or the end

difference.py decides which changes are possible, and update_spec.py describes them. batches.py selects the containers
that change now, and steps.py makes the writes. completion.py judges the result with images.py, runtime_meta.py and
resources.py. state.py and grace.py are the two annotations that store a running update. pod.py lists the facts that a
pod must provide. All modules are pure: the caller passes the current time, and no module sends a request.
"""

from pykruise.pods.in_place.annotations import AnnotationError
from pykruise.pods.in_place.completion import (
    CompletionVerdict,
    judge_containers,
    judge_image,
    judge_pod,
)
from pykruise.pods.in_place.difference import NotInPlace, Template, diff_specs, find_difference
from pykruise.pods.in_place.grace import grace_of
from pykruise.pods.in_place.pod import GateSettings, InPlaceSettings, PodPatch, UpdatablePod, add_ready_gates
from pykruise.pods.in_place.resources import has_resize, has_resize_by_version
from pykruise.pods.in_place.state import ImageRecord, UpdateState, state_of
from pykruise.pods.in_place.steps import (
    RESIZE,
    Broken,
    Complete,
    Continue,
    NextStep,
    Waiting,
    find_next_step,
    is_at_rest,
    is_restarting_containers,
    list_ready_conditions,
    start,
    takes_out_of_service,
)
from pykruise.pods.in_place.update_spec import RefMetadata, UpdateSpec

__all__ = [
    "RESIZE",
    "AnnotationError",
    "Broken",
    "Complete",
    "CompletionVerdict",
    "Continue",
    "GateSettings",
    "ImageRecord",
    "InPlaceSettings",
    "NextStep",
    "NotInPlace",
    "PodPatch",
    "RefMetadata",
    "Template",
    "UpdatablePod",
    "UpdateSpec",
    "UpdateState",
    "Waiting",
    "add_ready_gates",
    "diff_specs",
    "find_difference",
    "find_next_step",
    "grace_of",
    "has_resize",
    "has_resize_by_version",
    "is_at_rest",
    "is_restarting_containers",
    "judge_containers",
    "judge_image",
    "judge_pod",
    "list_ready_conditions",
    "start",
    "state_of",
    "takes_out_of_service",
]
