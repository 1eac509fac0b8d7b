"""SidecarSets that injected sidecars into a pod, and the images that they replaced."""

from collections.abc import Mapping

import orjson
import pytest

from pykruise.pods.view import keys
from pykruise.pods.view.sidecars import list_injected_sets, read_replaced_image_ids


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        (None, ()),
        ("", ()),
        (",", ()),
        ("logs", ("logs",)),
        ("mesh,,logs,mesh,agent", ("agent", "logs", "mesh")),
    ],
)
def test_a_pod_lists_its_sets(listed: str | None, names: tuple[str, ...]) -> None:
    annotations = {} if listed is None else {keys.SIDECARSET_LIST_ANNOTATION: listed}
    assert list_injected_sets(annotations) == names


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, {}),
        ({"logs": None, "mesh": {}}, {}),
        ({"mesh": {"lastContainerStatuses": None}}, {}),
        ({"mesh": {"lastContainerStatuses": {"proxy": None, "init": {"imageID": ""}}}}, {}),
        (
            {
                "logs": {"lastContainerStatuses": {"agent": {"imageID": "sha:1"}}},
                "mesh": {"lastContainerStatuses": {"proxy": {"imageID": "sha:2"}}},
            },
            {"agent": "sha:1", "proxy": "sha:2"},
        ),
        ([], None),
        ({"mesh": {"lastContainerStatuses": []}}, None),
    ],
)
def test_the_image_that_a_sidecar_had_is_in_the_state_of_its_set(
    state: object, expected: Mapping[str, str] | None
) -> None:
    annotations = {keys.SIDECARSET_STATE_ANNOTATION: orjson.dumps(state).decode()}
    assert read_replaced_image_ids(annotations) == expected


@pytest.mark.parametrize("annotations", [{}, {keys.SIDECARSET_STATE_ANNOTATION: ""}])
def test_no_sidecar_was_replaced_without_a_state(annotations: dict[str, str]) -> None:
    assert read_replaced_image_ids(annotations) == {}
