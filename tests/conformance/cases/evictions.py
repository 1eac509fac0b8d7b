"""Evictions, with disruption budgets and without."""

from conformance.builders import labelled, pod
from conformance.dsl import MERGE, case, create, get, patch


def _eviction(name: str, **more: object) -> dict[str, object]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}


def _budget(name: str = "b", **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


_WEB = labelled(pod("a", nodeName="n1"), app="web")
_READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


def _allow(disruptions: int, generation: int = 1) -> object:
    return patch(
        "poddisruptionbudgets/b/status",
        {
            "status": {
                "observedGeneration": generation,
                "disruptionsAllowed": disruptions,
                "currentHealthy": 3,
                "desiredHealthy": 3 - disruptions,
                "expectedPods": 3,
            }
        },
        MERGE,
    )


def _fail(reason: str, message: str) -> object:
    """Make the budget allow nothing, for this reason."""
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    numbers = {"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}
    status = {**numbers, "observedGeneration": 1, "conditions": [condition]}
    return patch("poddisruptionbudgets/b/status", {"status": status}, MERGE)


CASES = [
    case(
        "a refused eviction says why its budget allows nothing",
        create("pods", _WEB),
        patch("pods/a/status", _READY),
        create("poddisruptionbudgets", _budget(minAvailable=1)),
        _fail("SyncFailed", "jobs.batch does not implement the scale subresource"),
        create("pods/a/eviction", _eviction("a")),
        _fail("InsufficientPods", ""),
        create("pods/a/eviction", _eviction("a")),
        _fail("Other", "for another reason"),
        create("pods/a/eviction", _eviction("a")),
    ),
    case(
        "an eviction without a budget deletes the pod",
        create("pods", pod("a", nodeName="n1")),
        create("pods/a/eviction", _eviction("a")),
        get("pods/a"),
        create("pods", pod("b")),
        create("pods/b/eviction", _eviction("b")),
        get("pods/b"),
        create("pods/none/eviction", _eviction("none")),
    ),
    case(
        "an eviction can be a dry run and carry delete options",
        create("pods", pod("a", nodeName="n1")),
        create("pods/a/eviction", _eviction("a"), dryRun="All"),
        get("pods/a"),
        create("pods/a/eviction", _eviction("a", deleteOptions={"dryRun": ["All"]})),
        create(
            "pods/a/eviction",
            _eviction("a", deleteOptions={"preconditions": {"uid": "4bd0f1d8-3b4e-4a55-9a10-2b3a7a3f7f65"}}),
        ),
        create("pods/a/eviction", _eviction("a", deleteOptions={"gracePeriodSeconds": 5})),
        get("pods/a"),
    ),
    case(
        "an eviction must be named like its pod",
        create("pods", pod("a", nodeName="n1")),
        create("pods/a/eviction", _eviction("other")),
        create("pods/a/eviction", {"metadata": {"name": "a"}}),
        create("pods", pod("b", nodeName="n1")),
        create(
            "pods/b/eviction", {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "b"}}
        ),
        create("pods/b/eviction", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}),
    ),
    case(
        "a budget without an observed status refuses evictions",
        create("pods", _WEB),
        patch("pods/a/status", _READY),
        create("poddisruptionbudgets", _budget(minAvailable=1)),
        create("pods/a/eviction", _eviction("a")),
        get("poddisruptionbudgets/b"),
    ),
    case(
        "a budget without disruptions left refuses evictions",
        create("pods", _WEB),
        patch("pods/a/status", _READY),
        create("poddisruptionbudgets", _budget(maxUnavailable=1)),
        _allow(0),
        create("pods/a/eviction", _eviction("a")),
        get("pods/a", only=("metadata.deletionTimestamp", "metadata.name")),
    ),
    case(
        "a budget with a disruption left is charged for an eviction",
        create("pods", _WEB),
        create("pods", labelled(pod("c", nodeName="n1"), app="web")),
        patch("pods/a/status", _READY),
        patch("pods/c/status", _READY),
        create("poddisruptionbudgets", _budget(maxUnavailable="50%")),
        _allow(1),
        create("pods/a/eviction", _eviction("a")),
        get("poddisruptionbudgets/b"),
        get("pods/a"),
        create("pods/c/eviction", _eviction("c")),
        create("pods/a/eviction", _eviction("a")),
    ),
    case(
        "pods that are not ready, done or already leaving are evicted past a budget",
        create("pods", _WEB),
        create("pods", labelled(pod("pending"), app="web")),
        create("pods", labelled(pod("done", nodeName="n1"), app="web")),
        patch("pods/done/status", {"status": {"phase": "Succeeded"}}),
        patch("pods/a/status", {"status": {"phase": "Running"}}),
        create("poddisruptionbudgets", _budget(minAvailable=3)),
        _allow(0),
        create("pods/pending/eviction", _eviction("pending")),
        create("pods/done/eviction", _eviction("done")),
        create("pods/a/eviction", _eviction("a")),
        patch("poddisruptionbudgets/b", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}, MERGE),
        create("pods/a/eviction", _eviction("a")),
    ),
    case(
        "two budgets for one pod are more than an eviction can serve",
        create("pods", _WEB),
        patch("pods/a/status", _READY),
        create("poddisruptionbudgets", _budget("b", maxUnavailable=1)),
        create("poddisruptionbudgets", _budget("c", maxUnavailable=1)),
        create("pods/a/eviction", _eviction("a")),
    ),
    case(
        "a disruption budget must be valid",
        create("poddisruptionbudgets", _budget(minAvailable=1, maxUnavailable=1)),
        create("poddisruptionbudgets", _budget(minAvailable="150%")),
        create("poddisruptionbudgets", _budget(minAvailable=-1)),
        create("poddisruptionbudgets", _budget(minAvailable="x")),
        create("poddisruptionbudgets", _budget(maxUnavailable=1, unhealthyPodEvictionPolicy="Maybe")),
        create("poddisruptionbudgets", _budget(maxUnavailable=1, selector={"matchLabels": {"a b": "c"}})),
        create("poddisruptionbudgets", _budget(maxUnavailable=1)),
        patch("poddisruptionbudgets/b", {"spec": {"maxUnavailable": 2}}, MERGE),
    ),
]
