"""SidecarSet. Each selects pods of its scenario's namespace alone."""

from typing import Any, Final

from recorded_original.language import (
    NAMESPACE,
    Create,
    Delete,
    Document,
    Group,
    Patch,
    PatchPod,
    Settle,
    Try,
    TryPatch,
)
from recorded_original.scenarios.documents import (
    build_difference,
    build_scenario,
    pods,
    rolling,
    set_image,
    workload,
)

__all__ = ["SIDECAR_SET"]

_KIND: Final = "SidecarSet"
_HERE: Final[Document] = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}


def _container(name: str = "log", image: str = "log:1", **more: Any) -> Document:
    return {"name": name, "image": image, **more}


def _document(name: str = NAMESPACE, annotations: dict[str, str] | None = None, **spec: Any) -> Document:
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": _HERE,
        "containers": [_container()],
        "updateStrategy": rolling_all(),
        **spec,
    }
    metadata: Document = {"name": name}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "apps.kruise.io/v1beta1", "kind": _KIND, "metadata": metadata, "spec": spec}


def rolling_all(**fields: Any) -> Document:
    """An update strategy of SidecarSets, which is flat."""
    return {"type": "RollingUpdate", **fields}


def _sidecars(**spec: Any) -> Create:
    return Create(_document(**spec))


def _try(**spec: Any) -> Try:
    return Try(_document(**spec))


def _change(**spec: Any) -> Patch:
    return Patch(_KIND, NAMESPACE, {"spec": spec})


def _web(replicas: int = 2, **spec: Any) -> Create:
    return Create(workload("CloneSet", replicas=replicas, **spec))


_NEW: Final = _change(containers=[_container(image="log:2")])

