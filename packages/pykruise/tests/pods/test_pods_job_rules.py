"""Admission rules that all kinds of jobs share."""

from typing import Any

import pytest

from pykruise.pods.jobs.job_rules import add_pod_defaults, find_job_name_errors


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
    assert add_pod_defaults(template, complete=False) == {**template, "spec": {"restartPolicy": policy}}
    pods = add_pod_defaults(template, complete=True)
    assert (pods["spec"]["restartPolicy"], pods["spec"]["dnsPolicy"]) == (policy, "ClusterFirst")
