"""Features that nodes declare decide whether a pod is resized as a whole."""

from typing import Any

import orjson
import pytest

from pykruise.kube.ids import Key
from pykruise.plans.declared_features import find_undeclaring_nodes
from pykruise.pods.in_place import InPlaceSettings, NotInPlace, UpdateSpec
from pykruise.pods.in_place.declared_features import RESIZES_PODS, UNDECLARED, fit_to_node
from pykruise.pods.in_place.update_spec import WHOLE_POD
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.nodes import NodeView, project_node
from pykruise.runtime.views import Views

CPU = {"requests": {"cpu": "1"}}
RESIZING = InPlaceSettings(vertical_scaling=True, resizes_pods=True)


def spec(**resources: Any) -> UpdateSpec:
    return UpdateSpec(revision="web-2", grace_seconds=0, resources=resources)


@pytest.mark.parametrize("node", ["old", "new"])
@pytest.mark.parametrize("part", [WHOLE_POD, "main"])
def test_a_whole_pod_is_resized_where_its_node_declares_it_and_containers_anywhere(
    node: str, part: str
) -> None:
    how = spec(**{part: CPU})
    is_refused = part == WHOLE_POD and node == "old"
    assert fit_to_node(how, node, undeclaring={"old"}) == (NotInPlace(UNDECLARED) if is_refused else how)


def node_of(declared: list[str] | None) -> NodeView:
    status = {} if declared is None else {"declaredFeatures": declared}
    return project_node(orjson.dumps({"metadata": {"name": "n", "resourceVersion": "1"}, "status": status}))


class Known:
    """Mirrors with one node."""

    def __init__(self, node: NodeView) -> None:
        self.node = node

    def get(self, views: Views[Any], key: Key) -> Any:
        return self.node


@pytest.mark.parametrize(
    ("declared", "settings", "resources", "names"),
    [
        ([], RESIZING, CPU, {"n"}),
        (["Other"], RESIZING, CPU, {"n"}),
        ([RESIZES_PODS], RESIZING, CPU, set()),
        # a kubelet that declares nothing may be older than such declarations: the API server decides
        (None, RESIZING, CPU, set()),
        (["Other"], InPlaceSettings(), CPU, set()),
        (["Other"], RESIZING, None, set()),
    ],
)
def test_a_node_counts_that_declares_features_and_not_this_one(
    declared: list[str] | None, settings: InPlaceSettings, resources: Any, names: set[str]
) -> None:
    pod = project_pod(
        orjson.dumps(
            {"metadata": {"name": "p", "uid": "u", "resourceVersion": "1"}, "spec": {"nodeName": "n"}}
        )
    )
    template = {"spec": {"containers": [], **({"resources": resources} if resources else {})}}
    known: Any = Known(node_of(declared))
    assert find_undeclaring_nodes(template, [pod], known, settings=settings) == names
