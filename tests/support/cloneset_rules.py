"""CloneSets that admission accepts, and one for each rule of its validation that it rejects.

Unit tests pass them to functions, and scenarios send them to API servers.
"""

import copy
from typing import Any

from support.cloneset_builder import cloneset, template

BLOCK = "spec.updateStrategy.rollingUpdate"


def document(**spec: Any) -> dict[str, Any]:
    document = copy.deepcopy(cloneset(5).document)
    del document["spec"]["updateStrategy"]
    document["spec"] |= spec
    return document


def rolling(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}}


def bad_template(**spec: Any) -> dict[str, Any]:
    return {"template": template(**spec)}


def bad_container(**fields: Any) -> dict[str, Any]:
    result = template()
    result["spec"]["containers"][0] |= fields
    return {"template": result}


def with_annotations(annotations: dict[str, str]) -> dict[str, Any]:
    result = template()
    result["metadata"]["annotations"] = annotations
    return {"template": result}


def pod_affinity(**selector: Any) -> dict[str, Any]:
    term = {"topologyKey": "zone", "labelSelector": selector}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def pod_anti_affinity(**selector: Any) -> dict[str, Any]:
    term = {"topologyKey": "zone", "labelSelector": selector}
    weighted = {"weight": 1, "podAffinityTerm": term}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


BAD_EXPRESSION = [{"key": "a", "operator": "In", "values": ["not a label value"]}]
AFFINITY = "spec.template.spec.affinity"

