"""Cost of injection per pod, and of a plan by its pods. Prints; asserts nothing.

PYTHONPATH=tests python -m bench.bench_sidecarset [--sets 20] [--pods 2000]

The step of pod admission handles a pod of about 5 KB, with this number of SidecarSets in the cluster: all of them
select it, one of them does, or none. Every SidecarSet has one sidecar with a mount, a shared one and a variable
from the pod's own container.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1])]

import msgspec  # noqa: E402

from bench.bench_admission import pod  # noqa: E402
from pykruise.admission.reviewers import ReviewContext, build_reviewers  # noqa: E402
from pykruise.kinds.sidecarset.kind import KIND  # noqa: E402
from pykruise.kinds.sidecarset.plan import plan_sidecarset  # noqa: E402
from pykruise.kinds.sidecarset.pod_steps import SidecarInjection  # noqa: E402
from pykruise.kinds.sidecarset.snapshot import SidecarSetSettings, read_snapshot  # noqa: E402
from pykruise.kinds.sidecarset.view import SidecarSetView  # noqa: E402
from pykruise.kube.documents import Document  # noqa: E402
from pykruise.kube.resources import PODS  # noqa: E402
from pykruise.kube.webhooks.reviews import ReviewDispatcher  # noqa: E402
from pykruise.plans.review import Lookups  # noqa: E402
from pykruise.plans.views import BY_SIDECARSET, POD_VIEWS, REVISION_VIEWS  # noqa: E402
from pykruise.pods.workload.revisions import RevisionView  # noqa: E402
from pykruise.runtime.read import Memories  # noqa: E402
from support.pod_chains import step_context  # noqa: E402
from support.reviews import posted, request  # noqa: E402
from support.sidecar_world import SidecarWorld  # noqa: E402
from support.sidecarsets import NOW, container, sidecarset, view  # noqa: E402
from support.snapshots import OnPaper, read_of, taken  # noqa: E402

REPEATS = 300


class Sets:
    """A reader over SidecarSets that are in memory."""

    def __init__(self, views: Sequence[SidecarSetView]) -> None:
        self._views = views

    async def list_sidecar_sets(self) -> Sequence[SidecarSetView]:
        return self._views

    async def read_namespace_labels(self, name: str) -> Mapping[str, str] | None:
        return {"kubernetes.io/metadata.name": name}

    async def list_revisions(self, name: str) -> Sequence[RevisionView]:
        return ()

    async def read_whitelist(self) -> str | None:
        return None


def one_set(number: int, *, app: str) -> SidecarSetView:
    sidecar = container(
        f"sidecar-{number}",
        shareVolumePolicy={"type": "enabled"},
        transferEnv=[{"sourceContainerName": "container-0", "envNames": ["SETTING_1", "SETTING_2"]}],
        volumeMounts=[{"name": f"volume-{number}", "mountPath": f"/volume-{number}"}],
        env=[{"name": f"OWN_{item}", "value": "x"} for item in range(5)],
    )
    volumes = [{"name": f"volume-{number}", "emptyDir": {}}]
    return view(sidecarset(f"set-{number}", sidecar, selector={"matchLabels": {"app": app}}, volumes=volumes))


def cpu_ms(action: Callable[[], object], *, repeats: int = REPEATS) -> float:
    """Milliseconds of CPU of the middle run."""
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        action()
        times.append(time.thread_time() - start)
    return statistics.median(times) * 1000


def stepped(views: Sequence[SidecarSetView]) -> float:
    """Time of the step for one pod."""
    step = SidecarInjection(step_context(KIND, Sets(views), clock=lambda: NOW))
    doc: Document = pod()
    doc["metadata"]["labels"]["app"] = "web"
    asked = request(PODS, doc)
    loop = asyncio.new_event_loop()

    def once() -> None:
        coroutine: Coroutine[Any, Any, Any] = step.change(doc, asked)
        try:
            coroutine.send(None)
        except StopIteration:
            return

    try:
        return cpu_ms(once)
    finally:
        loop.close()


def reviewed(views: Sequence[SidecarSetView]) -> float:
    """Time of one AdmissionReview, from the body to the response with its patch."""
    doc: Document = pod()
    doc["metadata"]["labels"]["app"] = "web"
    lookups = Lookups(readers={"sidecarset": Sets(views)}, clock=lambda: NOW)
    context = ReviewContext(lookups=lookups, rng=random.Random(1))
    reviews = ReviewDispatcher(build_reviewers(context=context))
    body = posted(request(PODS, doc))
    loop = asyncio.new_event_loop()
    try:
        return cpu_ms(lambda: loop.run_until_complete(reviews.answer("/mutate-pod", body)))
    finally:
        loop.close()


def planned(pods: int) -> tuple[float, float]:
    """A snapshot and its plan with that many pods: settled, and in the middle of an upgrade."""
    world = SidecarWorld(sidecarset("log", container("log")))
    world.add(1)
    world.settle()
    model = world.pod_view("web-0")
    pod_views = [msgspec.structs.replace(model, name=f"web-{item}", uid=str(item)) for item in range(pods)]

    memories = Memories()

    def measured() -> float:
        """Measure with indexes that were built before, as in a cache."""
        objects: OnPaper = {POD_VIEWS: pod_views, REVISION_VIEWS: world.revision_views()}
        view = world.view
        read = read_of(KIND, view, objects, settings=SidecarSetSettings(), now=NOW, memories=memories)
        read.list_by_index(POD_VIEWS, BY_SIDECARSET, view.name)
        return cpu_ms(lambda: plan_sidecarset(taken(read_snapshot(view, read))), repeats=5)

    settled = measured()
    world.change(container("log", "log:2"))
    world.round()
    return settled, measured()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--pods", type=int, default=2000)
    asked = parser.parse_args()
    count: int = asked.sets
    cases = {
        f"all {count} mean the pod": [one_set(number, app="web") for number in range(count)],
        f"one of {count} does": [one_set(n, app="web" if n == 0 else "other") for n in range(count)],
        f"none of {count} does": [one_set(number, app="other") for number in range(count)],
    }
    print("CPU per pod                    the step    the whole review")
    for what, views in cases.items():
        print(f"{what:<28} {stepped(views):>7.3f} ms {reviewed(views):>12.3f} ms")
    print(f"{'no SidecarSet':<28} {stepped([]):>7.3f} ms {reviewed([]):>12.3f} ms")
    settled, upgrading = planned(asked.pods)
    print(f"a plan of {asked.pods} pods: settled {settled:.1f} ms, upgrading {upgrading:.1f} ms")


if __name__ == "__main__":
    main()
