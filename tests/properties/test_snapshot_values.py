"""A snapshot consists of values: a plan cannot change its input.

Data that is kept between reconciles is a frozen value in the snapshot, and the plan returns it (`Plan.memory`). If a
plan could change it, the same snapshot would result in another plan.
"""

import asyncio
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec
import pytest

from pykruise.cli.insight.known_kinds import list_known_kinds
from pykruise.sandbox.virtual_time import VirtualLoop
from support.stored_worlds import stored_world

PLAIN: Final = (str, bytes, int, float, bool, type(None), Fraction)
KINDS: Final = {kind.name: kind for kind in list_known_kinds() if kind.name != "nodepodprobe"}
"""Kinds by name, without NodePodProbe, which has no example: it is the agent's side of a PodProbeMarker."""


def others_in(value: Any, known: dict[int, Any], path: str) -> Iterator[str]:
    """Values that are neither frozen nor collections, with their places. `known` holds the examined values."""
    if isinstance(value, PLAIN) or id(value) in known:
        return
    known[id(value)] = value
    if isinstance(value, msgspec.Struct):
        if not type(value).__struct_config__.frozen:
            yield f"{path}: {type(value).__qualname__} is not frozen"
        for field in type(value).__struct_fields__:
            yield from others_in(getattr(value, field), known, f"{path}.{field}")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from others_in(key, known, path)
            yield from others_in(inner, known, f"{path}[]")
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from others_in(inner, known, f"{path}[]")
    else:
        yield f"{path}: {type(value).__qualname__}"


@pytest.mark.parametrize("name", KINDS)
def test_a_snapshot_holds_values_alone(name: str) -> None:
    async def look() -> list[str]:
        async with stored_world(KINDS[name], is_settled=True) as world:
            sight = await world.sight_of(world.document)
            return list(others_in(sight.snapshot, {}, name))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(look()) == []


class _Memory:
    """An object that plans could change."""


class _Holder(msgspec.Struct, frozen=True):
    memory: Any


def test_an_object_that_plans_could_write_to_is_found() -> None:
    assert list(others_in(_Holder([_Memory()]), {}, "holder")) == ["holder.memory[]: _Memory"]
