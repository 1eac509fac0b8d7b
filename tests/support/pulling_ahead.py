"""Actions of a plan that pulls images before an update, for tests of every kind."""

from typing import Any

from pykruise.plans.purposes import Purpose
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.runtime.actions import Create, Patch
from pykruise.runtime.plan import Plan
from support.plan_views import steps_named


def job(name: str, **fields: Any) -> PullJobView:
    """A stored ImagePullJob of the workload."""
    return PullJobView(namespace="shop", name=name, uid=f"uid-{name}", resource_version=1, **fields)


def created_jobs(plan: Plan) -> list[dict[str, Any]]:
    """ImagePullJobs that the plan creates."""
    return [
        step.action.body
        for step in steps_named(plan, Purpose.PRE_DOWNLOAD)
        if isinstance(step.action, Create)
    ]


def labels_given(plan: Plan) -> list[str]:
    """Labels that the update revision gets."""
    return [
        label
        for step in steps_named(plan, Purpose.PRE_DOWNLOAD)
        if isinstance(step.action, Patch)
        for label in step.action.body["metadata"]["labels"]
    ]
