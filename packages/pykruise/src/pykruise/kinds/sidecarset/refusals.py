"""Rejected writes of a SidecarSet, and the time of their next try.

failed writes ──▶ learn() ──▶ Refusals (in memory) ──▶ SidecarSetSnapshot.refusal: no write until the next try

A PodUnavailableBudget rejects each patch of its pods until another pod serves again, and every event of a pod enqueues
the SidecarSet. Without a delay, each event would cause a try. The delay doubles with each rejection, starts again from
its first value after a pod was upgraded, and ends when the spec changes. If the manager restarts, it loses this memory,
tries once and waits again.
"""

from collections.abc import Sequence
from typing import Any, Final

from pykruise.kinds.sidecarset.snapshot import Refusals, SidecarSetSnapshot, UpgradeRefusal
from pykruise.runtime.execute import Failure
from pykruise.runtime.read import Read

FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 30.0


def learn(read: Read[Any], snapshot: SidecarSetSnapshot, failures: Sequence[Failure]) -> None:
    """Record rejected writes and the time of their next try."""
    if not failures:
        return
    memory = read.find_memory(Refusals)
    before, updated = memory.last, sum(pod.is_updated for pod in snapshot.pods)
    generation = snapshot.sidecarset.generation
    goes_on = before is not None and (before.generation, before.updated) == (generation, updated)
    tries = before.tries + 1 if before is not None and goes_on else 1
    memory.last = UpgradeRefusal(
        reason=failures[0].reason,
        about=failures[0].subject,
        tries=tries,
        again_at=read.now() + min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(tries - 1, 10)),
        generation=generation,
        updated=updated,
    )
