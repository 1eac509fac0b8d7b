"""Common fields of all workloads' specs: `updateStrategy` and `lifecycle`.

kinds/<kind>/types.py ──▶ CloneSetSpec, StatefulSetSpec, DaemonSetSpec inherit these properties

Pure.
"""

from typing import Any, Final, Generic, Protocol, TypeVar

from pykruise.pods.api import IN_PLACE_POLICIES, InPlaceUpdateStrategy, PodUpdatePolicy, UpdateType
from pykruise.pods.lifecycle.states import Lifecycle

LARGEST_SET: Final = 150_000
"""Number of pods that Kubernetes supports in a whole cluster. `kubectl scale` accepts any number. A mistyped number
must not fill the memory, or a cluster, with pods that can never exist.
"""

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
        """Whether pods change only when a person deletes them."""
        return self.update_strategy is not None and self.update_strategy.type == UpdateType.ON_DELETE

    @property
    def rolling_update(self) -> B | None:
        """`updateStrategy.rollingUpdate`; None under OnDelete, which ignores it."""
        return (
            None if self.update_strategy is None or self.is_on_delete else self.update_strategy.rolling_update
        )

    @property
    def is_paused(self) -> bool:
        """Whether updates are paused. Pods are still created and deleted."""
        return self.rolling_update is not None and self.rolling_update.paused

    @property
    def hooks(self) -> Lifecycle:
        """Lifecycle hooks; empty when the spec has none."""
        return self.lifecycle or _NO_HOOKS


class SpecWithPolicy(RollingSpec[P]):
    """A spec with an update strategy, hooks and a podUpdatePolicy."""

    @property
    def policy(self) -> str:
        """A `PodUpdatePolicy`; ReCreate by default."""
        block = self.rolling_update
        return (block.pod_update_policy if block else "") or PodUpdatePolicy.RECREATE

    @property
    def is_in_place(self) -> bool:
        """Whether the policy prefers to change pods in place."""
        return self.policy in IN_PLACE_POLICIES

    @property
    def in_place(self) -> InPlaceUpdateStrategy:
        """Settings of in-place updates, or their defaults."""
        block = self.rolling_update
        return (block.in_place_update_strategy if block else None) or _NO_SETTINGS


def describe_excess(replicas: int) -> str:
    """Error text for more than LARGEST_SET pods."""
    return f"{replicas} is more than the {LARGEST_SET} pods that a cluster can have"
