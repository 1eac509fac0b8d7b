"""Situations of kinds that end: jobs of pods, schedules, containers, requests.

BROADCAST_JOBS, CRON_JOBS, EPHEMERAL_JOBS, REQUESTS ──▶ tables.py
"""

from typing import Any, Final

from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from support.situations.documents import (
    broadcastjob,
    cloneset,
    cronjob,
    ephemeraljob,
    request,
)
from support.situations.world import Situation, World, pods_in_another_namespace

RUNS_ON = {"image": "job:1", "exit_code": 0, "after_s": 1e6}
"""A rule for `World.fail()`: the pods of a job do not end."""

# ── BroadcastJob ─────────────────────────────────────────────────────────────


async def a_pod_fails_and_the_job_with_it(world: World) -> None:
    world.fail(image="job:1", node="node-2", exit_code=7)
    await world.put(broadcastjob())


async def one_pod_fails_and_the_others_continue(world: World) -> None:
    world.fail(image="job:1", node="node-2", exit_code=7)
    await world.put(broadcastjob(failurePolicy={"type": "Continue"}))


async def all_pods_fail_and_are_gone(world: World) -> None:
    world.fail(image="job:1", exit_code=7)
    await world.put(broadcastjob(failurePolicy={"type": "Continue"}))
    await world.wait(30)
    for pod in await world.list("pod"):
        await world.delete(f"pod/{pod['metadata']['name']}", grace_period_s=0)


async def a_deadline_passes(world: World) -> None:
    world.fail(**RUNS_ON)
    await world.put(broadcastjob(completionPolicy={"type": "Always", "activeDeadlineSeconds": 20}))


async def a_deadline_passes_before_each_node_had_its_turn(world: World) -> None:
    world.fail(**RUNS_ON)
    policy = {"type": "Always", "activeDeadlineSeconds": 20}
    await world.put(broadcastjob(completionPolicy=policy, parallelism=1))


async def a_deadline_stops_pods_without_their_image(world: World) -> None:
    world.fail(image="job:1", image_pull_error=True)
    await world.put(broadcastjob(completionPolicy={"type": "Always", "activeDeadlineSeconds": 20}))


async def its_image_cannot_be_pulled(world: World) -> None:
    world.fail(image="job:1", image_pull_error=True)
    await world.put(broadcastjob(parallelism=2))


async def a_failed_pod_pauses_it(world: World) -> None:
    world.fail(image="job:1", node="node-2", exit_code=7)
    await world.put(broadcastjob(failurePolicy={"type": "Pause"}))


async def a_pod_restarts_too_often_and_pauses_it(world: World) -> None:
    world.fail(image="job:1", node="node-2", exit_code=7)
    policy = {"type": "Pause", "restartLimit": 1}
    await world.put(broadcastjob(pod={"restartPolicy": "OnFailure"}, failurePolicy=policy))


async def a_pod_restarts_too_often(world: World) -> None:
    world.fail(image="job:1", node="node-2", exit_code=7)
    policy = {"type": "Continue", "restartLimit": 1}
    await world.put(broadcastjob(pod={"restartPolicy": "OnFailure"}, failurePolicy=policy))


async def a_person_has_paused_it(world: World) -> None:
    await world.put(broadcastjob(paused=True))


async def a_quota_lets_it_make_no_pod(world: World) -> None:
    await world.quota(pods="0")
    await world.put(broadcastjob())


async def no_node_fits_it(world: World) -> None:
    await world.put(broadcastjob(pod={"nodeSelector": {"disk": "ssd"}}))


async def the_only_node_it_selects_has_a_taint(world: World) -> None:
    await world.node("node-2", metadata={"labels": {"disk": "ssd"}})
    await world.node("node-2", spec={"taints": [{"key": "broken", "effect": "NoExecute"}]})
    await world.put(broadcastjob(pod={"nodeSelector": {"disk": "ssd"}}))


async def its_pods_run(world: World) -> None:
    world.fail(**RUNS_ON)
    await world.put(broadcastjob(parallelism=2))


async def all_its_pods_run(world: World) -> None:
    world.fail(**RUNS_ON)
    await world.put(broadcastjob())


async def all_its_pods_have_succeeded(world: World) -> None:
    world.fail(image="job:1", exit_code=0)
    await world.put(broadcastjob())


async def its_template_is_changed_after_its_end(world: World) -> None:
    await all_its_pods_have_succeeded(world)
    await world.wait(30)
    await world.set_image("broadcastjob/web", "job:2")


_NEVER = {"type": "Never"}


async def all_nodes_have_run_it(world: World) -> None:
    world.fail(image="job:1", exit_code=0)
    await world.put(broadcastjob(completionPolicy=_NEVER))


async def its_template_is_changed_after_all_nodes_have_run_it(world: World) -> None:
    await all_nodes_have_run_it(world)
    await world.wait(30)
    world.fail(image="job:2", exit_code=0)
    await world.set_image("broadcastjob/web", "job:2")


