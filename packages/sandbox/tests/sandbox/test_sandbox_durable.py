"""A cluster's data directory: all objects exist after the next start, and other files are not changed."""

import logging
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pykruise.kube.clock import make_loop_clock
from pykruise.kube.documents import decode
from pykruise.kube.errors import GoneError, InternalError
from pykruise.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, PODS
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.durable import DataDirError, DurableStorage
from support.paper import START
from support.sandbox import Place, config_map


def deployment() -> dict[str, object]:
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
            },
        },
    }


class Restarted:
    """A cluster over a data directory; each instance starts it again."""

    def __init__(self, directory: Path) -> None:
        self.storage = DurableStorage(directory)
        self.cluster = Cluster(
            ClusterSettings(nodes=2),
            clock=make_loop_clock(start=START),
            rng=random.Random(3),
            storage=self.storage,
        )

    async def __aenter__(self) -> Place:
        return Place(await self.cluster.__aenter__())

    async def __aexit__(self, *error: object) -> None:
        try:
            await self.cluster.__aexit__(*error)  # type: ignore[arg-type]
        finally:
            self.storage.close()


async def test_all_objects_exist_after_a_restart(tmp_path: Path) -> None:
    # given a cluster with a rollout and a custom resource
    crd = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }

    async def is_ready(place: Place) -> bool:
        return bool((await place.get(DEPLOYMENTS, "web"))["status"].get("readyReplicas") == 3)

    async with Restarted(tmp_path) as place:
        await place.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
        await place.create(DEPLOYMENTS, deployment())
        await place.until(lambda: is_ready(place))
        before = {name: await place.get(PODS, name) for name in await place.names(PODS)}
        version = int((await place.client.list(PODS)).resource_version)
    # when
    async with Restarted(tmp_path) as place:
        # then the same pods exist, and stay
        listed = await place.client.list(PODS, "default")
        assert int(listed.resource_version) >= version
        await place.until(lambda: is_ready(place))
        after = {name: await place.get(PODS, name) for name in await place.names(PODS)}
        assert {name: doc["metadata"]["uid"] for name, doc in after.items()} == {
            name: doc["metadata"]["uid"] for name, doc in before.items()
        }
        assert all(
            after[name]["status"]["containerStatuses"] == before[name]["status"]["containerStatuses"]
            for name in before
        )
        # and the custom resource is served, and controllers continue
        await place.client.get_path("/apis/example.com/v1/namespaces/default/things")
        await place.merge(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})

        async def is_small() -> bool:
            return len(await place.names(PODS)) == 1

        await place.until(is_small)


async def test_a_watch_from_before_a_restart_must_list_again(tmp_path: Path) -> None:
    # given
    async with Restarted(tmp_path) as place:
        made = await place.create(CONFIG_MAPS, config_map("a"))
        await place.create(CONFIG_MAPS, config_map("b"))
    # when
    async with Restarted(tmp_path) as place:
        # then
        old = made["metadata"]["resourceVersion"]
        async with place.client.watch(CONFIG_MAPS, "default", resource_version=old) as events:
            with pytest.raises(GoneError):
                await anext(events)
        # and resource versions continue to rise
        newer = await place.create(CONFIG_MAPS, config_map("c"))
        assert int(newer["metadata"]["resourceVersion"]) > int(old)


def test_a_file_that_is_not_a_database_is_refused_and_kept(tmp_path: Path) -> None:
    # given
    (tmp_path / "cluster.db").write_text("my diary\n" * 100)
    # when
    with pytest.raises(DataDirError, match="is not a cluster's file") as refused:
        DurableStorage(tmp_path)
    # then
    assert "\n" not in str(refused.value)
    assert (tmp_path / "cluster.db").read_text() == "my diary\n" * 100


def test_the_database_of_another_program_is_refused_and_kept(tmp_path: Path) -> None:
    # given
    with sqlite3.connect(tmp_path / "cluster.db") as db:
        db.execute("CREATE TABLE objects (mine TEXT)")
    db.close()
    before = (tmp_path / "cluster.db").read_bytes()
    # then
    with pytest.raises(DataDirError, match="is a database of another program"):
        DurableStorage(tmp_path)
    assert (tmp_path / "cluster.db").read_bytes() == before


async def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path) -> None:
    # given
    async with Restarted(tmp_path) as place:
        for number in range(50):
            await place.create(CONFIG_MAPS, config_map(f"conf-{number}"))
    path = tmp_path / "cluster.db"
    whole = path.read_bytes()
    broken = whole[:8192] + bytes(8192) + whole[16384:]
    path.write_bytes(broken)
    # then
    with pytest.raises(DataDirError, match="damaged") as refused:
        DurableStorage(tmp_path)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == broken


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    # given
    first = DurableStorage(tmp_path)
    # then
    with pytest.raises(DataDirError, match="in use by another process"):
        DurableStorage(tmp_path)
    first.close()
    DurableStorage(tmp_path).close()


