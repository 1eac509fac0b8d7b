"""A pod on its node, and the writes of its kubelet: pure functions, no cluster."""

import pytest

from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.images import ImageTable
from pykruise.sandbox.nodes.pod_life import find_removal_time
from pykruise.sandbox.nodes.pod_state import KubeletSettings, add_ephemeral
from support.paper import START, PaperPod, pod_document, view

# ── start and readiness ──────────────────────────────────────────────────────


def test_a_pod_that_is_ready_when_it_starts_takes_one_write() -> None:
    # given
    pod = PaperPod(pod_document(), settings=KubeletSettings(start_s=1.0, start_jitter=0.0))
    # when
    pod.run_until(60.0)
    # then
    assert [at for at, _ in pod.patches] == [1.0]
    assert pod.status["phase"] == "Running"
    assert {condition["type"]: condition["status"] for condition in pod.status["conditions"]} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }
    assert pod.status["podIP"] == "10.0.0.9"
    assert pod.status["podIPs"] == [{"ip": "10.0.0.9"}]
    assert pod.status["hostIP"] == "172.18.0.2"
    assert pod.status["startTime"] == "2026-01-31T12:00:00Z"
    container = pod.container()
    assert container["state"] == {"running": {"startedAt": "2026-01-31T12:00:01Z"}}
    assert container["lastState"] == {}
    assert container["restartCount"] == 0
    assert container["ready"] is True
    assert container["started"] is True


def test_a_probe_that_takes_its_time_makes_a_second_write() -> None:
    # given a readiness probe with an initial delay, and a setting on top
    doc = pod_document()
    doc["spec"]["containers"][0]["readinessProbe"] = {"initialDelaySeconds": 5}
    pod = PaperPod(doc, settings=KubeletSettings(start_s=0.0, ready_s=2.0))
    # when, then
    pod.run_until(6.9)
    assert not pod.is_ready
    assert pod.condition("Ready")["message"] == "containers with unready status: [main]"
    pod.run_until(60.0)
    assert pod.is_ready
    assert [at for at, _ in pod.patches] == [0.0, 7.0]
    assert "message" not in pod.condition("Ready")
    assert pod.condition("Initialized")["lastTransitionTime"] == "2026-01-31T12:00:00Z"
    assert pod.condition("Ready")["lastTransitionTime"] == "2026-01-31T12:00:07Z"