async def a_pod_fails_of_a_job_that_never_ends(world: World) -> None:
    world.fail(image="job:1", node="node-2", exit_code=7)
    await world.put(broadcastjob(completionPolicy=_NEVER, failurePolicy={"type": "Continue"}))


async def its_template_is_changed_while_it_runs(world: World) -> None:
    world.fail(image="job:1", node="node-2", exit_code=0, after_s=1e6)
    await world.put(broadcastjob(parallelism=4))
    await world.wait(30)
    await world.set_image("broadcastjob/web", "job:2")


async def its_parallelism_is_zero(world: World) -> None:
    await world.put(broadcastjob(parallelism=0))


async def its_pods_lack_their_service_account(world: World) -> None:
    await world.put(broadcastjob(pod={"serviceAccountName": "robot"}))


async def a_container_beside_the_finished_one_runs_on(world: World) -> None:
    world.fail(container="log", exit_code=0, after_s=1e6)
    both = [{"name": name, "image": "job:1"} for name in ("main", "log")]
    await world.put(broadcastjob(pod={"containers": both}))


async def its_container_cannot_be_created(world: World) -> None:
    missing = [{"name": "main", "image": "job:1", "envFrom": [{"configMapRef": {"name": "missing"}}]}]
    await world.put(broadcastjob(pod={"containers": missing}))


BROADCAST_JOBS: Final = (
    Situation(
        stage=a_pod_fails_and_the_job_with_it, cause=Code.POD_FAILED, phase=Phase.FAILED, says="node-2"
    ),
    Situation(
        stage=one_pod_fails_and_the_others_continue,
        cause=Code.POD_FAILED,
        phase=Phase.FAILED,
        says="exit code 7 on node node-2",
    ),
    Situation(
        stage=all_pods_fail_and_are_gone,
        cause=Code.JOB_FAILED,
        phase=Phase.FAILED,
        says="the job has ended, and 4 pods failed",
    ),
    Situation(
        stage=a_deadline_passes,
        cause=Code.JOB_FAILED,
        phase=Phase.FAILED,
        says="4 pods still ran",
    ),
    Situation(
        stage=a_deadline_passes_before_each_node_had_its_turn,
        cause=Code.JOB_FAILED,
        phase=Phase.FAILED,
        says="1 pod still ran, and 3 nodes got no pod (spec.parallelism is 1)",
    ),
    Situation(
        stage=a_deadline_stops_pods_without_their_image,
        cause=Code.JOB_FAILED,
        phase=Phase.FAILED,
        says="(and 3 more): image job:1 of container main cannot be pulled",
    ),
    Situation(stage=its_image_cannot_be_pulled, cause=Code.IMAGE_PULL, says="job:1", ways=2),
    Situation(stage=a_failed_pod_pauses_it, cause=Code.POD_FAILED, says="exit code 7 on node node-2", ways=1),
    Situation(
        stage=a_pod_restarts_too_often_and_pauses_it, cause=Code.POD_FAILED, says="exit code 7", ways=1
    ),
    Situation(
        stage=a_pod_restarts_too_often,
        cause=Code.POD_FAILED,
        says="restarted 3 times",
        ways=1,
        known_by="plan",
    ),
    Situation(stage=a_person_has_paused_it, cause=Code.PAUSED, phase=Phase.PAUSED, ways=1),
    Situation(stage=a_quota_lets_it_make_no_pod, ways=1, cause=Code.QUOTA, says="exceeded quota: team"),
    Situation(stage=no_node_fits_it, cause=Code.NOTHING_SELECTED, says="node-1", ways=2),
    Situation(
        stage=the_only_node_it_selects_has_a_taint,
        cause=Code.NOTHING_SELECTED,
        says="selects 1 of 4 nodes; on 1 of them: the node has the taint broken:NoExecute",
        ways=4,
        useless=(2, 3),
    ),
    Situation(
        stage=its_pods_run,
        cause=Code.PARALLELISM,
        phase=Phase.PROGRESSING,
        says="(container main runs since ",
    ),
    Situation(
        stage=all_its_pods_run,
        cause=Code.PODS_ACTIVE,
        phase=Phase.PROGRESSING,
        says="; spec.completionPolicy.activeDeadlineSeconds ends the job at a set time",
    ),
    Situation(stage=all_its_pods_have_succeeded, cause="", phase=Phase.COMPLETED),
    Situation(
        stage=its_template_is_changed_after_its_end,
        cause=Code.JOB_OVER,
        phase=Phase.COMPLETED,
        says="its pods ran an older template: container main ran image job:1",
        ways=1,
    ),
    Situation(stage=all_nodes_have_run_it, cause="", phase=Phase.HEALTHY),
    Situation(
        stage=its_template_is_changed_after_all_nodes_have_run_it,
        cause=Code.NO_EFFECT,
        phase=Phase.HEALTHY,
        says="-l broadcastjob-name=web): their nodes then run the new template",
        ways=1,
        known_by="explain",
    ),
    Situation(
        stage=a_pod_fails_of_a_job_that_never_ends,
        cause=Code.POD_FAILED,
        says="exit code 7 on node node-2",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=its_template_is_changed_while_it_runs,
        cause=Code.PODS_ACTIVE,
        phase=Phase.PROGRESSING,
        says="or a webhook changed it (container main ran image job:1)",
        ways=1,
    ),
    Situation(stage=its_parallelism_is_zero, cause=Code.LIMIT_IS_ZERO, ways=1),
    Situation(
        stage=its_pods_lack_their_service_account,
        ways=1,
        cause=Code.POLICY,
        says="kubectl create serviceaccount -n scenario robot",
        known_by="plan",
    ),
    Situation(
        stage=a_container_beside_the_finished_one_runs_on,
        cause=Code.NOT_READY,
        phase=Phase.PROGRESSING,
        says="container main has ended with exit code 0, but container log still runs",
        known_by="plan",
    ),
    Situation(stage=its_container_cannot_be_created, cause=Code.CONTAINER_FAILS, says="missing", ways=2),
)

