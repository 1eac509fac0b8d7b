"""Remedies of `explain`, followed exactly by a person who knows nothing else.

Explanation ──▶ ways_of() ──▶ Ways: one for each alternative in a remedy
Way ──▶ followed(): carried out as written ──▶ never fewer available pods than before

Every sentence has an entry in WAYS; a sentence without an entry fails its test.
"""

import asyncio
import json
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec
import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.kinds import list_kinds
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.workloadspread.readers import WHITE_LIST_KEY
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.documents import decode
from pykruise.kube.errors import AlreadyExistsError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import (
    CONFIG_MAPS,
    HORIZONTAL_POD_AUTOSCALERS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from pykruise.plans.kind import Kind
from pykruise.pods.images.node_images import NODE_IMAGES
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from pykruise.pods.probes.api import POD_PROBE_MARKERS
from pykruise.pods.workload.allowed_workloads import CONFIGURATION
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS
from pykruise.sandbox.nodes.specs import NodeSpec
from support.kruise import Kruise
from support.scenario import Object, Stage, cloneset, pod_watch
from support.sidecarsets import container
from support.situations.documents import local_volume
from support.situations.world import LIMIT_RANGES, PRIORITY_CLASSES, RESOURCES
from support.stuck import RESOURCE_QUOTAS as QUOTAS
from support.stuck import Stuck

__all__ = ["Way", "each_case", "each_way", "follow_way", "followed", "ways_of"]


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person who follows a remedy of this object."""

    stage: Stage
    kind: Kind
    key: Key
    wait: Wait

    async def change(self, **spec: Any) -> None:
        """Merge these fields into the spec of the object."""
        await self._patch({"spec": spec})

    async def _patch(self, body: Object) -> None:
        resource = self.kind.resource
        await self.stage.client.patch(
            resource, self.key.namespace, self.key.name, body, patch_type=PatchType.MERGE
        )

    async def to_document(self) -> Object:
        """The object."""
        return decode(await self.stage.client.get(self.kind.resource, self.key.namespace, self.key.name))

    @property
    def pods(self) -> list[str]:
        """Names of the pods that this wait is about."""
        return [name.rpartition("/")[2] for name in self.wait.pods]


Do = Callable[[Person, re.Match[str]], Awaitable[None]]


class Way(msgspec.Struct, frozen=True):
    """One alternative of a remedy."""

    wait: Wait
    sentence: str
    number: int
    """Number of the alternative within the sentence."""


# ── what people do ───────────────────────────────────────────────────────────


async def set_field(person: Person, match: re.Match[str]) -> None:
    """`set spec.a.b to VALUE`"""
    value: Any = {"false": False, "true": True}.get(match["value"], match["value"])
    await person._patch(nested(match["path"], value))


async def set_numbers(person: Person, match: re.Match[str]) -> None:
    """`set spec.a.b to 0 and spec.a.c to 1`, in one change."""
    await person._patch(
        merge_all(
            nested(match[path], int(match[number]))
            for path, number in (("path", "value"), ("other", "number"))
            if match[path]
        )
    )


def merge_all(documents: Iterable[Object]) -> Object:
    merged: Object = {}
    for document in documents:
        for key, value in document.items():
            both = [merged.get(key, {}), value]
            merged[key] = merge_all(both) if isinstance(value, dict) else value
    return merged


async def to_zero(person: Person, match: re.Match[str]) -> None:
    """`lower spec.a.b to continue`"""
    await person._patch(nested(match["path"], 0))


def nested(path: str, value: Any) -> Object:
    for name in reversed(path.split(".")):
        value = {name: value}
    result: Object = value
    return result


async def correct_the_template(person: Person, _match: re.Match[str]) -> None:
    """Set an image that works, and remove the node selector."""
    spec: Object = {"containers": [{"name": "main", "image": "nginx:3"}], "nodeSelector": None}
    if name := _match.groupdict().get("sidecars"):
        await correct_the_sidecars(person, name)
    elif person.kind.resource == UNITED_DEPLOYMENTS:
        (template,) = (await person.to_document())["spec"]["template"]
        await person.change(template={template: {"spec": {"template": {"spec": spec}}}})
    else:
        await person.change(template={"spec": spec})


async def correct_the_sidecars(person: Person, name: str) -> None:
    """Set images that work, and remove references to missing objects."""
    containers = (await person.stage.get(name, resource=SIDECAR_SETS))["spec"]["containers"]
    corrected = [
        {**container, "image": "log:3", "envFrom": None, "volumeMounts": None} for container in containers
    ]
    spec = {"containers": corrected, "volumes": None}
    await person.stage.merge(name, {"spec": spec}, resource=SIDECAR_SETS)


async def correct_the_sidecars_and_delete_pods(person: Person, match: re.Match[str]) -> None:
    await correct_the_sidecars(person, match["sidecars"])
    await delete_at_once(person, match)


async def correct_the_patch_and_delete_pods(person: Person, match: re.Match[str]) -> None:
    name = match.groupdict().get("spread") or person.key.name
    spread = await person.stage.get(name, resource=WORKLOAD_SPREADS)
    dropped = {"patch": None, "requiredNodeSelector": None}
    subsets = [{**subset, **dropped} for subset in spread["spec"]["subsets"]]
    await person.stage.merge(name, {"spec": {"subsets": subsets}}, resource=WORKLOAD_SPREADS)
    await delete_at_once(person, match)


async def give_up_the_data(person: Person, match: re.Match[str]) -> None:
    await person.stage.delete(match["claim"], resource=PERSISTENT_VOLUME_CLAIMS)
    await delete_at_once(person, match)


async def create_the_volume(person: Person, match: re.Match[str]) -> None:
    volume = local_volume("more", "node-4", match["class"])
    await person.stage.client.create(PERSISTENT_VOLUMES, "", volume)


async def set_another_condition_type(person: Person, _match: re.Match[str]) -> None:
    probes = (await person.to_document())["spec"]["probes"]
    await person.change(probes=[{**probe, "podConditionType": "example.com/own"} for probe in probes])


async def delete_the_state(person: Person, match: re.Match[str]) -> None:
    await person.stage.delete(match["state"], resource=PERSISTENT_POD_STATES)


async def remove_the_annotation(person: Person, match: re.Match[str]) -> None:
    body: Object = {"metadata": {"annotations": {match["annotation"]: None}}}
    await person.stage.merge(match["workload"], body, resource=ADVANCED_STATEFUL_SETS)


async def set_other_marks(person: Person, _match: re.Match[str]) -> None:
    probes = (await person.to_document())["spec"]["probes"]
    policies = [{"state": "Succeeded", "labels": {"example.com/own": "yes"}}]
    await person.change(probes=[{**probe, "markerPolicy": policies} for probe in probes])


async def run_the_commands(person: Person, match: re.Match[str]) -> None:
    """Create the objects of the commands, and add the keys, with any values."""
    for command in re.findall(r"\((kubectl .*?)\)(?= and |, and |$)", match[0]):
        words = shlex.split(command)
        namespace = words[words.index("-n") + 1]
        name = words[words.index("-n") + 2]
        if words[1] == "patch":
            resource = SECRETS if words[2] == "secret" else CONFIG_MAPS
            body = json.loads(words[-1])
            await person.stage.client.patch(resource, namespace, name, body, patch_type=PatchType.MERGE)
            continue
        resource = SECRETS if words[2] == "secret" else CONFIG_MAPS
        keys = [
            option.split("=")[1] for option in words if option.count("=") == 2 and option.startswith("--from")
        ]
        value = "QQ==" if resource is SECRETS else "A"
        document = {"metadata": {"name": name}, "data": dict.fromkeys(keys, value)}
        await person.stage.client.create(resource, namespace, document)


async def create_what_it_says_is_missing(person: Person, _match: re.Match[str]) -> None:
    missing = re.search(r"there is no (?P<kind>\w+) (?P<mounted>\S+) in its namespace", person.wait.words)
    assert missing is not None, person.wait
    resource = SECRETS if missing["kind"] == "Secret" else CONFIG_MAPS
    document = {"metadata": {"name": missing["mounted"]}}
    await person.stage.client.create(resource, person.stage.namespace, document)


async def create_the_claim(person: Person, match: re.Match[str]) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document = {"metadata": {"name": match["claim"]}, "spec": spec}
    await person.stage.create(document, resource=PERSISTENT_VOLUME_CLAIMS)


async def correct_the_schedule(person: Person, _match: re.Match[str]) -> None:
    await person.change(schedule="* * * * *")


async def ask_for_less(person: Person, match: re.Match[str]) -> None:
    """Remove requests and selectors, and add tolerations."""
    tolerations = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    await person.change(template={"spec": {"tolerations": tolerations}})
    await correct_the_template(person, match)


async def make_the_image_available(person: Person, _match: re.Match[str]) -> None:
    person.stage.kubelets.set_rules([])


async def roll_back(person: Person, match: re.Match[str]) -> None:
    await Kruise(person.stage).says(*match["command"].split())
    if then := match.groupdict().get("then"):
        await Kruise(person.stage).says(*then.split())


async def delete_pods(person: Person, match: re.Match[str]) -> None:
    """`kubectl delete pod a b -n ns`: delete all of them immediately."""
    for name in match["names"].split():
        await person.stage.delete(name, resource=PODS)


async def delete_budgets(person: Person, match: re.Match[str]) -> None:
    for name in match["names"].split():
        await person.stage.delete(name, resource=POD_UNAVAILABLE_BUDGETS)


async def delete_at_once(person: Person, _match: re.Match[str]) -> None:
    """Delete all pods: the remedy does not require one at a time."""
    for name in person.pods:
        await person.stage.delete(name, resource=PODS)


async def delete_by_force(person: Person, _match: re.Match[str]) -> None:
    for name in person.pods:
        await person.stage.delete(name, resource=PODS, grace_period_s=0)


async def replace_one_at_a_time(person: Person, _match: re.Match[str]) -> None:
    """Delete one pod, and the next one after the replacement is available."""
    stage = person.stage
    for name in person.pods or [pod.name for pod in await stage.pods()]:
        before = {pod.uid for pod in await stage.pods()}
        serving = sum(pod.is_serving for pod in await stage.pods())
        try:
            await stage.delete(name, resource=PODS)
        except NotFoundError:
            continue

        async def is_replaced(before: set[str] = before, serving: int = serving) -> bool:
            pods = [pod for pod in await stage.pods() if not pod.is_deleting]
            are_new = any(pod.uid not in before for pod in pods)
            return are_new and sum(pod.is_serving for pod in pods) >= serving

        await stage.until(is_replaced)


async def resume_and_replace(person: Person, match: re.Match[str]) -> None:
    await set_field(person, match)
    await replace_one_at_a_time(person, match)


async def make_room(person: Person, _match: re.Match[str]) -> None:
    """Let nodes take pods of any size, and add the missing labels. New nodes have free host ports."""
    stage = person.stage
    if "host ports" in _match[0]:
        for name in ("more-1", "more-2", "more-3"):
            stage.kubelets.add_node(NodeSpec(name=name))
    for raw in (await stage.client.list(NODES)).items:
        name = decode(raw)["metadata"]["name"]
        body = {"metadata": {"labels": {"disk": "ssd"}}, "spec": {"unschedulable": None, "taints": None}}
        await stage.client.patch(NODES, "", name, body, patch_type=PatchType.MERGE)
        room = {"cpu": "9999", "memory": "999Gi", "pods": "110"}
        status = {"status": {"capacity": room, "allocatable": room}}
        await stage.client.patch(NODES, "", name, status, patch_type=PatchType.MERGE, subresource="status")


async def choose_a_rare_schedule(person: Person, _match: re.Match[str]) -> None:
    await person.change(schedule="0 3 1 1 *")


async def allow_several_runs(person: Person, _match: re.Match[str]) -> None:
    await person.change(concurrencyPolicy="Allow")


async def run_one_at_a_time(person: Person, match: re.Match[str]) -> None:
    await person.change(concurrencyPolicy="Forbid")
    for name in match["names"].split():
        await person.stage.delete(name, resource=JOBS)


async def mount_other_volumes(person: Person, match: re.Match[str]) -> None:
    volumes = [{"name": "data", "emptyDir": {}, "persistentVolumeClaim": None}]
    await person.change(template={"spec": {"volumes": volumes}})
    await delete_at_once(person, match)


async def run_on_one_node(person: Person, match: re.Match[str]) -> None:
    selector = {match["key"]: match["value"]}
    await person.change(template={"spec": {"nodeSelector": selector}})
    await delete_at_once(person, match)


async def set_the_total(person: Person, _match: re.Match[str]) -> None:
    await person.change(protectTotalReplicas=4)


async def lower_the_total(person: Person, match: re.Match[str]) -> None:
    await person.change(protectTotalReplicas=int(match["total"]))


async def tolerate_taints(person: Person, _match: re.Match[str]) -> None:
    await person.change(template={"spec": {"tolerations": [{"operator": "Exists"}]}})


async def open_the_gate(person: Person, match: re.Match[str]) -> None:
    for name in person.pods:
        body = {"status": {"conditions": [{"type": match["gate"], "status": "True"}]}}
        await person.stage.client.patch(
            PODS, person.stage.namespace, name, body, patch_type=PatchType.STRATEGIC, subresource="status"
        )


async def bring_the_node_back(person: Person, match: re.Match[str]) -> None:
    person.stage.kubelets.start_node(match["node"])


async def take_finalizers_off(person: Person, _match: re.Match[str]) -> None:
    for name in person.pods:
        await person.stage.merge(name, {"metadata": {"finalizers": None}}, resource=PODS)


async def correct_the_finalizers(person: Person, _match: re.Match[str]) -> None:
    await person.change(template={"metadata": {"finalizers": None}})
    for pod in await person.stage.pods():
        await person.stage.merge(pod.name, {"metadata": {"finalizers": None}}, resource=PODS)


async def orphan_the_pods(person: Person, match: re.Match[str]) -> None:
    resource = next(
        resource
        for resource in RESOURCES.values()
        if f"{resource.kind}.{resource.group}".lower() == match["argument"]
    )
    await person.stage.client.delete(resource, person.key.namespace, match["owner"], propagation="Orphan")


async def end_the_exemption(person: Person, match: re.Match[str]) -> None:
    if match["owner"]:
        workload = next(resource for resource in RESOURCES.values() if resource.kind == match["kind"])
        dropped = {"spec": {"template": {"metadata": {"annotations": {match["key"]: None}}}}}
        await person.stage.merge(match["owner"], dropped, resource=workload)
    for name in match["names"].split():
        await person.stage.merge(name, {"metadata": {"annotations": {match["key"]: None}}}, resource=PODS)


async def open_the_budget(person: Person, match: re.Match[str]) -> None:
    spec = {"maxUnavailable": 1, "minAvailable": None}
    await person.stage.merge(match["budget"], {"spec": spec}, resource=POD_UNAVAILABLE_BUDGETS)


async def correct_the_class(person: Person, match: re.Match[str]) -> None:
    body: Object = {"allowedTopologies": None}
    await person.stage.client.patch(STORAGE_CLASSES, "", match["class"], body, patch_type=PatchType.MERGE)


async def label_a_node(person: Person, match: re.Match[str]) -> None:
    body = {"metadata": {"labels": {match["key"]: match["value"]}}}
    await person.stage.client.patch(NODES, "", "node-1", body, patch_type=PatchType.MERGE)


async def free_the_copy(person: Person, match: re.Match[str]) -> None:
    body: Object = {"metadata": {"finalizers": None}}
    resource = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}[match["kind"]]
    await person.stage.client.patch(
        resource, match["namespace"], match["name"], body, patch_type=PatchType.MERGE
    )


async def free_the_claim(person: Person, _match: re.Match[str]) -> None:
    stage = person.stage
    for raw in (await stage.client.list(PERSISTENT_VOLUME_CLAIMS, stage.namespace)).items:
        name = decode(raw)["metadata"]["name"]
        await stage.merge(name, {"metadata": {"finalizers": None}}, resource=PERSISTENT_VOLUME_CLAIMS)


async def release_the_hook(person: Person, _match: re.Match[str]) -> None:
    lifecycle = (await person.to_document())["spec"]["lifecycle"]
    handled = [name for hook in lifecycle.values() for name in hook.get("labelsHandler") or ()]
    await _label(person, dict.fromkeys(handled))


async def put_the_hook_on(person: Person, _match: re.Match[str]) -> None:
    hook = (await person.to_document())["spec"]["lifecycle"]
    ((_, handler),) = hook.items()
    await _label(person, handler["labelsHandler"])


async def _label(person: Person, labels: Object) -> None:
    for name in person.pods:
        await person.stage.merge(name, {"metadata": {"labels": labels}}, resource=PODS)


async def delete_the_request(person: Person, match: re.Match[str]) -> None:
    await person.stage.delete(match["name"], resource=person.kind.resource)


async def replace_the_pod(person: Person, match: re.Match[str]) -> None:
    """Create the pod again, and delete the request."""
    pod = await person.stage.get(match["pod"], resource=PODS)
    await person.stage.client.delete(PODS, person.key.namespace, match["pod"], grace_period_s=0)
    spec = {**pod["spec"], "nodeName": None}
    await person.stage.create({"metadata": {"name": match["pod"]}, "spec": spec}, resource=PODS)
    await person.stage.delete(match["name"], resource=person.kind.resource)


async def relabel(person: Person, _match: re.Match[str]) -> None:
    await _label(person, {"app": "other"})


async def start_a_manager(person: Person, _match: re.Match[str]) -> None:
    await person.stage.start_manager()


async def widen_the_selector(person: Person, _match: re.Match[str]) -> None:
    await person._patch(nested("spec.updateStrategy.rollingUpdate.selector", None))


async def allow_the_whole_group(person: Person, _match: re.Match[str]) -> None:
    await person._patch(
        nested("spec.updateStrategy.rollingUpdate", {"maxUnavailable": "100%", "partition": 0})
    )


async def undo_the_change(person: Person, _match: re.Match[str]) -> None:
    await person.change(template={"spec": {"containers": [{"name": "main", "image": "nginx:1"}]}})


async def put_the_selector_back(person: Person, _match: re.Match[str]) -> None:
    labels = {"app": "web", "tier": None}
    with person.stage.past_admission():
        await person.change(selector={"matchLabels": labels}, template={"metadata": {"labels": labels}})


async def correct_the_field(person: Person, match: re.Match[str]) -> None:
    """Restore the field that the message names."""
    words = person.wait.words
    if "selector" in words:
        await put_the_selector_back(person, match)
    elif "replicasPathList" in words or "spec.workers" in words:
        await person.change(targetFilter=None)
    elif "white list" in words:
        listed = {
            "workloads": [{"Group": "example.org", "Kind": "Training", "replicasPath": "spec.replicas"}]
        }
        body = {"metadata": {"name": CONFIGURATION}, "data": {WHITE_LIST_KEY: json.dumps(listed)}}
        with suppress(AlreadyExistsError):
            await person.stage.client.create(NAMESPACES, "", {"metadata": {"name": "kruise-system"}})
        await person.stage.client.create(CONFIG_MAPS, "kruise-system", body)
    elif "timeZone" in words:
        await person.change(timeZone="Europe/Berlin")
    elif "partition" in words:
        await person._patch(nested("spec.updateStrategy.rollingUpdate.partition", 0))
    else:
        raise AssertionError(f"what field is it: {words}")


async def correct_the_annotation(person: Person, _match: re.Match[str]) -> None:
    annotations = {"apps.kruise.io/inplace-update-state": None, "example.com/levels": '{"a":0}'}
    labels = {"lifecycle.apps.kruise.io/state": "Normal"}
    for name in person.pods:
        body = {"metadata": {"annotations": annotations, "labels": labels}}
        await person.stage.merge(name, body, resource=PODS)


async def correct_the_filter(person: Person, _match: re.Match[str]) -> None:
    """Select the pods of the workload."""
    await person.change(targetFilter={"selector": {"matchLabels": {"app": "web"}}})


async def select_other_pods(person: Person, _match: re.Match[str]) -> None:
    """Select existing pods."""
    await person.stage.start_manager()
    await person.stage.create(cloneset())
    await person.change(selector={"matchLabels": {"app": "web"}})


async def select_every_namespace(person: Person, _match: re.Match[str]) -> None:
    await person.change(namespaceSelector=None)


async def label_the_namespace(person: Person, _match: re.Match[str]) -> None:
    stage = person.stage
    label = {"metadata": {"labels": {"team": stage.namespace, "control-plane": None}}}
    await stage.client.patch(NAMESPACES, "", stage.namespace, label, patch_type=PatchType.MERGE)


async def select_for_update(person: Person, _match: re.Match[str]) -> None:
    await person.change(updateStrategy={"selector": None})


async def label_for_update(person: Person, _match: re.Match[str]) -> None:
    await _label(person, {"canary": "yes"})


async def rename_the_container(person: Person, _match: re.Match[str]) -> None:
    result = await person.stage.get("other", resource=SIDECAR_SETS)
    await person.stage.delete("other", resource=SIDECAR_SETS)
    spec = {**result["spec"], "containers": [container("other", "other:1")]}
    made = {**result, "metadata": {"name": "other"}, "spec": spec}
    await person.stage.create(made, resource=SIDECAR_SETS)


async def part_the_selectors(person: Person, _match: re.Match[str]) -> None:
    labels = {"selector": {"matchLabels": {"app": "none"}}}
    await person.stage.merge("other", {"spec": labels}, resource=SIDECAR_SETS)


async def inject_the_present_revision(person: Person, _match: re.Match[str]) -> None:
    await person.change(injectionStrategy={"revision": None})


async def reschedule(person: Person, _match: re.Match[str]) -> None:
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 5}}
    await person.change(scheduleStrategy=strategy)


async def correct_the_subset(person: Person, _match: re.Match[str]) -> None:
    """Set a selector that nodes match; existing pods keep their old one."""
    subsets = (await person.to_document())["spec"]["subsets"]
    await person.change(
        subsets=[{key: subset[key] for key in subset if key != "requiredNodeSelector"} for subset in subsets]
    )
    await delete_at_once(person, _match)


async def take_off_the_limits(person: Person, _match: re.Match[str]) -> None:
    subsets = (await person.to_document())["spec"]["subsets"]
    await person.change(subsets=[{**subset, "maxReplicas": 100} for subset in subsets])


async def take_off_the_limits_of_topology(person: Person, _match: re.Match[str]) -> None:
    topology = (await person.to_document())["spec"]["topology"]
    subsets = [{**subset, "maxReplicas": 100} for subset in topology["subsets"]]
    await person.change(topology={**topology, "subsets": subsets})


async def replace_with_the_namesake(person: Person, _match: re.Match[str]) -> None:
    """Create the same object again; its target is the object with the name."""
    document = await person.to_document()
    kind = CLONE_SETS if document["kind"] == "WorkloadSpread" else ADVANCED_STATEFUL_SETS
    target = {**document["spec"]["targetRef"], "apiVersion": kind.api_version, "kind": kind.kind}
    await person.stage.delete(person.key.name, resource=person.kind.resource)
    await person.stage.client.create(
        person.kind.resource,
        person.key.namespace,
        {
            "apiVersion": document["apiVersion"],
            "kind": document["kind"],
            "metadata": {"name": person.key.name},
            "spec": {**document["spec"], "targetRef": target},
        },
    )


async def replace_with_another_target(person: Person, match: re.Match[str]) -> None:
    """The same object, whose target is a workload that exists."""
    await create_the_target(person, match, name="other")
    target = (await person.to_document())["spec"]["targetRef"]
    await create_again(person, targetRef={**target, "name": "other"})


async def delete_the_copies(person: Person, _match: re.Match[str]) -> None:
    copied = (await person.to_document())["spec"]["resource"]
    resource = SECRETS if copied["kind"] == "Secret" else CONFIG_MAPS
    for namespace in person.wait.pods:
        await person.stage.client.delete(resource, namespace, copied["metadata"]["name"])


async def correct_and_resume(person: Person, match: re.Match[str]) -> None:
    await correct_the_template(person, match)
    await set_field(person, match)


async def take_the_patches_off(person: Person, _match: re.Match[str]) -> None:
    topology = (await person.to_document())["spec"]["topology"]
    subsets = [{key: subset[key] for key in subset if key != "patch"} for subset in topology["subsets"]]
    await person.change(topology={**topology, "subsets": subsets})


async def resume_the_child(person: Person, match: re.Match[str]) -> None:
    """The child that the remedy names."""
    template = (await person.to_document())["spec"]["template"]
    (field,) = template
    resource = JOBS if field == "jobTemplate" else BROADCAST_JOBS
    await person.stage.client.patch(
        resource,
        person.key.namespace,
        match["child"],
        {"spec": {match["field"]: False}},
        patch_type=PatchType.MERGE,
    )


async def correct_the_patch(person: Person, _match: re.Match[str]) -> None:
    subsets = (await person.to_document())["spec"]["subsets"]
    await person.change(
        subsets=[{key: subset[key] for key in subset if key != "patch"} for subset in subsets]
    )


async def create_the_target(person: Person, _match: re.Match[str], name: str = "") -> None:
    """Create the workload that spec.targetRef names, or one with another name."""
    ref = (await person.to_document())["spec"]["targetRef"]
    ref = {**ref, "name": name or ref["name"]}
    labels = {"app": ref["name"]}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    if ref["kind"] == "StatefulSet":
        spec["serviceName"] = ref["name"]
    resource = CLONE_SETS if ref["kind"] == "CloneSet" else ADVANCED_STATEFUL_SETS
    document = {
        "apiVersion": ref["apiVersion"],
        "kind": ref["kind"],
        "metadata": {"name": ref["name"]},
        "spec": spec,
    }
    await person.stage.create(document, resource=resource)


async def have_such_pods(person: Person, _match: re.Match[str]) -> None:
    """Pods with the labels that the selector wants."""
    await person.stage.create(cloneset())


async def correct_the_workload(person: Person, _match: re.Match[str]) -> None:
    """Correct the owner of the pods, which is called `web`."""
    spec: Object = {"containers": [{"name": "main", "image": "nginx:3"}]}
    for resource in (CLONE_SETS, ADVANCED_STATEFUL_SETS):
        if await person.stage.exists("web", resource=resource):
            await person.stage.merge("web", {"spec": {"template": {"spec": spec}}}, resource=resource)


async def let_the_workload_ask_for_less(person: Person, _match: re.Match[str]) -> None:
    """Correct the owner of the pods, which is called `web` and requested nodes that do not exist."""
    for resource in (CLONE_SETS, ADVANCED_STATEFUL_SETS):
        if await person.stage.exists("web", resource=resource):
            template = {"spec": {"nodeSelector": None, "tolerations": [{"operator": "Exists"}]}}
            await person.stage.merge("web", {"spec": {"template": template}}, resource=resource)
    if await person.stage.exists("web", resource=UNITED_DEPLOYMENTS):
        pods = {"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}}
        body = {"spec": {"template": {"cloneSetTemplate": pods}}}
        await person.stage.merge("web", body, resource=UNITED_DEPLOYMENTS)


async def fit_the_workload_and_delete_the_pod(person: Person, match: re.Match[str]) -> None:
    await let_the_workload_ask_for_less(person, match)
    await delete_at_once(person, match)


async def tolerate_in_the_subsets(person: Person, match: re.Match[str]) -> None:
    """Tolerations in all subsets of the WorkloadSpread `web`."""
    spread = await person.stage.get("web", resource=WORKLOAD_SPREADS)
    subsets = [{**subset, "tolerations": [{"operator": "Exists"}]} for subset in spread["spec"]["subsets"]]
    await person.stage.merge("web", {"spec": {"subsets": subsets}}, resource=WORKLOAD_SPREADS)
    await delete_at_once(person, match)


async def correct_and_delete_pods(person: Person, _match: re.Match[str]) -> None:
    """Correct the template of the job, and delete the pods that keep the old one."""
    spec: Object = {"containers": [{"name": "main", "image": "job:3"}]}
    await person.change(template={"spec": spec})
    for name in person.pods:
        await person.stage.delete(name, resource=PODS)


async def replace_the_schedule(person: Person, _match: re.Match[str]) -> None:
    """The same with another image."""
    result = await person.to_document()
    (made,) = result["spec"]["template"].values()
    made["spec"]["template"]["spec"]["containers"][0]["image"] = "job:3"
    await person.stage.client.delete(person.kind.resource, person.key.namespace, person.key.name)
    body = {**result, "metadata": {"name": person.key.name}}
    body.pop("status", None)
    await person.stage.until(lambda: is_gone(person))
    await person.stage.create(body, resource=person.kind.resource)


async def is_gone(person: Person) -> bool:
    return not await person.stage.exists(person.key.name, resource=person.kind.resource)


async def ask_for_less_in_subsets(person: Person, _match: re.Match[str]) -> None:
    templates = (await person.to_document())["spec"]["template"]
    spec = {"containers": [{"name": "main", "image": "nginx:1"}]}
    await person.change(template={name: {"spec": {"template": {"spec": spec}}} for name in templates})


async def empty_the_subset(person: Person, _match: re.Match[str]) -> None:
    """Empty the subset that the message names."""
    subsets = (await person.to_document())["spec"]["topology"]["subsets"]
    for subset in subsets:
        if f"(subset {subset['name']})" in person.wait.words:
            subset["replicas"] = 0
    await person.change(topology={"subsets": subsets})


async def resume_without_failures(person: Person, _match: re.Match[str]) -> None:
    """Delete the failed pods as the command describes; their image works now, and the job continues."""
    person.stage.kubelets.set_rules([])
    for name in await pods_of_command(person, _match["chosen"]):
        await person.stage.delete(name, resource=PODS)
    await person.stage.merge(_match["job"], {"spec": {"paused": False}}, resource=BROADCAST_JOBS)


async def pods_of_command(person: Person, chosen: str) -> list[str]:
    """Pods that these arguments of `kubectl delete pod` select: names, or a selector of labels and one of
    fields."""
    selectors = re.fullmatch(r"-l (\S+) --field-selector=(\S+)", chosen)
    if selectors is None:
        return chosen.split()
    labels, fields = selectors.groups()
    listed = await person.stage.client.list(
        PODS, person.stage.namespace, label_selector=labels, field_selector=fields
    )
    return [decode(raw)["metadata"]["name"] for raw in listed.items]


async def create_again(person: Person, **spec: Any) -> None:
    """Create the object again with these fields of its spec; None removes a field. For a NodeImage: its job."""
    person = await job_of(person)
    old = await person.to_document()
    resource, key = person.kind.resource, person.key
    await person.stage.client.delete(resource, key.namespace, key.name)
    await person.stage.until(lambda: is_gone(person))
    fields = {name: value for name, value in {**old["spec"], **spec}.items() if value is not None}
    again = {name: old[name] for name in ("apiVersion", "kind")}
    await person.stage.create({**again, "metadata": {"name": key.name}, "spec": fields}, resource=resource)


async def job_of(person: Person) -> Person:
    """Return a person who works on the job whose image a NodeImage could not pull; for other kinds, the same person."""
    if person.kind.resource != NODE_IMAGES:
        return person
    for raw in (await person.stage.client.list(IMAGE_PULL_JOBS, person.stage.namespace)).items:
        job = decode(raw)
        if job["spec"]["image"] in person.wait.words:
            (owner,) = job["metadata"].get("ownerReferences") or [{**job, "name": job["metadata"]["name"]}]
            kind = next(kind for kind in list_kinds() if kind.resource.kind == owner["kind"])
            key = Key(person.stage.namespace, owner["name"])
            return Person(stage=person.stage, kind=kind, key=key, wait=person.wait)
    raise AssertionError(f"no job: {person.wait.words}")


async def create_the_account(person: Person, match: re.Match[str]) -> None:
    account = {"metadata": {"name": match["account"]}}
    await person.stage.client.create(SERVICE_ACCOUNTS, match["namespace"], account)


async def create_the_priority_class(person: Person, match: re.Match[str]) -> None:
    document = {"metadata": {"name": match["class"]}, "value": 1000}
    await person.stage.client.create(PRIORITY_CLASSES, "", document)


async def change_the_limit_range(person: Person, match: re.Match[str]) -> None:
    limits = [{"type": "Container", "max": {"memory": "64Gi"}}]
    body = {"spec": {"limits": limits}}
    await person.stage.client.patch(LIMIT_RANGES, match["place"], "small", body, patch_type=PatchType.MERGE)


async def lower_the_level(person: Person, match: re.Match[str]) -> None:
    body = {"metadata": {"labels": {match["label"]: "privileged"}}}
    await person.stage.client.patch(NAMESPACES, "", match["place"], body, patch_type=PatchType.MERGE)


async def create_again_without_the_account(person: Person, _match: re.Match[str]) -> None:
    template = (await person.to_document())["spec"]["template"]
    (made,) = template.values()
    for name in ("serviceAccountName", "serviceAccount"):
        made["spec"]["template"]["spec"].pop(name, None)
    await create_again(person, template=template)


async def make_available_and_create_again(person: Person, match: re.Match[str]) -> None:
    await make_the_image_available(person, match)
    await create_again(person)


async def correct_the_image_and_create_again(person: Person, _match: re.Match[str]) -> None:
    person = await job_of(person)
    is_list = "images" in (await person.to_document())["spec"]
    await create_again(person, **({"images": ["right:1"]} if is_list else {"image": "right:1"}))


async def create_again_without_end(person: Person, _match: re.Match[str]) -> None:
    await create_again(person, completionPolicy={"type": "Never"})


async def create_again_with_more_at_once(person: Person, match: re.Match[str]) -> None:
    await create_again(person, parallelism=10)


async def create_again_with_more_time(person: Person, match: re.Match[str]) -> None:
    await create_again(person, completionPolicy={"type": "Always", "activeDeadlineSeconds": 600})


async def run_more_at_once(person: Person, _match: re.Match[str]) -> None:
    await person.change(parallelism=10)


async def create_the_job_again(person: Person, _match: re.Match[str]) -> None:
    await create_again(person)


async def create_the_request_again(person: Person, match: re.Match[str]) -> None:
    spec = (await person.to_document())["spec"]
    containers = [{"name": container["name"]} for container in spec["containers"]]
    await create_again(person, activeDeadlineSeconds=int(match["value"]), containers=containers)


async def wait_less_out_of_service(person: Person, match: re.Match[str]) -> None:
    """Create the named request again with a shorter time out of service."""
    key = Key(person.stage.namespace, match["name"])
    client = person.stage.client
    stored = decode(await client.get(CONTAINER_RECREATE_REQUESTS, key.namespace, key.name))
    await client.delete(CONTAINER_RECREATE_REQUESTS, key.namespace, key.name)
    await asyncio.sleep(5)
    spec = {
        "podName": stored["spec"]["podName"],
        "containers": [{"name": container["name"]} for container in stored["spec"]["containers"]],
        "strategy": {"unreadyGracePeriodSeconds": 5},
    }
    again = {
        "apiVersion": stored["apiVersion"],
        "kind": stored["kind"],
        "metadata": {"name": key.name},
        "spec": spec,
    }
    await client.create(CONTAINER_RECREATE_REQUESTS, key.namespace, again)


async def label_for_the_job(person: Person, match: re.Match[str]) -> None:
    """Label the nodes or pods that the job selects."""
    if match["what"] == "nodes":
        await make_room(person, match)
    else:
        await have_such_pods(person, match)
        labels = (await person.to_document())["spec"]["podSelector"]["matchLabels"]
        for raw in (await person.stage.client.list(PODS, person.stage.namespace)).items:
            name = decode(raw)["metadata"]["name"]
            await person.stage.merge(name, {"metadata": {"labels": labels}}, resource=PODS)


async def label_and_create_again(person: Person, match: re.Match[str]) -> None:
    await label_for_the_job(person, match)
    await create_again(person)


async def reselect_and_create_again(person: Person, _match: re.Match[str]) -> None:
    """Create the job again, for all nodes."""
    await create_again(person, selector=None, podSelector=None)


async def reselect_or_create_again(person: Person, match: re.Match[str]) -> None:
    """Create a list again; change a job."""
    if match["list"]:
        await reselect_and_create_again(person, match)
    else:
        await person.change(selector=None, podSelector=None)


_BY_A_LIST: Final = (
    r"(?P<list>; instead of the job, create ImageListPullJob \S+ again, which creates the job)?"
)


async def replace_the_job(person: Person, _match: re.Match[str]) -> None:
    await create_again(person)


async def choose_other_nodes(person: Person, _match: re.Match[str]) -> None:
    await person.change(selector={"names": ["node-1"]})


async def unlabel_the_node(person: Person, match: re.Match[str]) -> None:
    body = {"metadata": {"labels": {match["key"]: None}}}
    await person.stage.client.patch(NODES, "", match["node"], body, patch_type=PatchType.MERGE)
    await asyncio.sleep(20)  # the node gets its NodeImage
    if match["again"]:
        await create_again(person)


async def choose_the_scheduler(person: Person, _match: re.Match[str]) -> None:
    await person.change(template={"spec": {"schedulerName": "default-scheduler"}})


async def raise_to_five(person: Person, match: re.Match[str]) -> None:
    await person._patch(nested(match["path"], 5))


async def raise_of_the_child(person: Person, match: re.Match[str]) -> None:
    """Raise the field of the child that the remedy names."""
    resource = next(resource for (_, kind), resource in RESOURCES.items() if kind == match["kind"])
    body = nested(match["path"], 5)
    await person.stage.client.patch(
        resource, person.key.namespace, match["name"], body, patch_type=PatchType.MERGE
    )


async def raise_the_limits_of_the_autoscaler(person: Person, match: re.Match[str]) -> None:
    limits = {"spec": {"minReplicas": 3, "maxReplicas": 5}}
    await person.stage.merge(match["name"], limits, resource=HORIZONTAL_POD_AUTOSCALERS)


async def delete_autoscalers(person: Person, match: re.Match[str]) -> None:
    for name in match["names"].split():
        await person.stage.delete(name, resource=HORIZONTAL_POD_AUTOSCALERS)


async def correct_the_autoscaler(person: Person, match: re.Match[str]) -> None:
    await person.stage.merge(match["name"], json.loads(match["body"]), resource=HORIZONTAL_POD_AUTOSCALERS)


async def set_number_of_runs(person: Person, match: re.Match[str]) -> None:
    await person._patch(nested(match["path"], int(match["value"])))


async def raise_the_quota(person: Person, _match: re.Match[str]) -> None:
    hard = (await person.stage.get("team", resource=QUOTAS))["spec"]["hard"]
    await person.stage.merge("team", {"spec": {"hard": dict.fromkeys(hard, "100")}}, resource=QUOTAS)


async def start_the_node(person: Person, match: re.Match[str]) -> None:
    person.stage.kubelets.start_node(match["node"])


async def label_for_targets(person: Person, _match: re.Match[str]) -> None:
    label = {"metadata": {"labels": {"team": "none"}}}
    await person.stage.client.patch(NAMESPACES, "", person.stage.namespace, label, patch_type=PatchType.MERGE)


async def label_the_nodes(person: Person, _match: re.Match[str]) -> None:
    for raw in (await person.stage.client.list(NODES)).items:
        name = decode(raw)["metadata"]["name"]
        label = {"metadata": {"labels": {"example.com/rack": "a"}}}
        await person.stage.client.patch(NODES, "", name, label, patch_type=PatchType.MERGE)


async def unbind(person: Person, match: re.Match[str]) -> None:
    """Remove the key, and delete the pod."""
    spec = {"spec": {"requiredPersistentTopology": None, "preferredPersistentTopology": None}}
    spec["spec"]["preferredPersistentTopology"] = [{"weight": 1, "preference": {"keys": [match["key"]]}}]
    await person.stage.merge(match["state"], spec, resource=PERSISTENT_POD_STATES)
    for name in person.pods:
        await person.stage.delete(name, resource=PODS)


async def prefer_by_annotation(person: Person, match: re.Match[str]) -> None:
    """Change the annotations as the command does, and delete the pod when the state has followed."""
    resource = ADVANCED_STATEFUL_SETS if "kruise" in match["group"] else STATEFUL_SETS
    topology = {match["name"].replace("preferred", "required"): None, match["name"]: match["key"]}
    await person.stage.merge(match["owner"], {"metadata": {"annotations": topology}}, resource=resource)
    await asyncio.sleep(5)
    for name in person.pods:
        await person.stage.delete(name, resource=PODS)


async def raise_the_limit_and_the_version(person: Person, match: re.Match[str]) -> None:
    await _change_the_tag(person, **{match["field"]: 600})


async def make_available_and_raise_the_version(person: Person, match: re.Match[str]) -> None:
    await make_the_image_available(person, match)
    await _change_the_tag(person)


async def _change_the_tag(person: Person, **policy: Any) -> None:
    """Change the policy of the only tag of the NodeImage, and raise its version."""
    images = (await person.to_document())["spec"]["images"]
    ((name, image),) = images.items()
    (tag,) = image["tags"]
    changed = {"pullPolicy": {**tag["pullPolicy"], **policy}, "version": tag["version"] + 1}
    await person.change(images={name: {"tags": [{**tag, **changed}]}})


async def set_the_annotation(person: Person, match: re.Match[str]) -> None:
    await person._patch({"metadata": {"annotations": {match["name"]: match["key"]}}})


async def run_elsewhere(person: Person, match: re.Match[str]) -> None:
    """Set another node in the template of the CloneSet `web`."""
    body = {"spec": {"template": {"spec": {"nodeName": "node-1"}}}}
    await person.stage.merge("web", body, resource=CLONE_SETS)


async def correct_the_probes(person: Person, match: re.Match[str]) -> None:
    (probe,) = (await person.stage.get(match["marker"], resource=POD_PROBE_MARKERS))["spec"]["probes"]
    check = {"exec": {"command": ["/idle"]}, "periodSeconds": 5}
    probes = [{**probe, "containerName": "main", "probe": check}]
    await person.stage.merge(match["marker"], {"spec": {"probes": probes}}, resource=POD_PROBE_MARKERS)


async def label_the_pods_for_it(person: Person, match: re.Match[str]) -> None:
    marker = await person.stage.get(match["marker"], resource=POD_PROBE_MARKERS)
    labels = marker["spec"]["selector"]["matchLabels"]
    for name in person.pods:
        await person.stage.merge(name, {"metadata": {"labels": labels}}, resource=PODS)


async def create_the_namespace(person: Person, match: re.Match[str]) -> None:
    await person.stage.client.create(NAMESPACES, "", {"metadata": {"name": match["space"]}})


async def remove_the_gates(person: Person, _match: re.Match[str]) -> None:
    for name in person.pods:
        await person.stage.merge(name, {"spec": {"schedulingGates": None}}, resource=PODS)


async def set_no_gates(person: Person, _match: re.Match[str]) -> None:
    await person.change(template={"spec": {"schedulingGates": None}})


async def rename_the_ephemeral_container(person: Person, _match: re.Match[str]) -> None:
    """Create the same job again."""
    result = await person.to_document()
    await person.stage.client.delete(person.kind.resource, person.key.namespace, person.key.name)
    await person.stage.until(lambda: is_gone(person))
    result["spec"]["template"]["ephemeralContainers"][0]["name"] = "other"
    body = {**result, "metadata": {"name": person.key.name}, "status": None}
    await person.stage.create(body, resource=person.kind.resource)


async def name_the_target_container(person: Person, match: re.Match[str]) -> None:
    (container,) = (await person.to_document())["spec"]["template"]["ephemeralContainers"]
    named = {**container, "targetContainerName": match["target"]}
    await person.change(template={"ephemeralContainers": [named]})


async def create_the_class(person: Person, match: re.Match[str]) -> None:
    name = match.groupdict().get("class")
    annotations = {} if name else {"storageclass.kubernetes.io/is-default-class": "true"}
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name or "late", "annotations": annotations},
        "provisioner": "paper.sandbox.pykruise.io",
    }
    await person.stage.client.create(STORAGE_CLASSES, "", document)


async def correct_the_claim_templates(person: Person, match: re.Match[str]) -> None:
    templates = (await person.to_document())["spec"]["volumeClaimTemplates"]
    await person.stage.client.create(
        STORAGE_CLASSES,
        "",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "good"},
            "provisioner": "paper.sandbox.pykruise.io",
        },
    )
    await person.change(
        volumeClaimTemplates=[
            {**template, "spec": {**template["spec"], "storageClassName": "good"}} for template in templates
        ]
    )
    await person.stage.delete(match["claim"], resource=PERSISTENT_VOLUME_CLAIMS)
    await person.stage.delete(match["pod"], resource=PODS)


async def correct_the_security_context(person: Person, _match: re.Match[str]) -> None:
    spec: Object = {"securityContext": None, "containers": [{"name": "main", "image": "nginx:1"}]}
    await person.change(template={"spec": spec})


async def annotate_it(person: Person, match: re.Match[str]) -> None:
    await person._patch({"metadata": {"annotations": {match["key"]: match["value"]}}})


async def replace_it(person: Person, _match: re.Match[str]) -> None:
    await person.stage.client.delete(person.kind.resource, person.key.namespace, person.key.name)


_FOR_THE_SCHEDULER: Final = (
    r"(add nodes|free [\w./ ]+ on|uncordon|label|take the taint \{.*\} off)"
    r"( or capacity \(.*\)| nodes| node \S+| its node)?, or (.* or )?change the .* of "
)

WAYS: Final[tuple[tuple[str, tuple[Do, ...]], ...]] = (
    (r"roll back: kubectl kruise (?P<command>.*)", (roll_back,)),
    (r"roll back and resume: kubectl kruise (?P<command>.*), then kubectl kruise (?P<then>.*)", (roll_back,)),
    (r"(resume: )?set (?P<path>spec[.\w]+) to (?P<value>[a-zA-Z]\w*)(, or undo the change)?", (set_field,)),
    (
        r"set (?P<path>spec[.\w]+) to (?P<value>\d+)( and (?P<other>spec[.\w]+) to (?P<number>\d+): .*)?",
        (set_numbers,),
    ),
    (r"set spec\S+podUpdatePolicy to InPlaceIfPossible, or undo the change", (undo_the_change,)),
    (r"lower (?P<path>spec[.\w]+) to continue", (to_zero,)),
    (
        r"delete the pod \(kubectl delete pod (?P<names>\S+) -n \S+\): a pod of the newest revision replaces it"
        r"( immediately)?",
        (delete_pods,),
    ),
    (
        r"create storage class (?P<class>[^\s,]+), which administrators .*: the PVC gets its volume then",
        (create_the_class,),
    ),
    (
        r"create a default storage class, which administrators .*: the PVC gets its volume then",
        (create_the_class,),
    ),
    (
        r"correct storageClassName in spec.volumeClaimTemplates, then kubectl delete pvc (?P<claim>\S+) -n \S+ and"
        r" kubectl delete pod (?P<pod>\S+) -n \S+",
        (correct_the_claim_templates,),
    ),
    (
        r"(create what is missing, or )?correct the reference or securityContext in spec.template",
        (correct_the_security_context,),
    ),
    (
        r"let the manager replace pods that are never ready \(kubectl annotate \S+ (?P<key>[^\s=]+)=(?P<value>\S+) -n"
        r" \S+\)",
        (annotate_it,),
    ),
    (
        r"correct the image or its pull secret in (spec\.template|SidecarSet (?P<sidecars>\w+)), or make the"
        r" image available",
        (correct_the_template, make_the_image_available),
    ),
    (
        r"read its log \(kubectl logs -n \S+ \S+ -c \S+ --previous\),"
        r" and correct (the template|SidecarSet (?P<sidecars>\w+)|spec\.template\.\w+)",
        (correct_the_template,),
    ),
    (
        r"check its readiness probe and read its log \(kubectl logs -n \S+ \S+ -c \S+\);"
        r" correct (the template|SidecarSet (?P<sidecars>\w+)|spec\.template\.\w+)",
        (correct_the_template,),
    ),
    (r"uncordon nodes, or add nodes", (make_room,)),
    (
        r"label nodes, or add nodes, or create pod \S+ again with other nodeSelector or node affinity",
        (make_room,),
    ),
    (r"wait until the cause above is corrected, or raise spec\.parallelism so .*", (run_more_at_once,)),
    (_FOR_THE_SCHEDULER + r"spec\.template", (make_room, ask_for_less)),
    (
        _FOR_THE_SCHEDULER + r"the template of the pod's workload",
        (make_room, let_the_workload_ask_for_less),
    ),
    (
        r"the controller that is responsible for the condition (?P<gate>\S+) must set it; if no controller does, set it"
        r" yourself \(kubectl patch pod -n \S+ \S+ --subresource=status -p '\S+'\)",
        (open_the_gate,),
    ),
    (
        r"bring (?P<node>\S+) back(, or delete the node)?, or delete the pod by force \(kubectl delete pod -n \S+ \S+"
        r" --grace-period=0 --force\)",
        (bring_the_node_back, delete_by_force),
    ),
    (r"bring (?P<node>\S+) back, or delete the node", (bring_the_node_back,)),
    (
        r"the controller that is responsible for \S+ must remove it; if this controller no longer runs, remove the"
        r" finalizers yourself"
        r" \(kubectl patch pod -n \S+ \S+ --type=merge -p '\S+'\)",
        (take_finalizers_off,),
    ),
    (r"if that lasts, find out what still uses the claim", (free_the_claim,)),
    (
        r"the controller that is responsible for \S+ must remove it; if this controller no longer runs, correct"
        r" metadata\.finalizers in spec\.template, then remove the finalizers from each pod that still has them"
        r" \(kubectl patch pod -n \S+ \S+ --type=merge -p '\S+'\)",
        (correct_the_finalizers,),
    ),
    (r"the controller that is responsible for \S+ must remove it from PVC \S+", (free_the_claim,)),
    (
        r"the controller that is responsible for \S+ must remove it from"
        r" (?P<kind>ConfigMap|Secret) (?P<namespace>[^/]+)/(?P<name>\S+)",
        (free_the_copy,),
    ),
    (
        r"(raise maxUnavailable|lower minAvailable|run more than one pod, or replace minAvailable by maxUnavailable)"
        r" of PodUnavailableBudget (?P<budget>[^\s,]+), because .*",
        (open_the_budget,),
    ),
    (
        r"remove the annotation from (spec\.template of (?P<kind>\w+) (?P<owner>\S+), and from )?the pods \(kubectl"
        r" annotate pod -n \S+ (?P<names>.+) (?P<key>\S+)-\)",
        (end_the_exemption,),
    ),
    (
        r"delete PodUnavailableBudgets? [^()]+ \(kubectl delete pub -n \S+ (?P<names>[^()]+)\): then this budget"
        r" protects the pods",
        (delete_budgets,),
    ),
    (r"delete this budget, or replace one of the budgets by a budget that covers other pods", ()),
    (r"correct allowedTopologies of storage class (?P<class>\S+)", (correct_the_class,)),
    (r"label a node with (?P<key>[^\s=]+)=(?P<value>\S+)", (label_a_node,)),
    (
        r"wait until they stop; for later pods, shorten preStop or lower terminationGracePeriodSeconds",
        (),
    ),
    (r"remove the hook of spec.lifecycle from the pod", (release_the_hook,)),
    (r"add the hook of spec.lifecycle to the pod( again)?", (put_the_hook_on,)),
    (r"(delete|recreate) the pods one at a time.*", (replace_one_at_a_time,)),
    (
        r"set (?P<path>spec[.\w]+) to (?P<value>false), then recreate the pods one at a time.*",
        (resume_and_replace,),
    ),
    (r"delete (these pods|pods of the subset) one at a time.*", (replace_one_at_a_time,)),
    (r"if this lasts, check that the manager runs.*", (start_a_manager,)),
    (r"set maxUnavailable or maxSurge to 100%, and partition to 0", (allow_the_whole_group,)),
    (r"widen rollingUpdate.selector to continue", (widen_the_selector,)),
    (r"restore the old selector", (put_the_selector_back,)),
    (r"correct (the field that the message names|what the message names).*", (correct_the_field,)),
    (
        r"correct the annotation( or label that the message names)?, or (delete|recreate) the pod",
        (correct_the_annotation, delete_at_once),
    ),
    (r"delete it, or give it other labels", (delete_at_once, relabel)),
    (r"correct spec.selector, or the labels of the pods", (select_other_pods,)),
    (
        r"correct spec.namespaceSelector, or the labels of the namespaces",
        (select_every_namespace, label_the_namespace),
    ),
    (r"change spec.updateStrategy.selector, or the pod's labels", (select_for_update, label_for_update)),
    (r"remove the label control-plane=openkruise from the namespace", (label_the_namespace,)),
    (
        r"recreate one of the two .*, or change their selectors so that no pod matches both.*",
        (rename_the_container, part_the_selectors),
    ),
    (r"correct spec.injectionStrategy.revision.*", (inject_the_present_revision,)),
    (r"make room on the nodes of subset \w+", (make_room,)),
    (r"make room on (its nodes|the nodes of the subset,).*", (make_room,)),
    (r"set scheduleStrategy.type to Adaptive with .*", (reschedule,)),
    (
        r"correct the image or its pull secret in spec.template, then set (?P<path>\S+) to (?P<value>false), or make"
        r" the image available",
        (correct_and_resume, make_the_image_available),
    ),
    (
        r"correct the image or its pull secret in spec\.template\.\w+ or in the patch of subset \w+ in"
        r" spec.topology.subsets, or make the image available",
        (take_the_patches_off, make_the_image_available),
    ),
    (r"turn on the gate \w+ of the manager", ()),
    (r"remove namespace \S+ from spec.targets, or create the namespace again after its deletion", ()),
    (
        r"correct requiredNodeSelector of the subset in spec.subsets, then delete these pods.*",
        (correct_the_subset,),
    ),
    (r"raise maxReplicas in spec.subsets, or add a last subset without it", (take_off_the_limits,)),
    (r"raise maxReplicas in spec.topology.subsets", (take_off_the_limits_of_topology,)),
    (r"create \w+ \S+ again with \w+ of \S+ as the target, .*", (replace_with_the_namesake,)),
    (
        r"delete the copy \S+, which cannot be changed; the manager then creates it again",
        (delete_the_copies,),
    ),
    (
        r"set (?P<field>paused|suspend) of \w+ (?P<child>\S+) to false"
        r"(; then create .* again without (paused|suspend) in its template)?",
        (resume_the_child,),
    ),
    (
        r"delete PersistentPodState (?P<state>\S+) \(kubectl delete -n \S+ persistentpodstate \S+\); the manager then"
        r" generates it from the workload",
        (delete_the_state,),
    ),
    (
        r"remove the annotation \(kubectl annotate -n \S+ \S+ (?P<workload>\S+) (?P<annotation>\S+)-\), and change spec"
        r" of PersistentPodState \S+",
        (remove_the_annotation,),
    ),
    # what only a person can judge
    (r"create the job again with a higher \S+: the pull takes longer than this limit" + _BY_A_LIST, ()),
    (r"create secret \S+ \(kubectl create secret docker-registry [^()]+\), then create the job again", ()),
    (
        r"remove the namespace from spec.targets of this distribution or of .*, or distribute the resource by another"
        r" name",
        (),
    ),
    (r"correct what prevents the creation of its pods: .*", ()),
    (
        r"request what the LimitRange allows, or change the LimitRange \(kubectl edit limitrange -n (?P<place>\S+)\)"
        r"(; to change the template, create .*)?",
        (change_the_limit_range,),
    ),
    (
        r"create ServiceAccount \S+ \(kubectl create serviceaccount -n (?P<namespace>\S+) (?P<account>\S+)\), or"
        r" correct serviceAccountName in (the pod template|spec\.template\.\w+)",
        (create_the_account,),
    ),
    (
        r"create PriorityClass \S+ \(kubectl create priorityclass (?P<class>\S+) --value=NUMBER\), or correct"
        r" priorityClassName in the patch of subset \w+ in spec\.topology\.subsets",
        (create_the_priority_class, take_the_patches_off),
    ),
    (
        r"create PriorityClass \S+ \(kubectl create priorityclass (?P<class>\S+) --value=NUMBER\), or correct"
        r" priorityClassName in (the pod template|spec\.subsets\[\d+\]\.patch of WorkloadSpread \S+)",
        (create_the_priority_class,),
    ),
    (
        r"correct (the pod template|spec\.template\.ephemeralContainers|the template of the workload that creates the"
        r" pods), or have the level of the namespace lowered"
        r" \(kubectl label namespace (?P<place>\S+)"
        r" --overwrite (?P<label>\S+)=(LEVEL|privileged)\)",
        (lower_the_level,),
    ),
    (r"have an administrator of the nodes create RuntimeClass \S+, or correct runtimeClassName.*", ()),
    (
        r"correct (overhead or runtimeClassName|serviceAccountName|priorityClassName.*) in the pod template",
        (),
    ),
    (
        r"lower spec\.protectTotalReplicas of PodUnavailableBudget \S+ to (?P<total>\d+), or remove the field",
        (lower_the_total,),
    ),
    (r"remove this annotation from spec\.probes\[\]\.markerPolicy, because .*", ()),
    (r"cover each pod with only one PodDisruptionBudget", ()),
    (r"create \w+ \S+ in namespace \S+ by other means \(.*\), or remove \S+ from spec\.targets", ()),
    (r"set in .* what the ResourceQuota requires .*, or add a LimitRange with defaults", ()),
    (r"change the object so that the webhook allows the write, or have the webhook changed", ()),
    (r"turn the feature gate \w+ of the manager on: add \w+=true to --feature-gates \(.*\)", ()),
    (r"correct what the message of the webhook names", ()),
    (r"make the server of this webhook respond, or correct or delete the webhook configuration", ()),
    (
        r"make the server of webhook \S+ respond, or correct or delete (the webhook configuration that contains it"
        r" \(kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations\)|\w+ \S+ \(kubectl edit .*\))",
        (),
    ),
    (r"change the pod template so that the policy allows its pods, or change the policy", ()),
    (r"change the object('s spec)? so that the (policy allows the )?write( is allowed)?, or change .*", ()),
    (r"correct what the API server rejects( in the object's spec)?", ()),
    (r"no action is needed if the API server and its webhooks recover", ()),
    (r"grant the manager the missing permission \(pykruise doctor names it\)", ()),
    (r"request less, or make room on the node", ()),
    (r"names that are derived from the object's name are too long: create the object again .*", ()),
    (
        r"create ServiceAccount \S+ \(kubectl create serviceaccount -n (?P<namespace>\S+) (?P<account>\S+)\), or"
        r" correct serviceAccountName in the pod template; to change the template, create \w+ \S+ again: .*",
        (create_the_account, create_again_without_the_account),
    ),
    (r"correct the cause that the events of .* report .*", ()),
    (r"bring \S+ back, or delete the node: its pods are then replaced", ()),
    (r"bring the nodes back, or delete them, or let the update ignore them \(annotation .*", ()),
    (r"create \w+ \S+", (create_the_target,)),
    (
        r"create \w+ \S+ again with another target, because spec.targetRef cannot be changed",
        (replace_with_another_target,),
    ),
    (
        r"correct the image or its pull secret in spec.template, then delete the pod, which keeps the old value, or"
        r" make the image available",
        (correct_and_delete_pods, make_the_image_available),
    ),
    (
        r"create AdvancedCronJob \S+ again with the image or its pull secret corrected, or make the image available",
        (replace_the_schedule, make_the_image_available),
    ),
    (
        r"correct the image or its pull secret in spec\.template\.\w+, or make the image available",
        (correct_the_template, make_the_image_available),
    ),
    (r"lower the partition of the subset to continue: kubectl kruise (?P<command>.*)", (roll_back,)),
    (r"make room on the nodes of subset \w+, whose node selector cannot be changed", (make_room,)),
    (r"lower the replicas of the subset in spec.topology.subsets", (empty_the_subset,)),
    (
        r"change the requests, host ports or affinity of spec\.template\.\w+",
        (ask_for_less_in_subsets,),
    ),
    (
        r"correct the image or its pull secret in the template of the pod's workload, or make the image available",
        (correct_the_workload, make_the_image_available),
    ),
    (
        r"read its log \(kubectl logs -n \S+ \S+ -c \S+ --previous\), and correct the template of the pod's workload",
        (correct_the_workload,),
    ),
    (
        r"(create what is missing, or )?correct the reference or securityContext in spec.template, then delete the pod,"
        r" which keeps the old value",
        (correct_and_delete_pods,),
    ),
    (
        r"(create what is missing, or )?correct the reference or securityContext in SidecarSet (?P<sidecars>\w+), then"
        r" delete the pod, which keeps the old value",
        (correct_the_sidecars_and_delete_pods,),
    ),
    (
        r"change nodeSelector, affinity or tolerations of spec.template, or label nodes",
        (ask_for_less, make_room),
    ),
    (r"label the node, or change (nodeSelector|nodeAffinity) of spec.template", (make_room, ask_for_less)),
    (r"request less \w+ in spec.template, or add a larger node", (ask_for_less, make_room)),
    (r"uncordon the node", (make_room,)),
    (r"set spec\.protectTotalReplicas", (set_the_total,)),
    (r"remove the taint, or add a toleration to spec.template", (make_room, tolerate_taints)),
    (
        r"correct schedulerName in spec.template, or start a scheduler of that name",
        (choose_the_scheduler,),
    ),
    (r"raise (?P<path>spec[.\w]+)", (raise_to_five,)),
    (
        r"raise (?P<path>spec[.\w]+) of (?P<kind>\w+) (?P<name>[^\s;]+) \(kubectl patch .*\)"
        r"(; then create .* again with this change .*)?",
        (raise_of_the_child,),
    ),
    (
        r"for another number of pods, change minReplicas or maxReplicas of HorizontalPodAutoscaler (?P<name>\S+)"
        r" \(kubectl edit hpa -n \S+ \S+\)",
        (raise_the_limits_of_the_autoscaler,),
    ),
    (
        r"keep one of them, such as HorizontalPodAutoscaler \S+, and delete the others"
        r" \(kubectl delete hpa -n \S+ (?P<names>[^()]+)\)",
        (delete_autoscalers,),
    ),
    (
        r"correct scaleTargetRef of the autoscaler \(kubectl patch hpa -n \S+ (?P<name>\S+) --type=merge -p"
        r" '(?P<body>\S+)'\)",
        (correct_the_autoscaler,),
    ),
    (r"set (?P<path>spec[.\w]+) to (?P<value>\d+): the next failed run .*", (set_number_of_runs,)),
    (r"create the namespace \(kubectl create namespace (?P<space>\S+)\)", (create_the_namespace,)),
    (
        r"raise the ResourceQuota( \(kubectl edit resourcequota -n \S+ \S+\))?, or free resources that it counts"
        r"(; to change the template, create AdvancedCronJob \S+ again: .*)?",
        (raise_the_quota,),
    ),
    (r"start the agent on node (?P<node>\S+), or bring the node back", (start_the_node,)),
    (r"bring node (?P<node>\S+) back \(kubectl describe node \S+\)", (start_the_node,)),
    (r"bring node \S+ back \(kubectl describe node \S+\); (then create|instead of the job, create) .*", ()),
    (
        r"correct the labels of the pods, or create the (job|marker) again with another selector",
        (have_such_pods,),
    ),
    (r"label the pods so that spec.selector matches them", (have_such_pods,)),
    (r"replace the budget by another, because \S+ cannot be changed", (replace_it,)),
    (r"label namespaces so that spec.targets selects them, or change spec.targets", (label_for_targets,)),
    (r"label the node, or change the keys of spec.requiredPersistentTopology", (label_the_nodes,)),
    (r"make room on nodes? [^;]*", (make_room,)),
    (
        r"change the (?P<fields>tolerations) of (spec\.subsets\[\d\]|subset \w+ of WorkloadSpread \S+), then delete the"
        r" pod, which keeps the old value",
        (tolerate_in_the_subsets,),
    ),
    (r"uncordon node \S+ \(kubectl uncordon \S+\)", (make_room,)),
    (r"remove the taint \(kubectl taint node \S+ \S+-\)", (make_room,)),
    (r"label (node|at least one of the nodes) [^;]* with \S+=\S+", (make_room,)),
    (
        r"change the (tolerations|nodeSelector or node affinity) of (the template of the pod's workload|spec[\w.]+),"
        r" then delete the pod",
        (fit_the_workload_and_delete_the_pod,),
    ),
    (
        r"move (?P<key>\S+) from spec.requiredPersistentTopology to spec.preferredPersistentTopology of"
        r" PersistentPodState (?P<state>\S+), then delete the pod",
        (unbind,),
    ),
    (
        r"make \S+ a preference of StatefulSet \S+ \(kubectl annotate -n \S+ statefulsets\.(?P<group>\S+)"
        r" (?P<owner>\S+) --overwrite \S+- (?P<name>\S+)=(?P<key>\S+)\), then delete the pod",
        (prefer_by_annotation,),
    ),
    (r"make the image available: .*", (make_the_image_available,)),
    (
        r"raise pullPolicy\.(?P<field>\w+) of tag \S+ of \S+ in NodeImage (?P<node>\S+), and raise version of this tag"
        r" by 1: .*",
        (raise_the_limit_and_the_version,),
    ),
    (
        r"make the image available, or correct tag \S+ of \S+ in NodeImage (?P<node>[^\s;]+)(; if the registry"
        r" requires a login, create the secret before you list it in pullSecrets of \S+)?; then raise version of this"
        r" tag by 1: .*",
        (make_available_and_raise_the_version,),
    ),
    (r"set annotation (?P<name>\S+) or \S+, for example to (?P<key>\S+)", (set_the_annotation,)),
    (
        r"switch on the feature gate \S+, then delete the pod, so that its workload creates it again with the probes",
        (),
    ),
    (r"run the pod on a node with an agent", (run_elsewhere,)),
    (
        r"correct the container( and port)? of the probe in PodProbeMarker (?P<marker>[^\s,]+)"
        r"(, or give the port a name in the container)?",
        (correct_the_probes,),
    ),
    (
        r"create the namespace \(kubectl create namespace (?P<space>\S+)\), or remove it from spec.targets",
        (create_the_namespace,),
    ),
    (r"the controller that handles \S+ must remove it", (remove_the_gates,)),
    (
        r"remove it from each pod \(kubectl patch pod -n \S+ \S+ --type=json -p"
        r""" '\[\{"op":"remove","path":"/spec/schedulingGates"\}\]'\)""",
        (remove_the_gates,),
    ),
    (r"change the schedulingGates of spec.template, if the template sets any", (set_no_gates,)),
    (r"create what is missing", ()),
    (
        r"delete these pods \(kubectl delete pod -n \S+ [^()]+\): their nodes then run the new template",
        (delete_at_once,),
    ),
    (r"create the job again with another container name: .*", (rename_the_ephemeral_container,)),
    (
        r"set spec\.template\.ephemeralContainers\[0\]\.targetContainerName to (?P<target>\S+), or remove it",
        (name_the_target_container,),
    ),
    (
        r"create the job again with another container name and a higher spec\.activeDeadlineSeconds: .*",
        (rename_the_ephemeral_container,),
    ),
    (
        r"create the job again with a higher spec\.parallelism or spec\.activeDeadlineSeconds: .*",
        (create_again_with_more_at_once,),
    ),
    (r"make the node fit, or change spec.template", (make_room, ask_for_less)),
    (
        r"(read its log \(kubectl logs [^()]+\), and correct its cause; then )?delete the failed pods"
        r" \(kubectl delete pod -n \S+ (?P<chosen>[^()]+)\) and set spec.paused of BroadcastJob (?P<job>\S+) to false",
        (resume_without_failures,),
    ),
    (
        r"read its log \(kubectl logs [^()]+\), and correct its cause; then delete the pod \(kubectl delete pod -n \S+"
        r" (?P<names>[^()]+)\), so that its node gets a new pod",
        (delete_pods,),
    ),
    (
        r"create the missing objects, or correct the volume in .* or in SidecarSet (?P<sidecars>\w+), then delete"
        r" the pod, which keeps the old value",
        (create_what_it_says_is_missing, correct_the_sidecars_and_delete_pods),
    ),
    (
        r"create the missing objects, or (create AdvancedCronJob \S+ again with the volume corrected|correct the"
        r" volume in .*)",
        (create_what_it_says_is_missing,),
    ),
    (
        r"create (ConfigMap|Secret) \S+ \(kubectl create .*\)|add key .* \(kubectl patch .*\)",
        (run_the_commands,),
    ),
    (r"create the missing PVC (?P<claim>\S+) \(kubectl apply -f FILE\)", (create_the_claim,)),
    (
        r"if you do not need the data of PVC (?P<claim>\S+), delete the PVC, then the pod"
        r"( \(first create a PersistentVolume of storage class \S+ if none is free\))?",
        (give_up_the_data,),
    ),
    (
        r"create a PersistentVolume of storage class (?P<class>\S+) for a node that can run the pod",
        (create_the_volume,),
    ),
    (
        r"set another podConditionType in spec.probes, here or in PodProbeMarker \S+",
        (set_another_condition_type,),
    ),
    (
        r"use other (labels|annotations) in spec.probes\[\].markerPolicy, here or in PodProbeMarker \S+",
        (set_other_marks,),
    ),
    (r"give the probe of PodProbeMarker \S+ or \S+ another podConditionType", ()),
    (r"correct spec.schedule", (correct_the_schedule,)),
    (r"label nodes so that they match, or add matching nodes", (make_room,)),
    (
        r"(correct the image or its pull secret in|read its log \(kubectl logs [^()]+\), and correct)"
        r" spec.subsets\[\d\].patch.*, then delete the pod, which keeps the old value(, or make the image available)?",
        (correct_the_patch_and_delete_pods,),
    ),
    (
        r"correct (the patch|requiredNodeSelector|the nodeSelector in the patch) of subset (?P<subset>\w+) of"
        r" WorkloadSpread (?P<spread>[^\s,]+), then delete the pod, which keeps the old value",
        (correct_the_patch_and_delete_pods,),
    ),
    (
        r"correct the image or its pull secret in SidecarSet (?P<sidecars>\w+), or make the image available; recreate"
        r" the pods after a change of SidecarSet \w+",
        (correct_the_sidecars_and_delete_pods, make_the_image_available),
    ),
    (
        r"create this workload or the other owner again with another selector and other pod labels: a selector "
        r"cannot be changed",
        (),
    ),
    (
        r"choose a spec\.schedule whose times are further apart than a run lasts, or set concurrencyPolicy to Forbid or"
        r" Allow",
        (choose_a_rare_schedule, allow_several_runs),
    ),
    (r"choose a spec\.schedule whose times are further apart than a run lasts", (choose_a_rare_schedule,)),
    (
        r"if the events of the AdvancedCronJob show a rejected run, correct its cause|raise"
        r" spec\.startingDeadlineSeconds above the longest time without a manager",
        (),
    ),
    # what only a person can judge
    (r"label the pods so that PodProbeMarker (?P<marker>\S+) selects them", (label_the_pods_for_it,)),
    (r"correct the problem that the probe reports, or correct (the probe in )?PodProbeMarker \S+", ()),
    (r"read its log \(kubectl logs -n \S+ \S+( -c \S+)?\), and correct (its cause|SidecarSet \S+)", ()),
    (r"read its log \(kubectl logs -n \S+ \S+ -c \S+\); then create the job again.*", ()),
    (
        r"(read its events \(kubectl describe pod -n \S+ \S+\)|if that lasts, read its log \(kubectl logs -n .+\)),"
        r" and correct (the template of the pod's workload|SidecarSet \S+"
        r"|the problem that its readiness probe reports).*",
        (),
    ),
    (r"correct its cause, and create the job again" + _BY_A_LIST, ()),
    (
        r"correct what prevented its pods from completing; to raise activeDeadlineSeconds, create \S+ \S+ again",
        (),
    ),
    (
        r"correct what prevented its pods from completing, or raise spec.\S+; then create the job again"
        r"(; instead of the job, create AdvancedCronJob \S+ again, which creates the job)?",
        (),
    ),
    (r"correct the name; .*", ()),
    (
        r"make the image available, or correct the image or its pull secrets; then create the job again"
        + _BY_A_LIST,
        (make_available_and_create_again, correct_the_image_and_create_again),
    ),
    (
        r"label (?P<what>nodes|pods) so that spec\.\w+ matches them, or choose another spec\.\w+; then create the job"
        r" again" + _BY_A_LIST,
        (label_and_create_again, reselect_and_create_again),
    ),
    (
        r"create the job again with ((correct|other) spec.selector.names|another spec.selector|spec.selector, which"
        r" selects nodes)" + _BY_A_LIST,
        (reselect_and_create_again,),
    ),
    (
        r"create the job again with completionPolicy.type Never, which includes nodes that become ready later"
        + _BY_A_LIST,
        (create_again_without_end,),
    ),
    (
        r"create the job again: a job that has ended selects no further nodes" + _BY_A_LIST,
        (create_the_job_again,),
    ),
    (r"(choose other|correct) spec.selector.names", (choose_other_nodes,)),
    (
        r"if \S+ has a real kubelet, remove the label \(kubectl label node (?P<node>\S+) (?P<key>\S+)-\)"
        r"(?P<again>, then create the job again)?" + _BY_A_LIST,
        (unlabel_the_node,),
    ),
    (r"bring \S+ back(, then create the job again)?" + _BY_A_LIST, ()),
    (
        r"label (?P<what>nodes|pods) so that spec\.\w+ matches them, or change spec\.\w+" + _BY_A_LIST,
        (label_for_the_job, reselect_or_create_again),
    ),
    (r"add a node with .*", ()),
    (r"if the probe should succeed, read its message", ()),
    (
        r"if container \S+ never ends, delete its pod \(kubectl delete pod -n \S+ (?P<names>\S+)\): .*",
        (delete_pods,),
    ),
    (r"if that lasts, read its log \(kubectl logs [^()]+\)(; spec\.\S+ ends the job at a set time)?", ()),
    (r"delete the job and create it again \(kubectl replace --force -f FILE\)", (replace_the_job,)),
    (r"create a request for an existing pod", ()),
    (
        r"if that is too long, delete request \S+ \(kubectl delete crr -n \S+ (?P<name>\S+)\), which returns the pod to"
        r" service, and create it again with a lower spec\.strategy\.unreadyGracePeriodSeconds",
        (wait_less_out_of_service,),
    ),
    (
        r"create the request again with spec\.activeDeadlineSeconds (?P<value>\d+) or more(: .*)?",
        (create_the_request_again,),
    ),
    (
        r"read its log \(kubectl logs .+\), and correct what prevents the container from starting .*then create the"
        r" request again",
        (),
    ),
    (r"read its log \(kubectl logs .+\), and create pod \S+ again with a spec that works", ()),
    (r"if that lasts, check that the agent runs on the node.*", ()),
    (
        r"delete .*, but keep its pods \(kubectl delete (?P<argument>\S+) -n \S+ (?P<owner>\S+) --cascade=orphan\):"
        r" this StatefulSet then adopts and updates them",
        (orphan_the_pods,),
    ),
    (r"delete .*, or scale it down: when you delete only the pod, it creates the pod again", ()),
    (r"create this StatefulSet again with another name", ()),
    (r"delete .* if nothing needs it, or create (it|that pod) again with another name", ()),
    (r"start the agent on that node, or bring the node back; then create the request again", ()),
    (r"if that lasts, make the image available, or create the job again .*", ()),
    (
        r"if a pull takes longer than \d+ s, create the job again with a higher pullPolicy\.timeoutSeconds.*",
        (),
    ),
    (
        r"make the image available, or correct the image .*; then create the job again; instead of .*AdvancedCronJob.*",
        (),
    ),
    (r"create the claims that are missing, or provide a volume or a storage class for them", ()),
    (r"correct the patch of subset \w+(?! of).*", (correct_the_patch,)),
    (r"correct spec\.subsets\[\d+\]\.patch of WorkloadSpread \S+", (correct_the_patch,)),
    (r"correct spec\.targetFilter\.selector; existing pods stay where they are", (correct_the_filter,)),
    (r"exclude the namespace with spec\.namespaceSelector of SidecarSet \S+", ()),
    (
        r"(see what it waits for \(.*\); )?if nothing needs request \S+, delete it"
        r" \(kubectl delete crr (?P<name>\S+) -n \S+\)",
        (delete_the_request,),
    ),
    (
        r"create pod (?P<pod>\S+) again \(kubectl replace --force -f FILE\), and delete this request, .* \(kubectl"
        r" delete crr -n \S+ (?P<name>\S+)\)",
        (replace_the_pod,),
    ),
    (
        r"correct the (image or its pull secrets|cause) in spec.template of \S+ \S+, which creates the job \(.*\)",
        (),
    ),
    (r"make the image and its pull secrets available", ()),
    (
        r"create the job again with a higher spec.parallelism" + _BY_A_LIST,
        (create_again_with_more_at_once,),
    ),
    (
        r"create the job again with a higher completionPolicy.activeDeadlineSeconds" + _BY_A_LIST,
        (create_again_with_more_time,),
    ),
    (
        r"set spec.concurrencyPolicy to Forbid, and delete the active ones \(kubectl delete jobs.batch -n \S+"
        r" (?P<names>[^()]+)\)",
        (run_one_at_a_time,),
    ),
    (r"create the \w+ in (namespace \S+|the namespace of the pods that it must select) instead", ()),
    (
        r"to use volumes that every node can mount \(.*\), change the volumes of spec.template, then delete the pod,"
        r" which keeps the old value",
        (mount_other_volumes,),
    ),
    (
        r"to run a pod on \S+ alone \((?P<key>\S+)=(?P<value>\S+)\), change the nodeSelector of spec.template, then"
        r" delete the pod, which keeps the old value",
        (run_on_one_node,),
    ),
    # sentences without an action
    (r"first correct the cause above: another run would have the same problem", ()),
    (r"first fix the cause that blocks the pods above: .*", ()),
    (r"first fix the cause above(: with a higher limit, the same cause would stop the others too)?", ()),
    (r"correct what stops the pods, which the other reasons name", ()),
    (r"no action is needed: .*", ()),
    (r"wait(?! until the cause above is corrected, or raise).*", ()),
    (r"(see|find|find out) (what|why) .*", ()),
    (r"read the API server's message", ()),
    (r"read the message about the pod", ()),
)
"""A sentence, and its actions."""

_THEN: Final = re.compile(r"(?P<first>.*); then kubectl delete pod (?P<names>.+) -n \S+")


def ways_of(explanation: Explanation) -> Iterator[Way]:
    """All alternatives of the remedies, each once."""
    seen = set[str]()
    for wait in explanation.waits:
        for sentence in wait.remedy.split("; or "):
            if sentence and sentence not in seen:
                seen.add(sentence)
                for number in range(len(_doing(sentence))):
                    yield Way(wait, sentence, number)


def _doing(sentence: str) -> list[tuple[Do, re.Match[str]]]:
    """The actions of a sentence, from every matching entry."""
    then = _THEN.fullmatch(sentence)
    first = then["first"] if then else sentence
    result = [(doing, match) for pattern, doing in WAYS if (match := re.fullmatch(pattern, first))]
    if not result:
        raise AssertionError(f"no way to follow this remedy: {sentence}")
    return [(do, match) for doing, match in result for do in doing]


def each_case(cases: Iterable[Stuck]) -> list[Any]:
    """Parameters `case`. In the sandbox a normal run leaves out the cases with remedies, because following a
    remedy also stages the case and checks its cause. On a real cluster no remedy is followed, and every case
    runs."""
    return [
        pytest.param(
            case,
            id=case.stage_it.__name__,
            marks=pytest.mark.exhaustive(in_sandbox=True) if case.ways else (),
        )
        for case in cases
    ]


def each_way(cases: Iterable[Stuck]) -> list[Any]:
    """Parameters `case` and `number`: one for each alternative of a case's remedies. A normal run has one
    alternative per case, a different one for each case."""
    return [
        pytest.param(
            case,
            n,
            id=f"{case.stage_it.__name__}-{n}",
            marks=() if n == place % case.ways else pytest.mark.exhaustive,
        )
        for place, case in enumerate(cases)
        for n in range(case.ways)
    ]


async def follow_way(
    stage: Stage, kind: Kind, key: Key, case: Stuck, number: int, explanation: Explanation
) -> None:
    """Follow this alternative of a case's explanation, which must contain the expected text."""
    ways, said = list(ways_of(explanation)), format_explanation(explanation, now=stage.clock())
    assert case.says in said
    assert len(ways) == case.ways, said
    await followed(stage, kind, key, explanation, ways[number], helps=number not in case.useless)


