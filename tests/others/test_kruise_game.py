"""kruise-game, unchanged, runs game servers on pykruise's Advanced StatefulSets and PodProbeMarkers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from others.cluster import Cluster, Document
from others.conftest import Loop, running
from others.modules import version_in_module
from testbed.build import GAME, Part
from testbed.kruise_game import KruiseGame

RELEASE: Final = GAME.minors[-1]
VERSION: Final = version_in_module(GAME.module, f"{GAME.name}-{RELEASE}")
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

OLD, NEW = "game:1", "game:2"
PRIORITY: Final = 50
SERVERS: Final = "gameservers.game.kruise.io"
SETS: Final = "gameserversets.game.kruise.io"


def runs(what: str) -> pytest.MarkDecorator:
    return pytest.mark.program("kruise-game", VERSION, f"GameServerSet: {what}")


@pytest.fixture(scope="module", autouse=True)
def manager(needed: Callable[[Part, str], Path], cluster: Cluster, loop: Loop) -> Iterator[KruiseGame]:
    """The manager of kruise-game beside pykruise's."""
    needed(GAME, RELEASE)
    try:
        with running(loop, KruiseGame(cluster.plane, RELEASE)) as manager:
            yield manager
    finally:
        cluster.kubectl("delete", "mutatingwebhookconfiguration", "kruise-game-mutating-webhook")
        cluster.kubectl("delete", "validatingwebhookconfiguration", "kruise-game-validating-webhook")


def game(name: str, **spec: Any) -> Document:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": OLD}]},
    }
    in_place = {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"}
    return {
        "apiVersion": "game.kruise.io/v1alpha1",
        "kind": "GameServerSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 3,
            "updateStrategy": {"rollingUpdate": in_place},
            "gameServerTemplate": template,
            **spec,
        },
    }


class Game:
    """One GameServerSet with its servers."""

    def __init__(self, cluster: Cluster, loop: Loop, name: str) -> None:
        self.cluster, self.loop, self.name = cluster, loop, name

    def begin(self, **spec: Any) -> None:
        """Create it, and wait until its servers are ready."""
        self.cluster.apply(game(self.name, **spec))
        self.has_servers(*(f"{self.name}-{number}" for number in range(3)))

    def pods(self) -> dict[str, Document]:
        return {
            pod["metadata"]["name"]: pod
            for pod in self.cluster.list("pods", f"game.kruise.io/owner-gss={self.name}")
            if "deletionTimestamp" not in pod["metadata"]
        }

    def servers(self) -> dict[str, Document]:
        """Servers with a pod, by name."""
        listed = self.cluster.list(SERVERS, f"game.kruise.io/owner-gss={self.name}")
        return {server["metadata"]["name"]: server for server in listed}

    def has_servers(self, *names: str) -> None:
        """Wait until exactly these servers have pods and are ready."""

        def are_there() -> bool:
            servers = self.servers()
            return set(self.pods()) == set(names) and all(
                servers[name]["status"]["currentState"] == "Ready" for name in names
            )

        self.until(are_there, f"the servers are {names}")

    def images(self) -> dict[str, str]:
        return {name: pod["spec"]["containers"][0]["image"] for name, pod in self.pods().items()}

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def set_image(self, image: str) -> None:
        path = "/spec/gameServerTemplate/spec/containers/0/image"
        self.cluster.json_patch(SETS, self.name, [{"op": "replace", "path": path, "value": image}])

    def scale(self, replicas: int) -> None:
        self.cluster.kubectl("scale", SETS, self.name, f"--replicas={replicas}")

    def set_server(self, name: str, **spec: Any) -> None:
        self.cluster.patch(SERVERS, name, {"spec": spec})

    def until(self, claim: Callable[[], Any], what: str) -> None:
        self.loop.run(self.cluster.until(claim, what=f"{self.name}: {what}"))


@pytest.fixture
def stage(cluster: Cluster, loop: Loop) -> Callable[[str], Game]:
    return lambda name: Game(cluster, loop, name)


@runs("created, scaled through its scale; the server with the highest deletion priority is deleted first")
def test_the_server_with_the_highest_deletion_priority_is_deleted_first(stage: Callable[[str], Game]) -> None:
    it = stage("arena")
    it.begin()
    it.scale(4)
    it.has_servers("arena-0", "arena-1", "arena-2", "arena-3")
    # when
    it.set_server("arena-1", deletionPriority=PRIORITY)
    label = "game.kruise.io/gs-delete-priority"
    it.until(
        lambda: it.pods()["arena-1"]["metadata"]["labels"][label] == str(PRIORITY), "its pod is labelled"
    )
    it.scale(3)
    # then
    it.has_servers("arena-0", "arena-2", "arena-3")
    workload = it.cluster.get("statefulsets.apps.kruise.io", "arena")
    assert workload["spec"]["reserveOrdinals"] == [1]


@runs("images updated in place, the server with the highest update priority first")
def test_servers_are_updated_in_place_in_the_order_of_their_priority(stage: Callable[[str], Game]) -> None:
    it = stage("lobby")
    it.begin()
    before = it.uids()
    it.set_server("lobby-1", updatePriority=PRIORITY)
    label = "game.kruise.io/gs-update-priority"
    it.until(
        lambda: it.pods()["lobby-1"]["metadata"]["labels"][label] == str(PRIORITY), "its pod is labelled"
    )
    # when all but one stay old
    it.cluster.patch(SETS, "lobby", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}})
    it.set_image(NEW)
    # then
    it.until(lambda: it.images() == {"lobby-0": OLD, "lobby-1": NEW, "lobby-2": OLD}, "one is new")
    it.cluster.patch(SETS, "lobby", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    it.until(lambda: set(it.images().values()) == {NEW}, "all are new")
    it.has_servers("lobby-0", "lobby-1", "lobby-2")
    assert it.uids() == before


@runs("the quality of service that a probe finds sets the state of operations")
def test_a_probe_sets_the_state_of_operations(stage: Callable[[str], Game]) -> None:
    it = stage("match")
    actions = [{"state": True, "opsState": "Maintaining"}, {"state": False, "opsState": "None"}]
    quality = {
        "name": "busy",
        "containerName": "main",
        "permanent": False,
        "exec": {"command": ["true"]},
        "serviceQualityAction": actions,
    }
    # when
    it.begin(serviceQualities=[quality])
    # then
    assert it.cluster.get("podprobemarkers", "match")["spec"]["probes"][0]["name"] == "busy"
    it.until(
        lambda: {server["spec"]["opsState"] for server in it.servers().values()} == {"Maintaining"},
        "all servers are maintained",
    )
    # when the set is deleted
    it.cluster.kubectl("delete", SETS, "match")
    it.until(lambda: not it.pods() and not it.servers(), "all is gone")
