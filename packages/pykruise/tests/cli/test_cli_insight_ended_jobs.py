"""Jobs whose spec was changed after their end: managedFields show the change."""

from typing import Any

import pytest

from pykruise.cli.insight.cluster_reading import Sight
from pykruise.cli.insight.ended_jobs import explain_older_spec
from pykruise.kinds import find_kind
from pykruise.pods.reasons import Code

ENDED = "2026-01-01T10:00:00Z"
LATER = "2026-01-01T11:00:00Z"


def sight_of(kind: str, fields: dict[str, Any], *, time: str = LATER, **entry: Any) -> Sight:
    """A job that ended at ENDED, and whose spec a person changed at `time`."""
    managed = {"manager": "kubectl-edit", "time": time, "fieldsV1": {"f:spec": fields}, **entry}
    document = {
        "kind": kind,
        "metadata": {"name": "web", "generation": 2, "managedFields": [managed]},
        "spec": {},
        "status": {"completionTime": ENDED},
    }
    return Sight(kind=find_kind(kind), document=document, snapshot=None, listed={})


@pytest.mark.parametrize(
    ("kind", "field"),
    [("ImagePullJob", "f:image"), ("ImageListPullJob", "f:images"), ("BroadcastJob", "f:parallelism")],
)
def test_a_change_after_the_end_of_a_job_has_no_effect(kind: str, field: str) -> None:
    wait = explain_older_spec(sight_of(kind, {".": {}, field: {}}))

    assert wait is not None
    assert wait.code == Code.JOB_OVER
    assert wait.words.startswith(f"kubectl-edit changed the spec at {LATER}, after the job had ended")
    assert wait.remedy == "delete the job and create it again (kubectl replace --force -f FILE)"


def test_an_ephemeraljob_needs_other_container_names_after_its_end() -> None:
    wait = explain_older_spec(sight_of("EphemeralJob", {"f:selector": {}}))

    assert wait is not None
    assert wait.remedy.startswith("create the job again with another container name")


@pytest.mark.parametrize(
    "sight",
    [
        sight_of("ImagePullJob", {"f:completionPolicy": {}}),
        sight_of("ImagePullJob", {"f:image": {}}, time=ENDED),
        sight_of("ImagePullJob", {"f:image": {}}, subresource="status"),
    ],
    ids=["a new time to live", "a change before the end", "a change of the status"],
)
def test_other_changes_are_not_reported(sight: Sight) -> None:
    assert explain_older_spec(sight) is None
