"""Annotations of pods that no view keeps are read once for each version of a pod."""

import random
from typing import Any

import pytest

from pykruise.kube.client.client import Client
from pykruise.kube.errors import ForbiddenError
from pykruise.kube.ids import Key
from pykruise.plans.pod_annotations import annotations_of
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Memories, Read
from support.scripted import ScriptedTransport, answer, refusal

A, B = Key("shop", "a"), Key("shop", "b")


def pod(name: str, version: int = 1, *, uid: str = "") -> PodView:
    return PodView(namespace="shop", name=name, uid=uid or f"u-{name}", resource_version=version)


def stored(name: str, annotations: dict[str, str] | None, *, uid: str = "") -> Any:
    return answer(200, {"metadata": {"name": name, "uid": uid or f"u-{name}", "annotations": annotations}})


class Asking:
    """Snapshots of one object, one after the other."""

    def __init__(self, *script: Any) -> None:
        self.transport = ScriptedTransport(*script)
        self._memories = Memories()

    async def about(self, *pods: PodView) -> dict[Key, Any]:
        read: Read[None] = Read(
            {},
            key=Key("shop", "web"),
            uid="u-web",
            now=lambda: 0.0,
            rng=random.Random(1),
            settings=None,
            live=Client(self.transport, rng=random.Random(1)),
            memories=self._memories,
        )
        return dict(await annotations_of(read, pods))

    @property
    def asked(self) -> list[str]:
        return [asked.path.rpartition("/")[2] for asked in self.transport.asked]


async def test_every_annotation_of_each_pod_is_known() -> None:
    asking = Asking(stored("a", {"x": "1", "y": "2"}), stored("b", None))
    assert await asking.about(pod("a"), pod("b")) == {A: {"x": "1", "y": "2"}, B: {}}


async def test_a_pod_is_read_again_only_when_it_has_changed() -> None:
    # given
    asking = Asking(stored("a", {"x": "1"}), stored("b", {}), stored("a", {"x": "2"}))
    await asking.about(pod("a"), pod("b"))
    assert await asking.about(pod("a"), pod("b")) == {A: {"x": "1"}, B: {}}
    assert asking.asked == ["a", "b"]
    # when one pod has another version
    result = await asking.about(pod("a", 2), pod("b"))
    # then
    assert result == {A: {"x": "2"}, B: {}}
    assert asking.asked == ["a", "b", "a"]


async def test_a_pod_that_was_not_requested_in_between_is_forgotten() -> None:
    asking = Asking(stored("a", {"x": "1"}), stored("a", {"x": "1"}))
    await asking.about(pod("a"))
    await asking.about()
    await asking.about(pod("a"))
    assert asking.asked == ["a", "a"]


@pytest.mark.parametrize(
    "entry", [refusal(404, "NotFound"), stored("a", {"x": "1"}, uid="u-next")], ids=["gone", "replaced"]
)
async def test_a_deleted_or_replaced_pod_has_no_annotations(entry: Any) -> None:
    assert await Asking(entry).about(pod("a")) == {A: {}}


async def test_a_pod_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ForbiddenError):
        await Asking(refusal(403, "Forbidden")).about(pod("a"))
