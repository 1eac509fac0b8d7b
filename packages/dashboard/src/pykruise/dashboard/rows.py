"""The row of any object, built as on the page that lists its kind.

document ──▶ row_of() ──▶ RolloutRow, JobRow or OtherRow

Pure.
"""

from pykruise.dashboard.jobs import JobRow, build_job_row
from pykruise.dashboard.others import OtherRow, build_other_row
from pykruise.dashboard.rollouts import RolloutRow, build_rollout_row
from pykruise.kinds import find_shown
from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource

ObjectRow = RolloutRow | JobRow | OtherRow


def row_of(resource: Resource, document: Document, *, current: Document | None = None) -> ObjectRow:
    """Return the row of an object. `current` is the revision of its pods, if it is not the newest revision."""
    shown = find_shown(resource.group, resource.kind)
    board = "rollouts" if shown is None or shown.progress is None else shown.board
    if board == "jobs":
        return build_job_row(resource, document)
    return (
        build_rollout_row(resource, document, current=current)
        if board == "rollouts"
        else build_other_row(resource, document)
    )
