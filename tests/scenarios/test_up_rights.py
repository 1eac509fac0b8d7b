"""`pykruise up --rbac`: view, edit and admin know our kinds, and a user without rights gets one line."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.up import Kubectl, pykruise, running_up

pytestmark = [pytest.mark.real_time, pytest.mark.sandbox_only]

KINDS = (
    *("clonesets", "statefulsets", "daemonsets", "uniteddeployments", "broadcastjobs", "advancedcronjobs"),
    *("workloadspreads", "persistentpodstates", "podprobemarkers", "imagepulljobs", "imagelistpulljobs"),
    *("ephemeraljobs", "containerrecreaterequests"),
)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with running_up(tmp_path_factory.mktemp("up"), "--rbac") as up:
        for role in ("view", "edit", "admin"):
            up.says("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}er")
        yield up


BY_HAND = ("ephemeraljobs", "imagelistpulljobs", "imagepulljobs")
"""Kinds that Kubernetes' roles may not write: through the manager, users would do things that they may not do."""


@pytest.mark.parametrize(
    ("user", "reads", "writes"),
    [("viewer", True, False), ("editer", True, True), ("adminer", True, True), ("stray", False, False)],
)
def test_cluster_roles_for_people_include_our_kinds(
    up: Kubectl, user: str, reads: bool, writes: bool
) -> None:
    # given a review for each verb of each kind; one kubectl sends all of them, because its start takes long
    asked = [(kind, verb) for kind in KINDS for verb in ("list", "create", "delete")]
    reviews = [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {
                    "group": "apps.kruise.io",
                    "resource": kind,
                    "verb": verb,
                    "namespace": "default",
                }
            },
        }
        for kind, verb in asked
    ]
    one_each = ("create", "--validate=false", "-f", "-", "-o", "jsonpath={.status.allowed}{'\\n'}")
    # when
    said = up.says(*one_each, "--as", user, stdin=yaml.safe_dump_all(reviews)).split()
    # then
    wanted = [
        str(reads if verb == "list" else writes and kind not in BY_HAND).lower() for kind, verb in asked
    ]
    assert dict(zip(asked, said, strict=True)) == dict(zip(asked, wanted, strict=True))


def test_kubectl_can_review_the_rights_of_a_user(up: Kubectl) -> None:
    for user, may in (("editer", "yes"), ("viewer", "no")):
        asked = ("auth", "can-i", "create", "clonesets.apps.kruise.io", "--as", user)
        assert up.kubectl(*asked).stdout.strip() == may


@pytest.mark.parametrize(
    "command", [("doctor",), ("explain", "clonesets"), ("plan", "clone/web", "--set", "replicas=3")]
)
def test_a_refused_token_is_reported_in_one_line(up: Kubectl, command: tuple[str, ...]) -> None:
    done = pykruise(*command, "--kubeconfig", str(up.kubeconfig), "--token=of-yesterday")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "Unauthorized" in line


def test_commands_act_as_the_named_user(up: Kubectl, tmp_path: Path) -> None:
    who = ("--kubeconfig", str(up.kubeconfig))
    done = pykruise("explain", "clonesets", *who, "--as", "viewer")
    assert (done.returncode, done.stdout) == (0, "There is nothing to explain.\n")
    done = pykruise("explain", "clonesets", *who, "--as=stray")
    assert done.returncode == 1
    assert 'User "stray" cannot list resource' in done.stderr
