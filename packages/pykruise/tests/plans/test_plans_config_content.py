"""Content of ConfigMaps and Secrets: when it is read, what is cached, and when the last record remains."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from pykruise.kinds.cloneset.kind import KIND
from pykruise.kinds.cloneset.snapshot import CLONE_SET_VIEWS, CloneSetSettings, CloneSetView
from pykruise.kube.cache.store import Change
from pykruise.kube.errors import ErrorStatus, ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.plans.config_content import follow_config, list_config_wakes
from pykruise.plans.views import CONFIG_MAP_VIEWS, REVISION_VIEWS, SECRET_VIEWS
from pykruise.pods.template.config_content import START_ANNOTATION, read_recorded
from pykruise.pods.view.secrets import CopyView
from pykruise.pods.workload.options import ROLL_ON_CONFIG
from pykruise.pods.workload.revisions import project_revision
from pykruise.runtime.listed_objects import Listed
from pykruise.runtime.read import Around, Memories, Read
from support.cloneset_builder import revision, template
from support.snapshots import read_of
from support.workload_builder import NAME, NAMESPACE, NOW, UID

ON = CloneSetSettings(roll_on_config=True)

STARTING = [{"name": "main", "image": "nginx:1", "envFrom": [{"configMapRef": {"name": "app"}}]}]
OPTIONAL = [
    {"name": "main", "image": "nginx:1", "envFrom": [{"configMapRef": {"name": "app", "optional": True}}]}
]


class Server:
    """Stored objects by name, and the number of reads."""

    def __init__(self, **values: str) -> None:
        self.values = values
        self.version = 1
        self.reads = 0
        self.refuses = False

    def views(self) -> list[CopyView]:
        return [
            CopyView(namespace=NAMESPACE, name=name, uid=name, resource_version=self.version)
            for name in self.values
        ]

    async def get(self, _: Resource, namespace: str, name: str) -> bytes:
        self.reads += 1
        if self.refuses:
            raise ForbiddenError(ErrorStatus(code=403))
        if name not in self.values:
            raise NotFoundError(ErrorStatus(code=404))
        metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(self.version)}
        return orjson.dumps({"metadata": metadata, "data": {"key": self.values[name]}})


def make_view(option: str | None = "all", containers: list[dict[str, Any]] | None = None) -> CloneSetView:
    pod = template()
    pod["spec"]["containers"] = containers or STARTING
    annotations = {} if option is None else {ROLL_ON_CONFIG.annotation: option}
    document = {
        "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": UID, "annotations": annotations},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": NAME}}, "template": pod},
    }
    return CLONE_SET_VIEWS.project(orjson.dumps(document))


def make_read(
    view: CloneSetView, server: Server, memories: Memories | None = None, *, record: str = ""
) -> Read[Any]:
    pod = template()
    pod["metadata"]["annotations"] = {START_ANNOTATION: record}
    stored = [project_revision(orjson.dumps(revision(pod, 1)))] if record else []
    objects = {CONFIG_MAP_VIEWS: server.views(), SECRET_VIEWS: (), REVISION_VIEWS: stored}
    return read_of(KIND, view, objects, settings=ON, now=NOW, memories=memories, live=server)


def record_of(view: Any) -> Mapping[str, str]:
    return read_recorded(view.spec.template)


async def test_an_object_is_read_once_for_each_of_its_versions() -> None:
    # given
    view, server, memories = make_view(), Server(app="1"), Memories()
    first = await follow_config(view, make_read(view, server, memories))
    # when
    second = await follow_config(view, make_read(view, server, memories))
    # then
    assert server.reads == 1
    assert second.view.candidate is first.view.candidate
    # when the version is new and the content is the same
    server.version = 2
    third = await follow_config(view, make_read(view, server, memories))
    # then
    assert server.reads == 2
    assert record_of(third.view) == record_of(first.view)
    # when the content is new
    server.version, server.values = 3, {"app": "2"}
    assert record_of((await follow_config(view, make_read(view, server, memories))).view) != record_of(
        first.view
    )


@pytest.mark.parametrize("option", [None, "other", "Invalid name", ""])
async def test_a_workload_that_does_not_follow_is_unchanged_and_reads_nothing(option: str | None) -> None:
    view, server = make_view(option), Server(app="1")
    result = await follow_config(view, make_read(view, server))
    assert (result.view is view, server.reads, result.problem) == (True, 0, "")


async def test_no_view_is_read_and_nothing_enqueues_without_the_gate() -> None:
    view = make_view()
    off = CloneSetSettings()
    result = await follow_config(view, read_of(KIND, view, {}, settings=off, now=NOW))
    assert result.view is view
    assert list_config_wakes(CLONE_SET_VIEWS, off) == ()


@pytest.mark.parametrize("refuses", [True, False])
async def test_an_object_that_cannot_be_read_keeps_the_last_record(refuses: bool) -> None:
    # given
    view, server = make_view(), Server()
    if refuses:
        server = Server(app="1")
        server.refuses = True
    # when
    result = await follow_config(view, make_read(view, server, record="last main"))
    # then
    assert record_of(result.view) == {START_ANNOTATION: "last main"}
    why = "cannot be read (no permission)" if refuses else "does not exist"
    assert (
        result.problem
        == f"ConfigMap app {why}: changes of the content start no rollout until the manager can read it"
    )


async def test_an_absent_optional_object_differs_from_an_empty_one_and_from_the_last_record() -> None:
    view = make_view(containers=OPTIONAL)
    absent = await follow_config(view, make_read(view, Server(), record="last main"))
    empty = await follow_config(view, make_read(view, Server(app="")))
    assert not absent.problem
    assert len({record_of(item.view)[START_ANNOTATION] for item in (absent, empty)} | {"last main"}) == 3


def test_a_change_enqueues_the_workloads_that_follow_the_object() -> None:
    # given
    view, server = make_view(), Server(app="1")
    mirrors = {CLONE_SET_VIEWS: Listed(CLONE_SET_VIEWS, [view])}
    around = Around(mirrors, settings=ON, memories=Memories(), is_making=lambda *_: False, now=lambda: NOW)
    wakes = {wake.on: wake for wake in list_config_wakes(CLONE_SET_VIEWS, ON)}
    (stored,) = server.views()

    def woken(old: CopyView | None, new: CopyView | None, name: str = "app") -> list[Any]:
        change = Change(key=Key(NAMESPACE, name), old=old, new=new)
        return list(wakes[CONFIG_MAP_VIEWS].keys(change, around))

    # when, then
    assert woken(None, stored) == [view.key]
    assert woken(stored, None) == [view.key]
    assert woken(stored, stored) == []
    assert woken(None, stored, "other") == []
