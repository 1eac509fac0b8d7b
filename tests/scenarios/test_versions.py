"""Both versions of a kind at once: written in one, read in the other, run by the manager."""

import msgspec
import pytest

from pykruise.kinds import list_conversions
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.documents import decode, encode
from pykruise.kube.errors import BadRequestError, InvalidError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS, Resource
from pykruise.kube.schemas.conversion import convert
from support.scenario import Object, Stage, cloneset, rolling

OLD_CLONE_SETS = msgspec.structs.replace(CLONE_SETS, version="v1alpha1")

needs_conversion = pytest.mark.needs_admission


def flat(**strategy: object) -> Object:
    """The CloneSet `web` in v1alpha1."""
    return {**cloneset(updateStrategy=strategy), "apiVersion": OLD_CLONE_SETS.api_version}


@needs_conversion
async def test_a_cloneset_written_as_v1alpha1_runs_and_reads_back_as_both_versions(stage: Stage) -> None:
    # given
    await stage.start_manager()
    # when
    written = await stage.create(
        flat(type="InPlaceIfPossible", partition=1, maxUnavailable="50%"), resource=OLD_CLONE_SETS
    )
    await stage.settled(replicas=3)
    # then it is answered in the version it was written in, with defaults
    assert written["apiVersion"] == "apps.kruise.io/v1alpha1"
    assert written["spec"]["updateStrategy"] == {
        "type": "InPlaceIfPossible",
        "inPlaceUpdateStrategy": {},
        "partition": 1,
        "maxUnavailable": "50%",
        "maxSurge": 0,
    }
    # and read in either
    old = await stage.get("web", resource=OLD_CLONE_SETS)
    new = await stage.get("web")
    assert old["spec"]["updateStrategy"] == written["spec"]["updateStrategy"]
    assert old["spec"]["scaleStrategy"] == {"disablePVCReuse": False}
    assert new["spec"]["scaleStrategy"] == {"enablePVCReuse": True}
    assert new["spec"]["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"] == "InPlaceIfPossible"
    assert old["status"] == new["status"]
    for part in ("uid", "resourceVersion", "generation"):
        assert old["metadata"][part] == new["metadata"][part]


