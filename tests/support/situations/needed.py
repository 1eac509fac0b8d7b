"""Situations caused by what pods need and do not have: readiness gates, classes, secrets, keys.

NEEDED: rows by the name of their kind ──▶ tables.py
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from support.situations.documents import (
    broadcastjob,
    budget,
    cloneset,
    cronjob,
    daemonset,
    listjob,
    marker,
    pulljob,
    selector,
    sidecarset,
    statefulset,
    template,
    united,
)
from support.situations.world import Situation, World

_GATED: Final = {"readinessGates": [{"conditionType": "example.com/idle"}]}
_NO_FILE: Final = {"fails_probe": "*#idle", "output": "no file /idle"}


# ── readiness gates ──────────────────────────────────────────────────────────


async def a_failing_probe_closes_its_gate(world: World) -> None:
    world.fail(image="nginx:1", **_NO_FILE)
    await world.put(cloneset(pod=_GATED), marker())


async def a_marker_of_its_gate_selects_other_pods(world: World) -> None:
    await world.put(cloneset(pod=_GATED), marker("idle", selector={"matchLabels": {"probed": "yes"}}))


async def no_agent_probes_for_its_gate(world: World) -> None:
    pinned = template("web", **_GATED, nodeName="node-1")
    await world.put(statefulset(template=pinned, selector=selector("web")))
    await world.wait(30)
    world.stage.kubelets.stop_node("node-1")
    await world.put(marker())


async def nobody_opens_its_gate(world: World) -> None:
    await world.put(daemonset(pod=_GATED))


async def the_probe_of_its_gate_names_no_port(world: World) -> None:
    await world.put(united(pod=_GATED), marker(port="http"))


async def a_failing_probe_closes_the_gate_of_its_pods(world: World) -> None:
    world.fail(image="nginx:1", **_NO_FILE)
    await world.put(cloneset(pod=_GATED), marker("idle"), budget())


# ── ConfigMaps, Secrets and classes ──────────────────────────────────────────


def _with_variables(**sources: Any) -> dict[str, Any]:
    """A container with variables of these sources, such as `configMapKeyRef`."""
    variables = [
        {"name": f"V{number}", "valueFrom": {source: reference}}
        for source, references in sources.items()
        for number, reference in enumerate(references)
    ]
    return {"containers": [{"name": "main", "image": "nginx:1", "env": variables}]}


async def two_variables_lack_their_config_map(world: World) -> None:
    references = [{"name": "shop", "key": key} for key in ("host", "port")]
    await world.put(cloneset(pod=_with_variables(configMapKeyRef=references)))


async def a_variable_lacks_its_key(world: World) -> None:
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop"}, "data": {"a": "QQ=="}}
    await world.put(document)
    await world.put(daemonset(pod=_with_variables(secretKeyRef=[{"name": "shop", "key": "password"}])))


async def an_item_of_its_volume_lacks_its_config_map(world: World) -> None:
    volume = {"name": "shop", "items": [{"key": "app.conf", "path": "app.conf"}]}
    variables = _with_variables(configMapKeyRef=[{"name": "shop", "key": "host"}])
    await world.put(statefulset(pod={**variables, "volumes": [{"name": "conf", "configMap": volume}]}))
    await world.wait(60)


async def the_pull_secret_of_its_pods_is_missing(world: World) -> None:
    world.fail(image="nginx:1", image_pull_error=True)
    await world.put(cloneset(pod={"imagePullSecrets": [{"name": "registry"}]}))


async def its_runtime_class_is_missing(world: World) -> None:
    await world.put(statefulset(pod={"runtimeClassName": "gvisor"}))


# ── what runs normally ───────────────────────────────────────────────────────


async def a_gate_of_its_pods_is_closed(world: World) -> None:
    world.fail(image="job:1", exit_code=0, after_s=1e6)
    await world.put(broadcastjob(pod=_GATED))


async def its_run_lasts_beyond_its_next_time(world: World) -> None:
    world.fail(image="job:1", exit_code=0, after_s=1e6)
    await world.put(cronjob(concurrencyPolicy="Forbid"))
    await world.wait(190)


# ── what ended long ago, and what a budget keeps ─────────────────────────────


async def its_nodes_failed_long_ago(world: World) -> None:
    world.fail(image="*app:1", image_pull_error=True)
    await world.put(pulljob())
    await world.wait(1200)


async def its_pull_jobs_are_gone(world: World) -> None:
    world.fail(image="*app:1", image_pull_error=True)
    await world.put(listjob())
    await world.wait(1200)
    for child in await world.list("imagepulljob"):
        await world.delete(f"imagepulljob/{child['metadata']['name']}")


async def a_budget_without_reserve_refuses_its_upgrade(world: World) -> None:
    await world.put(sidecarset(), cloneset(), budget("guard", maxUnavailable=0))
    await world.wait(30)
    await world.set("sidecarset/web", containers=[{"name": "log", "image": "log:2"}])
    await world.wait(120)


_PLAN: Final[Any] = "plan"
_EXPLAIN: Final[Any] = "explain"


async def a_node_pulls_its_large_image(world: World) -> None:
    world.fail(image="nginx:1", pull_s=1_000)
    await world.put(cloneset())


async def a_node_pulls_its_large_image_after_the_volume_is_mounted(world: World) -> None:
    world.fail(image="nginx:1", pull_s=1_000)
    await world.put(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"a": "b"}}
    )
    volumes = [{"name": "shop", "configMap": {"name": "shop"}}]
    mounts = [{"name": "shop", "mountPath": "/shop"}]
    containers = [{"name": "main", "image": "nginx:1", "volumeMounts": mounts}]
    await world.put(statefulset(pod={"volumes": volumes, "containers": containers}))
    await world.wait(120)


NEEDED: Final[Mapping[str, tuple[Situation, ...]]] = {
    "cloneset": (
        Situation(
            stage=a_node_pulls_its_large_image,
            cause=Code.STARTING,
            phase=Phase.PROGRESSING,
            says="pulls image nginx:1 of container main (for 1m",
            known_by="status",
        ),
        Situation(
            stage=a_failing_probe_closes_its_gate,
            cause=Code.READINESS_GATE,
            says="probe web#idle fails: no file /idle",
        ),
        Situation(
            stage=a_marker_of_its_gate_selects_other_pods,
            cause=Code.READINESS_GATE,
            says="PodProbeMarker idle sets this condition, but does not select the pod",
            ways=1,
        ),
        Situation(
            stage=two_variables_lack_their_config_map,
            cause=Code.CONTAINER_FAILS,
            says="configmap -n scenario shop --from-literal=host=VALUE --from-literal=port=VALUE)",
            ways=2,
        ),
        Situation(
            stage=the_pull_secret_of_its_pods_is_missing,
            cause=Code.IMAGE_PULL,
            says="kubectl create secret docker-registry -n scenario registry",
            ways=3,
        ),
    ),
    "statefulset": (
        Situation(
            stage=a_node_pulls_its_large_image_after_the_volume_is_mounted,
            cause=Code.STARTING,
            phase=Phase.PROGRESSING,
            says="pulls image nginx:1 of container main",
            known_by="explain",
        ),
        Situation(
            stage=no_agent_probes_for_its_gate,
            cause=Code.READINESS_GATE,
            says="the agent of node node-1 has reported no result of probe web#idle yet",
            ways=1,
        ),
        Situation(
            stage=an_item_of_its_volume_lacks_its_config_map,
            cause=Code.MOUNT_FAILS,
            says="--from-file=app.conf=FILE --from-literal=host=VALUE)",
            ways=2,
            known_by=_EXPLAIN,
        ),
        Situation(stage=its_runtime_class_is_missing, cause=Code.POLICY, says="create RuntimeClass gvisor"),
    ),
    "daemonset": (
        Situation(
            stage=nobody_opens_its_gate,
            cause=Code.READINESS_GATE,
            says="no PodProbeMarker sets this condition",
            ways=1,
        ),
        Situation(
            stage=a_variable_lacks_its_key,
            cause=Code.CONTAINER_FAILS,
            says="""add key password to Secret shop (kubectl patch secret -n scenario shop --type=merge -p""",
            ways=2,
        ),
    ),
    "uniteddeployment": (
        Situation(
            stage=the_probe_of_its_gate_names_no_port,
            cause=Code.READINESS_GATE,
            says="container main has no port named http (PodProbeMarker web)",
            ways=1,
        ),
    ),
    "podunavailablebudget": (
        Situation(
            stage=a_failing_probe_closes_the_gate_of_its_pods,
            cause=Code.READINESS_GATE,
            says="correct the probe in PodProbeMarker idle",
            known_by=_EXPLAIN,
        ),
    ),
    "imagepulljob": (
        Situation(
            stage=its_nodes_failed_long_ago,
            cause=Code.IMAGE_PULL,
            phase=Phase.FAILED,
            says="node-1, node-2, node-3, node-4: image app:1 could not be pulled",
            ways=2,
        ),
    ),
    "imagelistpulljob": (
        Situation(
            stage=its_pull_jobs_are_gone,
            cause=Code.IMAGE_PULL,
            phase=Phase.FAILED,
            says="app:1: it could not be pulled on node-1, node-2, node-3, node-4",
            ways=2,
        ),
    ),
    "sidecarset": (
        Situation(
            stage=a_budget_without_reserve_refuses_its_upgrade,
            cause=Code.DISRUPTION_REFUSED,
            says="pub unavailable allowed is negative\n    → raise maxUnavailable of PodUnavailableBudget guard",
            ways=1,
        ),
    ),
    "broadcastjob": (
        Situation(stage=a_gate_of_its_pods_is_closed, cause=Code.PODS_ACTIVE, phase=Phase.PROGRESSING),
    ),
    "advancedcronjob": (
        Situation(
            stage=its_run_lasts_beyond_its_next_time,
            cause=Code.CHILD_ACTIVE,
            phase=Phase.PROGRESSING,
            says="set concurrencyPolicy to Allow or Replace",
            known_by=_PLAN,
        ),
    ),
}
