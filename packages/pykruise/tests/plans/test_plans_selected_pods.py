"""Pods that a selector selects, found by their labels."""

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import pytest

from pykruise.kube.documents import encode
from pykruise.kube.values.selectors import Selector, parse_label_selector
from pykruise.plans.selected_pods import select_pods
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.listed_objects import Listed
from pykruise.runtime.read import Mirrors

LABELS: Mapping[str, Mapping[str, str]] = {
    "web-0": {"app": "web", "tier": "front", "pod-template-hash": "a"},
    "web-1": {"app": "web", "tier": "front", "pod-template-hash": "b"},
    "db-0": {"app": "db", "tier": "back", "statefulset.kubernetes.io/pod-name": "db-0"},
    "bare": {},
}


def pod(name: str, labels: Mapping[str, str], namespace: str = "shop") -> PodView:
    return project_pod(encode({"metadata": {"name": name, "namespace": namespace, "labels": labels}}))


def around(pods: Sequence[PodView]) -> Mirrors:
    return Mirrors({POD_VIEWS: Listed(POD_VIEWS, pods)})


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", ["web-0", "web-1"]),
        ("app in (web,db),tier=back", ["db-0"]),
        ("app in (web,db),tier!=back", ["web-0", "web-1"]),
        ("app=web,pod-template-hash=b", ["web-1"]),
        ("pod-template-hash=b", ["web-1"]),
        ("statefulset.kubernetes.io/pod-name=db-0", ["db-0"]),
        ("app", ["db-0", "web-0", "web-1"]),
        ("!app", ["bare"]),
        ("app=cache", []),
        ("", ["bare", "db-0", "web-0", "web-1"]),
    ],
)
def test_matching_pods_of_the_namespace_are_selected(selector: str, names: list[str]) -> None:
    # given the same pods in two namespaces
    pods = [pod(name, labels, namespace) for namespace in ("shop", "bank") for name, labels in LABELS.items()]
    # when
    result = list(select_pods(parse_label_selector(selector), "shop", around(pods)))
    # then
    assert sorted(pod.name for pod in result) == names
    assert {pod.namespace for pod in result} <= {"shop"}


@pytest.mark.parametrize("selector", ["app=web-7", "env=prod,app=web-7", "app in (web-7,web-8),env=prod"])
def test_no_more_pods_are_compared_than_have_the_rarest_label(selector: str) -> None:
    # given a hundred workloads of ten pods in one namespace
    pods = [pod(f"{n}-{i}", {"env": "prod", "app": f"web-{n}"}) for n in range(100) for i in range(10)]
    read, compared = around(pods), 0
    matches = Selector.matches

    def counted(self: Selector, labels: Mapping[str, Any]) -> bool:
        nonlocal compared
        compared += 1
        return matches(self, labels)

    # when
    with patch.object(Selector, "matches", counted):
        result = list(select_pods(parse_label_selector(selector), "shop", read))
    # then
    assert compared == len(result) <= 20
