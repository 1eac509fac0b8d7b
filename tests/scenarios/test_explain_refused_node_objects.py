"""`explain` of a PodProbeMarker for whose node the API server rejects the NodePodProbe."""

import pytest

from pykruise.kinds.nodepodprobe.kind import KIND as NODE_POD_PROBE
from pykruise.kube.client.transport import Request, Response, WrappedTransport
from pykruise.kube.documents import encode
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from pykruise.sandbox.cluster import ClusterSettings
from support.scenario import Stage
from support.situations.documents import cloneset, marker
from support.situations.world import KINDS, World, with_agents
from support.stuck import Refusal

pytestmark = pytest.mark.sandbox_only

STATUS = {
    "kind": "Status",
    "code": 403,
    "reason": "Forbidden",
    "status": "Failure",
    "message": 'nodepodprobes.apps.kruise.io "node-1" is forbidden: exceeded quota: team, requested: a=1, used: a=1',
}


class RefusingCreations(WrappedTransport):
    """Rejects the creation of NodePodProbes while `is_on`."""

    is_on = False

    async def request(self, request: Request, /) -> Response:
        is_creation = request.method == "POST" and NODE_POD_PROBE.resource.plural in request.path
        if self.is_on and is_creation:
            return Response(status=403, body=encode(STATUS), headers={})
        return await super().request(request)


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    return with_agents(cluster_settings)


async def test_a_marker_names_the_rejection_of_the_nodepodprobe(stage: Stage) -> None:
    world, transport = World(stage), RefusingCreations(stage.manager_transport())
    await world.start(transport)
    await world.put(cloneset(replicas=1, pod={"nodeName": "node-1"}), marker())
    await world.wait(30)
    transport.is_on = True
    await world.delete("nodepodprobe/node-1")
    await world.wait(30)

    explanation = await world.explained(KINDS["podprobemarker"], "web")

    assert (explanation.cause, explanation.phase) == (Code.QUOTA, Phase.DEGRADED)
    (wait,) = explanation.waits
    assert "node node-1 has no NodePodProbe yet: " in wait.words
    assert "exceeded quota: team" in wait.words


async def test_a_marker_names_the_policy_that_rejects_its_labels_of_pods(stage: Stage) -> None:
    world, refusal = World(stage), Refusal(stage)
    await world.start()
    await world.put(cloneset(replicas=2))
    await world.wait(30)
    await refusal.by_policy("labels of pods are frozen", updates=True)
    policy = [{"state": "Succeeded", "labels": {"example.com/idle": "true"}}]
    probe = {**marker()["spec"]["probes"][0], "markerPolicy": policy}
    await world.put(marker(probes=[probe]))
    await world.wait(30)

    explanation = await world.explained(KINDS["podprobemarker"], "web")

    assert (explanation.cause, explanation.phase) == (Code.POLICY, Phase.DEGRADED)
    wait = explanation.waits[0]
    assert wait.words.startswith("its NodePodProbe cannot change the pod: ")
    assert "labels of pods are frozen" in wait.words
    assert wait.remedy == (
        "change the labels and annotations in spec.probes[].markerPolicy so that the policy allows them, or exempt"
        " the manager in the policy"
    )
    await refusal.end()
    await world.wait(60)
    assert (await world.explained(KINDS["podprobemarker"], "web")).phase is Phase.HEALTHY
