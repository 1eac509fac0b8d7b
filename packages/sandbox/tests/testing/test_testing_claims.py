"""Claims that a test waits for: errors that mean "not true yet", and the message at a timeout."""

from pathlib import Path

import pytest

from pykruise.kube.errors import BadRequestError
from pykruise.testing.claims import attempt, describe_claim, has_condition
from pykruise.testing.sandbox import Sandbox

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "shop:1"}]}
"""


def test_a_field_that_is_not_written_yet_is_not_true_yet() -> None:
    with Sandbox(nodes=1) as sandbox:
        sandbox.apply(DEPLOYMENT)
        sandbox.until(lambda: sandbox.get("deployments", "web")["status"]["readyReplicas"] == 2)
        sandbox.until(lambda: sandbox.get("deployments", "web")["status"]["conditions"][1]["type"])


def test_other_errors_of_a_claim_end_the_wait_immediately() -> None:
    with Sandbox(nodes=0) as sandbox:
        with pytest.raises(LookupError, match=r"'clonset'$"):
            sandbox.until(lambda: sandbox.get("clonset", "web"))
        with pytest.raises(ZeroDivisionError):
            sandbox.until(lambda: 1 / 0)
        assert sandbox.now < 10


def test_a_claim_that_stays_false_is_reported_with_its_source_object_and_events() -> None:
    with Sandbox(nodes=0) as sandbox:
        sandbox.apply(DEPLOYMENT)
        with pytest.raises(AssertionError) as failed:
            sandbox.until(
                lambda: sandbox.get("deployments", "web")["status"]["readyReplicas"] == 2, within_s=30
            )
    first, *lines = str(failed.value).splitlines()
    assert first == 'not true within 30 s: sandbox.get("deployments", "web")["status"]["readyReplicas"] == 2'
    assert lines[:2] == [
        "  the last evaluation ended with KeyError: 'readyReplicas'",
        "  Deployment default/web has this status:",
    ]
    assert "    unavailableReplicas: 2" in lines
    assert "  last events:" in lines
    assert any("FailedScheduling" in line for line in lines[lines.index("  last events:") :])


def test_a_missing_object_is_named() -> None:
    with Sandbox(nodes=0) as sandbox, pytest.raises(AssertionError, match="pods team/none does not exist"):
        sandbox.until(lambda: sandbox.get("pods", "none", namespace="team"), within_s=1)


def test_waiting_for_a_condition_returns_the_object_and_for_the_end_nothing() -> None:
    with Sandbox(nodes=1) as sandbox:
        sandbox.apply(DEPLOYMENT)
        ready = sandbox.wait("deployments/web", "Available")
        assert ready is not None
        assert ready["status"]["readyReplicas"] == 2
        sandbox.delete("deployments", "web")
        assert sandbox.wait("deployments/web", "deleted") is None
        with pytest.raises(ValueError, match="must be a kind and a name"):
            sandbox.wait("web")
        with pytest.raises(AssertionError, match="deployments/web has condition Available"):
            sandbox.wait("deployments/web", "Available", within_s=1)


def test_events_of_an_object_are_its_own_in_their_order() -> None:
    with Sandbox(nodes=1) as sandbox:
        sandbox.apply(DEPLOYMENT)
        sandbox.wait("deployments/web", "Available")
        assert [event["reason"] for event in sandbox.events("deployments/web")] == ["ScalingReplicaSet"]
        assert len(sandbox.events()) > 1


@pytest.mark.parametrize(
    ("status", "wanted", "is_so"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}]}, "Ready", True),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, "ready", True),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, "Ready", False),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, "Ready=False", True),
        ({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}, "Ready", False),
        ({"observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True"}]}, "Ready", True),
        ({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}, "Ready", False),
        ({"conditions": [{"type": "Other", "status": "True"}]}, "Ready", False),
        (None, "Ready", False),
    ],
)
def test_a_condition_older_than_the_last_change_does_not_count(
    status: object, wanted: str, is_so: bool
) -> None:
    assert has_condition({"metadata": {"generation": 2}, "status": status}, wanted) == is_so


def is_true() -> bool:
    return True


def test_a_claim_is_described_by_its_source_code() -> None:
    ready = 1
    assert describe_claim(is_true) == "is_true()"
    assert describe_claim(lambda: ready == 3) == "ready == 3"
    pair = (lambda: ready == 1, lambda: ready == 2)
    assert [describe_claim(item) for item in pair] == ["ready == 1", "ready == 2"]
    assert attempt(is_true, not_yet=()).is_true


def test_a_field_that_the_kind_does_not_have_is_refused() -> None:
    with Sandbox(nodes=0) as sandbox:
        with pytest.raises(BadRequestError, match=r'unknown field "spec\.replica"'):
            sandbox.apply(DEPLOYMENT.replace("replicas:", "replica:"))
        sandbox.apply(DEPLOYMENT)
        with pytest.raises(BadRequestError, match=r'unknown field "spec\.replica"'):
            sandbox.apply(DEPLOYMENT.replace("replicas:", "replica:"))


def test_an_error_names_the_object_and_its_file(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(DEPLOYMENT.replace("apps/v1", "apps/v2"))
    with Sandbox(nodes=0) as sandbox, pytest.raises(LookupError, match="did you mean apps/v1") as refused:
        sandbox.apply(file)
    assert refused.value.__notes__ == [f"Deployment web of {file}"]
    with pytest.raises(LookupError) as refused, Sandbox(nodes=0, manifests=[file]):
        pass
    assert refused.value.__notes__ == [f"Deployment web of {file}"]


@pytest.mark.parametrize(
    ("version", "kind", "message"),
    [
        ("apps/v1", "Deploymnt", "no Deploymnt of apps/v1; did you mean Deployment?"),
        ("v1", "Deployment", "no Deployment of v1; it serves Deployment of apps/v1"),
        ("apps/v2", "Deployment", "no Deployment of apps/v2; did you mean apps/v1?"),
        ("x/v1", "Zebra", "no Zebra of x/v1"),
    ],
)
def test_an_unserved_kind_is_named_with_the_nearest_one(version: str, kind: str, message: str) -> None:
    with Sandbox(nodes=0) as sandbox, pytest.raises(LookupError) as refused:
        sandbox.apply({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}})
    assert str(refused.value) == f"the cluster serves {message}"
