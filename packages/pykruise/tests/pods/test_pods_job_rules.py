"""Admission rules that all kinds of jobs share."""

from typing import Any

import pytest

from pykruise.pods.jobs.job_rules import add_pod_defaults, find_job_name_errors
from pykruise.pods.template.defaults import DefaultingSettings


@pytest.mark.parametrize(
    ("metadata", "wrong"),
    [
        ({}, []),
        ({"name": None}, []),
        ({"generateName": "job-"}, []),
        ({"name": "Job-7"}, []),
        ({"name": "a" * 63}, []),
        ({"name": "a" * 64}, ["must be no more than 63 characters"]),
        ({"name": "job.7"}, ["must consist of letters, digits and '-'"]),
        ({"name": "jöb"}, ["must consist of letters, digits and '-'"]),
        (
            {"name": "a." * 40},
            ["must consist of letters, digits and '-'", "must be no more than 63 characters"],
        ),
    ],
)
def test_the_name_of_a_job_is_a_label_of_what_it_makes(metadata: dict[str, Any], wrong: list[str]) -> None:
    causes = list(find_job_name_errors(metadata))
    assert [cause.message.rpartition(": ")[2] for cause in causes] == wrong
    assert {cause.field for cause in causes} <= {"metadata.name"}


@pytest.mark.parametrize(
    ("spec", "policy"),
    [(None, "OnFailure"), ({}, "OnFailure"), ({"restartPolicy": ""}, "OnFailure")]
    + [({"restartPolicy": policy}, policy) for policy in ("Never", "Always")],
)
def test_pods_of_jobs_run_to_their_end(spec: dict[str, Any] | None, policy: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    plain = {**template, "spec": {"restartPolicy": policy}}
    off = DefaultingSettings(template_no_defaults=True)
    assert add_pod_defaults(template, complete=False, settings=DefaultingSettings()) == plain
    assert add_pod_defaults(template, complete=True, settings=off) == plain
    pods = add_pod_defaults(template, complete=True, settings=DefaultingSettings())
    assert (pods["spec"]["restartPolicy"], pods["spec"]["dnsPolicy"]) == (policy, "ClusterFirst")


def test_ports_of_pods_in_the_network_of_their_node_are_host_ports_with_the_gate() -> None:
    container = {"name": "main", "image": "busybox:1", "ports": [{"containerPort": 80}]}
    template = {"spec": {"hostNetwork": True, "containers": [container]}}
    for is_on, ports in ((True, {"hostPort": 80}), (False, {})):
        settings = DefaultingSettings(host_network_ports=is_on)
        pods = add_pod_defaults(template, complete=True, settings=settings)
        assert pods["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", **ports}]
