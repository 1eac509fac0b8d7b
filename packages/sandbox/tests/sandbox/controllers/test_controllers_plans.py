"""Plans of built-in controllers: the writes and their order."""

from typing import Any

from pykruise.kube.documents import encode
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.objects import DocumentView, project_document
from pykruise.runtime.plan import REPORT_STATUS, Plan
from pykruise.sandbox.controllers import cron_jobs, deployments, jobs
from pykruise.sandbox.controllers.job_policies import FINALIZER
from pykruise.sandbox.controllers.rollouts import Sets
from pykruise.sandbox.pod_decoding import SandboxPodProjector
from pykruise.sandbox.pod_view import SandboxPodView

NOW = 1_700_000_000.0
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
}
SELECTOR = {"matchLabels": {"app": "web"}}


def meta(name: str, *, owner: str = "", **fields: Any) -> dict[str, Any]:
    meta = {"namespace": "ns", "name": name, "uid": f"u-{name}", "resourceVersion": "7", **fields}
    if owner:
        reference = {"apiVersion": "v1", "kind": "X", "name": owner, "uid": f"u-{owner}", "controller": True}
        meta["ownerReferences"] = [reference]
    return meta


def view(name: str, *, owner: str = "", created: str = "", **fields: Any) -> DocumentView:
    metadata = meta(name, owner=owner, **({"creationTimestamp": created} if created else {}))
    return project_document(encode({"metadata": metadata, **fields}))


def ended_pod(name: str) -> SandboxPodView:
    metadata = meta(name, owner="sum", labels={"app": "web"}, finalizers=[FINALIZER])
    return SandboxPodProjector()(encode({"metadata": metadata, "spec": {}, "status": {"phase": "Succeeded"}}))


def purposes(plan: Plan) -> list[str]:
    return [stage.purpose for stage in plan.stages]


def job_snapshot(*pods: SandboxPodView, status: dict[str, Any]) -> jobs.JobSnapshot:
    spec = {"completions": 2, "parallelism": 1, "selector": SELECTOR, "template": TEMPLATE}
    job = view("sum", spec=spec, status={"startTime": "2023-11-14T22:00:00Z", **status})
    return jobs.JobSnapshot(job=job, pods=pods, orphans=(), now=NOW)


def test_a_finished_pod_is_recorded_in_the_status_before_its_finalizer_is_removed() -> None:
    # when
    plan = jobs.plan_job(job_snapshot(ended_pod("sum-a"), status={}))
    # then
    assert purposes(plan)[:2] == [REPORT_STATUS, "remove finalizers"]
    noted, released = (stage.chains[0].steps[0].action for stage in plan.stages[:2])
    assert isinstance(noted, Patch)
    assert noted.body["status"]["uncountedTerminatedPods"] == {"succeeded": ["u-sum-a"]}
    assert isinstance(released, Patch)
    assert released.key.name == "sum-a"


def test_a_noted_pod_is_counted_once_its_finalizer_is_off() -> None:
    # when
    plan = jobs.plan_job(job_snapshot(status={"uncountedTerminatedPods": {"succeeded": ["u-sum-a"]}}))
    # then a second pod is created
    assert plan.status is not None
    assert plan.status["succeeded"] == 1
    assert plan.status["uncountedTerminatedPods"] == {}
    assert [type(step.action) for step in plan.steps] == [Create]


def test_a_deployment_whose_replica_set_would_have_a_name_that_is_taken_counts_the_collision() -> None:
    # given
    spec = {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE, "strategy": {"type": "Recreate"}}
    deployment = view("web", spec=spec, status={"collisionCount": 1})
    snapshot = deployments.DeploymentSnapshot(
        deployment=deployment,
        owned=(),
        sets=Sets(None, ()),
        orphans=(),
        busy=frozenset(),
        namesake=view("web-5d", owner="other"),
        now=NOW,
    )
    # when, then
    assert deployments.plan_deployment(snapshot) == Plan(status={"collisionCount": 2})


def cron_plan(namesake: DocumentView | None, *own: DocumentView, **spec: Any) -> Plan:
    """Plan of a CronJob that is due."""
    cron = view(
        "cron", created="2023-11-14T22:00:00Z", spec={"schedule": "* * * * *", "jobTemplate": {}, **spec}
    )
    due = cron_jobs.due_of(cron, now=NOW)
    return cron_jobs.plan_cron_job(
        cron_jobs.CronJobSnapshot(cron=cron, jobs=own, due=due, namesake=namesake, now=NOW)
    )


def test_a_job_is_created_at_its_time_and_recorded_by_the_next_plan() -> None:
    # when
    first = cron_plan(None)
    # then
    (made,) = (step.action for step in first.steps)
    assert isinstance(made, Create)
    assert first.status == {}
    # when the Job exists
    job = view(made.key.name, owner="cron")
    second = cron_plan(job, job)
    # then
    assert second.stages == ()
    assert second.status is not None
    assert [item["uid"] for item in second.status["active"]] == [job.uid]
    assert second.status["lastScheduleTime"] == "2023-11-14T22:13:00Z"


def test_a_job_of_another_owner_with_the_same_name_is_not_changed() -> None:
    plan = cron_plan(view("cron-28333333", owner="other"))
    assert (plan.stages, plan.status) == ((), {})


def test_replaced_jobs_are_deleted_before_the_next_is_created() -> None:
    # given
    old = view("cron-1", owner="cron")
    cron = view(
        "cron",
        created="2023-11-14T22:00:00Z",
        spec={"schedule": "* * * * *", "jobTemplate": {}, "concurrencyPolicy": "Replace"},
        status={"active": [{"name": old.name, "uid": old.uid}]},
    )
    due = cron_jobs.due_of(cron, now=NOW)
    # when
    plan = cron_jobs.plan_cron_job(
        cron_jobs.CronJobSnapshot(cron=cron, jobs=(old,), due=due, namesake=None, now=NOW)
    )
    # then
    assert [type(step.action) for step in plan.steps] == [Delete, Create]
