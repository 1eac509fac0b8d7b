"""Caches of the manager: all are in one table, and fit into its memory."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pykruise.kube
import pykruise.runtime
from pykruise.kinds import list_kinds
from pykruise.kube.cache.remembering import REMEMBERED, remember
from pykruise.kube.schemas.builtin_types import find_decoder
from pykruise.kube.values.quantities import parse_quantity
from pykruise.manager.install import Installation, build_manifests
from pykruise.pods.template.typed_parts import POD_TEMPLATE
from support.sources import ROOT

FOLDERS = (
    "kube/src/pykruise/kube",
    "kube/src/pykruise/runtime",
    *(
        f"pykruise/src/pykruise/{literal}"
        for literal in (*("pods", "plans", "kinds", "admission", "manager"),)
    ),
)
SHARE = 0.6
"""Share of a manager's memory; the program itself and the views of a cluster's objects need the rest."""
FINITE = {
    *(
        "types.py:_list_required_fields",
        "descriptions.py:_index_classes",
        "descriptions.py:_of_fields",
        "settings.py:_find_sources",
    ),
    *(
        "builtin_types.py:_read_definitions",
        "builtin_types.py:_make_struct_decoder",
        "builtin_types.py:find_decoder",
    ),
    *("builtin_types.py:fields_of", "schemas.py:_read_definitions", "model.py:_index_fields"),
    "objects.py:_make_views",
    *("merged_lists.py:_leads_to_merged", "kustomize.py:_is_merged"),
    *(
        "disabled_fields.py:_holds_gated",
        "disabled_fields.py:_find_reachable_definitions",
        "fact_series.py:_read_differences",
    ),
    *("fact_series.py:read_series", "releases.py:_read_gates", "releases.py:release_of"),
    *(
        "__init__.py:_build_crd",
        "__init__.py:_list_folders_in",
        "__init__.py:_load_kind",
        "__init__.py:_load_shown",
        "kind.py:_build_blank_object",
    ),
}
"""Functions of parts of the program: types, modules, definitions. None takes data of users or servers."""


NOT_READ = """
import sys
from pykruise.kube.schemas import descriptions
from pykruise.manager.manager import Manager
from pykruise.manager.settings import ManagerSettings
import pykruise.manager.process
Manager(None, settings=ManagerSettings())
print(descriptions._index_classes.cache_info().misses, "zoneinfo" in sys.modules)
"""
"""Program that creates a manager of all kinds and prints the number of sources that it has read for their
descriptions, and whether it has loaded time zones.
"""


def load_all() -> None:
    """Import all modules, since each adds its lines to the table when it is imported."""
    list_kinds()
    for package in (pykruise.kube, pykruise.runtime):
        for item in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not item.name.endswith("generate"):
                importlib.import_module(item.name)
    for name in (
        "admission.conversion_path",
        "admission.certificate_work",
        "manager.manager",
        "plans.targets",
    ):
        importlib.import_module(f"pykruise.{name}")
    find_decoder(POD_TEMPLATE)  # its cache exists from the first use on


def decorators() -> Iterator[tuple[str, str]]:
    """Functions of the manager that cache results, each with its decorator."""
    for folder in FOLDERS:
        for path in sorted((ROOT / "packages" / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    for expr in node.decorator_list:
                        yield (
                            f"{path.name}:{node.name}",
                            ast.unparse(expr).partition("(")[0].rpartition(".")[2],
                        )


def test_all_that_is_remembered_fits_into_the_memory_of_a_manager() -> None:
    # given
    load_all()
    (pod,) = (
        manifest["spec"]["template"]["spec"]
        for manifest in build_manifests(Installation())
        if manifest["kind"] == "Deployment"
    )
    limit = parse_quantity(pod["containers"][0]["resources"]["limits"]["memory"])
    # then
    sizes = {what: remembered.bytes_at_most for what, remembered in REMEMBERED.items()}
    assert sum(sizes.values()) < SHARE * float(limit), sorted(sizes.items(), key=lambda size: -size[1])


def test_no_function_remembers_without_a_line_in_the_table() -> None:
    assert [name for name, how in decorators() if how == "lru_cache"] == []
    assert {name for name, how in decorators() if how == "cache"} == FINITE


def test_results_for_long_arguments_are_not_cached() -> None:
    calls: list[object] = []

    @remember(entries=2, longest=8)
    def measured(text: str, more: tuple[str, ...] = ()) -> int:
        calls.append(text)
        return len(text) + sum(map(len, more))

    for _ in range(3):
        assert measured("short") == 5
        assert measured("too long for it") == 15
        assert measured("a", ("many", "texts")) == 10
    assert calls.count("short") == 1
    assert calls.count("too long for it") == 3
    assert calls.count("a") == 3


def test_the_test_covers_all_source_folders() -> None:
    assert all(Path(ROOT / "packages" / folder).is_dir() for folder in FOLDERS)


def test_a_manager_reads_no_sources_and_loads_no_time_zones_before_it_needs_them() -> None:
    done = subprocess.run([sys.executable, "-c", NOT_READ], capture_output=True, text=True, check=True)
    # The syntax trees of the sources take 5 MB. Python's build settings, which zoneinfo reads, take 1 MB.
    assert done.stdout.split() == ["0", "False"]
