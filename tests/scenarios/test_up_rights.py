"""`pykruise up --rbac`: view, edit and admin know our kinds, and who is not let in is told in one line."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.up import Kubectl, pykruise, running_up

pytestmark = [pytest.mark.real_time, pytest.mark.sandbox_only]

KINDS = (
    *("clonesets", "statefulsets", "daemonsets", "uniteddeployments", "broadcastjobs", "advancedcronjobs"),
    *("workloadspreads", "persistentpodstates", "podprobemarkers", "imagepulljobs", "imagelistpulljobs"),
    *("ephemeraljobs", "containerrecreaterequests"),
)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with running_up(tmp_path_factory.mktemp("up"), "--rbac") as found:
        for role in ("view", "edit", "admin"):
            found.says("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}er")
        yield found


@pytest.mark.parametrize(
    ("user", "reads", "writes"),
    [("viewer", True, False), ("editer", True, True), ("adminer", True, True), ("nobody", False, False)],
)
def test_roles_of_people_know_our_kinds(up: Kubectl, user: str, reads: bool, writes: bool) -> None:
    for kind in KINDS:
        asked = f"{kind}.apps.kruise.io"
        for verb, may in (("list", reads), ("create", writes), ("delete", writes)):
            said = up.kubectl("auth", "can-i", verb, asked, "--as", user).stdout.strip()
            assert said == ("yes" if may else "no"), (user, verb, kind)


@pytest.mark.parametrize(
    "command", [("doctor",), ("explain", "clonesets"), ("plan", "clone/web", "--set", "replicas=3")]
)
def test_a_token_that_is_refused_is_one_line(up: Kubectl, command: tuple[str, ...]) -> None:
    done = pykruise(*command, "--kubeconfig", str(up.kubeconfig), "--token=of-yesterday")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "Unauthorized" in line


def test_commands_act_as_who_is_named(up: Kubectl, tmp_path: Path) -> None:
    who = ("--kubeconfig", str(up.kubeconfig))
    done = pykruise("explain", "clonesets", *who, "--as", "viewer")
    assert (done.returncode, done.stdout) == (0, "Nothing is there to be explained.\n")
    done = pykruise("explain", "clonesets", *who, "--as=nobody")
    assert done.returncode == 1
    assert 'User "nobody" cannot list resource' in done.stderr