# ── AdvancedCronJob ──────────────────────────────────────────────────────────


async def every_run_fails(world: World) -> None:
    world.fail(image="job:1", exit_code=7)
    await world.put(cronjob())
    await world.wait(130)


async def every_run_has_failed_pods(world: World) -> None:
    world.fail(image="job:1", node="node-2", exit_code=7)
    document = cronjob()
    document["spec"]["template"]["broadcastJobTemplate"]["spec"]["failurePolicy"] = {"type": "Continue"}
    await world.put(document)
    await world.wait(130)


async def every_job_of_it_fails(world: World) -> None:
    world.fail(image="job:1", exit_code=7)
    await world.put(cronjob(made_of="jobTemplate"))
    await world.wait(130)


async def the_deadline_of_its_job_passes(world: World) -> None:
    world.fail(image="job:1", image_pull_error=True)
    document = cronjob(made_of="jobTemplate", schedule="1 * * * *")
    document["spec"]["template"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] = 20
    await world.put(document)
    await world.wait(130)


async def a_run_cannot_pull_and_the_next_may_not_begin(world: World) -> None:
    world.fail(image="job:1", image_pull_error=True)
    await world.put(cronjob(concurrencyPolicy="Forbid"))
    await world.wait(130)


async def a_job_of_it_cannot_pull(world: World) -> None:
    world.fail(image="job:1", image_pull_error=True)
    await world.put(cronjob(made_of="jobTemplate", concurrencyPolicy="Forbid"))
    await world.wait(130)


async def the_deadline_of_its_broadcastjob_passes(world: World) -> None:
    world.fail(**RUNS_ON)
    document = cronjob(schedule="1 * * * *")
    policy = {"type": "Always", "activeDeadlineSeconds": 20}
    document["spec"]["template"]["broadcastJobTemplate"]["spec"]["completionPolicy"] = policy
    await world.put(document)
    await world.wait(130)


async def a_quota_lets_it_make_no_job(world: World) -> None:
    await world.quota(count_broadcastjobs="0")
    await world.put(cronjob())
    await world.wait(130)


async def runs_that_never_end_use_up_a_quota(world: World) -> None:
    await world.quota(pods="2")
    world.fail(**RUNS_ON)
    await world.put(cronjob(made_of="jobTemplate"))
    await world.wait(800)


async def a_person_has_paused_the_schedule(world: World) -> None:
    await world.put(cronjob(paused=True))


async def a_job_of_it_lacks_its_service_account(world: World) -> None:
    document = cronjob(made_of="jobTemplate", concurrencyPolicy="Forbid")
    document["spec"]["template"]["jobTemplate"]["spec"]["template"]["spec"]["serviceAccountName"] = "robot"
    await world.put(document)
    await world.wait(130)


async def a_failed_pod_pauses_a_run(world: World) -> None:
    world.fail(image="job:1", node="node-2", exit_code=7)
    document = cronjob(concurrencyPolicy="Forbid")
    document["spec"]["template"]["broadcastJobTemplate"]["spec"]["failurePolicy"] = {"type": "Pause"}
    await world.put(document)
    await world.wait(130)


async def it_waits_for_its_next_time(world: World) -> None:
    await world.put(cronjob(schedule="0 3 1 1 *"))


async def each_run_is_replaced_before_it_ends(world: World) -> None:
    world.fail(**RUNS_ON)
    await world.put(cronjob(concurrencyPolicy="Replace"))
    await world.wait(190)


