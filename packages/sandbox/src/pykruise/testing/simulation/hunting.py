"""Many seeds of one simulation, and the shortest script of the first failure.

seed ──▶ script_of() ──▶ simulate() ──▶ a broken rule ──▶ shrink() ──▶ found/<rule>.json ──▶ AssertionError
"""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pykruise.testing.simulation.network import REQUEST_FAULTS, STREAM_FAULTS
from pykruise.testing.simulation.scripts import Fault, SimulatedOperation
from pykruise.testing.simulation.shrinking import iterate_without_parts, replace_item, shrink_greedily
from pykruise.testing.simulation.worlds import (
    WORLD_FAULTS,
    Simulation,
    SimulationOutcome,
    SimulationScript,
    simulate,
)

__all__ = ["FAULTS", "FoundFailure", "check", "hunt", "load_script", "script_of", "shrink"]

FAULTS: Final = (
    *(kind for kind in REQUEST_FAULTS if kind not in ("quota", "webhook timeout")),
    *STREAM_FAULTS,
    *WORLD_FAULTS,
)
"""Kinds of faults that a script may have. `answer lost`: the write is stored, but the client sees a lost connection.
`… after the fact`: the write is stored, but the response is an error. `late effect`: the client sees a lost connection,
and the write is stored seconds later. `gone`: a watch ends with 410.
"""

_SECONDS: Final = {
    "clock jump": (-3600.0, -20.0, 5.0, 60.0),
    "crash": (0.0, 1.0, 20.0),
}
_replace = msgspec.structs.replace


class FoundFailure(msgspec.Struct, frozen=True):
    """The shortest script that was found for a broken rule."""

    script: SimulationScript
    outcome: SimulationOutcome
    seeds: int
    """Number of seeds that were played until the rule was broken."""


def script_of(simulation: Simulation, seed: int) -> SimulationScript:
    """Return the script of a seed: up to six actions, and up to six faults."""
    rng = random.Random(seed)
    names = sorted(simulation.actions)
    times = [round(rng.uniform(0, simulation.length_s), 3) for _ in range(rng.randint(1, 6) if names else 0)]
    operations = tuple(
        SimulatedOperation(at, rng.choice(names), {"chance": rng.randrange(1000)}) for at in sorted(times)
    )
    kinds = tuple(simulation.faults if simulation.faults is not None else FAULTS)
    count = rng.choice((0, 1, 1, 3, 6)) if kinds else 0
    faults = tuple(_draw_fault(simulation, rng, kinds, (0.0, *times)) for _ in range(count))
    return SimulationScript(
        seed=seed, operations=operations, faults=faults, latency_s=rng.choice((0.0, 0.02, 0.02, 0.5))
    )


def _draw_fault(
    simulation: Simulation, rng: random.Random, kinds: Sequence[str], times: Sequence[float]
) -> Fault:
    kind = rng.choice(kinds)
    # Half of the faults begin shortly after an action, because an operator then has the most work.
    near = rng.choice(times) + rng.uniform(0, 0.2)
    at = near if rng.random() < 0.5 else rng.uniform(0, simulation.length_s)
    seconds = rng.choice(_SECONDS.get(kind, (0.3, 3.0, 20.0)))
    count = rng.randrange(1, 200) if kind in ("crash", "node loss") else rng.choice((1, 1, 2, 5))
    on = "" if kind in WORLD_FAULTS else rng.choice(list(simulation.faulty_paths))
    return Fault(round(at, 3), kind, on, count, seconds)


def hunt(
    simulation: Simulation,
    *,
    seeds: int = 1000,
    first: int = 0,
    play: Callable[[Simulation, SimulationScript], SimulationOutcome] = simulate,
    most_runs: int = 200,
    most_s: float = 30.0,
) -> FoundFailure | None:
    """Play seeds until a rule is broken, and shrink that script. Return None if no rule was broken.

    `seeds`: number of seeds, beginning with `first`. `play`: `simulate`, or the result of `player_of()`.
    `most_runs`, `most_s` (seconds of CPU): bounds of shrinking.
    """
    for number, seed in enumerate(range(first, first + seeds), start=1):
        script = script_of(simulation, seed)
        outcome = play(simulation, script)
        if outcome.violations:
            short, shown = _shrink_with_outcome(simulation, script, outcome, play, most_runs, most_s)
            return FoundFailure(short, shown, number)
    return None


