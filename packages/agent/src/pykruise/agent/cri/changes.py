"""That something happened to a pod's containers: the runtime's events, where it has them.

GetContainerEvents ──▶ RuntimeChanges.run() ──▶ on_change(uid of the pod)

A runtime without events (containerd before 1.7) is asked again and again by those who wait for something: `poll_s` says
how often. When events were missed, because the runtime was away, all listeners look again (`on_change("")`).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from pykruise.agent.cri.client import CriClient
from pykruise.agent.cri.errors import CriError, UnsupportedCallError

_log = logging.getLogger(__name__)

POLL_S: Final = 1.0
POLL_BESIDE_EVENTS_S: Final = 10.0
RETRY_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)


class RuntimeChanges:
    """Tells `on_change` about containers of one runtime while `run()` runs."""

    def __init__(self, client: CriClient, on_change: Callable[[str], None]) -> None:
        self._client = client
        self._on_change = on_change
        self._has_events = False

    @property
    def poll_s(self) -> float:
        """How often to ask for what one waits for."""
        return POLL_BESIDE_EVENTS_S if self._has_events else POLL_S

    async def run(self) -> None:
        """Follow events until cancelled; return at once where there are none."""
        failures = 0
        while True:
            try:
                async for event in self._client.events():
                    self._has_events, failures = True, 0
                    self._on_change(event.pod_uid)
            except UnsupportedCallError:
                _log.info("the runtime has no events: it is asked every %g s while a task waits", POLL_S)
                return
            except CriError as error:
                self._has_events = False
                wait_s = RETRY_S[min(failures, len(RETRY_S) - 1)]
                failures += 1
                _log.log(
                    logging.WARNING if failures == 1 else logging.DEBUG,
                    "events of the runtime ended (%s); again in %g s",
                    error,
                    wait_s,
                )
                await asyncio.sleep(wait_s)
                self._on_change("")
