"""SidecarSets put sidecars into the pods of any workload, or the pod is refused."""

import orjson

from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.documents import annotations_of
from pykruise.kube.resources import PODS
from support.scenario import Stage, cloneset
from support.sidecarsets import container, names, sidecarset


def for_stage(stage: Stage, doc: dict) -> dict:  # type: ignore[type-arg]
    """The SidecarSet for pods of the scenario's namespace alone."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    return {**doc, "spec": {"namespaceSelector": selector, **doc["spec"]}}


async def test_pods_of_a_cloneset_get_the_sidecar_with_hashes_and_the_gate(stage: Stage) -> None:
    # given
    stored = await stage.create(for_stage(stage, sidecarset("log", container("log"))), resource=SIDECAR_SETS)
    await stage.start_manager()
    # when
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    # then
    for pod in await stage.stored(PODS):
        assert names(pod) == ["log", "main"]
        record = orjson.loads(annotations_of(pod)["kruise.io/sidecarset-hash"])["log"]
        assert record["hash"] == annotations_of(stored)["kruise.io/sidecarset-hash"]
        assert record["sidecarList"] == ["log"]
        assert annotations_of(pod)["kruise.io/sidecarset-injected-list"] == "log"
    await stage.client.delete(SIDECAR_SETS, "", "log")
