"""Common fields of all workloads' specs: `updateStrategy` and `lifecycle`.

kinds/<kind>/types.py ──▶ CloneSetSpec, StatefulSetSpec, DaemonSetSpec add these properties to their fields

Pure.
"""

from typing import Any, Final, Generic, Protocol, TypeVar

from pykruise.pods.api import IN_PLACE_POLICIES, InPlaceUpdateStrategy, PodUpdatePolicy, UpdateType
from pykruise.pods.lifecycle.states import Lifecycle

LARGEST_SET: Final = 150_000
"""Pods that Kubernetes supports in a whole cluster. `kubectl scale` lets any number through, and a slip of the
finger must not fill the memory, or a cluster, with pods that can never be."""

_NO_HOOKS: Final = Lifecycle()
_NO_SETTINGS: Final = InPlaceUpdateStrategy()


class _Block(Protocol):
    @property
    def paused(self) -> bool: ...


class _BlockWithPolicy(_Block, Protocol):
    @property
    def pod_update_policy(self) -> str: ...
    @property
    def in_place_update_strategy(self) -> InPlaceUpdateStrategy | None: ...


B = TypeVar("B", bound=_Block)
P = TypeVar("P", bound=_BlockWithPolicy)


class RollingSpec(Generic[B]):
    """A spec with an update strategy and hooks. `B`: the type of `updateStrategy.rollingUpdate`."""

    lifecycle: Any
    update_strategy: Any

    @property
    def is_on_delete(self) -> bool:
        """Whether pods only change when they are deleted by hand."""
        return self.update_strategy is not None and self.update_strategy.type == UpdateType.ON_DELETE

    @property
    def rolling_update(self) -> B | None:
        """The block; None under OnDelete, where it is not looked at."""
        return (
            None if self.update_strategy is None or self.is_on_delete else self.update_strategy.rolling_update
        )

    @property
    def is_paused(self) -> bool:
        """Whether updating is stopped; pods still come and go."""
        return self.rolling_update is not None and self.rolling_update.paused

    @property
    def hooks(self) -> Lifecycle:
        """The hooks at the turns of a pod's life, be it none."""
        return self.lifecycle or _NO_HOOKS


class SpecWithPolicy(RollingSpec[P]):
    """... whose pods are updated as podUpdatePolicy says."""

    @property
    def policy(self) -> str:
        """A `PodUpdatePolicy`; ReCreate when not said."""
        block = self.rolling_update
        return (block.pod_update_policy if block else "") or PodUpdatePolicy.RECREATE

    @property
    def is_in_place(self) -> bool:
        """Whether pods are to be changed rather than recreated."""
        return self.policy in IN_PLACE_POLICIES

    @property
    def in_place(self) -> InPlaceUpdateStrategy:
        """Settings of updates in place, as they are or by default."""
        block = self.rolling_update
        return (block.in_place_update_strategy if block else None) or _NO_SETTINGS


def too_large(replicas: int) -> str:
    """Say what is wrong with more than LARGEST_SET pods."""
    return f"{replicas} is more than the {LARGEST_SET} pods that a cluster can have"
