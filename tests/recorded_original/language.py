"""Scenarios as data: the actions of a client on a cluster, and its observations.

Every response is recorded; `Settle` also records all objects that the scenario watches. `$NS` in any text is replaced
by the scenario's namespace, and `$NS-…` by further names that only the scenario uses.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

__all__ = [
    "NAMESPACE",
    "Create",
    "Delete",
    "DeletePod",
    "Evict",
    "Group",
    "NextMinute",
    "Patch",
    "PatchPod",
    "Scenario",
    "Settle",
    "Step",
    "Try",
    "TryPatch",
    "Wanted",
]

Document = dict[str, Any]

NAMESPACE: Final = "$NS"
"""The namespace of a scenario, in its texts."""


class Step(msgspec.Struct, frozen=True):
    """One action of a client."""


class Create(Step, frozen=True):
    """Create an object."""

    document: Document


class Patch(Step, frozen=True):
    """Merge-patch an object."""

    kind: str
    name: str
    change: Document
    subresource: str = ""


class Delete(Step, frozen=True):
    """Delete an object; `policy` is the propagation policy, empty: the server's default."""

    kind: str
    name: str
    policy: str = ""


class PatchPod(Step, frozen=True):
    """Merge-patch the pod at this position among the pods of a label `app`, by name."""

    app: str
    place: int
    change: Document
    subresource: str = ""


class DeletePod(Step, frozen=True):
    """Delete the pod at this position among the pods of a label `app`, by name."""

    app: str
    place: int


class Evict(Step, frozen=True):
    """Evict the pod at this position among the pods of a label `app`, by name."""

    app: str
    place: int


class Try(Step, frozen=True):
    """Create an object as a dry run; the object that would be stored, or the rejection, is recorded."""

    document: Document


class TryPatch(Step, frozen=True):
    """Merge-patch an object as a dry run; the object that would be stored, or the rejection, is recorded."""

    kind: str
    name: str
    change: Document


class Settle(Step, frozen=True):
    """Wait until nothing has changed for `quiet_s`, then record all objects."""

    quiet_s: float = 5.0
    at_most_s: float = 120.0


class NextMinute(Step, frozen=True):
    """Wait until `after_s` seconds after the beginning of a minute."""

    after_s: float = 8.0


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """An intended difference: its places in a result, and its reason.

    `at`: patterns of places (as in a shell, but `*` also matches `/`). `is_wrong`: pykruise should behave like
    OpenKruise, but does not yet; `why` describes the error.
    """

    at: tuple[str, ...]
    why: str
    is_wrong: bool = False
    versions: tuple[str, ...] = ("v1beta1", "v1alpha1")
    """Versions in which the difference exists."""
    shown_in: str = ""
    """The kind whose scenarios show that a difference of all kinds still exists."""
    only: Literal["", "blank", "both", "more", "written"] = ""
    """Restricts the difference. `blank`: both values are empty or absent; `both`: both have a value; `more`: only
    pykruise has a value; `written`: both are the same quantity in different notations."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario in its own namespace."""

    name: str
    steps: Sequence[Step]
    differs: tuple[Wanted, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Further namespaces, `$NS-…`."""
    namespace_labels: Mapping[str, str] = {}
    """Labels of all namespaces of the scenario."""
    versions: tuple[str, ...] = ("v1beta1",)
    """API versions in which the scenario can be played."""

    def is_played_in(self, version: str) -> bool:
        """Whether the scenario is played in this API version."""
        return version in self.versions


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The scenarios of one kind."""

    kind: str
    scenarios: tuple[Scenario, ...]
    watched: tuple[str, ...] = ()
    """Further kinds whose objects are recorded; the kind itself, its pods, revisions and events always are."""
    differs: tuple[Wanted, ...] = ()
    """Differences of more than one scenario of the group."""
    shows_nodes: bool = False
    """Whether names of nodes and zones are compared. False: a scheduler chose them."""
    one_by_one: bool = False
    """Whether the scenarios run one after the other. In parallel they would share the NodeImages. The agent writes the
    status of a NodeImage only every two seconds, so the recorded times would depend on its load."""
