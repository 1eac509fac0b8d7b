"""Steps of pod admission for tests: the steps of one kind with a reader of the test, or the chain of all kinds."""

import random
from collections.abc import Callable
from typing import Any

from pykruise.admission.pods.chain import PodChain
from pykruise.admission.reviewers import ReviewContext, steps_of_pods
from pykruise.admission.settings import make_admission_settings
from pykruise.kinds.gates import Gates
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.plans.kind import Kind
from pykruise.plans.pod_steps import StepContext, StepReport
from pykruise.plans.review import Lookups
from pykruise.pods.settings import build_settings

__all__ = ["chain_of", "step_context"]


def step_context(
    kind: Kind,
    reader: Any = None,
    *,
    gates: Gates | None = None,
    clock: Clock = read_system_clock,
    report: Callable[[StepReport], None] = lambda report: None,
    seed: int = 1,
) -> StepContext:
    """The context of a kind's steps under these gates."""
    return StepContext(
        settings=build_settings(kind.settings, gates=(gates or Gates()).__getitem__),
        reader=reader,
        clock=clock,
        rng=random.Random(seed),
        report=report,
    )


def chain_of(
    gates: Gates | None = None,
    *,
    clock: Clock = read_system_clock,
    report: Callable[[str, StepReport], None] = lambda component, report: None,
    **readers: Any,
) -> PodChain:
    """The steps of all kinds under these gates; `readers` by the name of a kind."""
    context = ReviewContext(
        lookups=Lookups(readers=readers, clock=clock), report=report, rng=random.Random(1)
    )
    return steps_of_pods(make_admission_settings(gates or Gates()), context)