async def _until(world: World, second: float, *, every: float = 60.0) -> None:
    """Wait until `second` seconds after the next time that is a multiple of `every` seconds."""
    await world.wait(-world.stage.clock() % every + second)


async def a_run_lasts_until_the_next_one_is_due(world: World) -> None:
    world.fail(image="job:1", exit_code=0, after_s=90)
    await world.put(cronjob(made_of="jobTemplate", concurrencyPolicy="Forbid", startingDeadlineSeconds=25))
    await _until(world, 8)


async def each_second_run_is_missed(world: World) -> None:
    await a_run_lasts_until_the_next_one_is_due(world)
    await world.wait(27)


async def no_manager_is_there_at_the_time_of_a_run(world: World) -> None:
    await world.put(cronjob(schedule="*/10 * * * *", startingDeadlineSeconds=10))
    await world.stage.stop_manager()
    await _until(world, 30, every=600)
    await world.start()


async def its_runs_succeed(world: World) -> None:
    world.fail(image="job:1", exit_code=0)
    await world.put(cronjob())
    await world.wait(130)


async def its_job_may_start_no_pod(world: World) -> None:
    document = cronjob(made_of="jobTemplate", concurrencyPolicy="Forbid")
    document["spec"]["template"]["jobTemplate"]["spec"]["parallelism"] = 0
    await world.put(document)
    await world.wait(130)


async def its_broadcastjob_may_start_no_pod(world: World) -> None:
    document = cronjob(concurrencyPolicy="Forbid")
    document["spec"]["template"]["broadcastJobTemplate"]["spec"]["parallelism"] = 0
    await world.put(document)
    await world.wait(130)


async def a_finalizer_of_a_pod_delays_its_deletion(world: World) -> None:
    world.fail(**RUNS_ON)
    await world.put(cronjob(made_of="jobTemplate", concurrencyPolicy="Forbid"))
    await world.wait(80)
    (pod,), (job,) = [await world.list(kind) for kind in ("pod", "job")]
    name = pod["metadata"]["name"]
    await world.change(f"pod/{name}", {"metadata": {"finalizers": ["example.com/archive"]}})
    for target in ("advancedcronjob/web", f"job/{job['metadata']['name']}"):
        await world.delete(target, propagation="Foreground")
    await world.delete(f"pod/{name}")  # as Kubernetes' garbage collector does
    await world.wait(60)


async def failed_runs_are_deleted(world: World) -> None:
    world.fail(image="job:1", exit_code=7)
    await world.put(cronjob(made_of="jobTemplate", failedJobsHistoryLimit=0))
    await world.wait(130)


async def failed_runs_were_deleted_and_the_last_one_succeeded(world: World) -> None:
    await failed_runs_are_deleted(world)
    world.fail(image="job:1", exit_code=0)


async def a_list_of_images_fails(world: World) -> None:
    world.fail(image="job:1", image_pull_error=True)
    await world.put(cronjob(made_of="imageListPullJobTemplate"))
    await world.wait(300)


