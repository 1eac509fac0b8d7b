"""Verbs of `kubectl kruise` as plain functions: from a document to a change or to words."""

from typing import Any

import pytest

from pykruise.cli.kubectl.adopting import convert_counterpart
from pykruise.cli.kubectl.command import GLOBAL
from pykruise.cli.kubectl.creating import build_job_from, recreate_request
from pykruise.cli.kubectl.environment import (
    EnvironmentChanges,
    add_prefix,
    build_references,
    change_env,
    read_changes,
)
from pykruise.cli.kubectl.errors import KubectlError, ResourceError
from pykruise.cli.kubectl.executing import container_of
from pykruise.cli.kubectl.flags import KubectlFlag, KubectlFlagError, parse, take_out_flags
from pykruise.cli.kubectl.getting import split_image
from pykruise.cli.kubectl.kinds import list_step_marks, pod_specs_of
from pykruise.cli.kubectl.migrating import MigrationCounts, Move, apply_move, convert_to_cloneset, list_moves
from pykruise.cli.kubectl.resources import Info, parse_request
from pykruise.cli.kubectl.revisions import Revision, list_differences
from pykruise.cli.kubectl.rollout import (
    approve_step,
    find_fast_step,
    restart_template,
    set_paused,
    target_of,
    undo_patch,
)
from pykruise.cli.kubectl.scaling import (
    build_metric,
    build_service,
    check_victims,
    list_pods_to_delete,
    override_service,
    reduce_replicas,
    reserve_ordinals,
    victims_of,
)
from pykruise.cli.kubectl.session import overrides_of
from pykruise.cli.kubectl.setting import read_amount, set_amounts, set_images, set_strategy
from pykruise.cli.kubectl.statuses import RolloutFailed, status_of
from pykruise.cli.kubectl.tree import ROOT, list_all_commands, lookup
from pykruise.kinds import shown_of
from pykruise.kube.documents import Document
from pykruise.kube.patches.json_patch import apply_json_patch
from pykruise.kube.resources import CONTROLLER_REVISIONS, REPLICA_SETS
from pykruise.plans.progress import count_kept_by


def workload(kind: str, api_version: str = "apps.kruise.io/v1beta1", **spec: Any) -> Document:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}, {"name": "side", "image": "side:1"}]},
    }
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 2},
        "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
    }


def with_status(document: Document, **status: Any) -> Document:
    return {**document, "status": {"observedGeneration": 2, **status}}


def rolling(**fields: Any) -> Document:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}}


# ── flags ──────────────────────────────────────────────────────────────────────


def test_cluster_flags_are_extracted_from_any_position_of_the_command_line() -> None:
    words = ["plan", "--as", "joe", "clone/web", "--set", "replicas=3", "-s=https://x", "--as_group=a", "--"]
    call, left = take_out_flags([*words, "--as"], GLOBAL)
    assert left == ["plan", "clone/web", "--set", "replicas=3", "--", "--as"]
    assert (call.text("as"), call.text("server"), call.listed("as-group")) == ("joe", "https://x", ("a",))
    with pytest.raises(KubectlFlagError, match="needs an argument: --token"):
        take_out_flags(["doctor", "--token"], GLOBAL)


def test_extras_of_the_impersonated_user_are_grouped_by_key() -> None:
    extras = [f"--as-user-extra={extra}" for extra in ("team=a", "team=b=c", "nothing")]
    call, _ = take_out_flags(["--as=joe", *extras], GLOBAL)
    assert overrides_of(call).user == {"as": "joe", "as-user-extra": {"team": ["a", "b=c"]}}


def test_the_short_flag_of_a_pod_and_no_time_limit_are_accepted() -> None:
    create, _, rest = lookup(["create", "ContainerRecreateRequest", "-p", "web-a"])
    assert parse(rest, create.flags).text("pod") == "web-a"
    migrate, _, rest = lookup(["migrate", "CloneSet", "--timeout-seconds=-1"])
    assert parse(rest, migrate.flags).number("timeout-seconds") == -1


def test_all_commands_can_be_loaded() -> None:
    from importlib import import_module

    for path, command in list_all_commands():
        if command.run:
            module, _, function = command.run.partition(":")
            module_type = import_module(f"pykruise.cli.kubectl.{module}")
            assert callable(getattr(module_type, function)), path


# ── flags and arguments ──────────────────────────────────────────────────────

