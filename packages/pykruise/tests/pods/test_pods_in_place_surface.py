"""What the engine for updates in place and its neighbours offer."""

import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "claims",
        "containers",
        "ready_condition",
        "readiness_messages",
        "in_place.annotations",
        "in_place.batches",
        "in_place.completion",
        "in_place.difference",
        "in_place.grace",
        "in_place.images",
        "in_place.pod",
        "in_place.resources",
        "in_place.runtime_meta",
        "in_place.state",
        "in_place.steps",
        "in_place.update_spec",
    ],
)
def test_a_module_has_what_it_says_it_offers_and_says_what_it_defines(name: str) -> None:
    module = importlib.import_module(f"pykruise.pods.{name}")
    defined = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
    assert defined - {"T"} <= set(module.__all__)
    assert all(hasattr(module, key) for key in module.__all__)


def test_the_package_offers_what_kinds_call() -> None:
    package = importlib.import_module("pykruise.pods.in_place")
    assert sorted(package.__all__) == package.__all__
    assert all(hasattr(package, key) for key in package.__all__)
