"""Revisions of a workload: one of an earlier owner counts only if the API server still has it."""

from typing import Any

import orjson
import pytest

from pykruise.kube.errors import ErrorStatus, NotFoundError
from pykruise.plans.workloads import drop_ghosts
from pykruise.pods.workload.revisions import RevisionView
from pykruise.pods.workload.views import Candidate, WorkloadView
from pykruise.runtime.read import Memories

BEFORE, MADE = 100.0, 200.0


class Server:
    """An API server with the revision of this uid, or without any."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self.asked = 0

    async def get(self, *_: object) -> bytes:
        self.asked += 1
        if not self._uid:
            raise NotFoundError(ErrorStatus(code=404))
        return orjson.dumps({"metadata": {"uid": self._uid}})


class Reading:
    """The parts of a Read that the code under test uses."""

    def __init__(self, live: Server) -> None:
        self.live = live
        self._memories = Memories()

    def find_memory(self, make: Any) -> Any:
        return self._memories.find_memory("key", "uid", make)


def workload(meaning: bytes = b"wanted") -> WorkloadView:
    candidate = Candidate(data=b"{}", meaning=meaning, template={})
    return WorkloadView(
        namespace="shop",
        name="web",
        uid="new",
        resource_version=1,
        creation_time="1970-01-01T00:03:20Z",
        candidate=candidate,
    )


def revision(owner: str = "old", *, meaning: bytes = b"wanted", created_at: float = BEFORE) -> RevisionView:
    return RevisionView(
        namespace="shop",
        name="web-1",
        uid="revision",
        resource_version=1,
        number=1,
        controller_uid=owner,
        created_at=created_at,
        template={},
        meaning=meaning,
    )


@pytest.mark.parametrize(("live", "is_used"), [("", False), ("another", False), ("revision", True)])
async def test_a_revision_of_a_former_owner_is_read_once(live: str, is_used: bool) -> None:
    read: Any = Reading(Server(live))
    for _ in range(3):
        revisions = await drop_ghosts([revision()], workload(), read)
        assert bool(revisions) is is_used
    assert read.live.asked == 1


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(revision("new"), id="its own"),
        pytest.param(revision(""), id="an orphan"),
        pytest.param(revision(meaning=b"other"), id="of another template"),
        pytest.param(revision(created_at=MADE + 1), id="made since"),
    ],
)
async def test_no_other_revision_is_read(item: RevisionView) -> None:
    read: Any = Reading(Server(""))
    assert await drop_ghosts([item], workload(), read) == [item]
    assert read.live.asked == 0
