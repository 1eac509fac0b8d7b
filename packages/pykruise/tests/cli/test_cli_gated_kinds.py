"""hold_for_gates(): while a gate of a kind is off, every object of the kind needs a person, who learns the gate."""

import re

import pytest

from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.insight.gated_kinds import hold_for_gates
from pykruise.kinds import find_kind, list_kinds
from pykruise.kinds.gates import Gates, parse
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.kind import Kind
from pykruise.plans.progress import Phase

HEALTHY = Explanation(
    kind="Thing",
    namespace="shop",
    name="web",
    verdict="moving",
    phase=Phase.HEALTHY,
    headline="",
    waits=(Wait(code="ProbeFails", words="a probe fails"),),
    next=("request probes from nodes",),
)
GATED = [kind for kind in list_kinds() if kind.versions and (kind.gates or kind.any_gate)]
CASES = [
    *(pytest.param(kind, (name,), id=f"{kind.name}-{name}") for kind in GATED for name in kind.gates),
    *(pytest.param(kind, kind.any_gate, id=f"{kind.name}-any") for kind in GATED if kind.any_gate),
    *(
        pytest.param(find_kind(kind), ("PodWebhook",), id=f"{kind}-PodWebhook")
        for kind in ("WorkloadSpread", "PodUnavailableBudget")
    ),
]


def settings_of(gates: Gates, *, is_known: bool = True) -> ManagerSettings:
    return ManagerSettings(gates=gates, is_known=is_known)


@pytest.mark.parametrize(("kind", "names"), CASES)
def test_a_gate_that_is_off_is_the_first_cause_and_its_remedy_turns_the_kind_on(
    kind: Kind, names: tuple[str, ...]
) -> None:
    held = hold_for_gates(
        HEALTHY, kind, settings_of(Gates.of(CloneSetShortHash=True, **dict.fromkeys(names, False)))
    )
    assert (held.cause, held.phase, held.verdict, held.next) == ("GateOff", Phase.DEGRADED, "waiting", ())
    assert held.waits[1:] == HEALTHY.waits
    assert any(name in held.waits[0].words for name in names)
    value = re.search(r"--feature-gates=(\S+)", held.waits[0].remedy)
    assert value is not None
    followed = parse([value[1]])
    assert kind.is_enabled(followed.__getitem__)
    assert followed["CloneSetShortHash"]


@pytest.mark.parametrize("kind", GATED, ids=lambda kind: kind.name)
def test_a_kind_that_is_on_keeps_its_explanation(kind: Kind) -> None:
    on = Gates.of(**dict.fromkeys((*kind.gates, *kind.any_gate), True))
    assert hold_for_gates(HEALTHY, kind, settings_of(on)) == HEALTHY


@pytest.mark.parametrize("kind", GATED, ids=lambda kind: kind.name)
def test_a_default_counts_only_if_the_settings_of_the_manager_are_known(kind: Kind) -> None:
    assert hold_for_gates(HEALTHY, kind, settings_of(Gates(), is_known=False)) == HEALTHY
    assert hold_for_gates(HEALTHY, kind, None) == HEALTHY
    is_on = kind.is_enabled(Gates().__getitem__)
    assert (hold_for_gates(HEALTHY, kind, settings_of(Gates())) == HEALTHY) is is_on


@pytest.mark.parametrize("kind", GATED, ids=lambda kind: kind.name)
@pytest.mark.parametrize("phase", [Phase.COMPLETED, Phase.FAILED])
def test_an_object_that_has_ended_needs_no_controller(kind: Kind, phase: Phase) -> None:
    ended = Explanation(kind="Job", namespace="", name="web", verdict="done", phase=phase, headline="")
    off = Gates.of(**dict.fromkeys((*kind.gates, *kind.any_gate), False))
    assert hold_for_gates(ended, kind, settings_of(off)) == ended
