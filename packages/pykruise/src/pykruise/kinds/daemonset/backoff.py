"""Delays before a finished pod of a node is replaced, if the previous pod of this node finished a short time ago.

plans that delete finished pods ──▶ Backoffs.note() ──▶ memory ──▶ Backoffs.find_ends() ──▶ the next snapshot

Owns state, because the cluster does not record deleted pods. After a restart of the manager there are no delays, so one
finished pod per node is replaced too early. Kubernetes' DaemonSet controller does the same.
"""

from collections.abc import Iterable

import msgspec

from pykruise.kube.clock import Instant

FIRST_S = 1.0
LONGEST_S = 900.0
FORGOTTEN_AFTER_S = 1800.0
"""Seconds without a replacement after which the delays of a node start again with the first delay."""


class _Delay(msgspec.Struct):
    seconds: float
    since: Instant


class Backoffs:
    """Delays by node, for one generation of one DaemonSet. A new generation starts without delays."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._delays: dict[str, _Delay] = {}

    def find_ends(self, *, now: Instant) -> dict[str, Instant]:
        """Return the nodes whose finished pod must not be replaced yet, each with the end of the delay."""
        self._delays = {
            node: delay for node, delay in self._delays.items() if now - delay.since <= FORGOTTEN_AFTER_S
        }
        return {
            node: due for node, delay in self._delays.items() if (due := delay.since + delay.seconds) > now
        }

    def note(self, nodes: Iterable[str], *, now: Instant) -> None:
        """Record that a finished pod is replaced on each of these nodes. Each delay is twice as long as the one before,
        up to LONGEST_S.
        """
        for node in nodes:
            delay = self._delays.get(node)
            if delay is None:
                self._delays[node] = _Delay(FIRST_S, now)
            else:
                delay.seconds = min(delay.seconds * 2, LONGEST_S)
                delay.since = now