FLAGS = (
    KubectlFlag(name="output", short="o", help=""),
    KubectlFlag(name="watch", short="w", type="bool", default="true", help=""),
    KubectlFlag(name="dry-run", alone="unchanged", help=""),
    KubectlFlag(name="replicas", type="int", help=""),
    KubectlFlag(name="filename", short="f", type="words", help=""),
)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("-o yaml", "output", "yaml"),
        ("-oyaml", "output", "yaml"),
        ("-o=yaml", "output", "yaml"),
        ("--output=yaml", "output", "yaml"),
        ("-w=false", "watch", False),
        ("--watch", "watch", True),
        ("--dry_run", "dry-run", "unchanged"),
        ("--dry-run=server", "dry-run", "server"),
        ("--replicas -1", "replicas", -1),
        ("-f a -f b,c", "filename", ("a", "b", "c")),
    ],
)
def test_flags_are_read_as_kubectl_reads_them(line: str, name: str, value: object) -> None:
    call = parse([*line.split(), "clone/web", "--", "-x"], FLAGS)
    assert call.values[name] == value
    assert (call.arguments, call.after_dashes) == (("clone/web",), ("-x",))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--nope", "unknown flag: --nope"),
        ("-z", "unknown shorthand flag: 'z' in -z"),
        ("--output", "flag needs an argument: --output"),
        (
            "--replicas=x",
            'invalid argument "x" for "--replicas" flag: strconv.ParseInt: parsing "x": invalid syntax',
        ),
    ],
)
def test_wrong_flags_are_refused_in_kubectls_words(line: str, words: str) -> None:
    with pytest.raises(KubectlFlagError, match="^" + words.replace("(", r"\(")):
        parse([line], FLAGS)


def test_flags_may_be_placed_between_the_words_of_a_command() -> None:
    command, path, rest = lookup(["-n", "shop", "rollout", "--context=x", "status", "clone/web"])
    assert (command.name, path) == ("status", ("rollout", "status"))
    assert rest == ["-n", "shop", "--context=x", "clone/web"]


def test_types_and_names_are_parsed_in_both_forms() -> None:
    assert parse_request(["clone/a", "asts/b"], allow_all=False).pairs == (("clone", "a"), ("asts", "b"))
    assert parse_request(["clone,asts", "a", "b"], allow_all=False).pairs == (
        ("clone", "a"),
        ("clone", "b"),
        ("asts", "a"),
        ("asts", "b"),
    )
    assert parse_request(["clone"], allow_all=True).types == ("clone",)


# ── rollout status ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("partition", "replicas", "kept"),
    [
        ("20%", 10, 2),
        ("99%", 10, 9),
        ("100%", 10, 10),
        (3, 10, 3),
        (None, 10, 0),
        ("15%", 10, 2),
        ("50%", 1, 1),
    ],
)
def test_a_partition_counts_pods(partition: Any, replicas: int, kept: int) -> None:
    """cli cases 6, 7"""
    assert count_kept_by(partition, replicas=replicas) == kept


def cloneset_status(**status: Any) -> Document:
    document = workload("CloneSet", replicas=10, **rolling(partition="20%"))
    return with_status(document, readyReplicas=10, **{"availableReplicas": 10, **status})


def test_a_cloneset_is_done_at_its_partition() -> None:
    """cli case 6"""
    done = status_of(cloneset_status(updatedReplicas=8, updatedReadyReplicas=8))
    assert done.is_done
    starting = status_of(cloneset_status(updatedReplicas=8, updatedReadyReplicas=8, availableReplicas=9))
    assert (starting.is_done, starting.at_partition) == (False, True)
    assert starting.line == "Waiting for 1 pods to be available..."
    waiting = status_of(cloneset_status(updatedReplicas=7, updatedReadyReplicas=7))
    assert not waiting.is_done
    assert (
        waiting.line == "Waiting for partitioned roll out to finish: 7 out of 8 new pods have been updated..."
    )


@pytest.mark.parametrize("kind", ["CloneSet", "StatefulSet", "DaemonSet", "SidecarSet", "UnitedDeployment"])
def test_an_unobserved_generation_is_never_done(kind: str) -> None:
    """cli case 5"""
    document = workload(kind)
    document["status"] = {"observedGeneration": 1, "updatedReplicas": 5, "readyReplicas": 5}
    status = status_of(document)
    assert not status.is_done
    assert "spec update to be observed" in status.line


