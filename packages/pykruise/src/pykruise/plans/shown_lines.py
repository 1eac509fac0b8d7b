"""Lines that `rollout status` prints, for kinds with similar rollouts.

document, Progress ──▶ make_revisions_line(), make_pods_line() ──▶ one line, as kubectl and OpenKruise print it

Pure.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pykruise.kube.documents import get_path
from pykruise.kube.values.go_text import quote_text
from pykruise.plans.progress import Progress

Document = Mapping[str, Any]


def _read_status_field(document: Document, name: str) -> Any:
    return get_path(document, "status", name)


def make_revisions_line(title: str, *, has_ready: bool = False) -> Callable[[Document, Progress], str]:
    """Return the function for the lines of a kind with revisions and a partition. `has_ready`: whether its status
    counts updated pods that are ready.
    """

    def line(document: Document, progress: Progress) -> str:
        target = progress.wanted - progress.kept
        if progress.is_done and progress.updated < target:
            return _format_manual_line(
                f"{title} {quote_text(str(document['metadata']['name']))}", progress.updated, target, "new"
            )
        if progress.is_done and progress.kept:
            return f"partitioned roll out complete: {progress.updated} new pods have been updated..."
        if progress.is_done:
            revision = _read_status_field(document, "updateRevision") or ""
            return f"{title} rolling update complete {progress.available} pods at revision {revision}..."
        if progress.updated < target:
            return _format_target_line("partitioned roll out", progress.updated, target, "new pods")
        if has_ready and progress.updated_ready < target:
            return f"Waiting for {target - progress.updated_ready} updated pods to be ready..."
        return _format_unready_line(document, progress, title)

    return line


def make_pods_line(
    title: str, *, pods: str, done: Callable[[Progress], str] = lambda _: "", is_per_node: bool = False
) -> Callable[[Document, Progress], str]:
    """Return the function for the lines of a kind that counts updated pods and ready pods (with `is_per_node`:
    available pods). `pods`: adjective for updated pods in the line.
    """

    def line(document: Document, progress: Progress) -> str:
        what = f"{title} {quote_text(str(document['metadata']['name']))}"
        target = progress.wanted - progress.kept
        if progress.is_done and progress.updated < target:
            return _format_manual_line(what, progress.updated, target, pods)
        if progress.is_done:
            return f"{what} successfully rolled out{done(progress)}"
        if progress.updated < target:
            return _format_target_line(f"{what} rollout", progress.updated, target, f"{pods} pods")
        waiting = f"Waiting for {what} rollout to finish:"
        if is_per_node:
            return f"{waiting} {progress.available} of {progress.wanted} updated pods are available..."
        if progress.updated_ready < target:
            return f"{waiting} {progress.updated_ready} of {target} updated pods are ready..."
        return _format_unready_line(document, progress, title)

    return line


def _format_manual_line(what: str, updated: int, target: int, pods: str) -> str:
    """Return the line for a strategy with which pods are updated only if a person acts."""
    return f"{what} leaves updates to a person: {updated} out of {target} {pods} pods have been updated"


def _format_target_line(what: str, updated: int, target: int, pods: str) -> str:
    return f"Waiting for {what} to finish: {updated} out of {target} {pods} have been updated..."


def _format_unready_line(document: Document, progress: Progress, title: str) -> str:
    """Return the line if all pods are updated, but some are not ready or available, or something else is reported."""
    if progress.ready < progress.wanted:
        return f"Waiting for {progress.wanted - progress.ready} pods to be ready..."
    if progress.available < progress.wanted:
        return f"Waiting for {progress.wanted - progress.available} pods to be available..."
    name = quote_text(str(document["metadata"]["name"]))
    return f"Waiting for {title} {name}: {progress.details}..."
