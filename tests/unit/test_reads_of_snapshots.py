"""Snapshots read other objects of their own kind only if the kind declares them in its reads.

A manager caches a kind's own objects in any case. A command lists only what `reads` names: without it, the command
would see the explained object alone, and explain something else than what the manager does.
"""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import pytest

from pykruise.kinds import list_kinds
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.kind import Kind
from pykruise.runtime.views import Views

_LISTS = frozenset({"list_by_index", "list_all", "list_owned", "list_orphans", "count"})
KINDS = [kind for kind in list_kinds() if kind.control is not None]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_snapshot_lists_only_declared_views(kind: Kind) -> None:
    assert kind.control is not None
    reads = kind.control.reads(ManagerSettings().read_kind_settings(kind))
    own = [views for views in _list_listed(kind) if views is kind.control.objects]
    assert all(views in reads for views in own)


def test_some_kinds_list_their_own_objects() -> None:
    """The test above finds calls; otherwise it would always pass."""
    listing = {kind.name for kind in KINDS if kind.control and kind.control.objects in _list_listed(kind)}
    assert {"containerrecreaterequest", "podprobemarker", "podunavailablebudget", "sidecarset"} <= listing


def _list_listed(kind: Kind) -> list[Views[object]]:
    assert kind.control is not None
    folder = kind.control.object_of.__module__.rpartition(".")[0]
    package = import_module(folder)
    modules = [import_module(info.name) for info in walk_packages(package.__path__, f"{folder}.")]
    return [views for module in modules for views in _find_views(module)]


def _find_views(module: object) -> Iterator[Views[object]]:
    """Views that functions of a module list with a `Read`."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):  # type: ignore[arg-type]
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="read"), attr=name), args=[ast.Name(id=views), *_]
            ) if name in _LISTS:
                known = getattr(module, views, None)
                if isinstance(known, Views):
                    yield known
