"""A cluster with RBAC, as people use it: kubectl with the token of a service account, roles, `auth can-i`."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykruise.testing.http import HttpSandbox

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here"),
]


class Kubectl:
    """kubectl against one cluster; `token` instead of the admin's."""

    def __init__(self, kubeconfig: Path, *, token: str = "") -> None:
        self._kubeconfig = kubeconfig
        self._token = token

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = ["kubectl", "--kubeconfig", str(self._kubeconfig)]
        command += ["--token", self._token] if self._token else []
        return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Kubectl]:
    with HttpSandbox(tmp_path / "kubeconfig", nodes=1, rbac=True) as made:
        yield Kubectl(Path(made.kubeconfig))


def _account(admin: Kubectl, tmp_path: Path) -> Kubectl:
    assert admin("create", "serviceaccount", "worker").returncode == 0
    token = admin("create", "token", "worker").stdout.strip()
    assert token.count(".") == 2
    return Kubectl(tmp_path / "kubeconfig", token=token)


def test_a_service_account_may_do_what_its_role_allows(admin: Kubectl, tmp_path: Path) -> None:
    # given a service account without a role
    worker = _account(admin, tmp_path)
    refused = worker("get", "pods")
    # when it is bound to a role
    admin("create", "role", "reader", "--verb=get,list,watch", "--resource=pods")
    admin("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:worker")
    allowed = worker("get", "pods")
    # then it may read pods there, and nothing else
    assert refused.stderr == (
        'Error from server (Forbidden): pods is forbidden: User "system:serviceaccount:default:worker" cannot '
        'list resource "pods" in API group "" in the namespace "default"\n'
    )
    assert (allowed.returncode, allowed.stderr) == (0, "No resources found in default namespace.\n")
    assert "cannot create resource" in worker("create", "configmap", "x").stderr
    assert "at the cluster scope" in worker("get", "pods", "-A").stderr


def test_can_i_is_true(admin: Kubectl, tmp_path: Path) -> None:
    # given
    worker = _account(admin, tmp_path)
    admin("create", "rolebinding", "view", "--clusterrole=view", "--serviceaccount=default:worker")
    # when
    answers = {
        asked: worker("auth", "can-i", *asked.split())
        for asked in ("list pods", "delete pods", "get secrets", "list nodes", "get /healthz", "--list")
    }
    # then
    assert {asked: answer.stdout.strip() for asked, answer in answers.items() if asked != "--list"} == {
        "list pods": "yes",
        "delete pods": "no",
        "get secrets": "no",
        "list nodes": "no",
        "get /healthz": "yes",
    }
    assert answers["delete pods"].returncode == 1
    listed = [line.split() for line in answers["--list"].stdout.splitlines()]
    assert ["pods/log", "[]", "[]", "[get", "list", "watch]"] in listed
    assert ["selfsubjectreviews.authentication.k8s.io", "[]", "[]", "[create]"] in listed


def test_an_admin_can_review_and_impersonate_others(admin: Kubectl) -> None:
    # given
    admin("create", "clusterrolebinding", "ops", "--clusterrole=cluster-admin", "--group=ops")
    # when, then
    assert admin("auth", "can-i", "delete", "nodes").stdout == "yes\n"
    assert admin("auth", "can-i", "delete", "nodes", "--as=eve").stdout == "no\n"
    assert admin("auth", "can-i", "delete", "nodes", "--as=eve", "--as-group=ops").stdout == "yes\n"
    both = ("--as=eve", "--as-group=none", "--as-group=ops")
    assert admin("get", "nodes", "-o", "name", *both).stdout == "node/node-1\n"
    who: dict[str, Any] = json.loads(admin("auth", "whoami", "-o", "json", *both).stdout)
    assert who["status"]["userInfo"]["groups"] == ["none", "ops", "system:authenticated"]


def test_a_user_who_may_write_roles_cannot_grant_more_than_they_have(admin: Kubectl, tmp_path: Path) -> None:
    # given a service account that may write roles
    worker = _account(admin, tmp_path)
    admin("create", "rolebinding", "edits", "--clusterrole=admin", "--serviceaccount=default:worker")
    # when
    own = worker("create", "role", "pods", "--verb=get", "--resource=pods")
    more = worker("create", "clusterrole", "nodes", "--verb=get", "--resource=nodes")
    bound = worker("create", "rolebinding", "all", "--clusterrole=cluster-admin", "--user=eve")
    # then
    assert own.returncode == 0, own.stderr
    assert "clusterroles.rbac.authorization.k8s.io" in more.stderr
    assert "is attempting to grant RBAC permissions not currently held" in bound.stderr
