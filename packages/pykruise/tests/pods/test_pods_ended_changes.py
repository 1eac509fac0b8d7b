"""A finished job does not run again: a change of its spec is allowed with a warning."""

import pytest

from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.ephemeraljob.types import EPHEMERAL_JOBS
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kube.resources import Resource
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from support.reviews import after_both, with_defaults
from support.scenario import Object
from support.situations.documents import broadcastjob, ephemeraljob, listjob, pulljob
from support.webhooks import GATES

RULES = build_reviewers(AdmissionSettings(gates=GATES))
OVER = {"completionTime": "2026-01-31T12:00:00Z"}


@pytest.mark.parametrize(
    ("resource", "old", "new", "field"),
    [
        (BROADCAST_JOBS, broadcastjob(), broadcastjob(image="job:2"), "template"),
        (EPHEMERAL_JOBS, ephemeraljob(), ephemeraljob(image="debug:2"), "template"),
        (IMAGE_PULL_JOBS, pulljob(), pulljob(image="app:2"), "image"),
        (IMAGE_LIST_PULL_JOBS, listjob(), listjob(images=("app:2",)), "images"),
    ],
    ids=lambda item: item.kind if isinstance(item, Resource) else "",
)
def test_a_changed_spec_of_an_ended_job_gets_a_warning(
    resource: Resource, old: Object, new: Object, field: str
) -> None:
    said = f"spec.{field}: the job has ended and does not run again; "
    stored = with_defaults(RULES, resource, old)
    ended = {**stored, "status": OVER}
    assert [text.startswith(said) for text in after_both(RULES, resource, new, old=ended).warnings] == [True]
    assert after_both(RULES, resource, new, old=stored).warnings == ()
    assert after_both(RULES, resource, old, old=ended).warnings == ()


def test_a_time_to_live_still_counts_after_the_end() -> None:
    ended = {**with_defaults(RULES, BROADCAST_JOBS, broadcastjob()), "status": OVER}
    policy = {"type": "Always", "ttlSecondsAfterFinished": 5}
    kept = broadcastjob(completionPolicy=policy)
    assert after_both(RULES, BROADCAST_JOBS, kept, old=ended).warnings == ()
