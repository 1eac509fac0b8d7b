"""Steps that the phases of a CloneSet share, beside those of every kind (plans/phases.py).

Pure.
"""

from pykruise.kinds.cloneset.claims import claims_to_announce, claims_to_delete
from pykruise.kinds.cloneset.working_set import WorkingSet
from pykruise.plans import phases
from pykruise.plans.phases import pod_patch
from pykruise.pods import keys
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import PodView
from pykruise.runtime.actions import Delete
from pykruise.runtime.plan import Note, Step
from pykruise.runtime.reasons import Reason

__all__ = ["delete_steps", "mark_step", "recreation_notes"]


def delete_steps(ws: WorkingSet, pod: PodView, *, because: str) -> tuple[tuple[Step, ...], Reason | None]:
    """What a deletion of the pod takes now, its claims with it: steps, or none and why it waits."""
    steps, waits = phases.delete_steps(pod, hook=ws.spec.hooks.pre_delete, now=ws.now, because=because)
    if not any(isinstance(step.action, Delete) for step in steps):
        return steps, waits
    return (*claims_to_announce(ws, pod), *steps, *claims_to_delete(ws, pod)), waits


def mark_step(ws: WorkingSet, pod: PodView, *, target: RevisionView, because: str) -> Step:
    """Specify the pod for deletion, so that the scale phase replaces it under all its rules."""
    done, failed = recreation_notes(pod, target)
    return Step(
        action=pod_patch(pod, {"metadata": {"labels": {keys.SPECIFIED_DELETE_LABEL: "true"}}}),
        because=because,
        done=done,
        failed=failed,
    )


def recreation_notes(pod: PodView, target: RevisionView) -> tuple[Note, Note]:
    """The events that a pod is (or could not be) replaced for an update, with the reasons and texts that
    alerts on OpenKruise's events look for. They are the same where the pod is deleted without being marked."""
    revision = f"for update(revision {target.name})"
    return (
        Note(
            reason="SuccessfulUpdatePodReCreate",
            message=f"successfully patch pod {pod.name} specified-delete {revision}",
        ),
        Note(
            reason="FailedUpdatePodReCreate",
            message=f"failed to patch pod specified-delete {pod.name} {revision}",
            warning=True,
        ),
    )
