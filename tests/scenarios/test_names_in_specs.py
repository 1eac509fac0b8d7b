"""Names in specs that would change the path of a request: they are refused with their field, and never requested."""

import pytest

from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.errors import ApiError
from pykruise.kube.resources import Resource
from support.scenario import Object, Stage

pytestmark = pytest.mark.needs_admission

NAMES = ["..", "../../victim/pods/v", "x/y", "v/status", "a%2Fb"]
API_VERSIONS = ["apps/v1?x=y", "apps /v1", "../v1"]
OTHERS = {
    WORKLOAD_SPREADS: {"subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b"}]},
    POD_UNAVAILABLE_BUDGETS: {"maxUnavailable": 1},
    PERSISTENT_POD_STATES: {"requiredPersistentTopology": {"keys": ["kubernetes.io/hostname"]}},
}


def targeting(resource: Resource, **target: str) -> Object:
    ref = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web", **target}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "odd"},
        "spec": {**OTHERS[resource], "targetRef": ref},
    }


async def refusal(stage: Stage, resource: Resource, doc: Object) -> tuple[int, set[str]]:
    """Code of the rejection, and the fields in its causes."""
    try:
        await stage.client.create(resource, stage.namespace, doc)
    except ApiError as error:
        return error.code, {cause.field for cause in error.causes}
    return 201, set()


@pytest.mark.parametrize("resource", OTHERS, ids=lambda resource: resource.plural)
async def test_a_target_with_an_invalid_path_segment_is_refused_with_its_field(
    stage: Stage, resource: Resource
) -> None:
    wanted = 400 if resource is PERSISTENT_POD_STATES else 422  # all errors of this kind have the code 400
    for name in NAMES:
        code, fields = await refusal(stage, resource, targeting(resource, name=name))
        assert (code, "spec.targetRef.name" in fields) == (wanted, True), name
    for version in API_VERSIONS:
        code, fields = await refusal(stage, resource, targeting(resource, apiVersion=version))
        assert (code, "spec.targetRef" in fields) == (wanted, True), version


async def test_a_pod_with_an_invalid_path_segment_is_refused_with_its_field(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    for name in NAMES:
        doc = {
            "apiVersion": CONTAINER_RECREATE_REQUESTS.api_version,
            "kind": CONTAINER_RECREATE_REQUESTS.kind,
            "metadata": {"name": "odd"},
            "spec": {"podName": name, "containers": [{"name": "main"}]},
        }
        code, fields = await refusal(stage, CONTAINER_RECREATE_REQUESTS, doc)
        assert (code, fields) == (422, {"spec.podName"}), name
    assert "a permission is missing" not in caplog.text
    assert "Traceback" not in caplog.text
