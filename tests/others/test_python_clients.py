"""Python clients, unchanged, with every kind in every version: the official one, kr8s, lightkube, and kopf.

They run with the sandbox and with a real API server, so their results are the same on both. In the sandbox they
use the stored version of each kind; with --exhaustive every version.
"""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import aclosing
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import kr8s.asyncio
import kubernetes
import lightkube
import pytest
from kr8s.asyncio.objects import new_class
from kubernetes.dynamic import DynamicClient
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.types import PatchType

from others.client_work import SEEN_BY, Client, Document, Place, Work, do_all

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning"),  # kr8s
]

MERGE: Final = "application/merge-patch+json"
RAN: Final = "every kind in every version: list, create, patch, watch, scale, status, delete"


def _plain(value: Any) -> Document:
    """The document as plain JSON values."""
    document: Document = json.loads(json.dumps(value, default=lambda other: other.to_dict()))
    return document


# ── the official client ──────────────────────────────────────────────────────


class Official:
    """The dynamic client of the official client."""

    def __init__(self, dynamic: DynamicClient, work: Work) -> None:
        self._work = work
        self._resource = dynamic.resources.get(api_version=work.api_version, kind=work.kind)
        self._which = {"name": work.name, "namespace": work.namespace}

    def list_names(self) -> list[str]:
        return [item.metadata.name for item in self._resource.get(namespace=self._work.namespace).items]

    def create(self) -> Document:
        return _plain(
            self._resource.create(body=self._work.document, namespace=self._work.namespace).to_dict()
        )

    def patch_and_watch(self, patch: Document) -> Document:
        listed = self._resource.get(namespace=self._work.namespace)
        self._resource.patch(body=patch, content_type=MERGE, **self._which)
        since = listed.metadata.resourceVersion
        events = self._resource.watch(namespace=self._work.namespace, resource_version=since, timeout=60)
        objects = (_plain(event["raw_object"]) for event in events)
        return next(item for item in objects if _is_seen(item, self._work))

    def scale(self, replicas: int) -> Document:
        self._resource.scale.patch(body={"spec": {"replicas": replicas}}, content_type=MERGE, **self._which)
        return _plain(self._resource.scale.get(**self._which).to_dict())

    def status(self) -> Document:
        return _plain(self._resource.status.get(**self._which).to_dict())

    def patch_status(self, patch: Document) -> Document:
        answer = self._resource.status.patch(body=patch, content_type=MERGE, **self._which)
        return _plain(answer.to_dict())

    def delete(self) -> None:
        self._resource.delete(**self._which)


def work_with_the_official_client(place: Place) -> int:
    with kubernetes.config.new_client_from_config(str(place.kubeconfig)) as api:
        dynamic = DynamicClient(api)
        return _work_with(place, "official", lambda work: Official(dynamic, work))


# ── lightkube ────────────────────────────────────────────────────────────────


class Lightkube:
    """Lightkube with a generic resource."""

    def __init__(self, client: lightkube.Client, work: Work) -> None:
        self._client, self._work = client, work
        create = create_namespaced_resource if work.is_namespaced else create_global_resource
        self._resource: Any = create(work.group, work.version, work.kind, work.plural)
        self._where = {"namespace": work.namespace} if work.is_namespaced else {}

    def list_names(self) -> list[str]:
        return [item.metadata.name for item in self._client.list(self._resource, **self._where)]

    def create(self) -> Document:
        return _plain(self._client.create(self._resource(self._work.document), **self._where))

    def patch_and_watch(self, patch: Document) -> Document:
        listed = self._client.list(self._resource, **self._where)
        list(listed)
        self._patch(self._resource, patch)
        since = listed.resourceVersion
        events = self._client.watch(self._resource, resource_version=since, server_timeout=60, **self._where)
        objects = (_plain(item) for _, item in events)
        return next(item for item in objects if _is_seen(item, self._work))

    def scale(self, replicas: int) -> Document:
        self._patch(self._resource.Scale, {"spec": {"replicas": replicas}})
        return _plain(self._client.get(self._resource.Scale, self._work.name, **self._where).to_dict())

    def status(self) -> Document:
        return _plain(self._client.get(self._resource.Status, self._work.name, **self._where))

    def patch_status(self, patch: Document) -> Document:
        return _plain(self._patch(self._resource.Status, patch))

    def delete(self) -> None:
        self._client.delete(self._resource, self._work.name, **self._where)

    def _patch(self, resource: Any, patch: Document) -> Any:
        return self._client.patch(resource, self._work.name, patch, patch_type=PatchType.MERGE, **self._where)


