"""The rules of built-in kinds: which `BuiltinStrategy` a resource has, and how its documents are decoded.

    find_strategy(resource, release) ──▶ BuiltinStrategy (the kind's own, or the generic one), with a decoder

Each other module has the rules of related kinds. All kinds with a pod template use pod_spec.py for its defaults, and
kube/pod_rules for its validation.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.builtin_types import DecodeError, Decoder, find_decoder
from pykruise.kube.schemas.releases import Release
from pykruise.sandbox.apiserver.builtin.cluster_objects import (
    ConfigMapStrategy,
    EndpointsStrategy,
    EventStrategy,
    NamespaceStrategy,
    NodeStrategy,
    SecretStrategy,
    ServiceAccountStrategy,
)
from pykruise.sandbox.apiserver.builtin.jobs import CronJobStrategy, JobStrategy
from pykruise.sandbox.apiserver.builtin.pods import PodStrategy
from pykruise.sandbox.apiserver.builtin.policies import (
    HorizontalPodAutoscalerStrategy,
    LeaseStrategy,
    PodDisruptionBudgetStrategy,
    PodGroupStrategy,
    PriorityClassStrategy,
    RuntimeClassStrategy,
    WorkloadStrategy,
)
from pykruise.sandbox.apiserver.builtin.quotas import LimitRangeStrategy, ResourceQuotaStrategy
from pykruise.sandbox.apiserver.builtin.rbac import RoleBindingStrategy, RoleStrategy
from pykruise.sandbox.apiserver.builtin.services import EndpointSliceStrategy, ServiceStrategy
from pykruise.sandbox.apiserver.builtin.strategy import BuiltinStrategy
from pykruise.sandbox.apiserver.builtin.volumes import (
    CSIDriverStrategy,
    PersistentVolumeClaimStrategy,
    PersistentVolumeStrategy,
    StorageClassStrategy,
)
from pykruise.sandbox.apiserver.builtin.webhook_configurations import (
    AdmissionPolicyBindingStrategy,
    AdmissionPolicyStrategy,
    WebhookConfigurationStrategy,
)
from pykruise.sandbox.apiserver.builtin.workloads import (
    ControllerRevisionStrategy,
    DaemonSetStrategy,
    DeploymentStrategy,
    PodTemplateStrategy,
    ReplicaSetStrategy,
    ReplicationControllerStrategy,
    StatefulSetStrategy,
)

__all__ = ["BuiltinStrategy", "DecodeError", "definition_of", "find_strategy"]

_Make = Callable[[Decoder | None], BuiltinStrategy]

_STRATEGIES: Final[Mapping[str, _Make]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": partial(RoleBindingStrategy, namespaced=False),
    "clusterroles.rbac.authorization.k8s.io": partial(RoleStrategy, namespaced=False),
    "configmaps": ConfigMapStrategy,
    "controllerrevisions.apps": ControllerRevisionStrategy,
    "cronjobs.batch": CronJobStrategy,
    "csidrivers.storage.k8s.io": CSIDriverStrategy,
    "daemonsets.apps": DaemonSetStrategy,
    "deployments.apps": DeploymentStrategy,
    "endpoints": EndpointsStrategy,
    "endpointslices.discovery.k8s.io": EndpointSliceStrategy,
    "events": EventStrategy,
    "events.events.k8s.io": partial(EventStrategy, subject="regarding"),
    "horizontalpodautoscalers.autoscaling": HorizontalPodAutoscalerStrategy,
    "jobs.batch": JobStrategy,
    "leases.coordination.k8s.io": LeaseStrategy,
    "limitranges": LimitRangeStrategy,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": partial(
        WebhookConfigurationStrategy, mutating=True
    ),
    "namespaces": NamespaceStrategy,
    "nodes": NodeStrategy,
    "persistentvolumeclaims": PersistentVolumeClaimStrategy,
    "persistentvolumes": PersistentVolumeStrategy,
    "poddisruptionbudgets.policy": PodDisruptionBudgetStrategy,
    "podgroups.scheduling.k8s.io": PodGroupStrategy,
    "pods": PodStrategy,
    "podtemplates": PodTemplateStrategy,
    "priorityclasses.scheduling.k8s.io": PriorityClassStrategy,
    "runtimeclasses.node.k8s.io": RuntimeClassStrategy,
    "replicasets.apps": ReplicaSetStrategy,
    "replicationcontrollers": ReplicationControllerStrategy,
    "resourcequotas": ResourceQuotaStrategy,
    "rolebindings.rbac.authorization.k8s.io": RoleBindingStrategy,
    "roles.rbac.authorization.k8s.io": RoleStrategy,
    "secrets": SecretStrategy,
    "serviceaccounts": ServiceAccountStrategy,
    "services": ServiceStrategy,
    "statefulsets.apps": StatefulSetStrategy,
    "storageclasses.storage.k8s.io": StorageClassStrategy,
    "validatingadmissionpolicies.admissionregistration.k8s.io": AdmissionPolicyStrategy,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": AdmissionPolicyBindingStrategy,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": WebhookConfigurationStrategy,
    "workloads.scheduling.k8s.io": WorkloadStrategy,
}


def find_strategy(resource: Resource, release: Release = BuiltinStrategy.release) -> BuiltinStrategy:
    """Return the strategy of a built-in resource; a kind without specific rules gets the generic strategy."""
    make = _STRATEGIES.get(str(resource), BuiltinStrategy)
    definition = definition_of(resource)
    strategy = make(find_decoder(definition, release.minor))
    strategy.release, strategy.definition = release, definition
    return strategy


def definition_of(resource: Resource) -> str:
    """The OpenAPI name of a built-in resource's kind: `io.k8s.api.core.v1.Pod`."""
    group = resource.group or "core"
    if group == "apiextensions.k8s.io":
        package = f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{resource.version}"
    else:
        package = f"io.k8s.api.{group.partition('.')[0]}.{resource.version}"
    return f"{package}.{resource.kind}"
