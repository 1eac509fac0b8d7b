"""Faults that the scenarios of every workload share, built from those of faults.py.

@WRITE_FAULTS  a parameter `fault`: every way in which one write can fail, or seem to
the_writes(3, 15, fault=…), at_random(rng), changes_of("/clonesets")  for FaultyTransport.on()
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from support.faults import (
    Answer,
    CutAfter,
    Delay,
    DropAnswer,
    DropRequest,
    FaultyTransport,
    GoneAfter,
    Refuse,
    Request,
    StallAfter,
    TimeOut,
    reads,
    too_many,
    watches,
    writes,
)

__all__ = [
    "WRITE_FAULTS",
    "at_random",
    "changes_of",
    "refused",
    "refused_for_a_while",
    "the_writes",
]

_HALF_A_MINUTE = pytest.mark.virtual_time("a request times out after 30 s")

WRITE_FAULTS = pytest.mark.parametrize(
    "fault",
    [
        too_many(),
        Answer(500),
        Answer(500, takes_effect=True),
        Answer(503),
        Answer(504, takes_effect=True),
        pytest.param(TimeOut(30.0), marks=_HALF_A_MINUTE),
        pytest.param(TimeOut(30.0, takes_effect=True), marks=_HALF_A_MINUTE),
        DropRequest(),
        DropAnswer(),
        Refuse(),
        Delay(5.0),
        Delay(5.0, on_the_way_back=True),
    ],
    ids=lambda fault: repr(fault)[:60],
)


def the_writes(*numbers: int, fault: Any) -> Callable[[Request], Any]:
    """Matching requests with these numbers (from 0) get the fault."""
    count = 0

    def choose(_request: Request) -> Any:
        nonlocal count
        count += 1
        return fault if count - 1 in numbers else None

    return choose


def changes_of(path: str) -> Callable[[Request], bool]:
    """Patches and deletions of pods, and of the workload at `path`."""
    return lambda request: (
        request.method in ("PATCH", "DELETE") and ("/pods" in request.path or path in request.path)
    )


def refused(_request: Request) -> Answer:
    """403: a policy of the cluster rejects the write."""
    return Answer(403, reason="Forbidden", message="a policy rejects this")


def refused_for_a_while(
    *, seed: int, share: float = 0.5, s: float = 60.0
) -> Callable[[Request], Answer | None]:
    """All creations, or all patches or deletions of a pod, are rejected for four seconds at a time: each of them with
    this probability. No write is rejected after `s` seconds.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()

    def choose(request: Request) -> Answer | None:
        path = request.path.removesuffix("/status")
        rng = random.Random(f"{seed} {request.method} {path} {(loop.time() - begun) // 4:g}")
        return refused(request) if loop.time() < begun + s and rng.random() < share else None

    return choose


def at_random(faulty: FaultyTransport, rng: random.Random, *, stalls: bool = False) -> None:
    """Writes, reads and watches fail now and then. `stalls`: streams fall silent too, which takes a minute to see."""
    faults: list[Callable[[], Any]] = [
        lambda: None,
        lambda: Answer(500),
        lambda: Answer(500, takes_effect=True),
        lambda: Answer(503),
        too_many,
        DropAnswer,
        DropRequest,
        Refuse,
        lambda: Delay(rng.uniform(0, 2)),
        lambda: Delay(rng.uniform(0, 2), on_the_way_back=True),
    ]
    streams: list[Callable[[], Any]] = [
        lambda: CutAfter(rng.randrange(8)),
        lambda: GoneAfter(rng.randrange(8)),
    ]
    if stalls:
        streams.append(lambda: StallAfter(rng.randrange(8)))

    def sometimes(chance: float, choices: list[Callable[[], Any]]) -> Callable[[Request], Any]:
        return lambda _request: rng.choice(choices)() if rng.random() < chance else None

    faulty.on(writes(), sometimes(0.25, faults))
    faulty.on(reads(), sometimes(0.1, faults[:6]))
    faulty.on(watches(), sometimes(0.5, streams))