CRON_JOBS: Final = (
    Situation(
        stage=every_run_fails,
        cause=Code.RUN_FAILED,
        phase=Phase.FAILED,
        says="exit code 7",
        known_by="plan",
    ),
    Situation(
        stage=every_run_has_failed_pods,
        cause=Code.RUN_FAILED,
        phase=Phase.FAILED,
        says="exit code 7 on node node-2",
        known_by="plan",
    ),
    Situation(
        stage=every_job_of_it_fails,
        cause=Code.RUN_FAILED,
        phase=Phase.FAILED,
        says="exit code 7",
        known_by="plan",
    ),
    Situation(
        stage=the_deadline_of_its_job_passes,
        cause=Code.RUN_FAILED,
        phase=Phase.FAILED,
        says="job:1",
        known_by="plan",
    ),
    Situation(
        stage=a_run_cannot_pull_and_the_next_may_not_begin,
        cause=Code.IMAGE_PULL,
        says="first correct the cause above: another run would have the same problem",
        ways=2,
        known_by="plan",
    ),
    Situation(stage=a_job_of_it_cannot_pull, cause=Code.IMAGE_PULL, says="job:1", ways=2, known_by="plan"),
    Situation(
        stage=the_deadline_of_its_broadcastjob_passes,
        cause=Code.RUN_FAILED,
        phase=Phase.FAILED,
        says="instead of the job, create AdvancedCronJob web again, which creates the job",
        known_by="plan",
    ),
    Situation(
        stage=a_quota_lets_it_make_no_job,
        cause=Code.QUOTA,
        says="exceeded quota: team",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=runs_that_never_end_use_up_a_quota,
        cause=Code.QUOTA,
        says=") have not ended and use up the quota: Error creating: pods ",
        ways=2,
        known_by="plan",
    ),
    Situation(
        stage=a_job_of_it_lacks_its_service_account,
        cause=Code.WRITE_FAILED,
        says="kubectl create serviceaccount -n scenario robot",
        ways=2,
        known_by="plan",
    ),
    Situation(
        stage=a_failed_pod_pauses_a_run,
        cause=Code.POD_FAILED,
        says="set spec.paused of BroadcastJob web-",
        ways=1,
        known_by="plan",
    ),
    Situation(stage=a_person_has_paused_the_schedule, cause=Code.PAUSED, phase=Phase.PAUSED, ways=1),
    Situation(stage=it_waits_for_its_next_time, cause=Code.NEXT_TICK, phase=Phase.HEALTHY),
    Situation(
        stage=each_run_is_replaced_before_it_ends,
        cause=Code.CHILD_ACTIVE,
        phase=Phase.PROGRESSING,
        says="no run has ended yet",
        ways=2,
        useless=(0,),
        known_by="plan",
    ),
    Situation(
        stage=a_run_lasts_until_the_next_one_is_due,
        cause=Code.CHILD_ACTIVE,
        phase=Phase.PROGRESSING,
        says="can start only until",
        known_by="plan",
    ),
    Situation(
        stage=each_second_run_is_missed,
        cause=Code.RUN_MISSED,
        phase=Phase.HEALTHY,
        says="was missed: the run before it lasted until",
        ways=3,
        known_by="plan",
    ),
    Situation(
        stage=no_manager_is_there_at_the_time_of_a_run,
        cause=Code.RUN_MISSED,
        phase=Phase.HEALTHY,
        says="possible causes: no manager was active, the API server rejected the run, or an earlier run",
        known_by="plan",
    ),
    Situation(stage=its_runs_succeed, cause=Code.NEXT_TICK, phase=Phase.HEALTHY),
    Situation(
        stage=its_job_may_start_no_pod,
        cause=Code.LIMIT_IS_ZERO,
        says="raise spec.parallelism of Job web-",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=its_broadcastjob_may_start_no_pod,
        cause=Code.LIMIT_IS_ZERO,
        says="then create AdvancedCronJob web again with this change in its template",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=a_finalizer_of_a_pod_delays_its_deletion,
        cause=Code.FINALIZER,
        says="it terminates, but finalizer example.com/archive holds it (Job web-",
        ways=1,
        known_by="explain",
    ),
    Situation(
        stage=failed_runs_are_deleted,
        cause=Code.RUN_FAILED,
        phase=Phase.FAILED,
        says="has failed (Job has reached the specified backoff limit), and was deleted",
        ways=1,
        known_by="explain",
    ),
    Situation(
        stage=failed_runs_were_deleted_and_the_last_one_succeeded,
        cause=Code.NEXT_TICK,
        phase=Phase.HEALTHY,
    ),
    Situation(stage=a_list_of_images_fails, cause=Code.RUN_FAILED, phase=Phase.FAILED, known_by="plan"),
)

# ── EphemeralJob ─────────────────────────────────────────────────────────────


async def no_pod_is_selected(world: World) -> None:
    await world.put(ephemeraljob())


async def its_pods_are_in_another_namespace(world: World) -> None:
    await pods_in_another_namespace(world)
    await world.put(ephemeraljob())