def test_an_unwritable_path_is_refused(tmp_path: Path) -> None:
    # given
    (tmp_path / "file").write_text("")
    # then
    with pytest.raises(DataDirError, match="cannot be created"):
        DurableStorage(tmp_path / "file" / "data")


async def test_a_full_disk_refuses_the_write_with_one_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # given a file that cannot grow any longer
    async with Restarted(tmp_path) as place:
        storage = place.cluster.server.storage
        assert isinstance(storage, DurableStorage)
        (pages,) = storage._db.execute("PRAGMA page_count").fetchone()
        storage._db.execute(f"PRAGMA max_page_count = {pages + 2}")
        kept: list[str] = []

        async def fill() -> None:
            for number in range(100):
                doc = {"metadata": {"name": f"conf-{number}"}, "data": {"text": "x" * 1000}}
                await place.create(CONFIG_MAPS, doc)
                kept.append(f"conf-{number}")

        # when
        with caplog.at_level(logging.ERROR), pytest.raises(InternalError, match="disk is full"):
            await fill()
        # then all acknowledged writes are stored, and one line reports the error
        assert [name for name in await place.names(CONFIG_MAPS) if name.startswith("conf")] == sorted(kept)
        assert sum("disk is full" in record.message for record in caplog.records) == 1
        # and with free space, writes work again
        storage._db.execute("PRAGMA max_page_count = 100000")
        await place.create(CONFIG_MAPS, config_map("later"))


_WRITER = """
import asyncio, random, sys
from pathlib import Path
from pykruise.kube.client.client import Client
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import decode
from pykruise.kube.resources import CONFIG_MAPS
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.durable import DurableStorage
from pykruise.sandbox.local import LocalTransport

async def main():
    storage = DurableStorage(Path(sys.argv[1]))
    server = ApiServer(clock=read_system_clock, rng=random.Random(), storage=storage)
    client = Client(LocalTransport(server))
    number = 0
    while True:
        name = f"{sys.argv[2]}-{number}"
        doc = decode(await client.create(CONFIG_MAPS, "default", {"metadata": {"name": name}}))
        print(name, doc["metadata"]["resourceVersion"], flush=True)
        number += 1

asyncio.run(main())
"""


@pytest.mark.real_time
def test_kill_9_at_any_moment_loses_no_acknowledged_write(tmp_path: Path) -> None:
    # given a program that writes as fast as it can, and is killed after different numbers of answers
    acknowledged: dict[str, int] = {}
    for turn, answers in enumerate((1, 7, 40, 133, 400)):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), f"turn{turn}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for _ in range(answers):
            name, version = process.stdout.readline().split()
            acknowledged[name] = int(version)
        # when
        process.kill()
        for line in process.stdout:  # writes that were acknowledged before the end
            if line.endswith("\n"):
                name, version = line.split()
                acknowledged[name] = int(version)
        process.stdout.close()
        process.wait()
        # then
        storage = DurableStorage(tmp_path)
        kept = {stored.key.name: stored.revision for stored in storage.scan("configmaps").items}
        newest = storage.revision
        storage.close()
        assert {name: kept.get(name) for name in acknowledged} == acknowledged
        assert newest >= max(acknowledged.values())
    # and versions have only risen
    versions = [acknowledged[f"turn{turn}-0"] for turn in range(5)]
    assert versions == sorted(versions)


async def test_the_newest_revision_survives_a_restart_after_a_deletion(tmp_path: Path) -> None:
    # given a deletion as the newest write
    async with Restarted(tmp_path) as place:
        await place.create(CONFIG_MAPS, config_map("a"))
        gone = decode(await place.client.delete(CONFIG_MAPS, "default", "a"))
        assert gone["status"] == "Success"
        storage = place.cluster.server.storage
    newest = storage.revision
    # then
    again = DurableStorage(tmp_path)
    assert again.revision == newest
    assert again.scan("configmaps").items == ()
    again.close()


def test_stored_data_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """The data contain Secrets."""
    # given a directory and a file that every user may read, as earlier versions made them
    directory = tmp_path / "data"
    DurableStorage(directory).close()
    directory.chmod(0o755)
    (directory / "cluster.db").chmod(0o644)
    # when
    storage = DurableStorage(directory)
    modes = {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}
    storage.close()
    # then
    assert directory.stat().st_mode & 0o777 == 0o700
    assert set(modes.values()) == {0o600}
    # a directory with other files keeps its permissions
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "notes").touch()
    DurableStorage(shared).close()
    assert shared.stat().st_mode & 0o777 == 0o755
    assert (shared / "cluster.db").stat().st_mode & 0o777 == 0o600
