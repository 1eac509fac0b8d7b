"""Options of workloads that OpenKruise's definitions do not have, as annotations of the workload.

metadata.annotations ──▶ Option.read() ──▶ the value; None: the option is not set
                     ──▶ find_option_errors() ──▶ field errors, for admission and for stored objects

Pure. Definitions stay equal to OpenKruise's, and API servers store every annotation, so an option survives a switch to
OpenKruise and back. A workload without the annotation behaves as OpenKruise does.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

import msgspec

from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.values.int_or_percent import IntOrPercent, is_whole_percent
from pykruise.kube.values.selectors import Selector, parse_label_selector

T = TypeVar("T")

_WHOLE_NUMBER: Final = re.compile("[0-9]{1,10}")

LONGEST_S: Final = 2**31 - 1


class Option(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One option: its annotation, and the function that parses the annotation's text."""

    annotation: str
    parse: Callable[[str], T]
    """Returns the value. Raises ValueError with a description of the accepted values."""

    @property
    def field(self) -> str:
        """Path of the annotation in the workload."""
        return self.field_in("metadata")

    def field_in(self, metadata: str) -> str:
        """Path of the annotation below the path of some metadata."""
        return f"{metadata}.annotations[{self.annotation}]"

    def read(self, annotations: Mapping[str, str]) -> T | None:
        """Return the value; None if the option is not set. Raises ValueError for an invalid text. Admission and the
        controller find such texts with `find_option_errors` before they read options.
        """
        text = annotations.get(self.annotation)
        return None if text is None else self.parse(text)


def find_option_errors(
    annotations: Any, options: Iterable[Option[Any]], *, metadata: str = "metadata"
) -> Iterator[Cause]:
    """Yield an error for each option whose text cannot be parsed. `metadata`: path of the metadata with these
    annotations. Annotations that are not an object have no options.
    """
    for option in options if isinstance(annotations, Mapping) else ():
        text = annotations.get(option.annotation)
        try:
            if isinstance(text, str):
                option.parse(text)
        except ValueError as error:
            yield make_invalid_error(option.field_in(metadata), text, str(error))


class PodReplacementPolicy(StrEnum):
    """The time at which a successor is created for a pod that is deleted. The values are those of Kubernetes' Job."""

    TERMINATING_OR_FAILED = "TerminatingOrFailed"
    """When the pod terminates or has failed: the behavior without the option."""
    FAILED = "Failed"
    """When the pod has ended: its phase is Failed or Succeeded, or it no longer exists."""


class SuccessorPlacement(StrEnum):
    """Place of a pod that replaces another one. The names are like those of a Service's trafficDistribution."""

    PREFER_SAME_NODE = "PreferSameNode"
    PREFER_SAME_ZONE = "PreferSameZone"
    REQUIRE_SAME_NODE = "RequireSameNode"
    REQUIRE_SAME_ZONE = "RequireSameZone"

    @property
    def is_same_node(self) -> bool:
        """Whether the place is the node, not only the zone."""
        return self in (SuccessorPlacement.PREFER_SAME_NODE, SuccessorPlacement.REQUIRE_SAME_NODE)

    @property
    def is_required(self) -> bool:
        """Whether the pod must run there; otherwise the scheduler prefers the place."""
        return self in (SuccessorPlacement.REQUIRE_SAME_NODE, SuccessorPlacement.REQUIRE_SAME_ZONE)


def _parse_placement(text: str) -> SuccessorPlacement:
    try:
        return SuccessorPlacement(text)
    except ValueError:
        raise ValueError(f"must be one of {', '.join(SuccessorPlacement)}") from None


def _parse_policy(text: str) -> PodReplacementPolicy:
    try:
        return PodReplacementPolicy(text)
    except ValueError:
        raise ValueError(f"must be {' or '.join(PodReplacementPolicy)}") from None


def _parse_seconds(text: str) -> int:
    if _WHOLE_NUMBER.fullmatch(text) is None or not 0 < int(text) <= LONGEST_S:
        raise ValueError(f"must be a whole number of seconds, from 1 to {LONGEST_S}")
    return int(text)


def _parse_amount(text: str) -> IntOrPercent:
    if is_whole_percent(text) and int(text[:-1]) <= 100:
        return text
    if _WHOLE_NUMBER.fullmatch(text) is None:
        raise ValueError("must be a whole number (such as 3), or a percentage (from 0% to 100%)")
    return int(text)


def _parse_count(text: str) -> int:
    if _WHOLE_NUMBER.fullmatch(text) is None:
        raise ValueError("must be a whole number, such as 3")
    return int(text)


def _parse_selector(text: str) -> Selector:
    if not text.strip():
        raise ValueError("must be a label selector that is not empty, such as example.com/broken=true")
    return parse_label_selector(text)


