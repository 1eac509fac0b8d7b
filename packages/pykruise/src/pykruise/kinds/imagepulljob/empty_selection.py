"""Reason why an ImagePullJob has no node, depending on its selector.

PullJobView ──▶ explain_empty_selection() ──▶ Reason

Pure. A job that has ended does not start again, so a person must create it again.
"""

from collections.abc import Sequence
from typing import Final

from pykruise.kube.values.counts import format_first
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.reasons import Code
from pykruise.runtime.reasons import Reason

MOST_NAMED: Final = 3
"""Maximum number of pods that a message names."""


def explain_empty_selection(job: PullJobView, *, is_over: bool, homeless: Sequence[str] = ()) -> Reason:
    """Return why the job's selector selects no node. `is_over`: whether the job has ended. `homeless`: names of
    selected pods that have no node.
    """
    if is_over and homeless:
        return _explain_homeless_pods(job, homeless)
    field, objects, nothing = _describe_selector(job)
    words = (
        f"the job ended, and selected no node: {nothing}"
        if is_over
        else f"{nothing}; the job waits until this changes"
    )
    if not field:
        agents = "check that nodes are ready and that the manager runs (pykruise doctor)"
        return Reason(
            Code.NOTHING_SELECTED, words, f"{agents}; then create the job again" if is_over else agents
        )
    if field.endswith("names"):
        fit = f"correct {field}"
        return Reason(
            Code.NOTHING_SELECTED, words, f"create the job again with correct {field}" if is_over else fit
        )
    fit = f"label {objects} so that {field} matches them"
    if is_over:
        return Reason(
            Code.NOTHING_SELECTED, words, f"{fit}, or choose another {field}; then create the job again"
        )
    return Reason(Code.NOTHING_SELECTED, words, f"{fit}, or change {field}")


def _explain_homeless_pods(job: PullJobView, pods: Sequence[str]) -> Reason:
    """Return the reason of a job that ended because none of the selected pods had a node."""
    match, have = ("matches", "has") if len(pods) == 1 else ("match", "have")
    return Reason(
        Code.NOTHING_SELECTED,
        f"the job ended, and selected no node: {format_first(pods, MOST_NAMED)} {match} spec.podSelector"
        f" ({job.pod_selector}), but {have} no node",
        f"find out why (kubectl kruise explain pod/{pods[0]} -n {job.namespace}); then create the job again; or create"
        " the job again with spec.selector, which selects nodes",
    )


def _describe_selector(job: PullJobView) -> tuple[str, str, str]:
    """Return the field of the job's selector, the objects that it selects, and a message that it selects none."""
    spec = job.spec
    if job.pod_selector is not None:
        field = "spec.podSelector"
        return (
            field,
            "pods",
            f"no running pod of namespace {job.namespace} matches {field} ({job.pod_selector})",
        )
    names = spec.selector.names if spec is not None and spec.selector is not None else None
    if names is not None:
        field = "spec.selector.names"
        return field, "nodes", f"no node of {field} ({', '.join(names)}) has a NodeImage"
    if job.selector is None or not str(job.selector):
        return "", "nodes", "no node has a NodeImage yet"
    return "spec.selector", "nodes", f"no node with a NodeImage matches spec.selector ({job.selector})"