@needs_conversion
async def test_an_update_written_as_v1alpha1_is_rolled_out(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(flat(type="InPlaceOnly"), resource=OLD_CLONE_SETS)
    await stage.settled(replicas=3)
    before = {pod.uid for pod in await stage.pods()}
    # when
    containers = [{"name": "main", "image": "nginx:2"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    await stage.merge("web", patch, resource=OLD_CLONE_SETS)
    # then in place
    await stage.settled(replicas=3)
    pods = await stage.pods()
    assert {pod.uid for pod in pods} == before
    assert {container.image for pod in pods for container in pod.containers} == {"nginx:2"}


@needs_conversion
async def test_a_client_of_v1alpha1_loses_nothing_that_only_v1beta1_has(stage: Stage) -> None:
    # given
    await stage.create(
        cloneset(
            updateStrategy={**rolling(partition=2, podUpdatePolicy="InPlaceOnly"), "type": "OnDelete"},
            scaleStrategy={"excludePreparingDelete": True},
        )
    )
    before = await stage.get("web")
    # when it reads, changes what it knows, and writes all of it
    shown = await stage.get("web", resource=OLD_CLONE_SETS)
    shown["spec"]["replicas"] = 7
    await stage.client.update(OLD_CLONE_SETS, stage.namespace, "web", shown)
    # then
    after = await stage.get("web")
    assert after["spec"] == {**before["spec"], "replicas": 7}
    assert not any(key.startswith("pykruise.io/") for key in after["metadata"].get("annotations", {}))


@needs_conversion
async def test_lists_and_watches_have_the_requested_version(stage: Stage) -> None:
    # given
    await stage.create(cloneset("a", updateStrategy=rolling(partition=1)))
    await stage.create(
        {**flat(type="ReCreate", partition=2), "metadata": {"name": "b"}}, resource=OLD_CLONE_SETS
    )
    # when
    result = [decode(raw) for raw in (await stage.client.list(OLD_CLONE_SETS, stage.namespace)).items]
    # then
    assert {doc["apiVersion"] for doc in result} == {"apps.kruise.io/v1alpha1"}
    assert [doc["spec"]["updateStrategy"]["partition"] for doc in result] == [1, 2]


@needs_conversion
async def test_the_scale_of_v1alpha1_is_the_same_scale(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(flat(type="ReCreate"), resource=OLD_CLONE_SETS)
    await stage.merge("web", {"spec": {"replicas": 5}}, resource=OLD_CLONE_SETS, subresource="scale")
    await stage.settled(replicas=5)


async def test_pods_with_an_owner_reference_in_the_old_version_are_recognized(stage: Stage) -> None:
    """An earlier manager created the pods: none is created twice, and their changes are noticed."""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    await stage.stop_manager()
    before = await stage.pods()
    for pod in before:
        (owner,) = (await stage.get(pod.name, resource=PODS))["metadata"]["ownerReferences"]
        owners = [{**owner, "apiVersion": OLD_CLONE_SETS.api_version}]
        await stage.merge(pod.name, {"metadata": {"ownerReferences": owners}}, resource=PODS)
    # when
    await stage.start_manager()
    await stage.delete(before[0].name, resource=PODS)
    # then one takes the place of the one that is gone
    await stage.until(lambda: is_gone(stage, before[0].uid))
    await stage.settled(replicas=3)
    after = {pod.uid for pod in await stage.pods()}
    assert {pod.uid for pod in before} - after == {before[0].uid}
    # and the collector, too, knows whose they are
    await stage.delete("web")
    await stage.until(lambda: no_pods(stage))


async def is_gone(stage: Stage, uid: str) -> bool:
    return uid not in {pod.uid for pod in await stage.pods()}


async def no_pods(stage: Stage) -> bool:
    return await stage.pods() == []


@needs_conversion
async def test_errors_of_a_v1alpha1_object_are_reported(stage: Stage) -> None:
    with pytest.raises(InvalidError, match="maxUnavailable"):
        await stage.create(flat(type="ReCreate", maxUnavailable="5"), resource=OLD_CLONE_SETS)
    with pytest.raises(BadRequestError, match="spec"):
        await stage.create({**flat(), "spec": "none"}, resource=OLD_CLONE_SETS)


@needs_conversion
async def test_errors_of_v1alpha1_only_are_reported_together_with_their_fields(stage: Stage) -> None:
    """cloneset rules 10, 11a and 20"""
    # given
    doc = flat(type="Recreate", maxUnavailable="5")
    doc["spec"] |= {"progressDeadlineSeconds": 10, "minReadySeconds": 10}
    doc["spec"]["scaleStrategy"] = {"podsToDelete": ["none"]}
    # when
    with pytest.raises(InvalidError) as refused:
        await stage.create(doc, resource=OLD_CLONE_SETS)
    # then
    assert [cause.field for cause in refused.value.causes] == [
        "spec.updateStrategy.maxUnavailable",
        "spec.scaleStrategy.podsToDelete",
        "spec.updateStrategy.type",
        "spec.progressDeadlineSeconds",
    ]


@needs_conversion
async def test_in_place_only_refuses_other_changes_than_images_in_v1alpha1(stage: Stage) -> None:
    """cloneset case 15"""
    # given
    await stage.create(flat(type="InPlaceOnly"), resource=OLD_CLONE_SETS)
    # when
    for fields, is_refused in (({"env": [{"name": "A", "value": "b"}]}, True), ({"image": "nginx:2"}, False)):
        shown = await stage.get("web", resource=OLD_CLONE_SETS)
        shown["spec"]["template"]["spec"]["containers"][0] |= fields
        writing = stage.client.update(OLD_CLONE_SETS, stage.namespace, "web", shown)
        # then
        if is_refused:
            with pytest.raises(InvalidError, match=r"under InPlaceOnly, not .*env"):
                await writing
        else:
            await writing


@needs_conversion
async def test_only_pods_of_the_set_can_be_named_as_those_to_delete_in_v1alpha1(stage: Stage) -> None:
    """cloneset cases 10 and 11"""
    # given a pod of the set and one without an owner
    await stage.start_manager()
    await stage.create(flat(type="ReCreate"), resource=OLD_CLONE_SETS)
    await stage.settled(replicas=3)
    own = (await stage.pods())[0]
    spec = {"containers": [{"name": "main", "image": "nginx:1"}]}
    await stage.create({"metadata": {"name": "ownerless"}, "spec": spec}, resource=PODS)

    async def name(*pods: str) -> None:
        listed = {"spec": {"scaleStrategy": {"podsToDelete": [*pods]}}}
        await stage.merge("web", listed, resource=OLD_CLONE_SETS)

    # when
    with pytest.raises(InvalidError, match="does not belong") as refused:
        await name(own.name, "ownerless", "gone")
    # then both are reported, and the one of the set is no error
    assert ["gone" in cause.message for cause in refused.value.causes] == [False, True]
    await name(own.name)
    await stage.until(lambda: is_gone(stage, own.uid))
    await stage.settled(replicas=3)


def united_by(strategy: Object) -> Object:
    """A UnitedDeployment in v1alpha1 whose CloneSets have this update strategy."""
    labels = {"matchLabels": {"app": "web"}}
    pod = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"selector": labels, "template": pod, "updateStrategy": strategy},
    }
    return {
        "spec": {
            "replicas": 0,
            "selector": labels,
            "template": {"cloneSetTemplate": template},
            "topology": {"subsets": [{"name": "a"}]},
        }
    }


def daemon_by(block: Object) -> Object:
    """A DaemonSet in v1alpha1 with this `rollingUpdate`."""
    labels = {"matchLabels": {"app": "none"}}
    pod = {
        "metadata": {"labels": {"app": "none"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}], "nodeSelector": {"none": "such"}},
    }
    strategy = {"type": "RollingUpdate", "rollingUpdate": block}
    return {"spec": {"selector": labels, "template": pod, "updateStrategy": strategy}}


def sidecars_of(**namespace: str) -> Object:
    return {
        "spec": {
            "selector": {"matchLabels": {"app": "none"}},
            "containers": [{"name": "log", "image": "log:1"}],
            **namespace,
        }
    }


@needs_conversion
@pytest.mark.parametrize(
    ("resource", "manifest", "less", "gone"),
    [
        pytest.param(
            UNITED_DEPLOYMENTS,
            united_by({"type": "InPlaceIfPossible", "maxUnavailable": 2}),
            united_by({"type": "InPlaceIfPossible"}),
            '"maxUnavailable":2',
            id="a flat strategy in a UnitedDeployment",
        ),
        pytest.param(
            DAEMON_SETS,
            daemon_by({"rollingUpdateType": "Surging", "maxSurge": 1}),
            daemon_by({"rollingUpdateType": "Standard", "maxUnavailable": 1}),
            '"maxSurge":1',
            id="Surging",
        ),
        pytest.param(
            SIDECAR_SETS,
            sidecars_of(namespace="scenario"),
            sidecars_of(),
            "kubernetes.io/metadata.name",
            id="a named namespace",
        ),
    ],
)
async def test_an_older_manifest_applied_twice_is_one_generation_and_loses_removed_fields(
    stage: Stage, resource: Resource, manifest: Object, less: Object, gone: str
) -> None:
    older = msgspec.structs.replace(resource, version="v1alpha1")
    namespace = stage.namespace if resource.namespaced else ""

    async def apply(doc: Object) -> Object:
        whole = {"apiVersion": older.api_version, "kind": older.kind, "metadata": {"name": "one"}, **doc}
        raw = await stage.client.patch(
            older, namespace, "one", whole, patch_type=PatchType.APPLY, field_manager="kubectl"
        )
        return decode(raw)

    # given
    first = await apply(manifest)
    assert gone in str(encode(decode(await stage.client.get(resource, namespace, "one"))["spec"]))
    # when it is applied again
    again = await apply(manifest)
    # then nothing has changed
    assert again["metadata"]["generation"] == first["metadata"]["generation"]
    assert again["spec"] == first["spec"]
    # when a field is taken out
    after = await apply(less)
    hub = decode(await stage.client.get(resource, namespace, "one"))
    # then it has no effect any more
    assert after["metadata"]["generation"] > first["metadata"]["generation"]
    fresh = convert(
        {"apiVersion": older.api_version, "kind": older.kind, "metadata": {}, **less},
        resource.api_version,
        list_conversions(),
    )
    assert lacking(hub["spec"], fresh["spec"]) == []
    assert gone not in str(encode(hub["spec"]))


def lacking(result: object, wanted: object, path: str = "spec") -> list[str]:
    """Paths at which the result differs from `wanted`; the result may have more fields."""
    if isinstance(wanted, dict) and isinstance(result, dict):
        return [
            problem
            for name, value in wanted.items()
            for problem in lacking(result.get(name), value, f"{path}.{name}")
        ]
    if isinstance(wanted, list) and isinstance(result, list) and len(wanted) == len(result):
        return [
            problem
            for index, (item, value) in enumerate(zip(result, wanted, strict=True))
            for problem in lacking(item, value, f"{path}[{index}]")
        ]
    return [] if result == wanted else [f"{path}: {result!r}, not {wanted!r}"]
