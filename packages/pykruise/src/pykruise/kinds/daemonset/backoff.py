"""How soon a pod that fails on a node may be replaced there again.

plans that delete finished pods ──▶ Backoffs.note() ──▶ memory ──▶ Backoffs.until() ──▶ the next snapshot

Owns state: nothing in a cluster remembers pods that are gone. A manager that starts anew starts with none,
which costs one replacement per node. Rule: Kubernetes' DaemonSet controller.
"""

from collections.abc import Iterable

import msgspec

from pykruise.kube.clock import Instant

FIRST_S = 1.0
LONGEST_S = 900.0
FORGOTTEN_AFTER_S = 1800.0
"""Idle for so long, a node begins anew."""


class _Delay(msgspec.Struct):
    seconds: float
    since: Instant


class Backoffs:
    """Delays by node, of one DaemonSet in one generation: another spec is another try."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._delays: dict[str, _Delay] = {}

    def until(self, *, now: Instant) -> dict[str, Instant]:
        """Nodes on which a finished pod has to stay, and until when."""
        self._delays = {
            node: delay for node, delay in self._delays.items() if now - delay.since <= FORGOTTEN_AFTER_S
        }
        return {
            node: due for node, delay in self._delays.items() if (due := delay.since + delay.seconds) > now
        }

    def note(self, nodes: Iterable[str], *, now: Instant) -> None:
        """A finished pod is being replaced on each of these nodes: the next one waits twice as long."""
        for node in nodes:
            delay = self._delays.get(node)
            if delay is None:
                self._delays[node] = _Delay(FIRST_S, now)
            else:
                delay.seconds = min(delay.seconds * 2, LONGEST_S)
                delay.since = now
