"""Parts of a manager besides the controllers, behind one protocol: webhooks, servers, and others.

Manager ──run()──▶ Component ──problems()──▶ readiness, doctor, logs
        ──stop()─▶

Components run in every replica, leading or not. The controllers wait until no component has a problem, since
objects that were not defaulted must not be acted upon.
"""

from collections.abc import Sequence
from typing import Protocol


class ManagerComponent(Protocol):
    """A part of a manager with a life of its own."""

    @property
    def name(self) -> str:
        """As readiness checks and logs name it: `webhook-ready`."""
        ...

    async def run(self) -> None:
        """Work until `stop()` or cancellation. What it raises ends the manager, so it raises only for bugs."""
        ...

    def retire(self) -> None:
        """`stop()` follows in a moment: send whom it serves elsewhere, and go on serving."""
        ...

    async def stop(self) -> None:
        """Begin a graceful end; returns when what was under way is done. `run()` returns then."""
        ...

    def problems(self) -> Sequence[str]:
        """Why it is not ready now, one sentence each that says what to do; empty: it is."""
        ...
