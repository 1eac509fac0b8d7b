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
    """Versions in which it is one."""
    shown_in: str = ""
    """Of a difference of every kind: the kind whose scenarios show that it is one still."""
    only: Literal["", "blank", "both", "more", "written"] = ""
    """Where alone it counts: `blank`: each of the two has an empty value or none; `both`: both have a value; `more`:
    nothing was recorded there; `written`: the two are one quantity, written in two ways."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario in its own namespace."""

    name: str
    steps: Sequence[Step]
    differs: tuple[Wanted, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Further namespaces, `$NS-…`."""
    namespace_labels: Mapping[str, str] = {}
    """Of all its namespaces."""
    versions: tuple[str, ...] = ("v1beta1",)
    """Versions of kinds in which it can be told."""

    def is_played_in(self, version: str) -> bool:
        """Whether it is told in this version."""
        return version in self.versions


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The scenarios of one kind."""

    kind: str
    scenarios: tuple[Scenario, ...]
    watched: tuple[str, ...] = ()
    """Kinds that are looked at beside it, its pods, revisions and events."""
    differs: tuple[Wanted, ...] = ()
    """Differences of more than one scenario of the group."""
    shows_nodes: bool = False
    """Whether names of nodes and zones are compared; no: a scheduler chose them."""
    one_by_one: bool = False
    """Whether each scenario waits for the one before. They would share the NodeImages, whose status a node agent writes
    only once in two seconds: they would then see how busy the agent is."""