def _shrink_with_outcome(
    simulation: Simulation,
    script: SimulationScript,
    outcome: SimulationOutcome,
    play: Callable[[Simulation, SimulationScript], SimulationOutcome],
    most_runs: int,
    most_s: float,
) -> tuple[SimulationScript, SimulationOutcome]:
    """Return the shortest script, and the outcome in which it broke the rule: in real time, the same script may not
    break the rule again.
    """
    shown = outcome

    def play_and_keep(simulation: Simulation, smaller: SimulationScript) -> SimulationOutcome:
        nonlocal shown
        result = play(simulation, smaller)
        if result.rule == outcome.rule:
            shown = result
        return result

    short = shrink(simulation, script, outcome.rule, play=play_and_keep, most_runs=most_runs, most_s=most_s)
    return short, shown


def shrink(
    simulation: Simulation,
    script: SimulationScript,
    rule: str,
    *,
    play: Callable[[Simulation, SimulationScript], SimulationOutcome] = simulate,
    most_runs: int = 200,
    most_s: float = 30.0,
) -> SimulationScript:
    """Return the shortest script that was found and breaks the same rule.

    `play`: as in `hunt`. `most_runs` and `most_s` (seconds of CPU): limits of the search.
    """
    return shrink_greedily(
        script,
        rule,
        smaller=_iterate_smaller_scripts,
        rule_of=lambda smaller: play(simulation, smaller).rule,
        most_runs=most_runs,
        most_s=most_s,
    )


def _iterate_smaller_scripts(script: SimulationScript) -> Iterator[SimulationScript]:
    for faults in iterate_without_parts(script.faults):
        yield _replace(script, faults=faults)
    for operations in iterate_without_parts(script.operations):
        yield _replace(script, operations=operations)
    for number, fault in enumerate(script.faults):
        if fault.count > 1 and fault.kind not in WORLD_FAULTS:
            yield _replace(script, faults=replace_item(script.faults, number, _replace(fault, count=1)))
    if script.latency_s:
        yield _replace(script, latency_s=0.0)


def check(
    simulation: Simulation,
    *,
    seeds: int = 1000,
    first: int = 0,
    keep_in: Path | None = None,
    play: Callable[[Simulation, SimulationScript], SimulationOutcome] = simulate,
    most_runs: int = 200,
) -> None:
    """Play the scripts in the folder `keep_in`, then seeds. Raises AssertionError with the shortest script that breaks
    a rule.

    `seeds`, `first`, `play`, `most_runs`: as in `hunt`. `keep_in`: a new failing script is written there, so that each
    later run plays it first. If None, no script is kept.
    """
    __tracebackhide__ = True
    for path in sorted(keep_in.glob("*.json")) if keep_in is not None and keep_in.is_dir() else ():
        outcome = play(simulation, load_script(path))
        if outcome.violations:
            raise AssertionError(_format_outcome(outcome, f"{path} breaks a rule again"))
    failure = hunt(simulation, seeds=seeds, first=first, play=play, most_runs=most_runs)
    if failure is None:
        return
    where = ""
    if keep_in is not None:
        keep_in.mkdir(parents=True, exist_ok=True)
        path = keep_in / f"{failure.outcome.rule.replace(' ', '-')}-{failure.script.seed}.json"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(failure.script), indent=1))
        where = f"; the script is in {path}"
    script = msgspec.json.format(msgspec.json.encode(failure.script), indent=1).decode()
    title = f"seed {failure.script.seed} breaks a rule (seeds played: {failure.seeds}){where}\n{script}"
    raise AssertionError(_format_outcome(failure.outcome, title))


def load_script(path: Path) -> SimulationScript:
    """Return a script that was written to a file. Raises msgspec.ValidationError."""
    return msgspec.json.decode(path.read_bytes(), type=SimulationScript)


def _format_outcome(outcome: SimulationOutcome, title: str) -> str:
    writes = [line for line in outcome.trace if " events" not in line and " leases" not in line]
    return "\n".join([title, "", str(outcome.violations[0]), "", "the last writes:", *writes[-15:]])