SIDECAR_SET: Final = Group(
    kind=_KIND,
    watched=("CloneSet",),
    scenarios=(
        build_scenario("pods get the sidecar", _sidecars(), _web(), Settle()),
        build_scenario(
            "no pod matches", _sidecars(selector={"matchLabels": {"app": "other"}}), _web(), Settle()
        ),
        build_scenario("pods that were there before", _web(), Settle(), _sidecars(), Settle()),
        build_scenario("an upgrade in place", _sidecars(), _web(), Settle(), _NEW, Settle()),
        build_scenario(
            "an upgrade of one at a time",
            _sidecars(updateStrategy=rolling_all(maxUnavailable=1)),
            _web(3),
            Settle(),
            _NEW,
            Settle(),
        ),
        build_scenario(
            "a partition",
            _sidecars(updateStrategy=rolling_all(partition=1)),
            _web(3),
            Settle(),
            _NEW,
            Settle(),
            _change(updateStrategy=rolling_all(partition=0)),
            Settle(),
        ),
        build_scenario(
            "paused",
            _sidecars(updateStrategy=rolling_all(paused=True)),
            _web(),
            Settle(),
            _NEW,
            Settle(),
            _change(updateStrategy=rolling_all(paused=False)),
            Settle(),
        ),
        build_scenario(
            "not updated at all",
            _sidecars(updateStrategy={"type": "NotUpdate"}),
            _web(),
            Settle(),
            _NEW,
            Settle(),
            differs=(
                build_difference(
                    "the status follows pods at once", "3 */status/readyPods", "3 */status/updatedReadyPods"
                ),
            ),
        ),
        build_scenario(
            "only some pods are upgraded",
            _sidecars(updateStrategy=rolling_all(selector={"matchLabels": {"first": "yes"}})),
            _web(),
            Settle(),
            PatchPod("web", 0, {"metadata": {"labels": {"first": "yes"}}}),
            _NEW,
            Settle(),
        ),
        build_scenario(
            "a broken image",
            _sidecars(),
            _web(),
            Settle(),
            _change(containers=[_container(image="log/broken")]),
            Settle(),
        ),
        build_scenario(
            "a hot upgrade",
            _sidecars(
                containers=[
                    _container(
                        upgradeStrategy={"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}
                    )
                ]
            ),
            _web(1),
            Settle(),
            _change(
                containers=[
                    _container(
                        image="log:2",
                        upgradeStrategy={"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"},
                    )
                ]
            ),
            Settle(),
        ),
        build_scenario(
            "before the containers of the application",
            _sidecars(containers=[_container(podInjectPolicy="BeforeAppContainer")]),
            _web(1),
            Settle(),
        ),
        build_scenario(
            "after the containers of the application",
            _sidecars(containers=[_container(podInjectPolicy="AfterAppContainer")]),
            _web(1),
            Settle(),
        ),
        build_scenario(
            "init containers, volumes and variables",
            _sidecars(
                initContainers=[_container("prepare", "prepare:1")],
                containers=[
                    _container(
                        volumeMounts=[{"name": "logs", "mountPath": "/logs"}],
                        transferEnv=[{"sourceContainerName": "main", "envName": "LEVEL"}],
                        env=[{"name": "OWN", "value": "1"}],
                    )
                ],
                volumes=[{"name": "logs", "emptyDir": {}}],
                imagePullSecrets=[{"name": "pull"}],
            ),
            _web(
                1,
                template={
                    **pods("web"),
                    "spec": {
                        "containers": [
                            {"name": "main", "image": "nginx:1", "env": [{"name": "LEVEL", "value": "debug"}]}
                        ]
                    },
                },
            ),
            Settle(),
        ),
        build_scenario(
            "volumes are shared",
            _sidecars(containers=[_container(shareVolumePolicy={"type": "enabled"})]),
            _web(
                1,
                template={
                    **pods("web"),
                    "spec": {
                        "volumes": [{"name": "data", "emptyDir": {}}],
                        "containers": [
                            {
                                "name": "main",
                                "image": "nginx:1",
                                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                            }
                        ],
                    },
                },
            ),
            Settle(),
        ),
        build_scenario(
            "metadata of pods",
            _sidecars(patchPodMetadata=[{"annotations": {"note": "1"}, "patchPolicy": "Retain"}]),
            _web(1),
            Settle(),
        ),
        build_scenario(
            "injection is paused", _sidecars(injectionStrategy={"paused": True}), _web(1), Settle()
        ),
        build_scenario(
            "two SidecarSets",
            _sidecars(),
            Create(_document(f"{NAMESPACE}-more", containers=[_container("proxy", "proxy:1")])),
            _web(1),
            Settle(),
        ),
        build_scenario(
            "a template changes beyond images",
            _sidecars(),
            _web(1),
            Settle(),
            _change(containers=[_container(image="log:1", env=[{"name": "A", "value": "b"}])]),
            Settle(),
        ),
        build_scenario(
            "the workload updates in place beside it",
            _sidecars(),
            _web(updateStrategy=rolling(podUpdatePolicy="InPlaceIfPossible")),
            Settle(),
            set_image("CloneSet"),
            Settle(),
        ),
        build_scenario(
            "revisions beyond the limit are removed",
            _sidecars(revisionHistoryLimit=1),
            Settle(),
            *(
                step
                for n in (2, 3, 4)
                for step in (_change(containers=[_container(image=f"log:{n}")]), Settle())
            ),
        ),
        build_scenario("deleted", _sidecars(), _web(1), Settle(), Delete(_KIND, NAMESPACE), Settle()),
        build_scenario("the smallest manifest", _try(), _try(updateStrategy=None)),
        build_scenario(
            "defaults",
            _try(updateStrategy={}),
            _try(injectionStrategy={}),
            _try(containers=[_container(upgradeStrategy={})]),
            _try(containers=[_container(podInjectPolicy="AfterAppContainer", shareVolumePolicy={})]),
            _try(initContainers=[_container("prepare", "prepare:1")]),
            _try(volumes=[{"name": "logs", "emptyDir": {}}]),
            _try(patchPodMetadata=[{"annotations": {"a": "b"}}]),
        ),
        build_scenario(
            "wrong values",
            _try(selector=None),
            _try(selector={}),
            _try(containers=[]),
            _try(containers=[_container("UPPER")]),
            _try(containers=[_container(), _container()]),
            _try(containers=[_container(image="")]),
            _try(containers=[_container(podInjectPolicy="Sometimes")]),
            _try(containers=[_container(upgradeStrategy={"upgradeType": "HotUpgrade"})]),
            _try(containers=[_container(volumeMounts=[{"name": "none", "mountPath": "/x"}])]),
            _try(updateStrategy={"type": "Sometimes"}),
            _try(updateStrategy=rolling_all(partition=-1)),
            _try(updateStrategy=rolling_all(maxUnavailable="x")),
            _try(
                updateStrategy=rolling_all(
                    scatterStrategy=[{"key": "a", "value": "b"}, {"key": "a", "value": "b"}]
                )
            ),
            _try(volumes=[{"name": "a"}, {"name": "a"}]),
            _try(patchPodMetadata=[{"annotations": {}, "patchPolicy": "Retain"}]),
            _try(patchPodMetadata=[{"annotations": {"a": "b"}, "patchPolicy": "Sometimes"}]),
            _try(injectionStrategy={"revision": {"revisionName": "none"}}),
            differs=(
                build_difference("it could only fail later", "8 *"),
                build_difference("the path leads to the field", "7 */fields/spec.container.podInjectPolicy"),
                build_difference(
                    "the API server names the item, as it merges the list", "5 */fields/spec.containers*name"
                ),
                build_difference(
                    "the API server names the item, as it merges the list", "14 */fields/spec.volumes*name"
                ),
            ),
        ),
        build_scenario(
            "conflicts with another one",
            _sidecars(),
            Settle(),
            Try(_document(f"{NAMESPACE}-same")),
            Try(_document(f"{NAMESPACE}-proxy", containers=[_container("proxy", "proxy:1")])),
            Try(
                _document(
                    f"{NAMESPACE}-volumes",
                    containers=[_container("proxy", "proxy:1")],
                    volumes=[{"name": "v", "emptyDir": {}}],
                )
            ),
            TryPatch(_KIND, NAMESPACE, {"spec": {"containers": [_container("other", "other:1")]}}),
            TryPatch(_KIND, NAMESPACE, {"spec": {"selector": {"matchLabels": {"app": "x"}}}}),
            TryPatch(_KIND, NAMESPACE, {"spec": {"updateStrategy": {"type": "NotUpdate"}}}),
        ),
    ),
)