ACCEPTED: list[dict[str, Any]] = [
    {},
    rolling(maxUnavailable="120%"),
    rolling(maxUnavailable="12.5%"),
    rolling(maxUnavailable=0, maxSurge=1),
    rolling(partition="100%"),
    {"replicas": 0, **rolling(maxUnavailable=0, maxSurge=0)},
    rolling(podUpdatePolicy="InPlaceOnly"),
    {"replicas": 0, **rolling(podUpdatePolicy="InPlaceOnly", maxSurge="10%")},
    {"updateStrategy": {"type": "OnDelete"}},
    {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}},
    {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": "abc"}}},
    rolling(
        priorityStrategy={"weightPriority": [{"weight": 0, "matchSelector": {"matchLabels": {"a": "b"}}}]}
    ),
    rolling(inPlaceUpdateStrategy={"imagePreDownloadParallelism": "10", "gracePeriodSeconds": -1}),
    rolling(inPlaceUpdateStrategy={"imagePreDownloadParallelism": "2147483647"}),
    {"scaleStrategy": {"podsToDelete": ["gone", "web-a"], "maxUnavailable": "10%"}},
    {"progressDeadlineSeconds": 2147483647, "minReadySeconds": 2147483647},
    {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]},
    {
        **bad_container(volumeMounts=[{"name": "data", "mountPath": "/x"}]),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
    },
    with_annotations({"controller.kubernetes.io/pod-deletion-cost": "high"}),
    bad_template(affinity=pod_affinity(matchExpressions=BAD_EXPRESSION)),
    bad_template(
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": BAD_EXPRESSION},
            }
        ]
    ),
    bad_container(resources={"limits": {"hugepages-2Mi": "3Mi", "cpu": "1", "memory": "1Gi"}}),
]
"""Valid specs: fields that replace those of `to_document()`."""

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"replicas": -1}, "spec.replicas", "Invalid"),
    ({"replicas": 150_001}, "spec.replicas", "Invalid"),
    ({"selector": None}, "spec.selector", "Required"),
    ({"selector": {}}, "spec.selector", "Invalid"),
    ({"selector": {"matchLabels": {"a b": "c"}}}, "spec.selector", "Invalid"),
    ({"selector": {"matchLabels": {"app": "x"}}}, "spec.template.metadata.labels", "Invalid"),
    ({"template": None}, "spec.template", "Required"),
    (
        {"selector": {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}},
        "spec.selector",
        "Invalid",
    ),
    (
        {"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}},
        "spec.selector",
        "Invalid",
    ),
    (
        bad_template(affinity=pod_affinity(matchLabels={"a": "not a label value"})),
        f"{AFFINITY}.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels",
        "Invalid",
    ),
    (
        bad_template(affinity=pod_anti_affinity(matchLabels={"a": "not a label value"})),
        f"{AFFINITY}.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
        ".podAffinityTerm.labelSelector.matchLabels",
        "Invalid",
    ),
    (bad_template(restartPolicy="Never"), "spec.template.spec.restartPolicy", "NotSupported"),
    (bad_template(activeDeadlineSeconds=1), "spec.template.spec.activeDeadlineSeconds", "Forbidden"),
    (bad_template(containers=[]), "spec.template.spec.containers", "Required"),
    (
        bad_template(containers=[{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]),
        "spec.template.spec.containers[1].name",
        "Duplicate",
    ),
    (bad_container(image=""), "spec.template.spec.containers[0].image", "Required"),
    (bad_container(image=" x"), "spec.template.spec.containers[0].image", "Invalid"),
    (bad_container(name="A_b"), "spec.template.spec.containers[0].name", "Invalid"),
    (
        bad_container(imagePullPolicy="Sometimes"),
        "spec.template.spec.containers[0].imagePullPolicy",
        "NotSupported",
    ),
    (
        bad_container(ports=[{"containerPort": 70000}]),
        "spec.template.spec.containers[0].ports[0].containerPort",
        "Invalid",
    ),
    (
        bad_container(ports=[{"containerPort": 1, "name": "Http"}]),
        "spec.template.spec.containers[0].ports[0].name",
        "Invalid",
    ),
    (
        bad_container(volumeMounts=[{"name": "none", "mountPath": "/x"}]),
        "spec.template.spec.containers[0].volumeMounts[0].name",
        "NotFound",
    ),
    (bad_container(env=[{"name": ""}]), "spec.template.spec.containers[0].env[0].name", "Required"),
    (
        bad_container(resources={"limits": {"cpu": "lots"}}),
        "spec.template.spec.containers[0].resources.limits[cpu]",
        "Invalid",
    ),
    (
        bad_container(resources={"limits": {"cpu": 1}, "requests": {"cpu": 2}}),
        "spec.template.spec.containers[0].resources.requests",
        "Invalid",
    ),
    (
        bad_container(livenessProbe={"periodSeconds": 3}),
        "spec.template.spec.containers[0].livenessProbe",
        "Required",
    ),
    (
        bad_template(volumes=[{"name": "v"}, {"name": "v"}]),
        "spec.template.spec.volumes[1].name",
        "Duplicate",
    ),
    (
        {**bad_template(volumes=[{"name": "v"}]), "volumeClaimTemplates": [{"metadata": {"name": "v"}}]},
        "spec.template.spec.volumes[1].name",
        "Duplicate",
    ),
    ({"scaleStrategy": {"podsToDelete": ["p0", "p0"]}}, "spec.scaleStrategy.podsToDelete", "Invalid"),
    ({"scaleStrategy": {"maxUnavailable": "5"}}, "spec.scaleStrategy.maxUnavailable", "Invalid"),
    ({"updateStrategy": {"type": "Sometimes"}}, "spec.updateStrategy.type", "Invalid"),
    (rolling(podUpdatePolicy="Magic"), f"{BLOCK}.podUpdatePolicy", "Invalid"),
    (rolling(partition="5"), f"{BLOCK}.partition", "Invalid"),
    (rolling(partition=-1), f"{BLOCK}.partition", "Invalid"),
    (rolling(partition="-20%"), f"{BLOCK}.partition", "Invalid"),
    (rolling(maxUnavailable="5"), f"{BLOCK}.maxUnavailable", "Invalid"),
    (rolling(maxUnavailable="x%"), f"{BLOCK}.maxUnavailable", "Invalid"),
    (rolling(maxSurge="abc%"), f"{BLOCK}.maxSurge", "Invalid"),
    (rolling(maxSurge="5"), f"{BLOCK}.maxSurge", "Invalid"),
    (rolling(maxSurge="abc%", maxUnavailable=0), f"{BLOCK}.maxSurge", "Invalid"),
    (rolling(maxSurge="abc%", podUpdatePolicy="InPlaceOnly"), f"{BLOCK}.maxSurge", "Invalid"),
    (
        {"replicas": 1, **rolling(podUpdatePolicy="InPlaceOnly", maxSurge="1%")},
        f"{BLOCK}.maxSurge",
        "Invalid",
    ),
    ({"replicas": 1, **rolling(maxUnavailable=0)}, f"{BLOCK}.maxUnavailable", "Invalid"),
    (
        rolling(priorityStrategy={"orderPriority": [{"orderedKey": ""}]}),
        f"{BLOCK}.priorityStrategy",
        "Required",
    ),
    (
        rolling(
            priorityStrategy={
                "weightPriority": [{"weight": 101, "matchSelector": {"matchLabels": {"a": "b"}}}]
            }
        ),
        f"{BLOCK}.priorityStrategy",
        "Required",
    ),
    (
        rolling(
            priorityStrategy={
                "weightPriority": [{"weight": -1, "matchSelector": {"matchLabels": {"a": "b"}}}]
            }
        ),
        f"{BLOCK}.priorityStrategy",
        "Required",
    ),
    (
        rolling(
            priorityStrategy={
                "weightPriority": [{"weight": 1, "matchSelector": {"matchLabels": {"a b": "c"}}}]
            }
        ),
        f"{BLOCK}.priorityStrategy",
        "Required",
    ),
    (
        rolling(priorityStrategy={"weightPriority": [{"weight": 1, "matchSelector": {}}]}),
        f"{BLOCK}.priorityStrategy",
        "Required",
    ),
    (
        rolling(
            priorityStrategy={
                "weightPriority": [{"weight": 1, "matchSelector": {"matchLabels": {"a": "b"}}}],
                "orderPriority": [{"orderedKey": "k"}],
            }
        ),
        f"{BLOCK}.priorityStrategy",
        "Required",
    ),
    (rolling(scatterStrategy=[{"key": "", "value": "x"}]), f"{BLOCK}.scatterStrategy", "Required"),
    (rolling(scatterStrategy=[{"key": "a"}, {"key": "a"}]), f"{BLOCK}.scatterStrategy", "Required"),
    (
        rolling(inPlaceUpdateStrategy={"imagePreDownloadParallelism": "10%"}),
        f"{BLOCK}.inPlaceUpdateStrategy.imagePreDownloadParallelism",
        "Invalid",
    ),
    (
        rolling(inPlaceUpdateStrategy={"imagePreDownloadParallelism": -1}),
        f"{BLOCK}.inPlaceUpdateStrategy.imagePreDownloadParallelism",
        "Invalid",
    ),
    *(
        (
            rolling(inPlaceUpdateStrategy={"imagePreDownloadParallelism": wrong}),
            f"{BLOCK}.inPlaceUpdateStrategy.imagePreDownloadParallelism",
            "Invalid",
        )
        for wrong in ("-1", "ten", "2147483648", "9" * 5_000, "٣")
    ),
    (
        rolling(inPlaceUpdateStrategy={"imagePreDownloadMinUpdatedReadyPods": -1}),
        f"{BLOCK}.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods",
        "Invalid",
    ),
    (
        rolling(inPlaceUpdateStrategy={"imagePreDownloadTimeoutSeconds": -1}),
        f"{BLOCK}.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds",
        "Invalid",
    ),
]
"""Specs that break one rule each; the field in the error, and the reason without `FieldValue`."""
