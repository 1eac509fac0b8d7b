"""Objects of situations, as short as possible.

cloneset(), statefulset(), sidecarset(), … ──▶ documents; keywords are fields of the spec
"""

from typing import Any

from support.scenario import Object

KRUISE = "apps.kruise.io/v1beta1"
ALPHA = "apps.kruise.io/v1alpha1"


def made(kind: str, name: str, spec: Object, *, version: str = KRUISE, **metadata: Any) -> Object:
    """An object."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def pod_spec(image: str = "nginx:1", **spec: Any) -> Object:
    """A pod with the container `main`."""
    return {"containers": [{"name": "main", "image": image}], **spec}


def template(name: str, image: str = "nginx:1", **spec: Any) -> Object:
    """A template of pods labelled `app: <name>`."""
    return {"metadata": {"labels": {"app": name}}, "spec": pod_spec(image, **spec)}


def selector(name: str) -> Object:
    """A selector of these pods."""
    return {"matchLabels": {"app": name}}


def workload(
    kind: str, name: str = "web", *, image: str = "nginx:1", pod: Object | None = None, **spec: Any
) -> Object:
    """A CloneSet, a StatefulSet or a DaemonSet. `pod`: further fields of its pods."""
    replicas = {} if kind == "DaemonSet" else {"replicas": 3}
    service = {"serviceName": name} if kind == "StatefulSet" else {}
    return made(
        kind,
        name,
        {
            **replicas,
            **service,
            "selector": selector(name),
            "template": template(name, image, **(pod or {})),
            **spec,
        },
    )


def cloneset(name: str = "web", **more: Any) -> Object:
    """A CloneSet of three pods."""
    return workload("CloneSet", name, **more)


def statefulset(name: str = "web", **more: Any) -> Object:
    """An Advanced StatefulSet of three pods, created in parallel."""
    return workload("StatefulSet", name, **{"podManagementPolicy": "Parallel", **more})


def daemonset(name: str = "web", **more: Any) -> Object:
    """An Advanced DaemonSet."""
    return workload("DaemonSet", name, **more)


def job_template(image: str = "job:1", **spec: Any) -> Object:
    """A template of pods that end."""
    return {"spec": {**pod_spec(image), "restartPolicy": "Never", **spec}}


def broadcastjob(
    name: str = "web", *, image: str = "job:1", pod: Object | None = None, **spec: Any
) -> Object:
    """A BroadcastJob."""
    policy = {"completionPolicy": {"type": "Always"}, "failurePolicy": {"type": "FailFast"}}
    return made("BroadcastJob", name, {"template": job_template(image, **(pod or {})), **policy, **spec})


def cronjob(
    name: str = "web", *, made_of: str = "broadcastJobTemplate", image: str = "job:1", **spec: Any
) -> Object:
    """An AdvancedCronJob that runs every minute."""
    child: Object = {"template": job_template(image)}
    if made_of == "broadcastJobTemplate":
        child |= {"completionPolicy": {"type": "Always"}, "failurePolicy": {"type": "FailFast"}}
    elif made_of == "jobTemplate":
        child |= {"backoffLimit": 0}
    else:
        child = {"images": [image], "completionPolicy": {"type": "Always"}}
    return made(
        "AdvancedCronJob", name, {"schedule": "* * * * *", "template": {made_of: {"spec": child}}, **spec}
    )


def ephemeraljob(name: str = "web", *, app: str = "web", image: str = "debug:1", **spec: Any) -> Object:
    """An EphemeralJob for the pods of an application."""
    container = {
        "name": "debug",
        "image": image,
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    return made(
        "EphemeralJob",
        name,
        {"selector": selector(app), "template": {"ephemeralContainers": [container]}, **spec},
        version=ALPHA,
    )


def request(pod: str, name: str = "web", *, containers: tuple[str, ...] = ("main",), **spec: Any) -> Object:
    """A ContainerRecreateRequest."""
    return made(
        "ContainerRecreateRequest",
        name,
        {"podName": pod, "containers": [{"name": container} for container in containers], **spec},
    )


def pulljob(name: str = "web", *, image: str = "app:1", **spec: Any) -> Object:
    """An ImagePullJob on all nodes."""
    return made(
        "ImagePullJob",
        name,
        {
            "image": image,
            "parallelism": 10,
            "completionPolicy": {"type": "Always"},
            "pullPolicy": {"backoffLimit": 0, "timeoutSeconds": 60},
            **spec,
        },
    )


def listjob(name: str = "web", *, images: tuple[str, ...] = ("app:1", "db:1"), **spec: Any) -> Object:
    """An ImageListPullJob on all nodes."""
    return made(
        "ImageListPullJob",
        name,
        {
            "images": list(images),
            "parallelism": 10,
            "completionPolicy": {"type": "Always"},
            "pullPolicy": {"backoffLimit": 0, "timeoutSeconds": 60},
            **spec,
        },
    )


def marker(name: str = "web", *, app: str = "web", port: Any = None, **spec: Any) -> Object:
    """A PodProbeMarker for the pods of an application."""
    check = {"tcpSocket": {"port": port}} if port is not None else {"exec": {"command": ["/idle"]}}
    probe = {
        "name": "idle",
        "containerName": "main",
        "probe": {**check, "periodSeconds": 5},
        "podConditionType": "example.com/idle",
        "markerPolicy": [{"state": "Succeeded", "labels": {"idle": "yes"}}],
    }
    return made("PodProbeMarker", name, {"selector": selector(app), "probes": [probe], **spec}, version=ALPHA)


def podstate(name: str = "web", *, target: str = "web", **spec: Any) -> Object:
    """A PersistentPodState that keeps pods on their node."""
    ref = {"apiVersion": KRUISE, "kind": "StatefulSet", "name": target}
    topology = {"requiredPersistentTopology": {"keys": ["kubernetes.io/hostname"]}}
    return made("PersistentPodState", name, {"targetRef": ref, **topology, **spec})


def sidecarset(name: str = "web", *, app: str = "web", image: str = "log:1", **spec: Any) -> Object:
    """A SidecarSet for the pods of an application."""
    return made(
        "SidecarSet",
        name,
        {"selector": selector(app), "containers": [{"name": "log", "image": image}], **spec},
    )


def spread(name: str = "web", *, target: str = "web", subsets: list[Object], **spec: Any) -> Object:
    """A WorkloadSpread of a CloneSet."""
    ref = {"apiVersion": KRUISE, "kind": "CloneSet", "name": target}
    return made("WorkloadSpread", name, {"targetRef": ref, "subsets": subsets, **spec})


def budget(name: str = "web", *, app: str = "web", **spec: Any) -> Object:
    """A PodUnavailableBudget for the pods of an application."""
    amount = {} if "minAvailable" in spec else {"maxUnavailable": 1}
    chosen = {} if "targetRef" in spec else {"selector": selector(app)}
    return made(
        "PodUnavailableBudget", name, {**chosen, **amount, **spec}, version="policy.kruise.io/v1beta1"
    )


def disruption_budget(name: str = "web", *, app: str = "web") -> Object:
    """A PodDisruptionBudget for the pods of an application."""
    return made(
        "PodDisruptionBudget", name, {"selector": selector(app), "maxUnavailable": 1}, version="policy/v1"
    )


def distribution(name: str = "web", *, targets: Object | None = None, **resource: Any) -> Object:
    """A ResourceDistribution of a ConfigMap."""
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "shared"},
        "data": {"a": "1"},
        **resource,
    }
    return made(
        "ResourceDistribution",
        name,
        {"resource": document, "targets": targets or {"allNamespaces": True}},
    )


def local_volume(name: str, node: str, storage_class: str = "local") -> Object:
    """A PersistentVolume that only one node can mount."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "local": {"path": "/data"},
            "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def united(name: str = "web", *, image: str = "nginx:1", pod: Object | None = None, **spec: Any) -> Object:
    """A UnitedDeployment of CloneSets in two subsets."""
    made_of = {
        "cloneSetTemplate": {
            "metadata": {"labels": {"app": name}},
            "spec": {"selector": selector(name), "template": template(name, image, **(pod or {}))},
        }
    }
    return made(
        "UnitedDeployment",
        name,
        {
            "replicas": 4,
            "selector": selector(name),
            "template": made_of,
            "topology": {"subsets": [{"name": "a"}, {"name": "b"}]},
            **spec,
        },
    )