@pytest.mark.parametrize("kind", ["CloneSet", "StatefulSet", "DaemonSet"])
def test_a_rollout_with_on_delete_is_done_and_names_the_missing_updates(kind: str) -> None:
    document = workload(kind, replicas=3, updateStrategy={"type": "OnDelete"})
    counts = {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 1}
    nodes = {"desiredNumberScheduled": 3, "numberAvailable": 3, "updatedNumberScheduled": 1}
    status = status_of(with_status(document, **(nodes if kind == "DaemonSet" else counts)))
    assert status.is_done
    assert status.line.endswith('"web" leaves updates to a person: 1 out of 3 new pods have been updated')


def test_time_alone_does_not_help_what_is_stalled() -> None:
    document = with_status(workload("CloneSet"), updatedReplicas=1)
    stalled = {"type": "Stalled", "status": "True", "reason": "NotInPlace", "message": "it cannot be"}
    document["status"]["conditions"] = [stalled]
    with pytest.raises(RolloutFailed, match='CloneSet "web" cannot continue: NotInPlace: it cannot be'):
        status_of(document)
    # but an image that may still be pulled is waited for
    document["status"]["conditions"] = [{**stalled, "type": "Waiting", "reason": "ImagePull"}]
    assert (status_of(document).is_done, status_of(document).progress.phase) == (False, "Degraded")


def test_updated_pods_that_are_not_ready_are_waited_for() -> None:
    document = with_status(workload("CloneSet"), updatedReplicas=5, updatedReadyReplicas=3, readyReplicas=3)
    assert status_of(document).line == "Waiting for 2 updated pods to be ready..."


def test_a_sidecarset_shows_its_numbers() -> None:
    """cli case 12"""
    document = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "SidecarSet",
        "metadata": {"name": "log", "generation": 1},
        "spec": {"updateStrategy": {"partition": 0}},
        "status": {
            "observedGeneration": 1,
            "matchedPods": 3,
            "updatedPods": 3,
            "readyPods": 3,
            "updatedReadyPods": 3,
        },
    }
    assert (
        status_of(document).line == 'SidecarSet "log" successfully rolled out: 3 matched, 3 updated, 3 ready'
    )


def test_a_broadcast_job_that_failed_is_an_error() -> None:
    document = workload("BroadcastJob")
    document["status"] = {"desired": 3, "failed": 2, "phase": "failed"}
    with pytest.raises(RolloutFailed, match="2 of 3 pods failed"):
        status_of(document)


# ── pause, restart, approve ──────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "version", "path"),
    [
        ("CloneSet", "v1beta1", ("updateStrategy", "rollingUpdate", "paused")),
        ("CloneSet", "v1alpha1", ("updateStrategy", "paused")),
        ("StatefulSet", "v1beta1", ("updateStrategy", "rollingUpdate", "paused")),
        ("DaemonSet", "v1alpha1", ("updateStrategy", "rollingUpdate", "paused")),
        ("SidecarSet", "v1alpha1", ("updateStrategy", "paused")),
        ("BroadcastJob", "v1alpha1", ("paused",)),
        ("AdvancedCronJob", "v1beta1", ("paused",)),
    ],
)
def test_pause_and_resume_set_the_field_of_the_kind_and_version(
    kind: str, version: str, path: tuple[str, ...]
) -> None:
    """cli cases 23, 24"""
    document = workload(kind, f"apps.kruise.io/{version}")

    def value() -> Any:
        value = document["spec"]
        for name in path:
            value = value[name]
        return value

    set_paused(document, label="it", is_paused=True)
    assert value() is True
    with pytest.raises(ResourceError, match="it is already paused"):
        set_paused(document, label="it", is_paused=True)
    set_paused(document, label="it", is_paused=False)
    assert value() is False
    with pytest.raises(ResourceError, match="it is not paused"):
        set_paused(document, label="it", is_paused=False)


def test_a_restart_sets_the_variable_in_every_container_and_the_next_replaces_it() -> None:
    """cli case 25"""
    document = workload("CloneSet")
    restart_template(document, label="it", at="T1")
    restart_template(document, label="it", at="T2")
    for container in document["spec"]["template"]["spec"]["containers"]:
        assert container["env"] == [{"name": "RESTARTED_AT", "value": "T2"}]


def test_a_paused_deployment_is_not_restarted() -> None:
    """cli case 27"""
    with pytest.raises(ResourceError, match="can't restart paused deployment"):
        restart_template(workload("Deployment", "apps/v1", paused=True), label="it", at="T")