def _parse_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def _parse_surge(text: str) -> IntOrPercent:
    if _WHOLE_NUMBER.fullmatch(text) is not None and int(text) > 0:
        return int(text)
    if is_whole_percent(text) and 0 < int(text[:-1]) <= 100:
        return text
    raise ValueError("must be a number of pods (at least 1), or a percentage (from 1% to 100%)")


ALL_PODS: Final = "all"


def _parse_least(text: str) -> IntOrPercent:
    if text == ALL_PODS:
        return "100%"
    if _WHOLE_NUMBER.fullmatch(text) is not None and 0 < int(text) <= LONGEST_S:
        return int(text)
    if is_whole_percent(text) and 0 < int(text[:-1]) <= 100:
        return text
    raise ValueError("must be all, a number of pods (at least 1), or a percentage (from 1% to 100%)")


ALL_OBJECTS: Final = "all"

_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def _parse_objects(text: str) -> frozenset[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(_OBJECT_NAME.fullmatch(name) for name in names):
        raise ValueError("must be all, or names of ConfigMaps and Secrets, such as app-config,app-secret")
    return frozenset(names)


def _refuse_surge(_text: str) -> None:
    raise ValueError(
        "is only for CloneSets: the ordinal and the PVCs of a StatefulSet's pod belong to one pod, so no successor can "
        "run beside it"
    )


def _refuse_gang(_text: str) -> None:
    raise ValueError("cannot be set in workloads that another workload creates")


POD_REPLACEMENT_POLICY: Final = Option(annotation="pykruise.io/pod-replacement-policy", parse=_parse_policy)
"""Whether the successor of a terminating pod waits until the pod has ended."""

REPLACE_NEVER_READY: Final = Option(
    annotation="pykruise.io/replace-never-ready-after-seconds", parse=_parse_seconds
)
"""Seconds from the creation of a pod of an older revision until it is replaced, if it has never been ready."""

IGNORE_UNAVAILABLE_NODES: Final = Option(
    annotation="pykruise.io/ignore-unavailable-nodes", parse=_parse_amount
)
"""Maximum number of nodes out of service that an update ignores, or a percentage of the workload's nodes."""

UNAVAILABLE_NODES_SELECTOR: Final = Option(
    annotation="pykruise.io/unavailable-nodes-selector", parse=_parse_selector
)
"""Labels of further nodes that count as out of service for `IGNORE_UNAVAILABLE_NODES`."""

STRICT_MAX_UNAVAILABLE: Final = Option(annotation="pykruise.io/strict-max-unavailable", parse=_parse_bool)
"""Whether a DaemonSet's pod that is not available waits for its turn to be updated, like an available pod."""

UPDATED_PODS: Final = Option(annotation="pykruise.io/updated-pods", parse=_parse_count)
"""Number of pods that get the newest sidecars of a SidecarSet; all others keep those of an older revision."""

ROLL_ON_POD_METADATA: Final = Option(annotation="pykruise.io/roll-on-pod-metadata", parse=_parse_bool)
"""Whether a SidecarSet also changes the annotations of running pods, as an upgrade."""

SUCCESSOR_PLACEMENT: Final = Option(annotation="pykruise.io/successor-placement", parse=_parse_placement)
"""Whether a pod that replaces another pod prefers or requires the node, or the zone, of the other pod."""

EVICTION_SURGE: Final = Option(annotation="pykruise.io/eviction-surge", parse=_parse_surge)
"""Maximum number of pods that have a successor at the same time before they are evicted, or a percentage of replicas,
rounded up. Without the option, no successor is created before an eviction.
"""

NO_EVICTION_SURGE: Final = Option(annotation=EVICTION_SURGE.annotation, parse=_refuse_surge)
"""Annotation of EVICTION_SURGE on a StatefulSet: every value is an error."""

ROLL_ON_CONFIG: Final = Option(annotation="pykruise.io/roll-on-config", parse=_parse_objects)
"""Names of the ConfigMaps and Secrets of the template whose content belongs to the revision; `all`: every one. Needs
the feature gate RollOnConfig.
"""

GANG_MIN_COUNT: Final = Option(annotation="pykruise.io/gang-min-count", parse=_parse_least)
"""Number of pods that the scheduler starts together or not at all, or a percentage of all pods, rounded up; `all`:
every pod. The pods are a group of Kubernetes' scheduler. Needs the feature gate PodGroups.
"""

NO_GANG: Final = Option(annotation=GANG_MIN_COUNT.annotation, parse=_refuse_gang)
"""Annotation of GANG_MIN_COUNT in a template of a UnitedDeployment: every value is an error."""
