"""Reports the changes of containers that the container runtime sends as events.

GetContainerEvents ──▶ RuntimeChanges.run() ──▶ on_change(uid of the pod)

Code that waits for a change must also poll, every `poll_s`, because some runtimes send no events (containerd before
1.7). Other runtimes send each event to only one client (containerd 1.7), and this client must be the kubelet. If the
runtime was not reachable and events were missed, `on_change("")` asks the receiver to check all pods.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from pykruise.agent.cri.errors import CriError, UnsupportedCallError
from pykruise.agent.cri.runtimes import Runtime

_log = logging.getLogger(__name__)

POLL_S: Final = 1.0
POLL_BESIDE_EVENTS_S: Final = 10.0
RETRY_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)


class RuntimeChanges:
    """Calls `on_change` for each change of a container in one runtime, as long as `run()` runs."""

    def __init__(self, runtime: Runtime, on_change: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._on_change = on_change
        self._has_events = False

    @property
    def poll_s(self) -> float:
        """Seconds between polls while waiting for a change."""
        return POLL_BESIDE_EVENTS_S if self._has_events else POLL_S

    async def run(self) -> None:
        """Follow events until cancelled; return immediately if the runtime has no events for the agent."""
        if self._runtime.splits_events:
            _log.info(
                "the container runtime sends each event to only one client: the agent leaves the events to the kubelet,"
                " and polls the runtime every %g s while a task waits",
                POLL_S,
            )
            return
        failures = 0
        while True:
            try:
                async for event in self._runtime.client.watch_events():
                    self._has_events, failures = True, 0
                    self._on_change(event.pod_uid)
            except UnsupportedCallError:
                _log.info(
                    "the container runtime sends no events: the agent polls the runtime every %g s while a task waits",
                    POLL_S,
                )
                return
            except CriError as error:
                self._has_events = False
                wait_s = RETRY_S[min(failures, len(RETRY_S) - 1)]
                failures += 1
                _log.log(
                    logging.WARNING if failures == 1 else logging.DEBUG,
                    "the event stream of the container runtime ended (%s); retry in %g s",
                    error,
                    wait_s,
                )
                await asyncio.sleep(wait_s)
                self._on_change("")
