"""The maximum size of a status, for every kind.

Whole statuses are generated from the schemas, with texts and lists as long as another party can make them. The
result of fit_status() is at most MOST_MORE larger than the entries; and the number of entries is that of the spec, or
has its own limit (GROWS).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson
import pytest

from pykruise.kinds.advancedcronjob.plan import MOST_LISTED
from pykruise.kinds.persistentpodstate.status import MOST_RECORDED, fit_records
from pykruise.kinds.persistentpodstate.types import PodState
from pykruise.kube.excerpts import MOST_NAMED, MOST_TEXT, MOST_TOLD, fit_status
from pykruise.pods.workload.budgets import MOST_UNCONFIRMED
from support.open_definitions import open_crds

Object = dict[str, Any]
Path = tuple[str, ...]

MOST_MORE: Final = 320 * 1024
MANY: Final = 400
"""Entries of each list of a generated status."""
LONG: Final = " ".join(f"spec.containers[{number}]: not allowed" for number in range(2_000))
NAME: Final = "n" * 253


class Grows(msgspec.Struct, frozen=True):
    """The reason for which a list or map of entries does not grow forever."""

    by: str
    most: int = 0
    """Maximum number of entries; 0: the number in the spec, or the named limit."""


OWN_CONDITIONS: Final = Grows("conditions: one for each type")
GROWS: Final[Mapping[tuple[str, str], Grows]] = {
    ("AdvancedCronJob", "active"): Grows("MOST_LISTED", MOST_LISTED),
    ("ContainerRecreateRequest", "containerRecreateStates"): Grows("spec.containers"),
    ("ContainerRecreateRequest", "containerStatusSnapshot"): Grows("spec.containers"),
    ("ImageListPullJob", "failedImageStatuses"): Grows("spec.images"),
    ("NodeImage", "imageStatuses"): Grows("spec.images"),
    ("NodeImage", "imageStatuses.*.tags"): Grows("spec.images.*.tags"),
    ("NodePodProbe", "podProbeStatuses"): Grows("spec.podProbes"),
    ("NodePodProbe", "podProbeStatuses.*.probeStates"): Grows("spec.podProbes.*.probes"),
    ("PersistentPodState", "podStates"): Grows("MOST_RECORDED bytes"),
    ("PersistentPodState", "podStates.*.annotations"): Grows("MOST_RECORDED bytes"),
    ("PersistentPodState", "podStates.*.nodeTopologyLabels"): Grows("MOST_RECORDED bytes"),
    ("PodUnavailableBudget", "disruptedPods"): Grows("MOST_UNCONFIRMED", MOST_UNCONFIRMED),
    ("PodUnavailableBudget", "unavailablePods"): Grows("MOST_UNCONFIRMED", MOST_UNCONFIRMED),
    ("StatefulSet", "volumeClaims"): Grows("spec.volumeClaimTemplates"),
    ("UnitedDeployment", "subsetStatuses"): Grows("spec.topology.subsets"),
    ("UnitedDeployment", "subsetStatuses.*.conditions"): OWN_CONDITIONS,
    ("WorkloadSpread", "subsetStatuses"): Grows("spec.subsets"),
    ("WorkloadSpread", "subsetStatuses.*.conditions"): OWN_CONDITIONS,
    ("WorkloadSpread", "subsetStatuses.*.creatingPods"): Grows("maxReplicas of the subset, for 30 s each"),
    ("WorkloadSpread", "subsetStatuses.*.deletingPods"): Grows("maxReplicas of the subset, for 15 s each"),
    ("WorkloadSpread", "versionedSubsetStatuses"): Grows("versions of the workload that have pods"),
    ("WorkloadSpread", "versionedSubsetStatuses.*"): Grows("spec.subsets"),
    ("WorkloadSpread", "versionedSubsetStatuses.*.*.conditions"): OWN_CONDITIONS,
    ("WorkloadSpread", "versionedSubsetStatuses.*.*.creatingPods"): Grows("maxReplicas of the subset"),
    ("WorkloadSpread", "versionedSubsetStatuses.*.*.deletingPods"): Grows("maxReplicas of the subset"),
}
"""All lists and maps of entries in statuses, except lists of names, which are shortened."""


def schemas() -> Iterator[tuple[str, Object]]:
    """Schemas of the statuses of the stored versions, by kind."""
    for crd in open_crds():
        for version in crd["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]["properties"]
            if version["storage"] and "status" in schema:
                yield crd["spec"]["names"]["kind"], schema["status"]


SCHEMAS: Final = dict(schemas())


def entries_in(schema: Object, path: Path = ()) -> Iterator[str]:
    """Paths of lists and maps whose number of entries has no limit in the schema, except lists of strings."""
    for name, inner in schema.get("properties", {}).items():
        yield from entries_in(inner, (*path, name))
    item = schema.get("items") or schema.get("additionalProperties")
    if isinstance(item, dict):
        if schema["type"] == "object" or item.get("type") != "string":
            yield ".".join(path)
        yield from entries_in(item, (*path, "*"))


def hostile(schema: Object, *, texts: bool, name: str = "") -> Any:
    """The largest value; without `texts`, its messages and lists of names are empty."""
    match schema.get("type"):
        case "object" if "properties" in schema:
            return {key: hostile(inner, texts=texts, name=key) for key, inner in schema["properties"].items()}
        case "object":
            inner = schema.get("additionalProperties")
            value = hostile(inner, texts=texts) if isinstance(inner, dict) else "v"
            return {f"{NAME}{number}": value for number in range(MANY // 20)}
        case "array" if schema["items"].get("type") == "string":
            return [f"{NAME}{number}" for number in range(5_000)] if texts else []
        case "array":
            count = 8 if name == "conditions" else MANY // 4
            return [hostile(schema["items"], texts=texts) for _ in range(count)]
        case "string" if name in ("message", "reason"):
            return LONG if texts and name == "message" else "Code"
        case "string":
            return "2026-01-31T12:00:00Z"
        case "integer":
            return 1
        case "boolean":
            return True
        case _:
            return None


def size(value: Any) -> int:
    return len(orjson.dumps(value))


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_status_without_its_entries_is_small_for_texts_of_any_length(kind: str) -> None:
    status = fit_status(hostile(SCHEMAS[kind], texts=True))
    assert size(status) - size(hostile(SCHEMAS[kind], texts=False)) <= MOST_MORE
    # and a status that fits does not change
    assert fit_status(status) is status


@pytest.mark.parametrize("kind", SCHEMAS)
def test_each_list_of_entries_has_something_that_bounds_it(kind: str) -> None:
    paths = {path for path in entries_in(SCHEMAS[kind]) if path != "conditions"}
    assert paths == {path for name, path in GROWS if name == kind}


def test_the_limits_of_the_parts_are_below_the_limit_of_the_whole() -> None:
    conditions = 10 * MOST_TEXT
    assert conditions + MOST_TOLD + MOST_NAMED < MOST_MORE


def test_own_messages_of_a_status_stay_whole_when_its_entries_are_cut() -> None:
    conditions = [{"type": "Waiting", "message": "m" * 1_000}]
    entries = [{"name": f"subset-{number}", "message": LONG} for number in range(100)]
    status = fit_status({"message": "n" * 1_000, "conditions": conditions, "subsetStatuses": entries})
    assert status["conditions"] == conditions
    assert status["message"] == "n" * 1_000
    assert [item["name"] for item in status["subsetStatuses"]] == [entry["name"] for entry in entries]
    assert max(len(item["message"]) for item in status["subsetStatuses"]) <= 256


def test_the_first_names_of_a_long_list_stay() -> None:
    names = [f"node-{number:05}" for number in range(100_000)]
    kept = fit_status({"failed": 100_000, "failedNodes": names})
    assert kept["failed"] == 100_000
    assert 10_000 < len(kept["failedNodes"]) < 100_000
    assert kept["failedNodes"] == names[: len(kept["failedNodes"])]


def test_a_thousand_names_of_the_maximum_length_stay() -> None:
    names = [f"{number:04}".ljust(253, "n") for number in range(1_000)]
    status = {"failed": 1_000, "failedNodes": names}
    assert fit_status(status) is status


def test_records_of_pods_keep_their_place_and_fit() -> None:
    # given records of which each pod's annotations are nearly a quarter of a megabyte
    def record(text: str) -> PodState:
        return PodState(node_name="n", node_topology_labels={}, annotations={"note": text})

    before = {"web-9": record("x" * 200_000)}
    records = {f"web-{number}": record(f"{number}" * 200_000) for number in range(9)} | before
    # when
    kept, left_out = fit_records(records, before)
    # then
    assert sum(map(size, map(msgspec.to_builtins, kept.values()))) <= MOST_RECORDED
    assert kept.keys() == {"web-9", "web-0", "web-1"}
    assert sorted([*kept, *left_out]) == sorted(records)
