"""New pods: their revision and their fields; numbers are the specification's cases."""

from typing import Any

import pytest

from pykruise.pods.view import keys
from support.statefulset_builder import (
    HOOK,
    StatefulSetBuilder,
    created,
    created_pods,
    name_of,
    statefulset,
    states,
    template,
    waiting,
)

# ── fields ───────────────────────────────────────────────────────────────────


def test_a_new_pod_has_its_name_labels_owner_and_host_name() -> None:
    # given
    builder = statefulset(1, pods=False).with_spec(serviceName="peers")
    builder.spec["template"]["metadata"] |= {"annotations": {"a": "1"}, "finalizers": ["example.com/f"]}
    # when
    (pod,) = created_pods(builder.plan())
    # then
    metadata = pod["metadata"]
    assert (metadata["name"], metadata["generateName"]) == ("web-0", "web-")
    assert metadata["labels"] == {
        "app": "web",
        "statefulset.kubernetes.io/pod-name": "web-0",
        "apps.kubernetes.io/pod-index": "0",
        keys.REVISION_LABEL: name_of(builder.spec["template"]),
        keys.STATE_LABEL: "Normal",
    }
    assert metadata["annotations"]["a"] == "1"
    assert keys.STATE_TIME_ANNOTATION in metadata["annotations"]
    assert metadata["finalizers"] == ["example.com/f"]
    (reference,) = metadata["ownerReferences"]
    assert (reference["kind"], reference["controller"]) == ("StatefulSet", True)
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-0", "peers")
    # and without these fields, the pod has neither finalizers nor a subdomain, whatever the template contains
    builder = statefulset(1, pods=False)
    builder.spec["template"]["spec"]["subdomain"] = "other"
    (pod,) = created_pods(builder.plan())
    assert "finalizers" not in pod["metadata"]
    assert "subdomain" not in pod["spec"]


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": {}}])
def test_a_pod_of_a_template_without_labels_has_those_of_the_set_alone(metadata: dict[str, Any]) -> None:
    """Admission allows it if the selector requires no label."""
    selector = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
    builder = statefulset(1, pods=False).with_revisions()
    builder.with_spec(selector=selector, template={**metadata, "spec": template()["spec"]})
    (pod,) = created_pods(builder.plan())
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-0"


def test_the_index_label_has_a_gate() -> None:
    (pod,) = created_pods(statefulset(1, pods=False).with_settings(pod_index_label=False).plan())
    assert "apps.kubernetes.io/pod-index" not in pod["metadata"]["labels"]


def test_a_new_pod_waits_for_the_pre_normal_hook() -> None:
    """statefulset case 62"""
    # given
    builder = statefulset(2, pods=False).with_hook("preNormal")
    (pod,) = created_pods(builder.plan())
    assert pod["metadata"]["labels"][keys.STATE_LABEL] == "PreparingNormal"
    # when the pod runs without the hook's label, it is not available, and the next pod is not created
    builder.pod(0).state("PreparingNormal", 0)
    plan = builder.plan()
    assert created(plan) == []
    assert waiting(plan) == "PreNormalHook"
    # and with the label it becomes Normal
    assert states(builder.hooked(0).plan()) == {0: "Normal"}


def test_a_template_with_the_pre_normal_hook_creates_normal_pods() -> None:
    builder = statefulset(1, pods=False).with_hook("preNormal")
    builder.spec["template"]["metadata"]["labels"] |= HOOK
    (pod,) = created_pods(builder.plan())
    assert pod["metadata"]["labels"][keys.STATE_LABEL] == "Normal"


# ── revision ─────────────────────────────────────────────────────────────────


def revisions(builder: StatefulSetBuilder) -> dict[int, bool]:
    """Ordinals of the created pods → whether they have the update revision."""
    return {
        int(pod["metadata"]["name"].rpartition("-")[2]): pod["metadata"]["labels"][keys.REVISION_LABEL]
        == builder.update_name
        for pod in created_pods(builder.plan())
    }


@pytest.mark.parametrize("strategy", [None, {"type": "RollingUpdate"}])
def test_the_status_decides_how_many_lost_pods_are_recreated_old_without_a_partition(
    strategy: dict[str, Any] | None,
) -> None:
    """A set without defaults has no block rollingUpdate."""
    # given pods 1, 2, 3 and 4, all lost
    builder = statefulset(4, pods=False, parallel=True).with_spec(
        updateStrategy=strategy, reserveOrdinals=[0]
    )
    builder.with_status(currentRevision=builder.old_name, currentReplicas=2)
    # then the lowest two were not updated yet
    assert revisions(builder) == {1: False, 2: False, 3: True, 4: True}
    # and under OnDelete, each lost pod is updated
    assert revisions(builder.on_delete()) == dict.fromkeys(range(1, 5), True)
