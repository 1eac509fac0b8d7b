"""Protocol of all parts of a manager that are not controllers, such as webhooks and servers.

Manager ──run()──▶ Component ──list_problems()──▶ readiness, doctor, logs
        ──stop()─▶

Components run in every replica, whether it leads or not. The controllers wait until no component has a problem,
because they must not act on objects without defaults.
"""

from collections.abc import Sequence
from typing import Protocol


class ManagerComponent(Protocol):
    """A part of a manager that runs beside the controllers."""

    @property
    def name(self) -> str:
        """Name in readiness checks and logs: `webhook-ready`."""
        ...

    async def run(self) -> None:
        """Work until `stop()` or cancellation. An exception ends the manager, so expected errors must not be raised."""
        ...

    def retire(self) -> None:
        """Prepare for `stop()`, which follows soon: direct clients to other replicas, and continue to serve."""
        ...

    async def stop(self) -> None:
        """Begin a graceful end. Returns when running work is complete; `run()` then also returns."""
        ...

    def list_problems(self) -> Sequence[str]:
        """Return the reasons why the component is not ready now, each as a sentence with the remedy; empty: it is
        ready.
        """
        ...