def work_with_lightkube(place: Place) -> int:
    config = lightkube.KubeConfig.from_file(str(place.kubeconfig))
    with lightkube.Client(config=config) as client:
        return _work_with(place, "lightkube", lambda work: Lightkube(client, work))


# ── kr8s ─────────────────────────────────────────────────────────────────────


class Kr8s:
    """kr8s with a class that it creates for the kind."""

    def __init__(self, api: Any, work: Work, runner: asyncio.Runner) -> None:
        self._api, self._work, self._run = api, work, runner.run
        self._class: Any = new_class(
            work.kind,
            work.api_version,
            namespaced=work.is_namespaced,
            scalable=work.has_scale,
            plural=work.plural,
        )

    def list_names(self) -> list[str]:
        return [item.name for item in self._run(self._list())]

    async def _list(self) -> list[Any]:
        return [item async for item in self._class.list(api=self._api, namespace=self._work.namespace)]

    def create(self) -> Document:
        created = self._made()
        self._run(created.create())
        return _plain(created.raw)

    def patch_and_watch(self, patch: Document) -> Document:
        return self._run(self._patch_and_watch(patch))

    async def _patch_and_watch(self, patch: Document) -> Document:
        kept = await self._got()
        since = kept.metadata.resourceVersion
        await kept.patch(patch)
        events = self._api.watch(self._class, namespace=self._work.namespace, since=since)
        async with aclosing(events):
            async for _, item in events:
                if _is_seen(item.raw, self._work):
                    return _plain(item.raw)
        raise AssertionError("the watch has ended")

    def scale(self, replicas: int) -> Document:
        return self._run(self._scale(replicas))

    async def _scale(self, replicas: int) -> Document:
        kept = await self._got()
        await kept.scale(replicas)
        url = f"{self._work.plural}/{self._work.name}/scale"
        where = {"version": self._work.api_version, "namespace": self._work.namespace, "url": url}
        async with self._api.call_api("GET", **where) as answer:
            return _plain(answer.json())

    def status(self) -> Document:
        return _plain(self._run(self._got()).raw)  # it has no call that reads the subresource

    def patch_status(self, patch: Document) -> Document:
        kept = self._run(self._got())
        self._run(kept.patch(patch, subresource="status"))
        return _plain(kept.raw)

    def delete(self) -> None:
        self._run(self._made().delete())

    def _made(self) -> Any:
        return self._class(self._work.document, namespace=self._work.namespace, api=self._api)

    async def _got(self) -> Any:
        return await self._class.get(self._work.name, namespace=self._work.namespace, api=self._api)


def work_with_kr8s(place: Place) -> int:
    with asyncio.Runner() as runner:
        api = runner.run(_kr8s_api(place.kubeconfig))
        try:
            return _work_with(place, "kr8s", lambda work: Kr8s(api, work, runner))
        finally:
            runner.run(_close(api))


async def _close(api: Any) -> None:
    """Close the connections of kr8s, which has no call for this. An open watch would keep its connection."""
    await asyncio.get_running_loop().shutdown_asyncgens()
    await api._session.aclose()
    await asyncio.sleep(0.25)  # TLS connections end a moment later


async def _kr8s_api(kubeconfig: Path) -> Any:
    return await kr8s.asyncio.api(kubeconfig=str(kubeconfig))


def _is_seen(item: Document, work: Work) -> bool:
    metadata = item["metadata"]
    return metadata["name"] == work.name and (metadata.get("annotations") or {}).get(SEEN_BY) == work.mark


def _work_with(place: Place, name: str, connected: Callable[[Work], Client]) -> int:
    """Do all work with a client, and return the number of kinds in versions."""
    count = 0
    for work in place.work(name):
        try:
            do_all(connected(work), work)
        except Exception as error:
            error.add_note(f"{name}: {work.api_version} {work.kind}")
            raise
        count += 1
    return count


CLIENTS: Final = {
    "kubernetes (Python client)": (version("kubernetes"), work_with_the_official_client),
    "lightkube": (version("lightkube"), work_with_lightkube),
    "kr8s": (version("kr8s"), work_with_kr8s),
}


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, id=name.split(" ")[0], marks=pytest.mark.program(name, number, RAN))
        for name, (number, run) in CLIENTS.items()
    ],
)
def test_a_client_works_with_every_kind_in_every_version(run: Callable[[Place], int], place: Place) -> None:
    assert run(place) == len(list(place.work("count"))) >= 18


