"""Manifests that set as many fields as their kinds have, and the objects that are stored for them."""

from typing import Any, Final

import msgspec

from recorded_original.language import NAMESPACE, Document, Group, Try
from recorded_original.scenarios.documents import CLAIM, KRUISE, POLICY, build_scenario

__all__ = ["with_largest"]


def with_largest(group: Group) -> Group:
    """The group, and one more scenario: a dry run of its kind's largest manifest."""
    if group.kind not in _LARGEST:
        return group
    document = _LARGEST[group.kind]
    scenario = build_scenario("what is stored of the largest manifest", Try(document))
    return msgspec.structs.replace(group, scenarios=(*group.scenarios, scenario))


_PROBE: Final[Document] = {
    "httpGet": {"path": "/", "port": "http"},
    "periodSeconds": 5,
    "failureThreshold": 2,
}
_CONTAINER: Final[Document] = {
    "name": "main",
    "image": "nginx:1",
    "command": ["run"],
    "args": ["--a=b"],
    "workingDir": "/w",
    "ports": [{"name": "http", "containerPort": 80}],
    "env": [
        {"name": "A", "value": "b"},
        {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ],
    "envFrom": [{"configMapRef": {"name": "c", "optional": True}}],
    "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": {"preStop": {"exec": {"command": ["sleep", "1"]}}},
    "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
    "imagePullPolicy": "IfNotPresent",
}
_SPEC: Final[Document] = {
    "containers": [_CONTAINER],
    "initContainers": [{"name": "init", "image": "busybox:1", "restartPolicy": "Always"}],
    "volumes": [
        {"name": "tmp", "emptyDir": {"sizeLimit": "1024Mi"}},
        {"name": "conf", "configMap": {"name": "c", "optional": True}},
        {"name": "sec", "secret": {"secretName": "s", "optional": True}},
        {"name": "host", "hostPath": {"path": "/x"}},
    ],
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "labelSelector": {"matchLabels": {"app": "web"}},
                        "topologyKey": "kubernetes.io/hostname",
                    },
                }
            ]
        }
    },
    "tolerations": [{"key": "x", "operator": "Exists", "effect": "NoSchedule"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ],
    "serviceAccountName": "default",
    "securityContext": {"fsGroup": 1000},
    "terminationGracePeriodSeconds": 5,
    "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
    "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["a"]}],
    "imagePullSecrets": [{"name": "pull"}],
}
_METADATA: Final[Document] = {"labels": {"app": "web"}, "annotations": {"note": "1"}}
_TEMPLATE: Final[Document] = {"metadata": _METADATA, "spec": _SPEC}
_JOB_TEMPLATE: Final[Document] = {
    "metadata": _METADATA,
    "spec": {
        **{name: value for name, value in _SPEC.items() if name != "initContainers"},
        "restartPolicy": "OnFailure",
    },
}
_SELECTOR: Final[Document] = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "app", "operator": "Exists"}],
}
_HOOK: Final[Document] = {"labelsHandler": {"example.com/hold": "true"}, "markPodNotReady": True}
_LIFECYCLE: Final[Document] = {
    "preDelete": _HOOK,
    "inPlaceUpdate": {"finalizersHandler": ["example.com/hold"]},
}
_WEIGHTS: Final[Document] = {
    "weightPriority": [{"weight": 20, "matchSelector": {"matchLabels": {"first": "yes"}}}],
}
_DONE: Final[Document] = {"type": "Always", "activeDeadlineSeconds": 1200, "ttlSecondsAfterFinished": 60}
_PULL: Final[Document] = {"timeoutSeconds": 300, "backoffLimit": 2}
_TERM: Final[Document] = {
    "matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}]
}


def _document(kind: str, *, api: str = KRUISE, name: str = "web", **spec: Any) -> Document:
    metadata = {"name": name, "labels": {"a": "b"}, "annotations": {"c": "d"}}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