def rollout(state: str = "StepPaused", step: int = 4, **more: Any) -> Document:
    steps = [
        {"replicas": "10%"},
        {"replicas": "50%"},
        {"replicas": "60%", "traffic": "20%"},
        {"replicas": "100%"},
    ]
    return {
        "apiVersion": "rollouts.kruise.io/v1beta1",
        "kind": "Rollout",
        "metadata": {"name": "r"},
        "spec": {"strategy": {"canary": {"steps": steps}}},
        "status": {
            "phase": "Progressing",
            "canaryStatus": {"currentStepIndex": step, "currentStepState": state},
        },
        **more,
    }


def test_a_step_that_is_paused_is_approved_and_no_other() -> None:
    """cli case 28"""
    paused = rollout()
    approve_step(paused, label="r", marks=list_step_marks(paused))
    assert paused["status"]["canaryStatus"]["currentStepState"] == "StepReady"
    with pytest.raises(ResourceError, match="'StepUpgrade'"):
        approve_step(rollout("StepUpgrade"), label="r", marks=[])
    with pytest.raises(ResourceError, match="approving is not supported"):
        approve_step(workload("CloneSet"), label="c", marks=[])


def test_a_step_that_follows_the_read_one_is_not_approved() -> None:
    read, stored = rollout(step=1), rollout(step=2)
    with pytest.raises(ResourceError, match="has reached another step"):
        approve_step(stored, label="r", marks=list_step_marks(read))
    assert stored == rollout(step=2)


def test_fast_selects_the_largest_step_without_traffic() -> None:
    """cli case 22"""
    assert find_fast_step(rollout(step=4)) == ("canaryStatus", 2)
    with pytest.raises(KubectlError, match="already at the first step"):
        find_fast_step(rollout(step=1))
    with pytest.raises(KubectlError, match="not in progressing"):
        find_fast_step(rollout(status={"phase": "Healthy"}))


# ── history and undo ─────────────────────────────────────────────────────────


def revision(number: int, content: Document, *, of_deployment: bool = False, **annotations: str) -> Revision:
    document = {"metadata": {"name": f"web-{number}", "annotations": annotations}}
    resource = REPLICA_SETS if of_deployment else CONTROLLER_REVISIONS
    info = Info(resource=resource, namespace="shop", name=f"web-{number}", document=document)
    return Revision(number=number, content=content, info=info)


def test_an_undo_replaces_the_template_whole() -> None:
    """cli case 19: labels that the old template did not have are gone afterwards"""
    document = workload("CloneSet")
    old = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:0"}]},
    }
    document["spec"]["template"]["metadata"]["labels"]["extra"] = "x"
    shown = shown_of(document)
    assert shown is not None
    changed = apply_json_patch(document, undo_patch(document, revision(1, {"template": old}), shown))
    assert changed["spec"]["template"] == old


def test_an_undo_to_the_current_template_writes_nothing() -> None:
    """cli case 18"""
    document = workload("CloneSet")
    shown = shown_of(document)
    assert shown is not None
    assert undo_patch(document, revision(1, {"template": document["spec"]["template"]}), shown) == []


def test_the_second_newest_is_rolled_back_to() -> None:
    """cli case 17"""
    document = workload("CloneSet")
    three = [revision(number, {}) for number in (1, 2, 3)]
    assert target_of(document, three, 0).number == 2
    assert target_of(document, three, 1).number == 1
    with pytest.raises(KubectlError, match="unable to find specified revision 9 in history"):
        target_of(document, three, 9)
    with pytest.raises(KubectlError, match="no last revision to roll back to"):
        target_of(document, three[:1], 0)


def test_a_deployment_in_a_rollouts_canary_is_undone_to_its_newest_replica_set() -> None:
    """cli case 18: the paused Deployment has not recorded its new template"""
    document = workload("Deployment", "apps/v1", paused=True)
    document["metadata"]["annotations"] = {"rollouts.kruise.io/in-progressing": "{}"}
    old = {"template": {**document["spec"]["template"], "metadata": {"labels": {"app": "old"}}}}
    only = revision(1, old, of_deployment=True)
    assert target_of(document, [only], 0) is only


def test_undo_keeps_a_deployments_own_annotations_and_restores_those_of_the_revision() -> None:
    document = workload("Deployment", "apps/v1")
    document["metadata"]["annotations"] = {
        "deployment.kubernetes.io/revision": "3",
        "rollouts.kruise.io/x": "y",
        "now": "1",
    }
    old = {
        "template": {
            "metadata": {"labels": {"app": "web", "pod-template-hash": "h"}},
            "spec": {"containers": []},
        }
    }
    target = revision(1, old, of_deployment=True, **{"deployment.kubernetes.io/revision": "1", "note": "old"})
    shown = shown_of(document)
    assert shown is not None
    changed = apply_json_patch(document, undo_patch(document, target, shown))
    assert changed["metadata"]["annotations"] == {
        "deployment.kubernetes.io/revision": "3",
        "rollouts.kruise.io/x": "y",
        "note": "old",
    }
    assert changed["spec"]["template"]["metadata"]["labels"] == {"app": "web"}


