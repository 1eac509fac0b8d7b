"""Values of an explanation: its waits, merged and ordered with the cause first.

causes, reasons ──▶ Wait ──▶ rank_waits() ──▶ Explanation

Pure, for every kind. explaining.py and the modules of kinds build them; explanation_text.py prints them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pykruise.cli.insight.causes import WaitCause
from pykruise.kube.clock import format_time
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import rank_of, remedy_of
from pykruise.runtime.reasons import Reason


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """One reason, for all pods that share it. Without pods, the reason is about the whole workload."""

    code: str
    words: str
    pods: tuple[str, ...] = ()
    """Names of the pods, or of other objects that the words are about: nodes, images, namespaces."""
    since: str = ""
    tried: str = ""
    """Time of the last attempt of a rejected write; empty if the time is unknown."""
    again: str = ""
    """Estimated time of the next attempt; empty if the time is unknown."""
    remedy: str = ""
    container: str = ""
    """Container that the wait is about; empty if it is about no single container."""
    origin: str = ""
    """Object that defines the failing container instead of the pods' owner: `SidecarSet mesh`; empty if the owner
    defines it.
    """


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `pykruise explain` shows."""

    kind: str
    namespace: str
    name: str
    verdict: str
    """State of the work: done, moving, waiting, paused, refused, failed or terminating."""
    headline: str
    phase: Phase = Phase.PROGRESSING
    """Phase. The dashboard, Argo CD and the metrics show the same phase (plans/progress.py)."""
    condition: str = ""
    """The object's condition Waiting: reason and message."""
    done: tuple[str, ...] = ()
    waits: tuple[Wait, ...] = ()
    """Waits; the first one is the cause."""
    next: tuple[str, ...] = ()
    rollback_to: int = 0
    """Number of the revision that a rollback restores (way_back.py); 0 if no rollback is suggested."""

    @property
    def cause(self) -> str:
        """Code of the first wait; empty if the object waits for nothing."""
        return self.waits[0].code if self.waits else ""


def wait_of(cause: WaitCause, pod: str) -> Wait:
    """Return a wait that reports this cause of the pod."""
    since = format_time(cause.since) if cause.since is not None else ""
    return Wait(
        code=cause.code,
        words=cause.words,
        pods=(pod,),
        since=since,
        remedy=cause.remedy,
        container=cause.container,
        origin=cause.origin,
    )


def make_budget_wait(reason: Reason, pod: str, *, busy: Sequence[str]) -> Wait:
    """Return the wait of a pod whose update or deletion waits until a limit (maxUnavailable, maxSurge) has room.
    `busy`: other pods that use up the limit because they are not available; empty if only updates that begin earlier
    use it up.
    """
    holders = (
        f"{', '.join(busy[:_NAMED])}{' …' if len(busy) > _NAMED else ''}" or "pods whose turn is earlier"
    )
    remedy = remedy_of(reason) if busy else reason.remedy
    return Wait(code=reason.code, words=f"{reason.message} by {holders}", pods=(pod,), remedy=remedy)


_NAMED: Final = 5
"""Maximum number of pods that the words of a wait name."""


def rank_waits(waits: Iterable[Wait]) -> tuple[Wait, ...]:
    """Merge waits with the same reason and put the cause first."""
    return tuple(sorted(_merge(waits), key=lambda wait: rank_of(wait.code)))


def drop_repeats(waits: Sequence[Wait]) -> tuple[Wait, ...]:
    """Remove each wait that names no pods, if another wait with the same code names pods."""
    said = {wait.code for wait in waits if wait.pods}
    return tuple(wait for wait in waits if wait.pods or wait.code not in said)


def _merge(waits: Iterable[Wait]) -> list[Wait]:
    """Merge waits with the same code and words: the first wait gets the pods of all, and the earliest `since`."""
    groups: dict[tuple[str, str], list[Wait]] = {}
    for wait in waits:
        groups.setdefault((wait.code, wait.words), []).append(wait)
    return [
        msgspec.structs.replace(
            group[0],
            pods=tuple(pod for wait in group for pod in wait.pods),
            since=min((wait.since for wait in group if wait.since), default=""),
        )
        for group in groups.values()
    ]
