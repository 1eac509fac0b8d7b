"""mypy in strict mode, in a project of a user outside this repository: types of the public modules reach it."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.public_names import SMALL, public_names

PROJECT: Final = {
    "shop/__init__.py": "",
    "shop/operator.py": """
from pykruise.hooks import Hooks
from pykruise.insight import Explanation, explain
from pykruise.kube.resources import CONFIG_MAPS, Resource
from pykruise.models import LabelSelector, ObjectMeta, document, v1beta1
from pykruise.operators import Child, Desired, Observed, main, operator

SITES = Resource("example.com", "v1", "sites", "Site")


def plan(observed: Observed) -> Desired:
    site = observed.object
    page = Child(CONFIG_MAPS, f"{site.name}-page", {"data": {"index.html": site.spec["html"]}})
    return Desired(children=[page], status={"observedGeneration": site.generation})


WORK = operator(SITES, plan, owns=[CONFIG_MAPS], finalizer="example.com/page")
HOOKS = Hooks(label="example.com/drain")
SPEC = v1beta1.cloneset.CloneSetSpec(replicas=1, selector=LabelSelector(), template={})
SET = document(v1beta1.CloneSet(metadata=ObjectMeta(name="web"), spec=SPEC))


async def verdict_of(name: str) -> Explanation:
    return await explain(f"clonesets/{name}")


if __name__ == "__main__":
    main("shop", WORK)
""",
    "shop/test_operator.py": """
from pathlib import Path

from pykruise.kube.documents import Document
from pykruise.testing.http import HttpSandbox
from pykruise.testing.sandbox import Sandbox
from pykruise.testing.simulation import SimulatedStore, Simulation, check, create
from pykruise.testing.simulation.over_http import player_of

from shop.operator import SITES, WORK

SITE: Document = {"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "a"}, "spec": {"html": ""}}


def is_small(store: SimulatedStore) -> str | None:
    return "too many" if len(store.list_objects(SITES)) > 3 else None


def test_it(sandbox: Sandbox, sandbox_server: HttpSandbox) -> None:
    check(Simulation(work=[WORK], actions={"create": create(SITE)}, always=[is_small]), keep_in=Path("found"))
    sandbox.apply(SITE)
    play = player_of(lambda kubeconfig: HttpSandbox(kubeconfig))
""",
    "shop/wrong.py": """
from pykruise.operators import Child, Desired

Desired(children=[Child("configmaps", "a", {})])  # type: ignore[arg-type]
Desired(status="ready")  # type: ignore[arg-type]
""",
}
"""Files of the project. mypy also refuses an ignore that is not needed."""


@pytest.mark.real_time
def test_a_project_of_a_user_is_checked_in_strict_mode(tmp_path: Path) -> None:
    imports = [
        f"from {item.module} import {item.name} as name_{number}"
        for number, item in enumerate(public_names(SMALL))
    ]
    for name, text in {**PROJECT, "shop/everything.py": "\n".join(imports)}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=mypy.ini",
        f"--cache-dir={tmp_path}/cache",
        "-p",
        "shop",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