async def followed(
    stage: Stage, kind: Kind, key: Key, explanation: Explanation, way: Way, *, helps: bool = True
) -> None:
    """Follow an alternative. Fails if fewer pods are available than before, or if it should help and does not.

    If all pods are available, one may be unavailable at a time, because the strategy updates pods in this way.
    """
    said = format_explanation(explanation, now=stage.clock())
    do, match = _doing(way.sentence)[way.number]
    async with pod_watch(stage) as seen:
        seen.watch_from_now()
        before, there = seen.fewest_available or 0, seen.most
        missing = int(match.groupdict().get("number") or 0)  # as many as the remedy says
        floor = min(before - missing, max(there - 1, 0))
        await do(Person(stage=stage, kind=kind, key=key, wait=way.wait), match)
        if then := _THEN.fullmatch(way.sentence):
            for name in then["names"].split():
                await stage.delete(name, resource=PODS)

        async def has_helped() -> bool:
            try:
                now = await read_and_explain(stage.client, key, now=stage.clock(), kind=kind)
            except Exception as error:
                if isinstance(error.__cause__, NotFoundError):
                    return True
                raise
            return (way.wait.code, way.wait.words) not in {(wait.code, wait.words) for wait in now.waits}

        try:
            if helps:
                await stage.until(has_helped, what=f"{way.sentence!r} helps")
        except AssertionError as error:
            now = await read_and_explain(stage.client, key, now=stage.clock(), kind=kind)
            raise AssertionError(f"{error}\n{said}\n{format_explanation(now, now=stage.clock())}") from error
        await asyncio.sleep(stage.long_s)
        fewest = seen.fewest_available or 0
    assert fewest >= floor, f"{fewest} of {before} pods were available after {way.sentence!r}\n{said}"
