"""Fields of the kinds that no seed sets, each with the reason: the test fails for any other unset field."""

from collections.abc import Mapping

import pytest

from simulation.fields import never_set

SEEDS = range(500, 900)
"""Seeds from 500 on, whose scripts set the fields of further_fields.py too."""

HOOKS = "the simulated owner of hooks answers labels; unit tests have finalizers and markPodNotReady"
RESIZE = "a change of resources is another update, which rules do not know; test_cloneset_resize.py plays it"
FINALIZERS = "no client in a simulated cluster takes a pod's finalizer off"
NODES = "where pods may run plays a part in DaemonSets and BroadcastJobs only; there it is set"
JOBS_MADE = "rules of AdvancedCronJobs know Jobs; other templates are in its unit tests"
WORKLOADS_MADE = "rules know CloneSets; workloads of other kinds are in scenarios"
INJECTION = "what is injected is decided without events; unit tests of injection have it"

FILLED_IN = "admission fills it in from the pod, which the rules compare; in a request it is refused"

SECRETS = "copies of secrets are in test_imagepulljob_secrets.py"

REASONS: Mapping[str, Mapping[str, str]] = {
    "AdvancedCronJob": {
        "template.broadcastJobTemplate": JOBS_MADE,
        "template.imageListPullJobTemplate": JOBS_MADE,
    },
    "BroadcastJob": {
        "template.metadata.finalizers": FINALIZERS,
        "template.spec.containers[].": "the template of a job does not change",
        "template.spec.readinessGates": "no client in a simulated cluster sets such a condition on pods of a job",
    },
    "CloneSet": {
        "lifecycle": HOOKS,
        "scaleStrategy.excludePreparingDelete": "the rule `too many` counts pods that prepare for their deletion",
        "template.metadata.finalizers": FINALIZERS,
        "template.spec.containers[].resources": RESIZE,
        "template.spec.nodeSelector": NODES,
    },
    "ContainerRecreateRequest": {"containers[].ports": FILLED_IN, "containers[].preStop": FILLED_IN},
    "DaemonSet": {
        "lifecycle": HOOKS,
        "scaleStrategy.partitionedScaling": "rules do not know it; its unit tests do",
        "template.metadata.finalizers": FINALIZERS,
        "template.spec.containers[].resources": RESIZE,
        "template.spec.readinessGates": "a DaemonSet puts its own gates in",
        "updateStrategy.rollingUpdate.selector": "rules do not know it; its unit tests do",
    },
    "ImageListPullJob": {"pullSecrets": SECRETS},
    "ImagePullJob": {"pullSecrets": SECRETS},
    "PodUnavailableBudget": {
        "selector": "rules find pods by targetRef",
        "ignoredPodSelector": "rules count every pod of the target",
    },
    "SidecarSet": {
        "containers[].": INJECTION,
        "initContainers[]": INJECTION,
        "customVersion": INJECTION,
        "injectionStrategy.revision": INJECTION,
        "namespaceSelector": "there is one namespace",
        "updateStrategy.selector.matchExpressions": "rules read matchLabels",
    },
    "StatefulSet": {
        "lifecycle": HOOKS,
        "ordinals.start": "rules begin at 0; unit tests of ordinals do not",
        "template.metadata.finalizers": FINALIZERS,
        "template.spec.containers[].resources": RESIZE,
        "template.spec.nodeSelector": NODES,
        "updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy.weightPriority[]": "rules know orderPriority",
        "volumeClaimUpdateStrategy": "claims of a simulated cluster do not grow; test_statefulset_claims.py has it",
    },
    "UnitedDeployment": {
        "template.": WORKLOADS_MADE,
        "topology.scheduleStrategy.adaptive.reserveUnschedulablePods": "rules do not know it; scenarios do",
        "topology.subsets[].": "subsets by expressions and by what is left are set; unit tests have the rest",
        "updateStrategy.type": "there is one",
    },
    "WorkloadSpread": {
        "subsets[].": "rules read matchExpressions of required terms",
        "targetFilter": "rules read CloneSets; test_workloadspread_custom.py has other targets",
    },
}
"""Kind → beginning of a path → the reason why no seed sets the fields there."""


@pytest.mark.exhaustive
def test_every_field_is_set_by_some_seed_or_has_a_reason() -> None:
    # when
    left = {resource.kind: fields for resource, fields in never_set(SEEDS).items()}
    # then
    unexplained = {
        kind: [field for field in fields if not field.startswith(tuple(REASONS.get(kind, ())))]
        for kind, fields in left.items()
    }
    assert {kind: fields for kind, fields in unexplained.items() if fields} == {}
    # ... and no reason is out of date
    stale = {
        kind: [reason for reason in reasons if not any(field.startswith(reason) for field in left[kind])]
        for kind, reasons in REASONS.items()
    }
    assert {kind: ones for kind, ones in stale.items() if ones} == {}
