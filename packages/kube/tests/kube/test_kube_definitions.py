"""Watches that are opened again when a CRD has changed."""

import asyncio
import random
from typing import Any

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.definition_watch import Renewal
from pykruise.kube.cache.metadata_view import MetadataView, project_metadata
from pykruise.kube.client.client import Client
from pykruise.kube.documents import encode
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS, Resource
from support.scripted import ScriptedTransport

CRD = "clonesets.apps.kruise.io"


class Counted(Cache[Any]):
    """A cache that counts how often its watch should be opened again."""

    def __init__(self, resource: Resource) -> None:
        client = Client(ScriptedTransport())
        super().__init__(client, resource, project=project_metadata, clock=lambda: 0.0, rng=random.Random(1))
        self.renewed = 0

    def watch_anew(self) -> None:
        self.renewed += 1


def seen(generation: int, *, name: str = CRD, uid: str = "u1") -> Change[MetadataView]:
    document = {"metadata": {"name": name, "uid": uid, "resourceVersion": "7", "generation": generation}}
    return Change(Key("", name), None, project_metadata(encode(document)))


async def test_watches_are_reopened_when_a_crd_changes_and_again_after_api_servers_apply_it() -> None:
    # given two caches of the CRD's objects, one of another CRD's objects, and one of pods
    caches = [Counted(resource) for resource in (CLONE_SETS, CLONE_SETS, DAEMON_SETS, PODS)]
    renewal = Renewal(lambda: caches)
    # when the CRD is seen for the first time, and again with the same spec, then nothing happens
    renewal.handle_definition(seen(1))
    renewal.handle_definition(seen(1))
    assert [cache.renewed for cache in caches] == [0, 0, 0, 0]
    # when its spec changes
    renewal.handle_definition(seen(2))
    # then
    assert [cache.renewed for cache in caches] == [1, 1, 0, 0]
    await asyncio.sleep(6)
    assert [cache.renewed for cache in caches] == [3, 3, 0, 0]


async def test_a_recreated_definition_reopens_the_watches() -> None:
    cache = Counted(CLONE_SETS)
    renewal = Renewal(lambda: [cache])
    renewal.handle_definition(seen(1))
    renewal.handle_definition(Change(Key("", CRD), seen(1).new, None))
    assert cache.renewed == 0
    # when
    renewal.handle_definition(seen(1, uid="u2"))
    # then
    assert cache.renewed == 1