def test_a_pod_that_takes_long_to_start_is_reported_as_pending_first() -> None:
    # given
    pod = PaperPod(pod_document(), settings=KubeletSettings(start_s=30.0, start_jitter=0.0))
    # when
    pod.run_until(1.0)
    # then
    assert pod.status["phase"] == "Pending"
    assert pod.container()["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert "containerID" not in pod.container()
    assert "podIP" not in pod.status


def test_start_delays_lie_between_the_setting_and_its_jitter_and_differ_from_pod_to_pod() -> None:
    # given
    settings = KubeletSettings(start_s=0.5, start_jitter=1.0)
    # when
    starts = []
    for number in range(50):
        pod = PaperPod(pod_document(f"web-{number}"), settings=settings)
        pod.run_until(10.0)
        starts.append(pod.patches[0][0])
    # then
    assert min(starts) >= 0.5
    assert max(starts) <= 1.0
    assert len(set(starts)) > 25


def test_a_readiness_gate_keeps_the_pod_from_being_ready_until_it_is_opened() -> None:
    # given
    pod = PaperPod(pod_document(readinessGates=[{"conditionType": "example.com/ok"}]))
    # when, then
    pod.run_until(1.0)
    assert pod.condition("ContainersReady")["status"] == "True"
    assert pod.condition("Ready")["reason"] == "ReadinessGatesNotReady"
    assert 'gate "example.com/ok" does not exist' in pod.condition("Ready")["message"]
    pod.set_condition("example.com/ok", "True")
    pod.run_until(2.0)
    assert pod.is_ready
    pod.set_condition("example.com/ok", "False")
    pod.run_until(3.0)
    assert not pod.is_ready
    assert pod.condition("Ready")["lastTransitionTime"] == "2026-01-31T12:00:02Z"
    # and each change of readiness took one write, of the Ready condition alone
    assert [list(patch["status"]) for _, patch in pod.patches[1:]] == [["conditions"], ["conditions"]]
    assert [len(patch["status"]["conditions"]) for _, patch in pod.patches[1:]] == [1, 1]


def test_conditions_of_others_are_never_written() -> None:
    # given
    doc = pod_document(readinessGates=[{"conditionType": "example.com/ok"}])
    pod = PaperPod(doc, settings=KubeletSettings(start_s=1.0))
    pod.set_condition("example.com/ok", "True")
    # when
    pod.run_until(10.0)
    pod.set_image("main", "nginx:2")
    pod.run_until(20.0)
    # then
    written = {condition["type"] for _, patch in pod.patches for condition in patch["status"]["conditions"]}
    assert written == {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"}


def test_a_status_changed_by_another_writer_is_written_again() -> None:
    # given
    pod = PaperPod(pod_document())
    pod.run_until(1.0)
    # when
    pod.set_condition("Ready", "False")
    pod.run_until(2.0)
    # then
    assert pod.is_ready


def test_the_observed_generation_is_written_only_with_the_setting() -> None:
    # given
    doc = pod_document()
    doc["metadata"]["generation"] = 3
    plain = PaperPod(doc)
    observing = PaperPod(doc, settings=KubeletSettings(start_s=0.0, observed_generation=True))
    # when
    plain.run_until(1.0)
    observing.run_until(1.0)
    # then
    assert "observedGeneration" not in plain.status
    assert observing.status["observedGeneration"] == 3
    assert observing.condition("Ready")["observedGeneration"] == 3


# ── a new image ──────────────────────────────────────────────────────────────


def test_a_changed_image_restarts_that_container_once() -> None:
    # given
    settings = KubeletSettings(start_s=1.0, start_jitter=0.0)
    pod = PaperPod(pod_document(containers={"main": "nginx:1", "log": "fluent:1"}), settings=settings)
    pod.run_until(10.0)
    before, other = pod.container("main"), pod.container("log")
    # when
    pod.set_image("main", "nginx:2")
    pod.run_until(10.5)
    # then the container is down ...
    down = pod.container("main")
    assert down["state"]["terminated"]["containerID"] == before["containerID"]
    assert down["ready"] is False
    assert not pod.is_ready
    # ... and a new container starts
    pod.run_until(60.0)
    after = pod.container("main")
    assert after["restartCount"] == 1
    assert after["image"] == "docker.io/library/nginx:2"
    assert after["imageID"] != before["imageID"]
    assert after["containerID"] != before["containerID"]
    assert after["lastState"]["terminated"]["containerID"] == before["containerID"]
    assert after["lastState"]["terminated"]["finishedAt"] == "2026-01-31T12:00:10Z"
    assert pod.is_ready
    assert pod.condition("Ready")["lastTransitionTime"] == "2026-01-31T12:00:11Z"
    assert pod.container("log") == other
    assert len(pod.patches) == 3


def test_a_tag_with_the_same_digest_restarts_the_container_and_keeps_the_image_id() -> None:
    # given
    pod = PaperPod(pod_document(), images=ImageTable(same_as={"nginx:1.0.1": "nginx:1"}))
    pod.run_until(1.0)
    before = pod.container()
    # when
    pod.set_image("main", "nginx:1.0.1")
    pod.run_until(9.0)
    # then
    assert pod.container()["restartCount"] == 1
    assert pod.container()["image"] == "docker.io/library/nginx:1.0.1"
    assert pod.container()["imageID"] == before["imageID"]


def test_a_new_image_replaces_a_container_that_would_never_be_restarted() -> None:
    # given
    pod = PaperPod(pod_document(restartPolicy="Never"), settings=KubeletSettings(start_s=1.0))
    pod.run_until(10.0)
    # when
    pod.set_image("main", "nginx:2")
    pod.run_until(60.0)
    # then
    assert pod.status["phase"] == "Running"
    assert pod.container()["restartCount"] == 1
    assert pod.is_ready


# ── images that cannot be pulled ─────────────────────────────────────────────


def test_a_broken_image_alternates_between_err_image_pull_and_back_off() -> None:
    # given
    pod = PaperPod(pod_document(containers={"main": "registry.test/shop/broken:1"}))
    reasons = []
    # when
    for second in range(120):
        pod.run_until(float(second))
        reasons.append(pod.container()["state"]["waiting"]["reason"])
    # then
    assert pod.status["phase"] == "Pending"
    assert pod.container()["imageID"] == ""
    assert reasons[0] == "ErrImagePull"
    assert reasons[1:10] == ["ImagePullBackOff"] * 9
    tries = [second for second, reason in enumerate(reasons) if reason == "ErrImagePull"]
    assert tries == [0, 10, 30, 70]
    assert (
        'Back-off pulling image "registry.test/shop/broken:1"'
        in pod.container()["state"]["waiting"]["message"]
    )


def test_a_corrected_image_is_pulled_immediately() -> None:
    # given
    pod = PaperPod(pod_document(containers={"main": "broken"}), settings=KubeletSettings(start_s=1.0))
    pod.run_until(50.0)
    # when
    pod.set_image("main", "nginx:1")
    pod.run_until(53.0)
    # then
    assert pod.is_ready
    assert pod.container()["restartCount"] == 0


def test_an_update_to_a_broken_image_leaves_the_old_container_ended_and_its_image_id_in_the_status() -> None:
    # given
    pod = PaperPod(pod_document())
    pod.run_until(1.0)
    before = pod.container()
    # when
    pod.set_image("main", "shop/broken:2")
    pod.run_until(5.0)
    # then
    after = pod.container()
    assert after["state"]["waiting"]["reason"] == "ImagePullBackOff"
    assert after["imageID"] == before["imageID"]
    assert after["lastState"]["terminated"]["containerID"] == before["containerID"]
    assert not pod.is_ready
    assert pod.status["phase"] == "Running"
    # and the reverse change
    pod.set_image("main", "nginx:1")
    pod.run_until(9.0)
    assert pod.is_ready
    assert pod.container()["restartCount"] == 1


def test_an_invalid_image_name_is_never_retried() -> None:
    # given
    pod = PaperPod(pod_document(containers={"main": "Not An Image"}))
    # when
    pod.run_until(3600.0)
    # then
    assert pod.container()["state"]["waiting"]["reason"] == "InvalidImageName"
    assert len(pod.patches) == 1


# ── init containers and sidecars ─────────────────────────────────────────────


def test_init_containers_run_sequentially_before_the_main_ones() -> None:
    # given
    inits = [{"name": "one", "image": "busybox"}, {"name": "two", "image": "busybox"}]
    settings = KubeletSettings(start_s=1.0, start_jitter=0.0, init_s=4.0)
    pod = PaperPod(pod_document(initContainers=inits), settings=settings)
    # when the first one runs
    pod.run_until(3.0)
    # then
    assert pod.status["phase"] == "Pending"
    assert "running" in pod.container("one")["state"]
    assert pod.container("two")["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert pod.container("main")["state"] == {"waiting": {"reason": "PodInitializing"}}
    initialized = pod.condition("Initialized")
    assert initialized["message"] == "containers with incomplete status: [one two]"
    # and when all have started: 1 + 4, 1 + 4, 1
    pod.run_until(60.0)
    assert pod.container("one")["state"]["terminated"]["reason"] == "Completed"
    assert pod.container("two")["state"]["terminated"]["startedAt"] == "2026-01-31T12:00:06Z"
    assert pod.container("main")["state"]["running"]["startedAt"] == "2026-01-31T12:00:11Z"
    assert pod.is_ready


def test_an_init_container_that_fails_is_tried_again_with_backoff() -> None:
    # given
    pod = PaperPod(
        pod_document(initContainers=[{"name": "setup", "image": "busybox"}]),
        rules=[Rule(container="setup", exit_code=3, first_runs=2)],
    )
    # when
    pod.run_until(5.0)
    # then
    assert pod.container("setup")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert pod.container("setup")["lastState"]["terminated"]["exitCode"] == 3
    pod.run_until(60.0)
    assert pod.container("setup")["restartCount"] == 2
    assert pod.is_ready


def test_a_failed_init_container_of_a_pod_that_never_restarts_fails_the_pod() -> None:
    # given
    doc = pod_document(initContainers=[{"name": "setup", "image": "busybox"}], restartPolicy="Never")
    pod = PaperPod(doc, rules=[Rule(container="setup", exit_code=3)])
    # when
    pod.run_until(60.0)
    # then
    assert pod.status["phase"] == "Failed"
    assert pod.container("main")["state"]["waiting"]["reason"] == "PodInitializing"


def test_a_sidecar_runs_before_the_main_containers_and_its_readiness_counts() -> None:
    # given
    sidecar = {"name": "mesh", "image": "mesh:1", "restartPolicy": "Always"}
    pod = PaperPod(
        pod_document(initContainers=[sidecar]),
        settings=KubeletSettings(start_s=1.0, start_jitter=0.0),
        rules=[Rule(container="mesh", ready_s=20.0)],
    )
    # when, then
    pod.run_until(10.0)
    assert pod.container("mesh")["state"]["running"]["startedAt"] == "2026-01-31T12:00:01Z"
    assert pod.container("main")["state"]["running"]["startedAt"] == "2026-01-31T12:00:02Z"
    assert pod.condition("Initialized")["status"] == "True"
    assert pod.condition("ContainersReady")["message"] == "containers with unready status: [mesh]"
    pod.run_until(30.0)
    assert pod.is_ready


# ── ends ─────────────────────────────────────────────────────────────────────


def test_a_job_like_pod_succeeds_and_stays_so() -> None:
    # given
    sidecar = {"name": "mesh", "image": "mesh:1", "restartPolicy": "Always"}
    doc = pod_document(restartPolicy="OnFailure", initContainers=[sidecar])
    pod = PaperPod(doc, rules=[Rule(container="main", exit_code=0, after_s=10.0)])
    # when
    pod.run_until(600.0)
    # then
    assert pod.status["phase"] == "Succeeded"
    assert pod.container("main")["state"]["terminated"]["exitCode"] == 0
    assert "terminated" in pod.container("mesh")["state"]
    assert pod.condition("Ready")["reason"] == "PodCompleted"
    assert pod.condition("Initialized")["reason"] == "PodCompleted"


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("Never", 0, "Succeeded"), ("Never", 2, "Failed"), ("OnFailure", 2, "Running")],
)
def test_the_restart_policy_decides_the_phase_after_an_exit(policy: str, code: int, phase: str) -> None:
    # given
    pod = PaperPod(pod_document(restartPolicy=policy), rules=[Rule(exit_code=code, after_s=5.0)])
    # when
    pod.run_until(20.0)
    # then
    assert pod.status["phase"] == phase


def test_an_ephemeral_container_added_before_another_starts_without_restarting_the_other() -> None:
    # given a container that has ended
    ended = {"name": "ended", "image": "debug:1"}
    settings = KubeletSettings(start_s=1.0, start_jitter=0.0, job_s=2.0)
    pod = PaperPod(pod_document(ephemeralContainers=[ended]), settings=settings)
    pod.run_until(10.0)
    # when another is added in the way of a strategic merge patch
    pod.doc["spec"]["ephemeralContainers"].insert(0, {"name": "added", "image": "debug:2"})
    pod.state = add_ephemeral(pod.state, view(pod.doc))
    pod.run_until(20.0)
    # then
    statuses = {
        status["name"]: status["state"]["terminated"] for status in pod.status["ephemeralContainerStatuses"]
    }
    assert statuses["added"]["finishedAt"] > statuses["ended"]["finishedAt"]
    assert statuses["ended"]["exitCode"] == 0


def test_a_container_that_keeps_crashing_backs_off_longer_each_time() -> None:
    # given
    pod = PaperPod(pod_document(), rules=[Rule(exit_code=1, after_s=1.0)])
    restarts = {}
    # when
    for second in range(200):
        pod.run_until(float(second))
        restarts.setdefault(pod.container()["restartCount"], second)
    # then it restarts immediately, and later after 10, 20, 40 and 80 s
    assert list(restarts.values()) == [0, 1, 12, 33, 74, 155]
    assert pod.container()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert pod.container()["lastState"]["terminated"]["exitCode"] == 1
    assert pod.status["phase"] == "Running"


def test_a_pod_that_is_being_deleted_stops_within_its_grace_period() -> None:
    # given
    pod = PaperPod(pod_document(), settings=KubeletSettings(start_s=0.0, stop_s=5.0))
    pod.run_until(10.0)
    pod.doc["metadata"] |= {"deletionTimestamp": "2026-01-31T12:00:13Z", "deletionGracePeriodSeconds": 3}
    writes = len(pod.patches)
    # when
    pod.run_until(10.0)
    # then
    assert pod.state.stopping_since is not None
    assert len(pod.patches) == writes
    assert find_removal_time(pod.state, view(pod.doc), pod.world) == START + 10 + 3


def test_a_rule_may_keep_a_pod_from_stopping_in_time() -> None:
    # given
    pod = PaperPod(pod_document(), rules=[Rule(stop_s=90.0)])
    pod.run_until(1.0)
    pod.doc["metadata"] |= {"deletionTimestamp": "2026-01-31T12:00:31Z", "deletionGracePeriodSeconds": 30}
    # when
    pod.run_until(1.0)
    # then
    assert find_removal_time(pod.state, view(pod.doc), pod.world) == START + 1 + 90


def test_a_deleted_pod_that_never_ran_is_removed_immediately() -> None:
    # given
    pod = PaperPod(pod_document(containers={"main": "broken"}))
    pod.run_until(5.0)
    pod.doc["metadata"] |= {"deletionTimestamp": "2026-01-31T12:00:35Z", "deletionGracePeriodSeconds": 30}
    # when
    pod.run_until(5.0)
    # then
    assert find_removal_time(pod.state, view(pod.doc), pod.world) == START + 5


# ── rules ────────────────────────────────────────────────────────────────────


def test_a_rule_takes_readiness_away_after_some_time_on_the_node_it_names() -> None:
    # given a rule: pods of this image on that node become unready after 30 s
    rules = [Rule(image="nginx:*", node="node-1", never_ready=True, after_s=30.0)]
    here = PaperPod(pod_document(), rules=rules)
    there = PaperPod(pod_document(node="node-2"), rules=rules)
    # when, then
    here.run_until(29.0)
    assert here.is_ready
    here.run_until(31.0)
    there.run_until(31.0)
    assert not here.is_ready
    assert there.is_ready
    assert "running" in here.container()["state"]


def test_rules_that_change_apply_to_pods_that_run() -> None:
    # given
    pod = PaperPod(pod_document(), rules=[Rule(never_ready=True)])
    pod.run_until(5.0)
    assert not pod.is_ready
    # when
    pod.set_rules()
    pod.run_until(6.0)
    # then
    assert pod.is_ready


# ── a restarted kubelet ──────────────────────────────────────────────────────


def test_a_restarted_kubelet_keeps_its_pods_and_writes_nothing() -> None:
    # given a pod with every kind of container, one of them restarted
    inits = [
        {"name": "setup", "image": "busybox"},
        {"name": "mesh", "image": "mesh:1", "restartPolicy": "Always"},
    ]
    pod = PaperPod(pod_document(initContainers=inits))
    pod.run_until(5.0)
    pod.set_image("main", "nginx:2")
    pod.run_until(10.0)
    assert pod.is_ready
    writes = len(pod.patches)
    # when
    pod.restart_kubelet()
    pod.run_until(60.0)
    # then
    assert len(pod.patches) == writes


def test_a_restart_begun_before_a_kubelet_restart_is_finished_after_it() -> None:
    # given
    pod = PaperPod(pod_document(), settings=KubeletSettings(start_s=2.0, start_jitter=0.0))
    pod.run_until(5.0)
    pod.set_image("main", "nginx:2")
    pod.run_until(6.0)
    # when
    pod.restart_kubelet()
    pod.run_until(60.0)
    # then
    assert pod.container()["restartCount"] == 1
    assert pod.container()["image"] == "docker.io/library/nginx:2"
    assert pod.is_ready
