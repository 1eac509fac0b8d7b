"""The condition SidecarSetUpgradable of a pod."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.sidecarset.conditions import build_condition_patch
from pykruise.kinds.sidecarset.managed_pod import build_managed_pod
from pykruise.kube.documents import Document
from support.sidecar_world import SidecarWorld
from support.sidecarsets import NOW, container, sidecarset

LIST = "kruise.io/sidecarset-injected-list"
STATE = "kruise.io/sidecarset-inplace-update-state"


def patched(
    *,
    message: str | None = None,
    status: str = "True",
    is_updated: bool = True,
    is_stuck: bool = False,
    state: Any,
) -> Document | None:
    """The condition that is patched into a pod of the SidecarSets `log` and `other`; None: no patch."""
    world = SidecarWorld(sidecarset("log", container("log")))
    world.add()

    def change(pod: Document) -> None:
        pod["metadata"]["annotations"] |= {LIST: "log,other", STATE: state}
        if message is not None:
            condition = {"type": "SidecarSetUpgradable", "status": status, "message": message}
            pod["status"]["conditions"].append(condition)

    world.edit("web-0", change)
    if not is_updated:
        world.change(container("log", "log:2"))
    result = build_condition_patch(
        build_managed_pod(world.pod_view("web-0"), world.view), "log", is_stuck=is_stuck, now=NOW
    )
    if result is None:
        return None
    (condition,) = result["status"]["conditions"]
    return {**condition, "message": orjson.loads(condition["message"])}


UPGRADED = '{"log":{"lastContainerStatuses":{}}}'
NOT_UPGRADED = '{"other":{"lastContainerStatuses":{}}}'


@pytest.mark.parametrize(
    ("before", "is_updated", "state", "expected"),
    [
        # it is written once the pod was upgraded
        (None, True, UPGRADED, {"log": True}),
        (None, True, NOT_UPGRADED, None),
        (None, True, "", None),
        (None, True, "no json", None),
        (None, False, UPGRADED, None),
        # False stays until the pod is up to date
        ('{"log":false}', False, UPGRADED, None),
        ('{"log":false}', True, "", {"log": True}),
        ('{"log":true}', True, UPGRADED, None),
        # an unreadable message is replaced
        ("no json", True, UPGRADED, {"log": True}),
        ("[1]", True, UPGRADED, {"log": True}),
        ("", True, UPGRADED, {"log": True}),
        ('{"log":false,"other":"x"}', True, UPGRADED, {"log": True}),
        # and other SidecarSets of the pod keep their entries
        ('{"gone":false,"other":true}', True, UPGRADED, {"log": True, "other": True}),
    ],
)
def test_a_pod_has_a_condition_whether_it_could_be_upgraded(
    before: str | None, state: str, expected: dict[str, bool] | None, *, is_updated: bool
) -> None:
    """section 7.3, pitfall 21"""
    result = patched(message=before, is_updated=is_updated, state=state)
    assert (result["message"] if result else None) == expected


@pytest.mark.parametrize(
    ("before", "is_stuck", "status", "moves"),
    [
        ('{"log":true}', True, "False", True),
        ('{"log":true,"other":true}', True, "False", True),
        ('{"other":true}', False, "True", False),
        ('{"log":false}', False, "True", True),
        ('{"log":false,"other":false}', False, "False", False),
        ('{"other":false}', True, "False", False),
        (None, False, "True", True),
        (None, True, "False", True),
    ],
)
def test_the_transition_time_changes_only_with_the_status(
    before: str | None, status: str, *, is_stuck: bool, moves: bool
) -> None:
    """section 7.3"""
    was = "False" if before and "false" in before else "True"
    result = patched(message=before, status=was, is_stuck=is_stuck, state=UPGRADED)
    assert result is not None
    assert result["status"] == status
    assert result["reason"] == ("AllSidecarsetUpgradable" if status == "True" else "UpdateImmutableField")
    assert ("lastTransitionTime" in result) is moves
