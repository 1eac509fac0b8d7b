"""Settings of a kind: each field declares the source of its value."""

from typing import Annotated, Any

import msgspec
import pytest

from pykruise.pods.settings import FromFlag, FromManager, OnGate, build_settings, flags_of, gates_of

WORKERS = FromFlag("workers", "how many at once")
PAUSE = FromFlag("pause", "how long")


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that several kinds share."""

    is_quick: Annotated[bool, OnGate("Quick")] = False
    pause_s: Annotated[int, PAUSE] = 5


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings with a field of each source."""

    is_short: Annotated[bool, OnGate("Short", and_name="Names")] = False
    workers: Annotated[int, "a note for readers", WORKERS] = 3
    namespace: Annotated[str, FromManager("namespace")] = "everywhere"
    shared: Shared = Shared()
    label: str = "app"
    zones: Annotated[tuple[str, ...], "a note for readers"] = ("a",)


def settings(
    *on: str, flags: dict[str, Any] | None = None, manager: dict[str, Any] | None = None
) -> Settings:
    return build_settings(Settings, gates=set(on).__contains__, flags=flags, manager=manager)


def test_each_field_is_read_from_its_declared_source() -> None:
    result = settings("Quick", flags={"workers": 7, "pause": 1}, manager={"namespace": "shop"})
    assert result == Settings(workers=7, namespace="shop", shared=Shared(is_quick=True, pause_s=1))


def test_a_missing_value_is_the_default() -> None:
    assert settings() == settings(flags={}, manager={}) == Settings()


@pytest.mark.parametrize(
    ("on", "is_short"), [((), False), (("Short",), False), (("Names",), False), (("Short", "Names"), True)]
)
def test_a_field_of_two_gates_requires_both(on: tuple[str, ...], is_short: bool) -> None:
    assert settings(*on).is_short is is_short


def test_a_kind_names_all_gates_and_flags_of_its_settings() -> None:
    assert gates_of(Settings) == {"Short", "Names", "Quick"}
    assert flags_of(Settings) == {WORKERS: 3, PAUSE: 5}
