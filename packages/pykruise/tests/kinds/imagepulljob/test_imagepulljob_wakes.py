"""Events that wake an ImagePullJob: only few do."""

from collections.abc import Iterable
from typing import Any

import pytest

from pykruise.kinds.imagepulljob.kind import KIND
from pykruise.kinds.imagepulljob.snapshot import ImagePullJobSettings
from pykruise.kube.cache.cache import Change
from pykruise.kube.documents import encode
from pykruise.kube.ids import Key
from pykruise.plans.views import NODE_IMAGE_VIEWS, POD_VIEWS, PULL_JOB_VIEWS, SECRET_VIEWS
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.view.secrets import CopyView
from pykruise.runtime.assemble import views_of
from pykruise.runtime.read import Around, Memories
from pykruise.runtime.views import Views
from support.image_objects import at, entry, job, node_image, said
from support.snapshots import control_of, listed

MINE, OTHER_TAG, OTHER_IMAGE = job("mine"), job("tag", image="nginx:2"), job("image", image="redis:1.9")
ENDED = job("ended", status={"completionTime": at(0)})
JOBS = (MINE, OTHER_TAG, OTHER_IMAGE, ENDED)


def woken(on: Views[Any], old: Any, new: Any, jobs: Iterable[PullJobView] = JOBS) -> set[str]:
    """Names of the jobs that an event enqueues."""
    around = Around(
        listed(views_of(control_of(KIND), ImagePullJobSettings()), {PULL_JOB_VIEWS: jobs}),
        settings=ImagePullJobSettings(),
        memories=Memories(),
        is_making=lambda *_: False,
        now=lambda: 0.0,
    )
    subject = new or old
    change = Change(Key(subject.namespace, subject.name), old, new)
    result: set[str] = set()
    for wake in control_of(KIND).wakes(ImagePullJobSettings()):
        if wake.on is on:
            result |= {str(key.name) for key in wake.keys(change, around)}  # type: ignore[union-attr]
    return result


def test_a_status_of_one_tag_enqueues_only_the_jobs_for_it() -> None:
    """images, pitfall 4"""
    before = node_image("n1", entry(), entry("2"))
    after = node_image("n1", entry(), entry("2"), statuses=[said("Pulling")])
    assert woken(NODE_IMAGE_VIEWS, before, after) == {"mine"}


def test_changed_secrets_of_an_image_enqueue_the_jobs_for_all_its_tags() -> None:
    before = node_image("n1", entry(), entry("2"))
    after = node_image("n1", entry(), entry("2"), secrets=[{"namespace": "a", "name": "b"}])
    assert woken(NODE_IMAGE_VIEWS, before, after) == {"mine", "tag"}


def test_a_status_enqueues_no_job_for_other_nodes() -> None:
    elsewhere = job("elsewhere", selector={"names": ["n2"]})
    before, after = node_image("n1", entry()), node_image("n1", entry(), statuses=[said("Pulling")])
    assert woken(NODE_IMAGE_VIEWS, before, after, (MINE, elsewhere)) == {"mine"}


def test_a_changed_nodeimage_enqueues_every_job_with_a_pod_selector() -> None:
    """The next snapshot finds the nodes of its pods. The job with both selectors was stored without admission."""
    both = job("both", selector={"matchLabels": {"zone": "b"}}, podSelector={"matchLabels": {"app": "x"}})
    before, after = node_image("n1", entry()), node_image("n1", entry(), statuses=[said("Pulling")])
    assert woken(NODE_IMAGE_VIEWS, before, after, [both]) == {"both"}
    assert woken(NODE_IMAGE_VIEWS, None, after, [both]) == {"both"}
    assert woken(NODE_IMAGE_VIEWS, node_image(), node_image(labels={"zone": "b"}), [both]) == set()


def test_an_unchanged_status_enqueues_no_job() -> None:
    before = node_image("n1", entry())
    after = node_image("n1", entry(), metadata={"resourceVersion": "10"})
    assert woken(NODE_IMAGE_VIEWS, before, after) == set()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, node_image()),
        (node_image(), None),
        (node_image(), node_image(metadata={"uid": "another"})),
        (node_image(), node_image(metadata={"deletionTimestamp": at(0)})),
    ],
)
def test_a_created_or_deleted_nodeimage_enqueues_all_running_jobs(old: Any, new: Any) -> None:
    """also a job with an empty selector (lifted limit f)"""
    empty = job("empty", selector={})
    elsewhere = job("elsewhere", selector={"names": ["n2"]})
    assert woken(NODE_IMAGE_VIEWS, old, new, (*JOBS, empty, elsewhere)) == {"mine", "tag", "image", "empty"}


def test_changed_labels_enqueue_the_jobs_that_select_them_differently() -> None:
    by_label = job("by-label", selector={"matchLabels": {"zone": "a"}})
    before, after = node_image(), node_image(labels={"zone": "a"})
    assert woken(NODE_IMAGE_VIEWS, before, after, (*JOBS, by_label)) == {"by-label"}


def pod(*, node: str = "n1", app: str = "x", phase: str = "Running") -> PodView:
    return project_pod(
        encode(
            {
                "metadata": {
                    "name": "p",
                    "namespace": "shop",
                    "uid": "p",
                    "resourceVersion": "1",
                    "labels": {"app": app},
                },
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
                "status": {"phase": phase},
            }
        )
    )


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, pod(), True),
        (pod(node=""), pod(), True),
        (pod(), None, True),
        (pod(), pod(phase="Succeeded"), True),
        (pod(), pod(app="y"), True),
        (pod(), pod(), False),
        (None, pod(node=""), False),
        (pod(phase="Pending"), pod(), False),
    ],
)
def test_a_pod_enqueues_the_jobs_for_which_its_change_matters(
    old: PodView | None, new: PodView | None, wakes: bool
) -> None:
    """images cases 26 and 27"""
    by_pods = job("by-pods", podSelector={"matchLabels": {"app": "x"}})
    other = job("other", namespace="elsewhere", podSelector={"matchLabels": {"app": "x"}})
    assert woken(POD_VIEWS, old, new, (*JOBS, by_pods, other)) == ({"by-pods"} if wakes else set())


SECRET = CopyView(namespace="shop", name="s1", uid="u", resource_version=1)


def test_a_secret_enqueues_the_running_jobs_that_pull_with_it() -> None:
    uses = job("uses", pullSecrets=["s1"])
    over = job("over", pullSecrets=["s1"], status={"completionTime": at(0)})
    assert woken(SECRET_VIEWS, None, SECRET, (uses, over, MINE)) == {"uses"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SECRET, None),
        (SECRET, SECRET),  # a resync delivers all objects again, also the jobs
        (SECRET, CopyView(namespace="shop", name="s1", uid="u", resource_version=2, is_deleting=True)),
    ],
)
def test_a_deleted_or_unchanged_secret_enqueues_no_job(old: CopyView, new: CopyView | None) -> None:
    assert woken(SECRET_VIEWS, old, new, [job("uses", pullSecrets=["s1"])]) == set()
