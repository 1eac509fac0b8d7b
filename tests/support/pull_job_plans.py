"""Plans of simulated ImagePullJobs, and their requests to nodes.

planned(held(parallelism=2), *nodes("a", "b")) ──▶ Plan ──asked()──▶ node → the change of its entry for nginx
"""

from collections.abc import Sequence
from typing import Any

from pykruise.kinds.imagepulljob.defaults import FINALIZER
from pykruise.kinds.imagepulljob.plan import plan_imagepulljob
from pykruise.kinds.imagepulljob.snapshot import ImagePullJobSnapshot
from pykruise.plans.purposes import Purpose
from pykruise.pods.images.node_images import NodeImageView
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from support.image_objects import NOW, entry, job, node_image, said

HELD = {"finalizers": [FINALIZER]}


def held(name: str = "job", **fields: Any) -> PullJobView:
    """A job that has its finalizer."""
    return job(name, metadata=HELD, **fields)


def planned(
    pull_job: PullJobView,
    *nodes: NodeImageView,
    after_s: float = 0.0,
    others: Sequence[PullJobView] = (),
    gone: Sequence[PullJobView] = (),
    **more: Any,
) -> Plan:
    """The plan at this time after NOW, if the cache knows that these other jobs exist or are deleted."""
    known = {**dict.fromkeys(other.uid for other in gone), **{other.uid: other for other in others}}
    return plan_imagepulljob(
        ImagePullJobSnapshot(job=pull_job, nodes=nodes, others=known, now=NOW + after_s, **more)
    )


def asked(plan: Plan) -> dict[str, Any]:
    """The new entry for nginx, by node."""
    result: dict[str, Any] = {}
    for stage in plan.stages:
        if stage.purpose is Purpose.ASK_NODES:
            for chain in stage.chains:
                (step,) = chain.steps
                assert isinstance(step.action, Patch)
                assert step.action.resource_version == "9"
                result[chain.subject] = step.action.body["spec"]["images"]["nginx"]
    return result


def the_entry(plan: Plan) -> dict[str, Any]:
    """The entry of a plan that requests one tag from one node."""
    (image,) = asked(plan).values()
    (tag,) = image["tags"]
    assert isinstance(tag, dict)
    return tag


def nodes(*names: str) -> list[NodeImageView]:
    """Nodes without requests."""
    return [node_image(name) for name in names]


def done(name: str, wants: PullJobView, phase: str = "Succeeded") -> NodeImageView:
    """A node with a request and this progress."""
    return node_image(name, entry(jobs=[wants]), statuses=[said(phase)])
