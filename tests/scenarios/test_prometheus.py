"""Prometheus itself reads our alerts, and finds what our own evaluation (support/promql.py) finds."""

import json
from pathlib import Path
from typing import Final

import pytest
import yaml

from pykruise.fixtures.kruise import KruiseSandbox
from pykruise.kube.client.metered import MeteredTransport
from pykruise.manager.metrics import make_registry
from pykruise.manager.monitoring import ALERTS, PANELS, build_prometheus_rule
from pykruise.manager.state_metrics import make_state_registry
from support.go_programs import has_go
from support.prometheus import asked, build
from support.promql import Scrapes, Vector, of_board

pytestmark = [pytest.mark.real, pytest.mark.skipif(not has_go(), reason="there is no Go to build with")]

ROOT: Final = Path(__file__).parents[2]
EVERY_S: Final = 120
EXPRESSIONS: Final = [alert.expr for alert in ALERTS]
ON_BOARD: Final = [of_board(expr) for panel in PANELS for expr, _ in panel.lines]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("prometheus"))


@pytest.fixture(scope="module")
def played() -> tuple[Scrapes, list[list[Vector]]]:
    """Scrapes of a rollout with a broken image that is corrected later, and the results of each alert's expression."""
    scrapes = Scrapes()
    ours: list[list[Vector]] = [[] for _ in EXPRESSIONS]
    with KruiseSandbox(seed=1) as kruise:
        metered = MeteredTransport(kruise.cluster.transport)

        async def scrape() -> None:
            pages = (make_registry(kruise.manager, metered), make_state_registry(kruise.manager))
            scrapes.note(len(ours[0]) * EVERY_S, (family for page in pages for family in page.collect()))

        def watch(minutes: int) -> None:
            for _ in range(minutes * 60 // EVERY_S):
                kruise.run(scrape())
                for vectors, expr in zip(ours, EXPRESSIONS, strict=True):
                    vectors.append(scrapes.evaluate(expr))
                kruise.advance(EVERY_S)

        def use(image: str) -> None:
            container = {"name": "main", "image": image}
            kruise.patch("clonesets", "web", {"spec": {"template": {"spec": {"containers": [container]}}}})

        kruise.apply(ROOT / "examples" / "cloneset.yaml")
        kruise.until(lambda: kruise.explain("clonesets/web").verdict == "done")
        watch(6)
        kruise.fail({"image": "shop:broken", "image_pull_error": True})
        use("shop:broken")
        watch(40)
        use("shop:2")
        kruise.until(lambda: kruise.explain("clonesets/web").verdict == "done")
        watch(10)
    return scrapes, ours


def test_prometheus_reads_the_rules(program: Path) -> None:
    rules = build_prometheus_rule(namespace="kruise-system")["spec"]
    said = asked(
        program, rules=yaml.safe_dump({"groups": rules["groups"]}), scrapes=Scrapes(), expressions=[]
    )
    assert said.errors == []
    broken = json.dumps({"groups": [{"name": "a", "rules": [{"alert": "B", "expr": "up =="}]}]})
    assert asked(program, rules=broken, scrapes=Scrapes(), expressions=[]).errors


def test_alerts_give_what_our_own_evaluation_gives(
    program: Path, played: tuple[Scrapes, list[list[Vector]]]
) -> None:
    scrapes, ours = played
    theirs = asked(program, rules="groups: []", scrapes=scrapes, expressions=EXPRESSIONS).results
    # Prometheus extrapolates rates to the ends of the range, so only the labels of the results are compared
    assert [[set(vector) for vector in vectors] for vectors in theirs] == [
        [set(vector) for vector in vectors] for vectors in ours
    ]
    given = {alert.name for alert, vectors in zip(ALERTS, theirs, strict=True) if any(vectors)}
    assert {"KruiseRolloutStuck", "KruiseCloneSetReplicasMismatch"} <= given


def test_prometheus_answers_every_expression_of_the_board(
    program: Path, played: tuple[Scrapes, list[list[Vector]]]
) -> None:
    theirs = asked(program, rules="groups: []", scrapes=played[0], expressions=ON_BOARD).results
    assert len(theirs) == len(ON_BOARD)
