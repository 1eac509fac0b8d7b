"""Situations caused by other objects: sidecars, volumes, secrets, conflicting objects, suspended children.

AROUND: rows by the name of their kind ──▶ tables.py
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.resources import PERSISTENT_VOLUMES, STORAGE_CLASSES
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from support.scenario import Object
from support.situations.documents import (
    broadcastjob,
    budget,
    cloneset,
    cronjob,
    ephemeraljob,
    listjob,
    local_volume,
    marker,
    podstate,
    pulljob,
    request,
    selector,
    sidecarset,
    spread,
    statefulset,
    united,
)
from support.situations.world import Situation, World

_CERTS: Final = [{"name": "certs", "secret": {"secretName": "missing"}}]


# ── sidecars of another object ───────────────────────────────────────────────


async def an_injected_sidecar_cannot_be_pulled(world: World) -> None:
    world.fail(image="log:1", image_pull_error=True)
    await world.put(sidecarset("mesh"), cloneset())


async def an_injected_sidecar_lacks_a_config_map(world: World) -> None:
    missing = [{"name": "log", "image": "log:1", "envFrom": [{"configMapRef": {"name": "missing"}}]}]
    await world.put(sidecarset("mesh", containers=missing), cloneset())


async def its_volume_lacks_its_config_map(world: World) -> None:
    await world.put(cloneset(pod={"volumes": [{"name": "conf", "configMap": {"name": "shop"}}]}))
    await world.wait(60)


async def the_volume_of_its_new_template_lacks_its_secret(world: World) -> None:
    await world.put(cloneset())
    await world.wait(30)
    await world.set("cloneset/web", template={"spec": {"volumes": _CERTS}})
    await world.wait(90)


async def its_volume_lacks_its_claim(world: World) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "shop"}}]
    await world.put(cloneset(pod={"volumes": volumes}))


async def an_injected_volume_lacks_its_secret(world: World) -> None:
    await world.put(_mesh_with_volume(), cloneset())
    await world.wait(60)


def _mesh_with_volume(name: str = "mesh") -> Object:
    mounting = {"name": "log", "image": "log:1", "volumeMounts": [{"name": "certs", "mountPath": "/certs"}]}
    return sidecarset(name, containers=[mounting], volumes=_CERTS)


async def a_sidecar_of_probed_pods_crashes(world: World) -> None:
    world.fail(image="log:1", exit_code=3)
    await world.put(sidecarset("mesh"), cloneset(), marker())
    await world.wait(60)


async def a_volume_of_its_sidecars_lacks_its_secret(world: World) -> None:
    await world.put(_mesh_with_volume("web"), cloneset())
    await world.wait(60)


async def the_own_container_of_its_pods_crashes(world: World) -> None:
    world.fail(image="nginx:1", exit_code=3)
    await world.put(sidecarset(), cloneset())
    await world.wait(60)


async def its_first_sidecar_is_never_ready(world: World) -> None:
    world.fail(image="log:1", never_ready=True)
    await world.put(sidecarset(), cloneset())


async def the_patch_of_a_spread_has_a_bad_image(world: World) -> None:
    world.fail(image="arm:1", image_pull_error=True)
    patch = {"spec": {"containers": [{"name": "main", "image": "arm:1"}]}}
    subsets = [{"name": "a", "maxReplicas": 1}, {"name": "b", "patch": patch}]
    await world.put(spread("west", subsets=subsets), cloneset())


_SSD: Final = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}


async def a_spread_sends_its_pods_where_no_node_is(world: World) -> None:
    subsets = [{"name": "a", "maxReplicas": 1}, {"name": "b", "requiredNodeSelector": _SSD}]
    await world.put(spread("west", subsets=subsets), cloneset())


async def the_patch_of_a_spread_selects_no_node(world: World) -> None:
    patch = {"spec": {"nodeSelector": {"disk": "ssd"}}}
    subsets = [{"name": "a", "maxReplicas": 1}, {"name": "b", "patch": patch}]
    await world.put(spread("west", subsets=subsets), cloneset())


def _patching_images() -> Object:
    patch = {"spec": {"containers": [{"name": "main", "image": "arm:1"}]}}
    return spread(subsets=[{"name": "a", "maxReplicas": 1}, {"name": "b", "patch": patch}])


async def the_image_of_its_patch_is_not_there(world: World) -> None:
    world.fail(image="arm:1", image_pull_error=True)
    await world.put(_patching_images(), cloneset())


async def the_image_of_its_patch_crashes(world: World) -> None:
    world.fail(image="arm:1", exit_code=3)
    await world.put(_patching_images(), cloneset())
    await world.wait(60)


async def its_workload_crashes_in_a_subset_without_a_patch(world: World) -> None:
    world.fail(image="nginx:1", exit_code=3)
    await world.put(_patching_images(), cloneset())
    await world.wait(60)


async def an_injected_sidecar_is_never_updated(world: World) -> None:
    world.fail(image="proxy:1", image_pull_error=True)
    proxy = [{"name": "log", "image": "proxy:1"}]
    await world.put(sidecarset("mesh", containers=proxy, updateStrategy={"type": "NotUpdate"}), cloneset())


async def another_cloneset_has_its_selector(world: World) -> None:
    other = cloneset("other")
    other["spec"]["selector"] = selector("web")
    other["spec"]["template"]["metadata"]["labels"] = {"app": "web"}
    await world.put(cloneset(), other)


async def its_subsets_lack_their_service_account(world: World) -> None:
    await world.put(united(pod={"serviceAccountName": "robot"}))


async def pods_of_its_selector_have_no_node(world: World) -> None:
    nowhere = {"nodeSelector": {"disk": "ssd"}}
    chosen = {"podSelector": selector("web"), "completionPolicy": {"type": "Never"}}
    await world.put(cloneset(pod=nowhere), pulljob(**chosen))


async def its_pods_follow_pods_that_are_not_there(world: World) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await world.put(cloneset(pod={"affinity": near}))


async def a_sidecar_of_a_job_fails(world: World) -> None:
    world.fail(image="log:1", exit_code=3)
    document = broadcastjob()
    document["spec"]["template"]["metadata"] = {"labels": {"app": "web"}}
    await world.put(sidecarset("mesh"), document)


async def a_sidecar_of_recorded_pods_cannot_be_pulled(world: World) -> None:
    world.fail(image="log:1", image_pull_error=True)
    await world.put(sidecarset("mesh"), statefulset(), podstate())


async def a_restarted_sidecar_crashes(world: World) -> None:
    await world.put(sidecarset("mesh"), cloneset())
    await world.wait(30)
    world.fail(image="log:1", exit_code=4)
    await world.put(request((await world.list("pod"))[0]["metadata"]["name"], containers=("log",)))


async def the_patch_of_a_spread_stops_its_pods(world: World) -> None:
    world.fail(image="arm:1", image_pull_error=True)
    patch = {"spec": {"containers": [{"name": "main", "image": "arm:1"}]}}
    subsets = [{"name": "a", "maxReplicas": 1}, {"name": "b", "patch": patch}]
    await world.put(spread("west", subsets=subsets), cloneset(), budget())


async def pods_of_a_list_have_no_node(world: World) -> None:
    nowhere = {"nodeSelector": {"disk": "ssd"}}
    chosen = {"podSelector": selector("web"), "completionPolicy": {"type": "Never"}}
    await world.put(cloneset(pod=nowhere), listjob(images=("app:1",), **chosen))


# ── volumes ──────────────────────────────────────────────────────────────────


async def _local_class(world: World, *nodes: str) -> None:
    """Create local PersistentVolumes on these nodes, and their StorageClass."""
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await world.stage.client.create(STORAGE_CLASSES, "", storage_class)
    for node in nodes:
        await world.stage.client.create(PERSISTENT_VOLUMES, "", local_volume(f"on-{node}", node))


def _with_local_data() -> Object:
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return statefulset(volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": spec}])


async def only_one_node_can_mount_its_volume(world: World) -> None:
    await _local_class(world, "node-1")
    asked = {"requests": {"storage": "1Gi"}}
    spec = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "resources": asked}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    await world.put({**claim, "spec": spec})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    await world.put(broadcastjob(pod={"volumes": volumes}))


async def _cordon_the_node_of_a_volume(world: World) -> None:
    await _local_class(world, "node-1", "node-2", "node-3")
    await world.put(_with_local_data(), budget())
    await world.wait(30)
    await world.node((await world.get("pod/web-1"))["spec"]["nodeName"], spec={"unschedulable": True})
    await world.delete("pod/web-1")


async def the_node_of_a_volume_is_cordoned(world: World) -> None:
    await _cordon_the_node_of_a_volume(world)


async def the_node_of_a_volume_of_its_pod_is_cordoned(world: World) -> None:
    await _cordon_the_node_of_a_volume(world)


async def the_node_of_a_volume_is_gone(world: World) -> None:
    await _local_class(world, "node-1", "node-2", "node-3", "node-4")
    await world.put(_with_local_data())
    await world.wait(30)
    await world.delete(f"node/{(await world.get('pod/web-1'))['spec']['nodeName']}")
    await world.delete("pod/web-1")
    await world.wait(100)


async def the_class_of_recorded_pods_is_missing(world: World) -> None:
    document = _with_local_data()
    document["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] = "fast"
    await world.put(document, podstate())


async def one_local_volume_is_missing(world: World) -> None:
    await _local_class(world, "node-1", "node-2")
    await world.put(_with_local_data())


async def no_node_fits_the_class(world: World) -> None:
    zone = {"key": "topology.kubernetes.io/zone", "values": ["eu-9"]}
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "paper.sandbox.pykruise.io",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [zone]}],
    }
    await world.stage.client.create(STORAGE_CLASSES, "", storage_class)
    await world.put(_with_local_data())


async def a_finalizer_holds_its_old_claim(world: World) -> None:
    document = _with_local_data()
    del document["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"]
    await world.put(document)
    await world.wait(30)
    claim = "persistentvolumeclaim/data-web-1"
    await world.change(claim, {"metadata": {"finalizers": ["example.com/hold"]}})
    await world.delete(claim)
    await world.delete("pod/web-1")


async def its_deleted_pods_stop_slowly(world: World) -> None:
    slow = {"terminationGracePeriodSeconds": 900}
    world.fail(image="nginx:1", stop_s=600)
    await world.put(cloneset(pod=slow))
    await world.wait(30)
    await world.delete(f"pod/{(await world.list('pod'))[0]['metadata']['name']}")


async def a_volume_of_its_pods_lacks_its_secret(world: World) -> None:
    await world.put(cloneset(pod={"volumes": _CERTS}), marker())
    await world.wait(60)


async def a_volume_of_recorded_pods_lacks_its_secret(world: World) -> None:
    await world.put(statefulset(pod={"volumes": _CERTS}), podstate())
    await world.wait(60)


async def a_volume_of_debugged_pods_lacks_its_secret(world: World) -> None:
    await world.put(cloneset(pod={"volumes": _CERTS}), ephemeraljob())
    await world.wait(60)


async def a_volume_of_its_subsets_lacks_its_secret(world: World) -> None:
    await world.put(united(pod={"volumes": _CERTS}))
    await world.wait(60)


async def a_volume_of_a_job_lacks_its_secret(world: World) -> None:
    await world.put(broadcastjob(pod={"volumes": _CERTS}))
    await world.wait(60)


async def a_volume_of_its_run_lacks_its_secret(world: World) -> None:
    document = cronjob(concurrencyPolicy="Forbid")
    document["spec"]["template"]["broadcastJobTemplate"]["spec"]["template"]["spec"]["volumes"] = _CERTS
    await world.put(document)
    await world.wait(190)


# ── schedules, images, markers ───────────────────────────────────────────────


async def its_job_is_suspended(world: World) -> None:
    document = cronjob(made_of="jobTemplate", concurrencyPolicy="Forbid")
    document["spec"]["template"]["jobTemplate"]["spec"]["suspend"] = True
    await world.put(document)
    await world.wait(130)


async def its_schedule_has_no_time(world: World) -> None:
    await world.put(cronjob(schedule="0 0 31 2 *"))


async def its_time_zone_is_unknown(world: World) -> None:
    with world.stage.past_admission():
        await world.put(cronjob(timeZone="Europe/Nowhere"))


async def the_pull_secret_of_its_job_is_not_there(world: World) -> None:
    world.fail(image="*app:1", image_pull_error=True)
    await world.put(pulljob(pullSecrets=["gone"], completionPolicy={"type": "Never"}))
    await world.wait(60)


async def another_marker_sets_its_condition(world: World) -> None:
    await world.put(cloneset(), marker("first"))
    await world.wait(20)
    await world.put(marker())


async def another_marker_sets_its_label_to_another_value(world: World) -> None:
    probe = {
        **marker()["spec"]["probes"][0],
        "name": "traffic",
        "podConditionType": "example.com/traffic",
        "markerPolicy": [{"state": "Succeeded", "labels": {"idle": "no"}}],
    }
    await world.put(cloneset(), marker())
    await world.wait(20)
    await world.put(marker("ops", probes=[probe]))


async def two_markers_set_one_condition_on_it(world: World) -> None:
    await world.put(cloneset(pod={"nodeName": "node-1"}), marker(), marker("other"))


async def a_sidecar_lacks_what_a_quota_requires(world: World) -> None:
    main = {"name": "main", "image": "nginx:1", "resources": {"limits": {"cpu": "100m"}}}
    await world.quota(**{"limits.cpu": "8"})
    await world.change(f"namespace/{world.namespace}", {"metadata": {"labels": {"mesh": "on"}}})
    await world.put(sidecarset(namespaceSelector={"matchLabels": {"mesh": "on"}}))
    await world.put(cloneset(pod={"containers": [main]}))


_PLAN: Final[Any] = "plan"
_EXPLAIN: Final[Any] = "explain"

AROUND: Final[Mapping[str, tuple[Situation, ...]]] = {
    "cloneset": (
        Situation(
            stage=a_sidecar_lacks_what_a_quota_requires,
            cause=Code.QUOTA,
            says="SidecarSet web adds container log",
        ),
        Situation(
            stage=its_deleted_pods_stop_slowly,
            cause=Code.TERMINATING,
            phase=Phase.HEALTHY,
            says="up to 900 s",
        ),
        Situation(
            stage=the_patch_of_a_spread_has_a_bad_image,
            cause=Code.IMAGE_PULL,
            says="the patch of subset b of WorkloadSpread west sets the image",
            ways=1,
        ),
        Situation(
            stage=a_spread_sends_its_pods_where_no_node_is,
            cause=Code.UNSCHEDULABLE,
            says="no node matches requiredNodeSelector of subset b of WorkloadSpread west (disk=ssd)",
            ways=2,
        ),
        Situation(
            stage=the_patch_of_a_spread_selects_no_node,
            cause=Code.UNSCHEDULABLE,
            says="no node matches the nodeSelector in the patch of subset b of WorkloadSpread west (disk=ssd)",
            ways=2,
        ),
        Situation(
            stage=an_injected_sidecar_is_never_updated,
            cause=Code.IMAGE_PULL,
            says="SidecarSet mesh leaves existing pods alone",
            ways=2,
        ),
        Situation(
            stage=another_cloneset_has_its_selector,
            cause=Code.OTHER_OWNERS,
            phase=Phase.HEALTHY,
            says="CloneSet other",
        ),
        Situation(
            stage=its_pods_follow_pods_that_are_not_there,
            cause=Code.UNSCHEDULABLE,
            says="affinity",
            ways=2,
            useless=(0, 1),
        ),
        Situation(
            stage=an_injected_sidecar_cannot_be_pulled,
            cause=Code.IMAGE_PULL,
            says="in SidecarSet mesh",
            ways=2,
        ),
        Situation(
            stage=an_injected_sidecar_lacks_a_config_map,
            cause=Code.CONTAINER_FAILS,
            says="in SidecarSet mesh",
            ways=2,
        ),
        Situation(
            stage=its_volume_lacks_its_config_map,
            cause=Code.MOUNT_FAILS,
            says="create ConfigMap shop (kubectl create configmap -n scenario shop --from-file=FILE)",
            ways=2,
            known_by=_EXPLAIN,
        ),
        Situation(
            stage=the_volume_of_its_new_template_lacks_its_secret,
            cause=Code.MOUNT_FAILS,
            says="create Secret missing (kubectl create secret generic -n scenario missing --from-file=FILE)",
            ways=3,
            known_by=_EXPLAIN,
        ),
        Situation(
            stage=its_volume_lacks_its_claim,
            cause=Code.UNBOUND_CLAIMS,
            says="PVC shop does not exist",
            ways=1,
        ),
        Situation(
            stage=an_injected_volume_lacks_its_secret,
            cause=Code.MOUNT_FAILS,
            says="in spec.template or in SidecarSet mesh",
            ways=4,
            known_by=_EXPLAIN,
        ),
    ),
    "workloadspread": (
        Situation(
            stage=the_image_of_its_patch_is_not_there,
            cause=Code.IMAGE_PULL,
            says="correct the image or its pull secret in spec.subsets[1].patch",
            ways=1,
            known_by=_PLAN,
        ),
        Situation(
            stage=the_image_of_its_patch_crashes,
            cause=Code.CONTAINER_FAILS,
            says="correct spec.subsets[1].patch (subset b)",
            ways=1,
            known_by=_PLAN,
        ),
        Situation(stage=its_workload_crashes_in_a_subset_without_a_patch, cause="", phase=Phase.HEALTHY),
    ),
    "sidecarset": (
        Situation(
            stage=a_volume_of_its_sidecars_lacks_its_secret,
            cause=Code.MOUNT_FAILS,
            says="Secret missing",
            ways=4,
            known_by=_EXPLAIN,
        ),
        Situation(
            stage=the_own_container_of_its_pods_crashes,
            cause=Code.CONTAINER_FAILS,
            says="correct the template of the pod's workload",
            ways=1,
            known_by=_PLAN,
        ),
        Situation(
            stage=its_first_sidecar_is_never_ready,
            cause=Code.NOT_READY,
            phase=Phase.PROGRESSING,
            says="correct SidecarSet web",
            ways=1,
            known_by=_PLAN,
        ),
    ),
    "statefulset": (
        Situation(
            stage=the_node_of_a_volume_is_cordoned,
            cause=Code.UNSCHEDULABLE,
            says="can mount volume on-node-",
            ways=2,
            useless=(1,),
        ),
        Situation(
            stage=the_node_of_a_volume_is_gone,
            cause=Code.UNSCHEDULABLE,
            says="no node can mount volume on-node-",
            ways=1,
        ),
        Situation(stage=no_node_fits_the_class, cause=Code.UNSCHEDULABLE, says="zone=eu-9", ways=2),
        Situation(stage=a_finalizer_holds_its_old_claim, cause=Code.FINALIZER, says="PVC data-web-1", ways=1),
        Situation(
            stage=one_local_volume_is_missing,
            cause=Code.UNSCHEDULABLE,
            says="PVC data-web-2 has no volume",
            ways=1,
        ),
    ),
    "containerrecreaterequest": (
        Situation(
            stage=a_restarted_sidecar_crashes,
            cause=Code.CONTAINER_FAILS,
            says="correct SidecarSet mesh",
            ways=1,
            known_by=_PLAN,
        ),
    ),
    "imagelistpulljob": (
        Situation(
            stage=pods_of_a_list_have_no_node,
            cause=Code.UNSCHEDULABLE,
            says="the template of the pod's workload",
            ways=2,
            known_by=_PLAN,
        ),
    ),
    "podunavailablebudget": (
        Situation(
            stage=the_patch_of_a_spread_stops_its_pods,
            cause=Code.IMAGE_PULL,
            says="the patch of subset b of WorkloadSpread west sets the image",
            ways=1,
            known_by=_PLAN,
        ),
        Situation(
            stage=the_node_of_a_volume_of_its_pod_is_cordoned,
            cause=Code.UNSCHEDULABLE,
            says="of PVC data-web-1",
            ways=2,
            useless=(1,),
            known_by=_PLAN,
        ),
    ),
    "podprobemarker": (
        Situation(
            stage=a_sidecar_of_probed_pods_crashes,
            cause=Code.CONTAINER_FAILS,
            says="SidecarSet mesh",
            ways=1,
            known_by=_PLAN,
        ),
        Situation(
            stage=a_volume_of_its_pods_lacks_its_secret,
            cause=Code.MOUNT_FAILS,
            says="Secret missing",
            ways=2,
            known_by=_EXPLAIN,
        ),
        Situation(
            stage=another_marker_sets_its_condition,
            cause=Code.CONFLICT,
            says="shows the result of a probe of PodProbeMarker first",
            ways=1,
            known_by=_PLAN,
        ),
        Situation(
            stage=another_marker_sets_its_label_to_another_value,
            cause=Code.CONFLICT,
            says="label idle is set to no by probe traffic of PodProbeMarker ops, not to yes",
            ways=1,
            known_by=_EXPLAIN,
        ),
    ),
    "nodepodprobe": (
        Situation(
            stage=two_markers_set_one_condition_on_it,
            cause=Code.CONFLICT,
            says="example.com/idle",
            name="node-1",
            known_by=_PLAN,
        ),
    ),
    "persistentpodstate": (
        Situation(
            stage=a_sidecar_of_recorded_pods_cannot_be_pulled,
            cause=Code.IMAGE_PULL,
            says="in SidecarSet mesh",
            ways=2,
            known_by=_PLAN,
        ),
        Situation(
            stage=the_class_of_recorded_pods_is_missing,
            cause=Code.UNBOUND_CLAIMS,
            says="PVC data-web-1 requests storage class fast, which does not exist",
            known_by=_PLAN,
            ways=1,
        ),
        Situation(
            stage=a_volume_of_recorded_pods_lacks_its_secret,
            cause=Code.MOUNT_FAILS,
            says="Secret missing",
            ways=2,
            known_by=_EXPLAIN,
        ),
    ),
    "ephemeraljob": (
        Situation(
            stage=a_volume_of_debugged_pods_lacks_its_secret,
            cause=Code.MOUNT_FAILS,
            says="Secret missing",
            ways=2,
            known_by=_EXPLAIN,
        ),
    ),
    "imagepulljob": (
        Situation(
            stage=pods_of_its_selector_have_no_node,
            cause=Code.UNSCHEDULABLE,
            says="the template of the pod's workload",
            ways=2,
            known_by=_PLAN,
        ),
    ),
    "uniteddeployment": (
        Situation(
            stage=its_subsets_lack_their_service_account,
            ways=1,
            cause=Code.POLICY,
            says="create serviceaccount -n scenario robot",
        ),
        Situation(
            stage=a_volume_of_its_subsets_lacks_its_secret,
            cause=Code.MOUNT_FAILS,
            says="in spec.template.cloneSetTemplate",
            ways=2,
            known_by=_EXPLAIN,
        ),
    ),
    "broadcastjob": (
        Situation(
            stage=only_one_node_can_mount_its_volume,
            cause=Code.UNSCHEDULABLE,
            says="only node node-1 can mount volume on-node-1 of PVC data; the pod must run on another node",
            ways=2,
        ),
        Situation(
            stage=a_sidecar_of_a_job_fails,
            cause=Code.POD_FAILED,
            phase=Phase.FAILED,
            says="-c log), and correct SidecarSet mesh",
        ),
        Situation(
            stage=a_volume_of_a_job_lacks_its_secret,
            cause=Code.MOUNT_FAILS,
            says="then delete the pod",
            ways=2,
            known_by=_EXPLAIN,
        ),
    ),
    "advancedcronjob": (
        Situation(stage=its_job_is_suspended, cause=Code.PAUSED, phase=Phase.PAUSED, ways=1, known_by=_PLAN),
        Situation(
            stage=its_time_zone_is_unknown, cause=Code.REFUSED, says="spec.timeZone", ways=1, known_by=_PLAN
        ),
        Situation(
            stage=its_schedule_has_no_time, cause=Code.NO_TICK, says="0 0 31 2 *", ways=1, known_by=_PLAN
        ),
        Situation(
            stage=a_volume_of_its_run_lacks_its_secret,
            cause=Code.MOUNT_FAILS,
            says="create AdvancedCronJob web again",
            ways=2,
            known_by=_EXPLAIN,
        ),
    ),
    "nodeimage": (
        Situation(
            stage=the_pull_secret_of_its_job_is_not_there,
            cause=Code.IMAGE_PULL,
            says="there is no secret gone in namespace",
            name="node-1",
            known_by=_PLAN,
        ),
    ),
}