async def its_image_is_not_there(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    world.fail(image="debug:1", image_pull_error=True)
    await world.put(ephemeraljob())


async def its_container_fails(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    world.fail(image="debug:1", exit_code=5)
    await world.put(ephemeraljob(parallelism=5))


async def its_container_runs_on(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    world.fail(image="debug:1", exit_code=0, after_s=1e6)
    await world.put(ephemeraljob())


async def its_containers_run_on(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    world.fail(image="debug:1", exit_code=0, after_s=1e6)
    await world.put(ephemeraljob(parallelism=5))


async def a_person_has_paused_the_look(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    await world.put(ephemeraljob(paused=True))


async def the_look_is_over(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    world.fail(image="debug:1", exit_code=0)
    await world.put(ephemeraljob(parallelism=5))


async def its_container_is_changed_after_its_end(world: World) -> None:
    await the_look_is_over(world)
    await world.wait(30)
    document = await world.get("ephemeraljob/web")
    (container,) = document["spec"]["template"]["ephemeralContainers"]
    changed = {"ephemeralContainers": [{**container, "command": ["trace"]}]}
    await world.set("ephemeraljob/web", template=changed)


async def the_look_takes_too_long(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    world.fail(image="debug:1", exit_code=0, after_s=1e6)
    await world.put(ephemeraljob(activeDeadlineSeconds=30))


async def each_look_takes_its_time(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    world.fail(image="debug:1", exit_code=0, after_s=20)
    await world.put(ephemeraljob(activeDeadlineSeconds=30))


async def the_look_waits_for_its_image_too_long(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    world.fail(image="debug:1", image_pull_error=True)
    await world.put(ephemeraljob(activeDeadlineSeconds=30))


async def no_container_has_the_name_of_its_target(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    job = ephemeraljob()
    job["spec"]["template"]["ephemeralContainers"][0]["targetContainerName"] = "web"
    await world.put(job)


async def the_containers_of_its_pods_violate_the_level_of_the_namespace(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    await world.change(f"namespace/{world.namespace}", {"metadata": {"labels": level}})
    job = ephemeraljob()
    job["spec"]["template"]["ephemeralContainers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    await world.put(job)


async def its_oldest_pod_has_no_node(world: World) -> None:
    spec = {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "main", "image": "nginx:1"}]}
    metadata = {"name": "web-old", "labels": {"app": "web"}}
    await world.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    await world.wait(20)
    await world.put(cloneset())
    await world.wait(20)
    await world.put(ephemeraljob())


async def another_job_has_the_name_of_its_container(world: World) -> None:
    await world.put(cloneset())
    await world.wait(30)
    await world.put(ephemeraljob("first"))
    await world.wait(30)
    await world.put(ephemeraljob())


async def its_parallelism_is_nothing(world: World) -> None:
    await world.put(cloneset())
    await world.wait(30)
    await world.put(ephemeraljob(parallelism=0))


async def its_security_context_is_not_allowed(world: World) -> None:
    await world.put(cloneset(replicas=1))
    await world.wait(30)
    job = ephemeraljob()
    (container,) = job["spec"]["template"]["ephemeralContainers"]
    container["securityContext"] = {"runAsNonRoot": True, "runAsUser": 0}
    await world.put(job)


EPHEMERAL_JOBS: Final = (
    Situation(
        stage=the_containers_of_its_pods_violate_the_level_of_the_namespace,
        cause=Code.POLICY,
        says="→ correct the template of the workload that creates the pods, or have the level of the namespace lowered",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=its_security_context_is_not_allowed,
        cause=Code.CONTAINER_FAILS,
        says="container's runAsUser breaks non-root policy",
        ways=1,
        useless=(0,),
    ),
    Situation(
        stage=no_pod_is_selected,
        cause=Code.NOTHING_SELECTED,
        says="no pod of namespace scenario matches spec.selector (app=web); the job",
        ways=1,
    ),
    Situation(
        stage=its_pods_are_in_another_namespace,
        cause=Code.NOTHING_SELECTED,
        says="2 pods of namespace shop would match",
        ways=1,
    ),
    Situation(stage=its_image_is_not_there, cause=Code.IMAGE_PULL, says="debug:1", ways=1),
    Situation(stage=its_container_fails, cause=Code.CONTAINER_FAILED, phase=Phase.FAILED, says="exit code 5"),
    Situation(
        stage=its_container_runs_on,
        cause=Code.PARALLELISM,
        phase=Phase.PROGRESSING,
        says="(container debug runs since ",
        ways=1,
    ),
    Situation(
        stage=its_containers_run_on,
        cause=Code.PODS_ACTIVE,
        phase=Phase.PROGRESSING,
        says="containers in 3 pods have not ended: web-",
        ways=1,
    ),
    Situation(stage=a_person_has_paused_the_look, cause=Code.PAUSED, phase=Phase.PAUSED, ways=1),
    Situation(stage=the_look_is_over, cause="", phase=Phase.COMPLETED),
    Situation(
        stage=its_container_is_changed_after_its_end,
        cause=Code.JOB_OVER,
        phase=Phase.COMPLETED,
        says="its pods ran an older template: container debug ran with another command",
        ways=1,
    ),
    Situation(
        stage=the_look_takes_too_long,
        cause=Code.JOB_FAILED,
        phase=Phase.FAILED,
        says="(container debug runs since ",
        ways=3,
        useless=(0, 1, 2),  # the job has ended
    ),
    Situation(
        stage=each_look_takes_its_time,
        cause=Code.JOB_FAILED,
        phase=Phase.FAILED,
        says="1 pod got no container",
        ways=1,
    ),
    Situation(
        stage=the_look_waits_for_its_image_too_long,
        cause=Code.IMAGE_PULL,
        phase=Phase.FAILED,
        says="image debug:1 of container debug cannot be pulled",
        ways=1,
        useless=(0,),  # the job has ended
        known_by="plan",
    ),
    Situation(
        stage=another_job_has_the_name_of_its_container,
        cause=Code.NOTHING_SELECTED,
        ways=1,
        says="from another job",
    ),
    Situation(
        stage=no_container_has_the_name_of_its_target,
        cause=Code.REFUSED,
        says="set spec.template.ephemeralContainers[0].targetContainerName to main, or remove it",
        ways=1,
    ),
    Situation(
        stage=its_oldest_pod_has_no_node,
        cause=Code.UNSCHEDULABLE,
        says="3 of 4 pods succeeded",
        ways=1,
    ),
    Situation(stage=its_parallelism_is_nothing, cause=Code.LIMIT_IS_ZERO, ways=1),
)

# ── ContainerRecreateRequest ─────────────────────────────────────────────────


async def _a_pod(world: World, **container: Any) -> None:
    await world.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "app", "labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "main", "image": "nginx:1", **container}],
                "terminationGracePeriodSeconds": 30,
            },
        }
    )
    await world.wait(20)


async def its_container_crashes_after_it(world: World) -> None:
    await _a_pod(world)
    world.fail(image="nginx:1", exit_code=9)
    await world.put(request("app"))


async def the_node_of_its_pod_is_down(world: World) -> None:
    await _a_pod(world)
    pod = await world.get("pod/app")
    world.stage.kubelets.stop_node(pod["spec"]["nodeName"])
    await world.put(request("app"))
    await world.wait(60)


async def its_pod_is_gone(world: World) -> None:
    await _a_pod(world)
    await world.put(request("app", activeDeadlineSeconds=600))
    await world.delete("pod/app", grace_period_s=0)


async def its_container_takes_its_time_to_start(world: World) -> None:
    await _a_pod(world)
    world.fail(image="nginx:1", ready_s=500.0)
    await world.put(request("app", strategy={"minStartedSeconds": 300}))


async def its_container_never_becomes_ready(world: World) -> None:
    await world.put(cloneset(replicas=1))
    await world.wait(20)
    (pod,) = await world.list("pod")
    world.fail(image="nginx:1", never_ready=True)
    await world.put(request(pod["metadata"]["name"], strategy={"minStartedSeconds": 30}))


async def its_pod_never_restarts_containers(world: World) -> None:
    containers = [{"name": "main", "image": "nginx:1"}, {"name": "other", "image": "other:1"}]
    pod = {"restartPolicy": "Never", "containers": containers}
    await world.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app"}, "spec": pod})
    await world.wait(20)
    await world.put(request("app"))


async def it_takes_its_pod_out_of_service_first(world: World) -> None:
    await world.put(cloneset(replicas=1, pod={"readinessGates": [{"conditionType": "KruisePodReady"}]}))
    await world.wait(20)
    (pod,) = await world.list("pod")
    await world.put(request(pod["metadata"]["name"], strategy={"unreadyGracePeriodSeconds": 300}))


async def another_container_of_its_pod_crashes(world: World) -> None:
    containers = [{"name": "main", "image": "nginx:1"}, {"name": "other", "image": "other:1"}]
    await world.put(cloneset(replicas=1, pod={"containers": containers}))
    await world.wait(20)
    (pod,) = await world.list("pod")
    world.fail(image="other:1", exit_code=3)
    await world.put(request(pod["metadata"]["name"], strategy={"minStartedSeconds": 300}))


async def its_container_stops_slowly(world: World) -> None:
    hook = {"preStop": {"sleep": {"seconds": 200}}}
    containers = [{"name": "main", "image": "nginx:1", "lifecycle": hook}]
    await world.put(cloneset(pod={"terminationGracePeriodSeconds": 300, "containers": containers}))
    await world.wait(20)
    (pod, *_) = await world.list("pod")
    await world.put(request(pod["metadata"]["name"]))


async def the_request_is_done(world: World) -> None:
    await _a_pod(world)
    await world.put(request("app"))


async def it_has_no_time(world: World) -> None:
    await _a_pod(world)
    world.fail(image="nginx:1", never_ready=True)
    await world.put(request("app", activeDeadlineSeconds=20, strategy={"minStartedSeconds": 10}))


async def _a_pod_that_is_probed_late(world: World) -> None:
    probe = {"httpGet": {"port": 80}, "initialDelaySeconds": 500}
    await _a_pod(world, readinessProbe=probe)
    await world.wait(600)
    world.fail(image="nginx:1", ready_s=500.0)


async def its_container_is_probed_late(world: World) -> None:
    await _a_pod_that_is_probed_late(world)
    await world.put(request("app"))


async def its_deadline_is_before_the_first_probe(world: World) -> None:
    await _a_pod_that_is_probed_late(world)
    await world.put(request("app", activeDeadlineSeconds=20))


async def its_deadline_is_shorter_than_the_run(world: World) -> None:
    await _a_pod(world)
    await world.put(request("app", activeDeadlineSeconds=20, strategy={"minStartedSeconds": 100}))


async def its_container_became_ready_after_its_deadline(world: World) -> None:
    await _a_pod(world, readinessProbe={"httpGet": {"port": 80}})
    world.fail(image="nginx:1", ready_s=40.0)
    await world.put(request("app", activeDeadlineSeconds=5))


async def its_deadline_leaves_no_time_to_start(world: World) -> None:
    await _a_pod(world)
    await world.put(request("app", activeDeadlineSeconds=31, strategy={"minStartedSeconds": 30}))


async def another_request_for_its_pod_has_not_ended(world: World) -> None:
    await _a_pod(world)
    world.fail(image="nginx:1", never_ready=True)
    await world.put(request("app", "first", strategy={"minStartedSeconds": 30}))
    await world.wait(20)
    await world.put(request("app"))


async def another_request_keeps_its_pod_out_of_service(world: World) -> None:
    await world.put(cloneset(replicas=1, pod={"readinessGates": [{"conditionType": "KruisePodReady"}]}))
    await world.wait(20)
    (pod,) = await world.list("pod")
    name = pod["metadata"]["name"]
    await world.put(request(name, "first", strategy={"unreadyGracePeriodSeconds": 3600}))
    await world.wait(20)
    await world.put(request(name))


async def another_request_stops_a_container_slowly(world: World) -> None:
    await its_container_stops_slowly(world)
    first = await world.get("containerrecreaterequest/web")
    await world.wait(10)
    await world.put(request(first["spec"]["podName"], "second"))


REQUESTS: Final = (
    Situation(
        stage=another_request_keeps_its_pod_out_of_service,
        cause=Code.PARALLELISM,
        phase=Phase.PROGRESSING,
        says="first for the same pod is carried out first, and waits: container main waits until ",
        ways=1,
    ),
    Situation(
        stage=another_request_stops_a_container_slowly,
        cause=Code.PARALLELISM,
        phase=Phase.PROGRESSING,
        says="web for the same pod is carried out first, and waits: container main is being stopped",
        name="second",
    ),
    Situation(
        stage=its_pod_never_restarts_containers,
        cause=Code.CONTAINER_FAILS,
        says="restartPolicy of pod app is Never",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=another_request_for_its_pod_has_not_ended,
        cause=Code.NOT_READY,
        phase=Phase.PROGRESSING,
        says="ContainerRecreateRequest first for the same pod is carried out first, and waits: pod app",
        ways=1,
    ),
    Situation(
        stage=its_container_crashes_after_it,
        cause=Code.CONTAINER_FAILS,
        says="exit code 9",
        known_by="plan",
    ),
    Situation(
        stage=its_container_never_becomes_ready,
        cause=Code.NOT_READY,
        phase=Phase.PROGRESSING,
        says="kubectl logs -n scenario web-",
    ),
    Situation(
        stage=it_takes_its_pod_out_of_service_first,
        cause=Code.PODS_ACTIVE,
        phase=Phase.PROGRESSING,
        says=": the pod is out of service for 300 s first (spec.strategy.unreadyGracePeriodSeconds)",
        ways=1,
    ),
    Situation(stage=another_container_of_its_pod_crashes, cause=Code.PODS_ACTIVE, phase=Phase.PROGRESSING),
    Situation(stage=the_node_of_its_pod_is_down, cause=Code.NO_AGENT, phase=Phase.FAILED),
    Situation(stage=its_pod_is_gone, cause=Code.NO_TARGET, phase=Phase.FAILED),
    Situation(stage=its_container_takes_its_time_to_start, cause=Code.NOT_READY, phase=Phase.PROGRESSING),
    Situation(
        stage=its_container_stops_slowly,
        cause=Code.PODS_ACTIVE,
        phase=Phase.PROGRESSING,
        says="container main is being stopped: its process, and its preStop hook if it has one, have up to 300 s",
    ),
    Situation(stage=the_request_is_done, cause="", phase=Phase.COMPLETED),
    Situation(
        stage=its_container_is_probed_late,
        cause=Code.NOT_READY,
        phase=Phase.PROGRESSING,
        says="its readiness is probed only 500 s after its start (initialDelaySeconds)",
    ),
    Situation(
        stage=its_deadline_is_before_the_first_probe,
        cause=Code.JOB_FAILED,
        phase=Phase.FAILED,
        says="create the request again with spec.activeDeadlineSeconds 560 or more",
        ways=1,
    ),
    Situation(
        stage=its_deadline_is_shorter_than_the_run,
        cause=Code.JOB_FAILED,
        phase=Phase.FAILED,
        says="; at the deadline, its pod had been ready for ",
        ways=1,
    ),
    Situation(
        stage=its_container_became_ready_after_its_deadline,
        cause=Code.JOB_FAILED,
        phase=Phase.FAILED,
        says="spec.activeDeadlineSeconds (5 s): its pod became ready 4",
        ways=1,
    ),
    Situation(
        stage=its_deadline_leaves_no_time_to_start,
        cause=Code.JOB_FAILED,
        phase=Phase.FAILED,
        says="because the new container must run for 30 s first (spec.strategy.minStartedSeconds)",
        ways=1,
    ),
    Situation(
        stage=it_has_no_time,
        cause=Code.JOB_FAILED,
        phase=Phase.FAILED,
        says="kubectl logs -n scenario app -c main",
    ),
)
