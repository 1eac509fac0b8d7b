"""Names that the package offers."""

import importlib
from types import ModuleType

import pytest

from pykruise.kube import patches


@pytest.mark.parametrize(
    "name",
    [
        "patches",
        "patches.errors",
        "patches.json_patch",
        "patches.merge",
        "patches.schemas",
        "patches.strategic",
    ],
)
def test_a_patches_module_exports_exactly_the_names_that_it_defines(name: str) -> None:
    # given
    module: ModuleType = importlib.import_module(f"pykruise.kube.{name}")
    offered = set(module.__all__)
    # when
    defined = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
    # then
    assert defined <= offered
    assert all(hasattr(module, key) for key in offered)


def test_every_patch_error_is_a_value_error() -> None:
    assert issubclass(patches.PatchError, ValueError)
    assert issubclass(patches.JsonPatchTestFailed, patches.PatchError)