def test_changes_between_revisions_are_listed_by_field() -> None:
    old = {"containers": [{"name": "main", "image": "a"}], "x": 1}
    new = {"containers": [{"name": "main", "image": "b"}], "y": True}
    assert list_differences(old, new) == [
        "containers[main].image: a → b",
        "x: 1 → (none)",
        "y: (none) → true",
    ]


@pytest.mark.parametrize(
    "empty",
    [{}, [], None, {"limits": {}}, {"limits": None, "requests": {}}],
    ids=["map", "list", "null", "deep", "two"],
)
def test_an_empty_field_and_a_missing_one_are_no_difference(empty: Any) -> None:
    bare = {"containers": [{"name": "main", "image": "a"}]}
    filled = {"containers": [{"name": "main", "image": "a", "resources": empty}], "securityContext": empty}
    assert list_differences(bare, filled) == list_differences(filled, bare) == []


@pytest.mark.parametrize(
    "name", ["emptyDir", "namespaceSelector", "labelSelector", "unorderedUpdate", "pause"]
)
def test_an_empty_field_with_a_meaning_is_a_difference(name: str) -> None:
    assert list_differences({"a": {name: {}}}, {"a": {"b": 1}}) == [
        f"a.{name}: {{}} → (none)",
        "a.b: (none) → 1",
    ]
    assert list_differences({"nodeSelector": {}}, {}) == []


# ── set ──────────────────────────────────────────────────────────────────────


def test_images_are_set_by_container_and_by_wildcard() -> None:
    """cli case 29"""
    document = workload("CloneSet")
    specs = pod_specs_of(document)
    assert set_images(specs, {"main": "nginx:2", "nope": "x"}) == ['unable to find container named "nope"']
    assert [container["image"] for container in specs[0]["containers"]] == ["nginx:2", "side:1"]
    set_images(specs, {"*": "all:1"})
    assert {container["image"] for container in specs[0]["containers"]} == {"all:1"}


def test_the_templates_of_every_kind_are_found() -> None:
    inner = workload("CloneSet")["spec"]["template"]
    united = workload("UnitedDeployment", template={"cloneSetTemplate": {"spec": {"template": inner}}})
    cron = workload("AdvancedCronJob", template={"broadcastJobTemplate": {"spec": {"template": inner}}})
    sidecars = workload("SidecarSet", containers=[{"name": "log", "image": "a"}])
    for document, names in ((united, {"main", "side"}), (cron, {"main", "side"}), (sidecars, {"log"})):
        assert {
            container["name"] for spec in pod_specs_of(document) for container in spec["containers"]
        } == names


def test_changed_variables_keep_their_position_and_new_ones_are_appended() -> None:
    """cli cases 34, 38"""
    old = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    changes = read_changes(["A=9", "C=3", "B-", "NOPE-"])
    assert change_env(old, changes) == [{"name": "A", "value": "9"}, {"name": "C", "value": "3"}]
    assert change_env(old, EnvironmentChanges()) == old
    with pytest.raises(KubectlError, match="can not both modify and remove"):
        read_changes(["A=1", "A-"])