# ── kopf ─────────────────────────────────────────────────────────────────────

OPERATOR: Final = """
import json, os, sys
import kopf

WORK = json.loads(os.environ["WORK"])


def said(word, kind, name):
    sys.stdout.write(json.dumps([word, kind, name]) + "\\n")  # one write: handlers run in threads
    sys.stdout.flush()


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False
    settings.persistence.finalizer = "example.com/kopf"


def handle(group, version, plural, kind):
    @kopf.on.create(group, version, plural, id="created", labels={"for": "kopf"})
    def created(patch, name, **_):
        patch.metadata.annotations["example.com/seen-by"] = "kopf"
        said("created", kind, name)

    @kopf.on.update(group, version, plural, id="updated", field="metadata.labels.again", labels={"for": "kopf"})
    def updated(name, **_):
        said("updated", kind, name)

    @kopf.on.delete(group, version, plural, id="deleted", labels={"for": "kopf"})
    def deleted(name, **_):
        said("deleted", kind, name)

    @kopf.on.event(group, version, plural)
    def seen(name, body, **_):
        said("seen", kind, name)


for item in WORK:
    handle(*item)
"""


class Operator:
    """A kopf operator in its own process, and its output."""

    def __init__(self, place: Place, work: list[Work], folder: Path) -> None:
        source = folder / "operator.py"
        source.write_text(OPERATOR)
        handled = [(item.group, item.version, item.plural, item.kind) for item in work]
        self._log = folder / "log"
        self._stream = self._log.open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces", str(source)],
            env={
                **os.environ,
                "KUBECONFIG": str(place.kubeconfig),
                "HOME": str(folder),
                "WORK": json.dumps(handled),
            },
            stdout=subprocess.PIPE,
            stderr=self._stream,
            text=True,
        )
        self._said: set[tuple[str, str, str]] = set()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def until(self, word: str, work: list[Work]) -> None:
        """Return when the operator has reported this word for all objects."""
        end = time.monotonic() + 90
        wanted = {(word, item.kind, item.name) for item in work}
        while missing := wanted - self._said:
            assert time.monotonic() < end, f"{missing}: {self.log()[-3000:]}"
            assert self._process.poll() is None, self.log()
            time.sleep(0.1)

    def log(self) -> str:
        """The whole log."""
        return self._log.read_text()

    def end(self) -> None:
        """End the operator."""
        self._process.terminate()
        self._process.wait(20)
        self._listener.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._stream.close()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            word, kind, name = json.loads(line)
            self._said.add((word, kind, name))


@pytest.mark.parametrize("served_version", ["v1alpha1", "v1beta1"])
@pytest.mark.program(
    "kopf",
    version("kopf"),
    "handlers of every kind in every version: list, watch, create, update, delete, finalizers",
)
def test_an_operator_of_kopf_handles_every_kind(place: Place, served_version: str, tmp_path: Path) -> None:
    # given an operator with handlers of every kind that the version has
    work = [item for item in place.work("kopf") if item.version == served_version]
    operator = Operator(place, work, tmp_path)
    made = [item for item in work if item.is_created]
    try:
        # then it sees the existing objects
        operator.until("seen", [item for item in work if not item.is_created])
        # when objects are created, changed and deleted
        for item in made:
            item.document["metadata"]["labels"] = {"for": "kopf"}
            place.kubectl("apply", "-f", "-", text=json.dumps(item.document))
        operator.until("created", made)
        _label(place, made, "again=1")
        operator.until("updated", made)
        _delete(place, made)
        # then its handlers run, and its finalizers are removed
        operator.until("deleted", made)
        place.kubectl("wait", "--for=delete", "--timeout=60s", "-n", "clients", *_names(made))
    finally:
        operator.end()
    assert "Traceback" not in operator.log()


def _names(work: list[Work]) -> list[str]:
    return [f"{item.plural}.{item.group}/{item.name}" for item in work]


def _label(place: Place, work: list[Work], label: str) -> None:
    place.kubectl("label", "-n", "clients", *_names(work), label)


def _delete(place: Place, work: list[Work]) -> None:
    place.kubectl("delete", "--wait=false", "-n", "clients", *_names(work))
