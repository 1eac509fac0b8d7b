"""The row of any object, built like the page that lists its kind builds it.

document ──▶ row_of() ──▶ RolloutRow, JobRow or OtherRow

Pure.
"""

from pykruise.dashboard.jobs import JobRow, job_row
from pykruise.dashboard.others import OtherRow, other_row
from pykruise.dashboard.rollouts import RolloutRow, rollout_row
from pykruise.kinds import shown_as
from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource

ObjectRow = RolloutRow | JobRow | OtherRow


def row_of(resource: Resource, document: Document, *, current: Document | None = None) -> ObjectRow:
    """Return the row of an object. `current` is the revision of its pods, if it is not the newest one."""
    shown = shown_as(resource.group, resource.kind)
    board = "rollouts" if shown is None or shown.progress is None else shown.board
    if board == "jobs":
        return job_row(resource, document)
    return (
        rollout_row(resource, document, current=current)
        if board == "rollouts"
        else other_row(resource, document)
    )