_CLONE_SET_SPEC: Final[Document] = {
    "replicas": 3,
    "selector": _SELECTOR,
    "template": _TEMPLATE,
    "volumeClaimTemplates": [CLAIM],
    "scaleStrategy": {"podsToDelete": [], "maxUnavailable": "50%", "enablePVCReuse": True},
    "updateStrategy": {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "partition": "50%",
            "maxUnavailable": "30%",
            "maxSurge": 1,
            "paused": True,
            "podUpdatePolicy": "InPlaceIfPossible",
            "priorityStrategy": _WEIGHTS,
            "inPlaceUpdateStrategy": {"gracePeriodSeconds": 5},
        },
    },
    "revisionHistoryLimit": 5,
    "minReadySeconds": 3,
    "lifecycle": _LIFECYCLE,
    "progressDeadlineSeconds": 600,
}
_BROADCAST: Final[Document] = {
    "template": _JOB_TEMPLATE,
    "parallelism": "50%",
    "completionPolicy": _DONE,
    "failurePolicy": {"type": "Pause", "restartLimit": 3},
    "paused": False,
}
_LARGEST: Final[dict[str, Document]] = {
    "CloneSet": _document("CloneSet", **_CLONE_SET_SPEC),
    "StatefulSet": _document(
        "StatefulSet",
        replicas=3,
        serviceName="web",
        selector=_SELECTOR,
        template=_TEMPLATE,
        volumeClaimTemplates=[CLAIM],
        podManagementPolicy="Parallel",
        updateStrategy={
            "type": "RollingUpdate",
            "rollingUpdate": {
                "partition": 1,
                "maxUnavailable": "30%",
                "podUpdatePolicy": "InPlaceIfPossible",
                "paused": True,
                "unorderedUpdate": {"priorityStrategy": _WEIGHTS},
                "inPlaceUpdateStrategy": {"gracePeriodSeconds": 5},
                "minReadySeconds": 3,
            },
        },
        revisionHistoryLimit=5,
        reserveOrdinals=[1, "3-4"],
        lifecycle={"preDelete": _HOOK},
        scaleStrategy={"maxUnavailable": "50%"},
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Delete"},
    ),
    "DaemonSet": _document(
        "DaemonSet",
        selector=_SELECTOR,
        template=_TEMPLATE,
        updateStrategy={
            "type": "RollingUpdate",
            "rollingUpdate": {
                "rollingUpdateType": "Standard",
                "maxUnavailable": "30%",
                "partition": 1,
                "paused": True,
                "selector": {"matchLabels": {"n": "1"}},
            },
        },
        minReadySeconds=3,
        burstReplicas="50%",
        revisionHistoryLimit=5,
        lifecycle={"preDelete": _HOOK},
    ),
    "UnitedDeployment": _document(
        "UnitedDeployment",
        replicas=6,
        selector={"matchLabels": {"app": "web"}},
        template={
            "cloneSetTemplate": {
                "metadata": _METADATA,
                "spec": {**_CLONE_SET_SPEC, "selector": {"matchLabels": {"app": "web"}}},
            }
        },
        topology={
            "subsets": [
                {
                    "name": "a",
                    "maxReplicas": 4,
                    "minReplicas": 1,
                    "nodeSelectorTerm": _TERM,
                    "tolerations": [{"key": "x", "operator": "Exists"}],
                    "patch": {"metadata": {"labels": {"from": "a"}}},
                },
                {"name": "b"},
            ],
            "scheduleStrategy": {
                "type": "Adaptive",
                "adaptive": {
                    "rescheduleCriticalSeconds": 30,
                    "unschedulableDuration": 60,
                    "reserveUnschedulablePods": True,
                },
            },
        },
        updateStrategy={"type": "Manual", "manualUpdate": {"partitions": {"a": 1}}},
        revisionHistoryLimit=5,
    ),
    "SidecarSet": _document(
        "SidecarSet",
        name=NAMESPACE,
        selector=_SELECTOR,
        namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        initContainers=[{"name": "init", "image": "busybox:1"}],
        containers=[
            {
                **_CONTAINER,
                "name": "side",
                "volumeMounts": [{"name": "logs", "mountPath": "/logs"}],
                "podInjectPolicy": "AfterAppContainer",
                "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
                "shareVolumePolicy": {"type": "enabled"},
                "transferEnv": [{"sourceContainerName": "main", "envName": "A"}],
            }
        ],
        volumes=[{"name": "logs", "emptyDir": {}}],
        updateStrategy={
            "type": "RollingUpdate",
            "partition": "10%",
            "maxUnavailable": "30%",
            "paused": True,
            "selector": {"matchLabels": {"first": "yes"}},
            "priorityStrategy": _WEIGHTS,
        },
        injectionStrategy={"paused": False},
        imagePullSecrets=[{"name": "pull"}],
        revisionHistoryLimit=5,
        patchPodMetadata=[{"annotations": {"note": "1"}, "patchPolicy": "Overwrite"}],
    ),
    "WorkloadSpread": _document(
        "WorkloadSpread",
        targetRef={"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
        subsets=[
            {
                "name": "a",
                "maxReplicas": "50%",
                "requiredNodeSelector": _TERM,
                "preferredNodeSelector": [{"weight": 5, "preference": _TERM}],
                "tolerations": [{"key": "x", "operator": "Exists"}],
                "patch": {"metadata": {"labels": {"from": "a"}}},
            },
            {"name": "b"},
        ],
        scheduleStrategy={
            "type": "Adaptive",
            "adaptive": {"disableSimulationSchedule": True, "rescheduleCriticalSeconds": 30},
        },
    ),
    "BroadcastJob": _document("BroadcastJob", **_BROADCAST),
    "AdvancedCronJob": _document(
        "AdvancedCronJob",
        schedule="0 3 * * *",
        timeZone="Europe/Berlin",
        startingDeadlineSeconds=60,
        concurrencyPolicy="Replace",
        paused=True,
        successfulJobsHistoryLimit=2,
        failedJobsHistoryLimit=2,
        template={
            "jobTemplate": {
                "metadata": _METADATA,
                "spec": {"backoffLimit": 2, "completions": 2, "parallelism": 2, "template": _JOB_TEMPLATE},
            }
        },
    ),
    "ImagePullJob": _document(
        "ImagePullJob",
        image="nginx:1",
        pullSecrets=["one"],
        selector={"matchLabels": {"n": "1"}, "matchExpressions": [{"key": "n", "operator": "Exists"}]},
        parallelism="50%",
        pullPolicy=_PULL,
        completionPolicy=_DONE,
        sandboxConfig={"labels": {"a": "b"}, "annotations": {"c": "d"}},
        imagePullPolicy="Always",
    ),
    "ImageListPullJob": _document(
        "ImageListPullJob",
        images=["nginx:1", "redis:7"],
        pullSecrets=["one"],
        selector={"names": ["node-1"]},
        parallelism=2,
        pullPolicy=_PULL,
        completionPolicy=_DONE,
        sandboxConfig={"labels": {"a": "b"}},
        imagePullPolicy="Always",
    ),
    "PodUnavailableBudget": _document(
        "PodUnavailableBudget",
        api=POLICY,
        selector=_SELECTOR,
        maxUnavailable="30%",
        protectOperations=["DELETE", "EVICT"],
        protectTotalReplicas=5,
        ignoredPodSelector={"matchLabels": {"free": "yes"}},
    ),
    "PersistentPodState": _document(
        "PersistentPodState",
        targetRef={"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        persistentPodAnnotations=[{"key": "kept"}],
        requiredPersistentTopology={"nodeTopologyKeys": ["topology.kubernetes.io/zone"]},
        preferredPersistentTopology=[
            {"weight": 5, "preference": {"nodeTopologyKeys": ["kubernetes.io/hostname"]}}
        ],
        persistentPodStateRetentionPolicy="WhenDeleted",
    ),
    "ResourceDistribution": _document(
        "ResourceDistribution",
        name=NAMESPACE,
        resource={
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "immutable": True,
            "metadata": {"name": "shared", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "data": {"key": "djE="},
            "stringData": {"other": "text"},
        },
        targets={
            "namespaceSelector": {"matchLabels": {"team": "x"}},
            "excludedNamespaces": {"list": [{"name": "a"}]},
            "includedNamespaces": {"list": [{"name": "b"}]},
        },
    ),
    "PodProbeMarker": _document(
        "PodProbeMarker",
        api="apps.kruise.io/v1alpha1",
        selector=_SELECTOR,
        probes=[
            {
                "name": "idle",
                "containerName": "main",
                "probe": {
                    "exec": {"command": ["true"]},
                    "initialDelaySeconds": 1,
                    "timeoutSeconds": 2,
                    "periodSeconds": 3,
                    "successThreshold": 1,
                    "failureThreshold": 2,
                },
                "podConditionType": "example.com/idle",
                "markerPolicy": [{"state": "Succeeded", "labels": {"a": "b"}, "annotations": {"c": "d"}}],
            }
        ],
    ),
    "EphemeralJob": _document(
        "EphemeralJob",
        api="apps.kruise.io/v1alpha1",
        selector=_SELECTOR,
        replicas=2,
        parallelism=1,
        template={
            "ephemeralContainers": [
                {
                    "name": "debug",
                    "image": "busybox:1",
                    "targetContainerName": "main",
                    "command": ["sh"],
                    "env": [{"name": "A", "value": "b"}],
                    "imagePullPolicy": "IfNotPresent",
                    "terminationMessagePolicy": "File",
                }
            ]
        },
        paused=True,
        activeDeadlineSeconds=60,
        ttlSecondsAfterFinished=60,
    ),
}
