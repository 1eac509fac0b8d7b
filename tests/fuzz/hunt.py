"""A batch of invalid objects in a sandbox with a manager: stored, at rest after a while, and checked.

mutants ──▶ hunt() ──▶ Findings: tracebacks, objects that are always reconciled, memory

Time is virtual, so a minute costs only the CPU time of its events.
"""

import asyncio
import gc
from collections.abc import Sequence
from typing import Final

import msgspec

from fuzz.mutants import Mutant
from pykruise.kube.errors import ApiError
from pykruise.kube.resources import PODS
from support.busy_keys import BusyPlace, busy_cluster
from support.sandbox import pod

__all__ = ["Findings", "hunt"]

SETTLE_S: Final = 600.0
"""Maximum duration of the first waits for objects that change too often, and of backoffs."""
LOOK_S: Final = 120.0
MOST_PER_S: Final = 1.0
MOST_REMEMBERED: Final = 20_000
"""Python objects that manager and sandbox together may gain while the settled batch is observed."""


class Findings(msgspec.Struct, kw_only=True):
    """Results of a batch."""

    stored: int = 0
    refused: int = 0
    problems: list[str] = []
    grown: int = 0
    """Growth of the number of Python objects while the settled batch is observed."""


async def hunt(batch: Sequence[Mutant], *, reviewed: bool, seed: int = 1) -> Findings:
    """Store the batch, and observe the manager once it has settled. `reviewed`: whether its webhooks are called."""
    findings = Findings()
    async with busy_cluster(reviewed=reviewed, seed=seed) as place:
        await place.create(PODS, pod("web", labels={"app": "web"}))
        await asyncio.sleep(5)
        for mutant in batch:
            await _store(place, mutant, findings)
        await asyncio.sleep(SETTLE_S)
        before = _python_objects()
        busy = await place.busy_over(LOOK_S)
        findings.grown = _python_objects() - before
        rates = busy.above(MOST_PER_S)
        findings.problems += [
            f"{name}: {rate:.1f} reconciles a second" for name, rate in sorted(rates.items())
        ]
        writes = {name: n / LOOK_S for name, n in busy.writes.items() if n > MOST_PER_S * LOOK_S}
        findings.problems += [f"{name}: {rate:.1f} writes a second" for name, rate in sorted(writes.items())]
        if findings.grown > MOST_REMEMBERED:
            findings.problems.append(f"{findings.grown} Python objects more after {LOOK_S:g} s of rest")
    findings.problems += [f"a traceback: {text}" for text in place.tracebacks.kept]
    return findings


async def _store(place: BusyPlace, mutant: Mutant, findings: Findings) -> None:
    namespace = "default" if mutant.resource.namespaced else ""
    try:
        await place.client.create(mutant.resource, namespace, mutant.document)
    except (ApiError, ValueError) as error:
        if isinstance(error, ApiError) and error.code >= 500:
            findings.problems.append(f"{mutant.label}: {error.code} {str(error)[:300]}")
        findings.refused += 1
    else:
        findings.stored += 1
    await asyncio.sleep(0.2)


def _python_objects() -> int:
    gc.collect()
    return len(gc.get_objects())
