"""Policies of a Job: for failed pods, for failed indexes, and for success before the last completion.

a failed pod ──▶ judge() ──▶ Judgement (whether it counts, whether it fails its index or the job)
a job + pods ──▶ list_failed_indexes(), find_held_back(), describe_met_policy()

Pure. Same rules as Kubernetes' `podFailurePolicy`, `backoffLimitPerIndex` and `successPolicy`. An annotation
of a pod has the number of earlier failures of its index. The number is computed from the last failed pod of the index;
this pod keeps its finalizer until the new pod exists.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, cast

import msgspec

from pykruise.runtime.objects import DocumentView
from pykruise.sandbox.pod_view import SandboxPodView, instant_of

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"

Action = Literal["Count", "FailIndex", "FailJob", "Ignore"]


class Judgement(msgspec.Struct, frozen=True):
    """Consequence of a failure. `text`: the message of a job that fails because of it."""

    action: Action = "Count"
    text: str = ""

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the limits."""
        return self.action != "Ignore"


_COUNTS: Final = Judgement()


def judge(job: DocumentView, pod: SandboxPodView) -> Judgement:
    """Judge a failed pod by the failure policy: the first matching rule decides."""
    for number, rule in enumerate((job.spec.get("podFailurePolicy") or {}).get("rules") or ()):
        if text := _match_rule(rule, pod):
            action = cast(Action, rule["action"])
            return Judgement(action, f"{text} matching {action} rule at index {number}")
    return _COUNTS


def _match_rule(rule: Mapping[str, Any], pod: SandboxPodView) -> str:
    if (codes := rule.get("onExitCodes")) is not None:
        for status in (*pod.status.containers, *pod.status.init_containers):
            ended = status.state.terminated
            if ended is None or not ended.exit_code:
                continue
            if codes.get("containerName") not in (None, status.name):
                continue
            if (ended.exit_code in codes["values"]) == (codes["operator"] == "In"):
                return (
                    f"Container {status.name} for pod {pod.namespace}/{pod.name} failed with exit code "
                    f"{ended.exit_code}"
                )
        return ""
    patterns = rule.get("onPodConditions") or ()
    for condition in pod.status.conditions:
        if any(
            (condition.type, condition.status) == (each["type"], each.get("status", "True"))
            for each in patterns
        ):
            return f"Pod {pod.namespace}/{pod.name} has condition {condition.type}"
    return ""


# ── pods ─────────────────────────────────────────────────────────────────────


def has_succeeded(pod: SandboxPodView) -> bool:
    """Whether all containers of the pod have completed."""
    return pod.status.phase == "Succeeded"


def has_failed(pod: SandboxPodView, job: DocumentView) -> bool:
    """Whether the pod counts as failed. A terminating pod counts before it has ended, unless
    `podReplacementPolicy` is Failed.
    """
    if pod.status.phase == "Failed":
        return True
    waits = job.spec.get("podReplacementPolicy") == "Failed"
    return pod.is_deleting and not pod.is_over and not waits


def find_last_end(pod: SandboxPodView) -> float:
    """Latest time at which a container ended; 0 when none has ended."""
    return max(
        (
            instant_of(status.state.terminated.finished_at, default=0.0)
            for status in pod.status.containers
            if status.state.terminated is not None
        ),
        default=0.0,
    )


def index_of(pod: SandboxPodView) -> int | None:
    """The completion index of a pod."""
    text = pod.labels.get(INDEX, "")
    return int(text) if text.isdecimal() else None


# ── indexes ──────────────────────────────────────────────────────────────────


def indexes_of(text: str) -> Iterable[int]:
    """Parse indexes: `"0-2,5"` is 0, 1, 2, 5."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def index_text(indexes: Iterable[int]) -> str:
    """Format indexes: 0, 1, 2, 5 is `"0-2,5"`."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    # Two consecutive indexes are separated by a comma, as in Kubernetes.
    parts = [
        str(first) if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}"
        for first, last in ranges
    ]
    return ",".join(parts)


# ── limits per index ─────────────────────────────────────────────────────────


def is_counted_per_index(job: DocumentView) -> bool:
    """Whether each index has its own limit of failures."""
    return job.spec.get("backoffLimitPerIndex") is not None


def list_failed_indexes(
    job: DocumentView, pods: Sequence[SandboxPodView], *, is_decided: bool
) -> frozenset[int]:
    """Indexes that have failed and are not retried: those in the status, and those of pods that are not counted yet.

    `is_decided`: the result of the job is known, so its pods are deleted early and their indexes do not fail any
    more.
    """
    if not is_counted_per_index(job):
        return frozenset()
    known = frozenset(indexes_of(job.status.get("failedIndexes") or ""))
    if is_decided:
        return known
    limit = job.count("spec", "backoffLimitPerIndex")
    return known | {
        index
        for pod in pods
        if (index := _open_index(job, pod)) is not None and _fails_its_index(job, pod, limit)
    }


def _open_index(job: DocumentView, pod: SandboxPodView) -> int | None:
    """The index of a failed pod that still has its finalizer."""
    index = index_of(pod)
    if index is None or index >= job.count("spec", "completions") or FINALIZER not in pod.finalizers:
        return None
    return index if has_failed(pod, job) and not has_succeeded(pod) else None


def _fails_its_index(job: DocumentView, pod: SandboxPodView, limit: int) -> bool:
    judgement = judge(job, pod)
    if judgement.action == "FailIndex":
        return True
    return judgement.counts and pod.index_failures[0] >= limit


def find_held_back(
    job: DocumentView, pods: Sequence[SandboxPodView], active: Sequence[SandboxPodView], over: frozenset[int]
) -> Mapping[int, SandboxPodView]:
    """Last failed pod of each index that must be retried. The pod is kept until its replacement exists, because the
    number of failures in the replacement's annotation is computed from the pod.

    `over`: indexes that have succeeded or failed.
    """
    if not is_counted_per_index(job):
        return {}
    running = {index_of(pod) for pod in active}
    back: dict[int, SandboxPodView] = {}
    for pod in pods:
        index = _open_index(job, pod)
        if index is None or index in over or index in running:
            continue
        if index not in back or _is_later(pod, back[index]):
            back[index] = pod
    return back


def _is_later(pod: SandboxPodView, other: SandboxPodView) -> bool:
    return (sum(pod.index_failures), find_last_end(pod)) >= (sum(other.index_failures), find_last_end(other))


def count_failures_after(job: DocumentView, replaced: SandboxPodView | None) -> tuple[int, int]:
    """Numbers of failures of a new pod's index: the counted failures and the ignored failures."""
    if replaced is None:
        return 0, 0
    counted, ignored = replaced.index_failures
    return (counted + 1, ignored) if judge(job, replaced).counts else (counted, ignored + 1)


# ── success ──────────────────────────────────────────────────────────────────


def describe_met_policy(job: DocumentView, succeeded: frozenset[int]) -> str:
    """Describe the rule of the success policy that is met; empty when none is."""
    if not succeeded:
        return ""
    for number, rule in enumerate((job.spec.get("successPolicy") or {}).get("rules") or ()):
        count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
        wanted = frozenset(indexes_of(text)) if text is not None else None
        if wanted is not None and not wanted:
            continue
        reached = len(succeeded if wanted is None else succeeded & wanted)
        if (wanted is not None and reached == len(wanted)) or (count is not None and reached >= count):
            return f"Matched rules at index {number}"
    return ""
