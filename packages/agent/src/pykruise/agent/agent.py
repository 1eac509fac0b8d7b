"""The agent of one node: its parts share one client and the node's container runtimes.

Client, Runtimes ──▶ ImagePuller, Recreator, Prober, MetadataReporter (each with its cache and its recorder)

`run()` returns after `stop()`, when the writes in flight have finished. All state is stored at the API server and in
the runtime: if an agent is killed or replaced, nothing is lost.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from pykruise.agent.cri.runtimes import Runtimes
from pykruise.agent.flags import AgentSettings
from pykruise.agent.image_puller import ImagePuller
from pykruise.agent.keyring import Keyring, Provider
from pykruise.agent.metadata_reporter import MetadataReporter
from pykruise.agent.prober import Prober
from pykruise.agent.recreator import Recreator
from pykruise.kube.cache.cache import Cache
from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.control.controller import Controller

CHECKS: Final = {
    "image-puller": "nodeImageInformerSynced",
    "recreator": "crrInformerSynced",
    "prober": "nodePodProbeInformerSynced",
}
"""The name of each part's health check. Same names as in OpenKruise's daemon."""


class Part(Protocol):
    """A part of the agent."""

    name: str
    cache: Cache[Any]
    controller: Controller[Any]

    async def run(self) -> None:
        """Work until `stop()`."""
        ...

    async def stop(self, *, grace_s: float) -> None:
        """Finish the work in progress within `grace_s` seconds, or cancel it; then `run()` returns."""
        ...


class Agent:
    """The agent of the node that the settings name. `providers` return the node's own registry credentials."""

    def __init__(
        self,
        client: Client,
        runtimes: Runtimes,
        settings: AgentSettings,
        *,
        providers: Sequence[Provider] = (),
        clock: Clock = read_system_clock,
        rng: random.Random | None = None,
    ) -> None:
        rng = rng or random.Random()
        self._stop_grace_s = settings.stop_grace_s
        self._stopping = asyncio.Event()
        self._recorders: list[EventRecorder] = []

        def recorder(part: str) -> EventRecorder:
            made = EventRecorder(client, f"kruise-daemon-{part}", host=settings.node, clock=clock, rng=rng)
            self._recorders.append(made)
            return made

        common: dict[str, Any] = {"node": settings.node, "clock": clock, "rng": rng}
        parts: list[Part] = [
            ImagePuller(
                client,
                runtimes.first.client,
                keyring=Keyring(client, clock=clock, rng=rng, providers=providers),
                recorder=recorder("imagepuller"),
                most=settings.most_pulls,
                **common,
            ),
            Recreator(client, runtimes, recorder=recorder("crr"), **common),
        ]
        if settings.gates.probes:
            parts.append(Prober(client, runtimes, recorder=recorder("podprobe"), **common))
        if settings.gates.watches_pods:
            parts.append(
                MetadataReporter(
                    client,
                    runtimes,
                    recorder=recorder("containermeta"),
                    with_environment=settings.gates.reports_environment,
                    **common,
                )
            )
        self.parts: Sequence[Part] = parts

    async def run(self) -> None:
        """Work until `stop()` or until cancelled. Raises only for bugs."""
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(part.cache.run(), name=f"cache of {part.name}") for part in self.parts
            ]
            background += [tasks.create_task(recorder.run(), name="events") for recorder in self._recorders]
            work = [tasks.create_task(part.run(), name=part.name) for part in self.parts]
            await self._stopping.wait()
            await asyncio.gather(*(part.stop(grace_s=self._stop_grace_s) for part in self.parts))
            await asyncio.gather(*(recorder.flush() for recorder in self._recorders))
            for task in (*work, *background):
                task.cancel()

    def stop(self) -> None:
        """Begin a graceful stop: `run()` returns when the writes in flight are done."""
        self._stopping.set()

    def list_problems(self) -> Mapping[str, Sequence[str]]:
        """The agent's problems, by the name of the health check."""
        return {
            check: () if part.cache.read_stats().synced else (_describe_unfilled(part.cache),)
            for part in self.parts
            if (check := CHECKS.get(part.name))
        }


def _describe_unfilled(cache: Cache[Any]) -> str:
    return (
        f"the cache is not filled yet: {cache.read_stats().last_error or 'the first list has not finished'}"
    )