def test_keys_of_a_secret_become_variables_in_order() -> None:
    """cli case 36"""
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"k-2": "", "k-1": ""}}
    assert build_references(secret, []) == [
        {"name": "K_1", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k-1"}}},
        {"name": "K_2", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k-2"}}},
    ]
    assert [entry["name"] for entry in build_references(secret, ["k-1"])] == ["K_1"]


def test_the_names_of_all_set_variables_begin_with_the_prefix() -> None:
    changes = add_prefix(read_changes(["A=9", "B-"]), "P_")
    assert changes.variables == ({"name": "P_A", "value": "9"},)
    assert changes.removed == {"B"}


def test_amounts_are_merged_key_by_key_and_zero_stays() -> None:
    document = workload("CloneSet")
    specs = pod_specs_of(document)
    specs[0]["containers"][0]["resources"] = {"limits": {"memory": "1Gi"}}
    set_amounts(specs, "main", {"limits": {"cpu": "0"}, "requests": {}})
    assert specs[0]["containers"][0]["resources"] == {"limits": {"memory": "1Gi", "cpu": "0"}}
    specs[0]["initContainers"] = [{"name": "init"}]
    set_amounts(specs, "*", {"limits": {"cpu": "2"}})
    assert "resources" not in specs[0]["initContainers"][0]
    set_amounts(specs, "init", {"limits": {"cpu": "1"}})
    assert specs[0]["initContainers"][0]["resources"] == {"limits": {"cpu": "1"}}
    with pytest.raises(KubectlError, match="unable to find container named nope"):
        set_amounts(specs, "nope", {"limits": {"cpu": "1"}})


@pytest.mark.parametrize("text", ["-1", "101%", "5 %", "many", ""])
def test_amounts_that_admission_would_refuse_are_refused(text: str) -> None:
    with pytest.raises(KubectlError, match="neither a count"):
        read_amount(text, "partition")


def test_a_strategy_is_written_as_the_version_has_it() -> None:
    new, old = workload("CloneSet"), workload("CloneSet", "apps.kruise.io/v1alpha1")
    for document in (new, old):
        shown = shown_of(document)
        assert shown is not None
        set_strategy(document, shown.verbs, "InPlaceOnly")
    assert new["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"},
    }
    assert old["spec"]["updateStrategy"] == {"type": "InPlaceOnly"}


# ── scale down, expose, migrate ──────────────────────────────────────────────


def test_chosen_pods_are_listed_once_and_replicas_follow() -> None:
    """cli cases 44, 45"""
    document = workload("CloneSet", scaleStrategy={"podsToDelete": ["a"]})
    names = victims_of("a, b ,b")
    assert names == ["a", "b"]
    reduce_replicas(document, list_pods_to_delete(document, names))
    assert document["spec"]["replicas"] == 4
    assert document["spec"]["scaleStrategy"]["podsToDelete"] == ["a", "b"]
    with pytest.raises(KubectlError, match="cannot be deleted, replicas is only 1"):
        reduce_replicas(workload("CloneSet", replicas=1), 2)
    info = Info(resource=CONTROLLER_REVISIONS, namespace="", name="web", document=document)
    with pytest.raises(KubectlError, match="has no pod x"):
        check_victims(["a", "x"], [{"metadata": {"name": "a"}}], info)


def test_ordinals_of_chosen_pods_are_reserved_once() -> None:
    # given ordinals 0, 2, 3, 4 and 5: web-1 is reserved, and web-9 is not wanted any more
    document = workload("StatefulSet", reserveOrdinals=[1])
    # when
    count = reserve_ordinals(document, ["web-0", "web-1", "web-5", "web-9"])
    # then
    assert count == 2
    assert document["spec"]["reserveOrdinals"] == [1, 0, 5]


@pytest.mark.parametrize(
    ("resource", "text", "target"),
    [
        ("cpu", "500", {"type": "AverageValue", "averageValue": "500m"}),
        ("cpu", "500m", {"type": "AverageValue", "averageValue": "500m"}),
        ("cpu", "1e3", {"type": "AverageValue", "averageValue": "1"}),
        ("memory", "512", {"type": "AverageValue", "averageValue": "512Mi"}),
        ("memory", "1.5Gi", {"type": "AverageValue", "averageValue": "1536Mi"}),
        ("cpu", "80%", {"type": "Utilization", "averageUtilization": 80}),
    ],
)
def test_a_target_without_a_unit_is_in_millicores_or_mebibytes(
    resource: str, text: str, target: Document
) -> None:
    assert build_metric(resource, text)["resource"] == {"name": resource, "target": target}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x%", "invalid percentage value: x"), ("much", "invalid resource cpu value: much")],
)
def test_a_target_that_is_no_quantity_is_refused(text: str, expected: str) -> None:
    with pytest.raises(KubectlError, match=expected):
        build_metric("cpu", text)


