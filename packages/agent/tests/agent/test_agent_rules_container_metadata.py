"""The agent's report about containers, and the hash of environment variables that come from metadata."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pykruise.agent.rules.container_metadata import (
    ANNOTATION,
    NodePod,
    Reported,
    list_stale_containers,
    needs_report,
    project_pod,
    report,
)
from pykruise.agent.rules.environment import (
    EnvSource,
    compute_environment_hash,
    parse_env_source,
    parse_env_sources,
)
from pykruise.kube.documents import encode

OURS = [{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "controller": True}]
FED = [{"name": "LEVEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['level']"}}}]
NONE = 86995377


def pod(
    *,
    ids: Mapping[str, str] | None = None,
    reported: Sequence[Reported] | None = None,
    level: str = "1",
    owners: Any = OURS,
    conditions: Sequence[Mapping[str, str]] = (),
    **metadata: Any,
) -> NodePod:
    annotations = {} if reported is None else {ANNOTATION: report(reported)}
    return project_pod(
        encode(
            {
                "metadata": {
                    "name": "web-0",
                    "labels": {"level": level},
                    "annotations": {**annotations, **metadata.pop("annotations", {})},
                    "ownerReferences": owners,
                    **metadata,
                },
                "spec": {"containers": [{"name": "app", "env": FED}, {"name": "side"}]},
                "status": {
                    "conditions": list(conditions),
                    "containerStatuses": [
                        {"name": name, "containerID": f"containerd://{id_}"}
                        for name, id_ in (ids or {"app": "1", "side": "2"}).items()
                    ],
                },
            }
        )
    )


def entry(name: str, id_: str, env_hash: int = 0) -> Reported:
    return Reported(name=name, container_id=f"containerd://{id_}", plain_hash=5, env_hash=env_hash)


def level_hash(level: str) -> int:
    return compute_environment_hash([EnvSource("LEVEL", "labels", "level")], lambda _: level)


WHOLE = [entry("app", "1", level_hash("1")), entry("side", "2", NONE)]


def test_the_hash_of_no_environment_is_known() -> None:
    """containers case 61"""
    assert compute_environment_hash([], lambda _: "") == NONE


def test_the_environment_hash_treats_empty_and_missing_values_as_equal_and_escapes_like_go() -> None:
    source = [EnvSource("A", "labels", "a")]
    assert compute_environment_hash(source, lambda _: "<&>") != compute_environment_hash(source, lambda _: "")
    assert compute_environment_hash(source, lambda _: "") == _by_hand(b'[{"name":"A"}]')
    assert compute_environment_hash(source, lambda _: "<&>") == _by_hand(
        b'[{"name":"A","value":"\\u003c\\u0026\\u003e"}]'
    )


def _by_hand(text: bytes) -> int:
    value = 2166136261
    for byte in f"([]uint8)[{' '.join(map(str, text))}]".encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def test_env_sources_are_sorted_by_variable_without_those_of_sidecarset() -> None:
    result = parse_env_sources(
        [
            ("B", "metadata.labels['b']"),
            ("A", "metadata.annotations['x/y']"),
            ("NAME", "metadata.name"),
            ("SIDECARSET_VERSION", "metadata.annotations['z']"),
        ]
    )
    assert result == (EnvSource("A", "annotations", "x/y"), EnvSource("B", "labels", "b"))
    assert parse_env_source("A", "metadata.labels") is None


@pytest.mark.parametrize(
    ("given", "is_needed"),
    [
        pytest.param(pod(), True, id="nothing was reported"),
        pytest.param(pod(reported=WHOLE), False, id="all is reported"),
        pytest.param(pod(reported=WHOLE[::-1]), False, id="in another order (containers case 64)"),
        pytest.param(pod(reported=WHOLE[:1]), True, id="a container is missing"),
        pytest.param(pod(reported=WHOLE, ids={"app": "9", "side": "2"}), True, id="another run"),
        pytest.param(pod(reported=WHOLE, level="2"), True, id="another environment is wanted"),
        pytest.param(pod(annotations={ANNOTATION: "{"}), True, id="what is there cannot be read"),
        pytest.param(pod(owners=[]), False, id="not ours"),
        pytest.param(pod(owners=[], annotations={"kruise.io/sidecarset-hash": ""}), True, id="sidecars"),
        pytest.param(pod(deletionTimestamp="2026-01-01T00:00:00Z"), False, id="it terminates"),
    ],
)
def test_a_pod_needs_a_report_when_a_part_of_it_is_not_reported(given: NodePod, is_needed: bool) -> None:
    assert needs_report(given, with_environment=True) == is_needed


def test_environments_do_not_count_without_the_gate() -> None:
    assert not needs_report(pod(reported=WHOLE, level="2"), with_environment=False)


def test_containers_are_stale_within_an_update_in_place_alone() -> None:
    """containers case 62"""
    updating = [{"type": "InPlaceUpdateReady", "status": "False"}]
    assert list_stale_containers(pod(reported=WHOLE, level="2"), WHOLE) == []
    assert list_stale_containers(pod(reported=WHOLE, level="2", conditions=updating), WHOLE) == ["app"]
    assert list_stale_containers(pod(reported=WHOLE, conditions=updating), WHOLE) == []
    unknown = [entry("app", "1"), WHOLE[1]]
    assert list_stale_containers(pod(reported=unknown, level="2", conditions=updating), unknown) == []
