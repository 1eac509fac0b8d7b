"""Events that steps of pod admission report. The component of a kind is the source of its events.

step ──StepReport──▶ StepReports.report() ──▶ EventRecorder of the component (in the background)
                                          ──▶ on_prevented, for pods that were protected
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping

from pykruise.admission.pods.chain import PodKind
from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Clock
from pykruise.plans.pod_steps import PreventedDisruption, StepReport


class StepReports:
    """Records the reports of the steps of these kinds. `on_prevented` is called for each pod that was protected."""

    def __init__(
        self,
        client: Client,
        parts: Iterable[PodKind],
        *,
        clock: Clock,
        rng: random.Random,
        on_prevented: Callable[[PreventedDisruption], None] = lambda prevented: None,
    ) -> None:
        components = {part.steps.component for part in parts if part.steps.component}
        self._recorders: Mapping[str, EventRecorder] = {
            component: EventRecorder(client, component, clock=clock, rng=rng)
            for component in sorted(components)
        }
        self._on_prevented = on_prevented

    def report(self, component: str, report: StepReport) -> None:
        """Record the events of a report. Returns immediately and never raises."""
        if report.prevented is not None:
            self._on_prevented(report.prevented)
        record_events(self._recorders[component], report)

    async def run(self) -> None:
        """Write events until this is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for recorder in self._recorders.values():
                tasks.create_task(recorder.run())

    async def flush(self) -> None:
        """Write the pending events."""
        await asyncio.gather(*(recorder.flush() for recorder in self._recorders.values()))


def record_events(recorder: EventRecorder, report: StepReport) -> None:
    """Record the events of a report, as events of type Warning."""
    for event in report.events:
        recorder.record(
            event.resource,
            namespace=event.namespace,
            name=event.name,
            uid=event.uid,
            reason=event.reason,
            message=event.message,
            warning=True,
        )