@pytest.mark.parametrize(
    ("patch_type", "text", "names"),
    [
        ("merge", '{"spec": {"ports": [{"name": "b", "port": 2}]}}', ["b"]),
        ("strategic", '{"spec": {"ports": [{"name": "b", "port": 2}]}}', ["b", "a"]),
        ("json", '[{"op": "add", "path": "/spec/ports/-", "value": {"name": "b", "port": 2}}]', ["a", "b"]),
    ],
)
def test_a_service_is_changed_by_each_type_of_overrides(patch_type: str, text: str, names: list[str]) -> None:
    service = {"kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"name": "a", "port": 1}]}}
    changed = override_service(service, text, patch_type)
    assert [port["name"] for port in changed["spec"]["ports"]] == names


def test_overrides_of_another_type_are_refused() -> None:
    with pytest.raises(KubectlError, match="invalid override type: x"):
        override_service({}, "{}", "x")
    with pytest.raises(KubectlError, match="not a JSON list"):
        override_service({}, "{}", "json")


def test_a_port_with_two_protocols_is_exposed_with_both() -> None:
    # given
    document = workload("CloneSet")
    document["spec"]["template"]["spec"]["containers"][0]["ports"] = [
        {"containerPort": 53},
        {"containerPort": 53, "protocol": "UDP"},
        {"containerPort": 80},
    ]
    # when
    ports = build_service(document, {})["spec"]["ports"]
    chosen = build_service(document, {"port": "53", "protocol": "SCTP"})["spec"]["ports"]
    # then
    assert [(port.get("name"), port["protocol"], port["port"]) for port in ports] == [
        ("port-1-tcp", "TCP", 53),
        ("port-1-udp", "UDP", 53),
        ("port-2", "TCP", 80),
    ]
    assert chosen == [{"protocol": "SCTP", "port": 53, "targetPort": 53}]


def test_ports_of_a_cloneset_are_derived() -> None:
    """cli case 40"""
    document = workload("CloneSet")
    document["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    made = build_service(document, {})
    assert made["spec"] == {
        "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
        "selector": {"app": "web"},
    }
    document["spec"]["selector"]["matchExpressions"] = [{"key": "a", "operator": "Exists"}]
    with pytest.raises(KubectlError, match="couldn't retrieve selectors"):
        build_service(document, {})
    assert build_service(document, {"selector": "a=b"})["spec"]["selector"] == {"a": "b"}


@pytest.mark.parametrize(("wanted", "surge"), [(10, 2), (10, 1), (3, 5), (1, 1), (10, 100)])
def test_a_migration_never_exceeds_its_surge_and_keeps_all_replicas(wanted: int, surge: int) -> None:
    """cli cases 49, 50"""
    counts = MigrationCounts(wanted=wanted, surge=surge, source=10)
    for move in list_moves(counts):
        counts = apply_move(counts, move)
        assert 10 <= counts.source + counts.scaled_out <= 10 + surge
    assert (counts.scaled_in, counts.scaled_out, counts.source) == (wanted, wanted, 10 - wanted)


def test_nothing_is_scaled_in_while_new_pods_are_not_available() -> None:
    counts = MigrationCounts(wanted=4, surge=2, source=4, scaled_out=2, is_available=False)
    assert list(list_moves(counts)) == []
    assert next(iter(list_moves(MigrationCounts(wanted=4, surge=2, source=4, scaled_out=2)))) == Move(
        scale_in=2
    )


def test_a_cloneset_migrated_from_a_deployment_begins_empty_unless_copied() -> None:
    """cli case 48"""
    source = workload("Deployment", "apps/v1", minReadySeconds=5, strategy={"rollingUpdate": {"maxSurge": 1}})
    source["metadata"] |= {
        "annotations": {"deployment.kubernetes.io/revision": "3", "a": "b"},
        "finalizers": ["x"],
    }
    made = convert_to_cloneset(source, name="cs", api_version="apps.kruise.io/v1beta1", copies_replicas=False)
    assert (made["spec"]["replicas"], made["spec"]["minReadySeconds"]) == (0, 5)
    assert made["metadata"] == {"name": "cs", "annotations": {"a": "b"}}
    assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"podUpdatePolicy": "ReCreate", "maxSurge": 1}
    copied = convert_to_cloneset(
        source, name="cs", api_version="apps.kruise.io/v1alpha1", copies_replicas=True
    )
    assert copied["spec"]["replicas"] == 5
    assert copied["spec"]["updateStrategy"] == {"type": "ReCreate", "maxSurge": 1}


def test_a_statefulset_is_translated_to_the_other_group_and_back() -> None:
    rolling = {"partition": 1, "maxUnavailable": 1}
    source = workload(
        "StatefulSet",
        "apps/v1",
        minReadySeconds=5,
        serviceName="db",
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling},
    )
    source["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}
    ours = convert_counterpart(source, api_version="apps.kruise.io/v1beta1", name="web")
    assert ours.lost == ()
    assert ours.document["metadata"] == {"name": "web", "annotations": {"a": "b"}}
    assert "minReadySeconds" not in ours.document["spec"]
    assert ours.document["spec"]["updateStrategy"]["rollingUpdate"] == {**rolling, "minReadySeconds": 5}
    # and the way back gives the original, if no field of OpenKruise was added
    back = convert_counterpart(ours.document, api_version="apps/v1", name="web")
    assert back.lost == ()
    assert back.document["spec"] == {
        **source["spec"],
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
    }


def test_fields_that_kubernetes_lacks_are_named_and_what_held_pods_back_still_holds_them() -> None:
    source = workload(
        "DaemonSet",
        burstReplicas="10%",
        lifecycle={"preDelete": {"labelsHandler": {"a": "b"}}},
        updateStrategy={"rollingUpdate": {"rollingUpdateType": "Standard", "paused": True, "maxSurge": 0}},
    )
    made = convert_counterpart(source, api_version="apps/v1", name="web")
    assert made.lost == (
        *("spec.replicas", "spec.burstReplicas", "spec.lifecycle"),
        "spec.updateStrategy.rollingUpdate.paused",
    )
    assert made.document["spec"]["updateStrategy"] == {"type": "OnDelete"}


# ── create and exec ──────────────────────────────────────────────────────────

POD: Document = {
    "metadata": {"name": "p", "namespace": "shop", "annotations": {}},
    "spec": {
        "containers": [
            {"name": "main", "ports": [{"containerPort": 80}], "lifecycle": {"preStop": {}}},
            {"name": "agent"},
            {"name": "agent-2"},
        ]
    },
    "status": {"phase": "Running"},
}
REQUEST = {
    "failure-policy": "Fail",
    "ordered": False,
    "force": False,
    "unreadyGracePeriodSeconds": 0,
    "minStartedSeconds": 10,
    "terminationGracePeriodSeconds": -1,
    "active-deadline-seconds": 300,
    "ttl": 1800,
}


def test_a_recreate_request_sends_names_alone_and_the_flags() -> None:
    """cli cases 54, 55, 56"""
    made = recreate_request(
        POD, api_version="apps.kruise.io/v1beta1", name="r", containers=["main"], flags=REQUEST
    )
    assert made["spec"]["containers"] == [{"name": "main"}]
    assert made["spec"]["strategy"] == {
        "failurePolicy": "Fail",
        "orderedRecreate": False,
        "unreadyGracePeriodSeconds": 0,
        "minStartedSeconds": 10,
    }
    with pytest.raises(KubectlError, match="container nope not found"):
        recreate_request(POD, api_version="v", name="r", containers=["nope"], flags=REQUEST)


def test_a_manual_job_refers_to_its_cronjob_without_being_controlled_by_it() -> None:
    source = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "n", "uid": "u"}}
    made = build_job_from(source, {"spec": {"x": 1}}, api_version="batch/v1", kind="Job", name="j")
    assert made["metadata"]["annotations"] == {"cronjob.kubernetes.io/instantiate": "manual"}
    assert "controller" not in made["metadata"]["ownerReferences"][0]


