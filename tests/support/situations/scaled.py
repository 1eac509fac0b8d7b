"""Situations of workloads whose number of pods an autoscaler sets.

SCALED ──▶ tables.py
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from support.situations.documents import cloneset, statefulset, united
from support.situations.world import Situation, World


async def _scaled(
    world: World, document: dict[str, Any], *names: str, version: str = "apps.kruise.io/v1beta1"
) -> None:
    """Create a workload, and autoscalers of 2 to 3 pods for it."""
    await world.put(document)
    await world.wait(30)
    target = {"apiVersion": version, "kind": document["kind"], "name": document["metadata"]["name"]}
    for name in names:
        spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3}
        await world.put(
            {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": name},
                "spec": spec,
            }
        )
    await world.wait(30)


async def a_person_scales_what_an_autoscaler_scales(world: World) -> None:
    await _scaled(world, cloneset(replicas=2), "web")
    await world.set("cloneset/web", replicas=1)


async def an_autoscaler_has_reached_its_maximum(world: World) -> None:
    await _scaled(world, united(replicas=4), "web")


async def two_autoscalers_scale_it(world: World) -> None:
    await _scaled(world, cloneset(), "cpu", "queue")


async def its_autoscaler_names_another_group(world: World) -> None:
    await _scaled(world, cloneset(), "web", version="apps/v1")


async def it_is_scaled_to_zero(world: World) -> None:
    await _scaled(world, statefulset(), "web")
    await world.set("statefulset/web", replicas=0)


SCALED: Final[Mapping[str, tuple[Situation, ...]]] = {
    "cloneset": (
        Situation(
            stage=a_person_scales_what_an_autoscaler_scales,
            cause=Code.AUTOSCALED,
            phase=Phase.HEALTHY,
            says="HorizontalPodAutoscaler web sets spec.replicas (2 to 3 pods); values that others set do not last",
            ways=1,
            known_by="explain",
        ),
        Situation(
            stage=two_autoscalers_scale_it,
            cause=Code.TWO_AUTOSCALERS,
            says="HorizontalPodAutoscalers cpu (2 to 3 pods), queue (2 to 3 pods) set spec.replicas",
            ways=1,
            known_by="explain",
        ),
        Situation(
            stage=its_autoscaler_names_another_group,
            cause=Code.NO_EFFECT,
            phase=Phase.HEALTHY,
            says="its spec.scaleTargetRef.apiVersion is apps/v1 instead of apps.kruise.io/v1beta1",
            ways=1,
            known_by="explain",
        ),
    ),
    "statefulset": (
        Situation(
            stage=it_is_scaled_to_zero,
            cause=Code.AUTOSCALED,
            phase=Phase.HEALTHY,
            says="spec.replicas is 0, so HorizontalPodAutoscaler web does not scale the object",
            ways=1,
            known_by="explain",
        ),
    ),
    "uniteddeployment": (
        Situation(
            stage=an_autoscaler_has_reached_its_maximum,
            cause=Code.AUTOSCALED,
            phase=Phase.HEALTHY,
            says="HorizontalPodAutoscaler web sets spec.replicas (2 to 3 pods), and keeps it at the maximum",
            ways=1,
            known_by="explain",
        ),
    ),
}
