"""Which changes of pods wake a PersistentPodState."""

from typing import Any

import pytest

from pykruise.kinds.persistentpodstate.kind import KIND
from pykruise.kinds.persistentpodstate.snapshot import Settings
from pykruise.kinds.persistentpodstate.view import STATE_VIEWS
from pykruise.kube.documents import encode
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.pod_decoding import project_pod
from pykruise.pods.views import PodView
from support.state_world import NAME, StateWorld
from support.wakes import Woken


def pod(*, is_owned: bool = True, is_ready: bool = True, **metadata: Any) -> PodView:
    """web-0, of the workload or of nobody."""
    world = StateWorld()
    world.put_pod(0, node="n0", ready=is_ready)
    (document,) = world.pods.values()
    document["metadata"] |= metadata
    if not is_owned:
        del document["metadata"]["ownerReferences"]
    return project_pod(encode(document))


@pytest.mark.parametrize(
    ("old", "new", "is_heard"),
    [
        pytest.param(None, pod(is_ready=False), False, id="comes"),
        pytest.param(pod(is_ready=False), pod(), True, id="is ready"),
        pytest.param(pod(), pod(is_ready=False), False, id="is not ready any more"),
        pytest.param(pod(), pod(deletionTimestamp="2026-01-31T12:00:00Z"), True, id="terminates"),
        pytest.param(pod(), None, True, id="is gone"),
        pytest.param(pod(is_owned=False), pod(), True, id="is adopted"),
        pytest.param(pod(), pod(is_owned=False), True, id="is released"),
        pytest.param(pod(is_owned=False), None, False, id="of nobody is gone"),
    ],
)
def test_a_pod_wakes_when_its_record_may_change(
    old: PodView | None, new: PodView | None, is_heard: bool
) -> None:
    # given
    woken = Woken(KIND, {STATE_VIEWS: [StateWorld().view]}, settings=Settings())
    # then
    assert woken.by(POD_VIEWS, old, new) == ([NAME] if is_heard else [])