def test_the_container_that_works_for_a_sidecar_is_chosen_and_announced() -> None:
    """cli cases 42, 43"""
    pod = {
        **POD,
        "metadata": {
            **POD["metadata"],
            "annotations": {"kruise.io/sidecarset-working-hotupgrade-container": '{"agent":"agent-2"}'},
        },
    }
    assert container_of(pod, container="", sidecar="agent")[0] == "agent-2"
    assert container_of(POD, container="", sidecar="agent") == ("agent", "")
    native = {"name": "native", "restartPolicy": "Always"}
    started_first = {**POD, "spec": {**POD["spec"], "initContainers": [native]}}
    assert container_of(started_first, container="", sidecar="native") == ("native", "")
    with pytest.raises(KubectlError, match="pod p has no container nope"):
        container_of(POD, container="", sidecar="nope")
    assert container_of(POD, container="", sidecar="") == (
        "main",
        'Defaulted container "main" out of: main, agent, agent-2',
    )
    with pytest.raises(KubectlError, match="completed pod; current phase is Succeeded"):
        container_of({**POD, "status": {"phase": "Succeeded"}}, container="", sidecar="")


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("nginx", ("nginx", "latest")),
        ("a.b:5000/nginx", ("a.b:5000/nginx", "latest")),
        ("a.b:5000/nginx:1", ("a.b:5000/nginx", "1")),
        ("nginx@sha256:1", ("nginx", "sha256:1")),
    ],
)
def test_images_are_split_as_node_images_keep_them(image: str, parts: tuple[str, str]) -> None:
    assert split_image(image) == parts


def test_every_command_belongs_to_a_group_in_the_help() -> None:
    assert all(child.group or child.is_hidden for child in ROOT.children)
