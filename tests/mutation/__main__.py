"""Mutants of files that contain decisions, and a list of those that no test detects.

make mutate FILES=kinds/cloneset            a folder or file of packages/pykruise/src/pykruise
python -m mutation kinds/cloneset/scale.py --only "_keep_pods" --seeds 40

files ──▶ mutants ──▶ those whose lines a test runs ──▶ tests, seeds, worlds that run these lines, the cheapest first,
each in a copy of a prepared process ──▶ caught by …, explained (explained.toml), or listed as a survivor
"""

import argparse
import logging
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from mutation.children import Child, LimitError, start, wait
from mutation.explained import explained
from mutation.mutants import Mutant, mutants_of
from mutation.patching import Functions, NotPatchedError
from mutation.proofs import LEVELS, Proof, collect, covered, seeds_of, worlds_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "packages/pykruise/src/pykruise"
RUNTIME = ROOT / "packages/kube/src/pykruise"
NOT_DECIDING = (
    "types.py",
    "v1alpha1.py",
    "reference.py",
    "differences.py",
    "reasons_page.py",
    "insight.py",
    "__init__.py",
)
"""Files that contain declarations, or generate pages."""
BUDGET_S = {"unit": 3.0, "properties": 2.0, "scenarios": 20.0, "simulation": 12.0, "exploration": 30.0}
"""Seconds of measured CPU time for a mutant at each level."""


class Case(msgspec.Struct):
    """One mutant, and its result. `caught`: the level, `survives`, `explained`, `uncovered` or `not made`."""

    file: str
    path: Path
    mutant: Mutant
    caught: str = ""
    by: str = ""


def main() -> int:
    """The exit code; 0: every survivor is explained."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument(
        "files", nargs="+", help="files or folders under pykruise/, such as kinds/cloneset or pods"
    )
    parser.add_argument("--only", default="", help="mutants with this text in their names")
    parser.add_argument(
        "--from", dest="source", help="only the survivors that this file lists, an earlier --out"
    )
    parser.add_argument(
        "--seeds", type=int, default=30, help="of each generator; 0: no simulation, no exploration"
    )
    parser.add_argument("--scenarios", action="store_true", help="scenarios of the kind too")
    parser.add_argument("--all", action="store_true", help="tests of all kinds, for what they share")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", help="where survivors are written to, one line each")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    paths = [path for file in options.files for path in _files(file)]
    cases = [
        Case(_short(path), path, mutant)
        for path in paths
        for mutant in mutants_of(path.read_text())
        if options.only in mutant.name
    ]
    if options.source:
        listed = {line.partition("  ")[2] for line in Path(options.source).read_text().splitlines()}
        cases = [case for case in cases if f"{case.file}: {case.mutant.name}" in listed]
    kinds = sorted(
        {text.split("/")[1] for text in (case.file for case in cases) if text.startswith("kinds/")}
    )
    is_all = options.all or any(not case.file.startswith(("kinds/", "admission/")) for case in cases)
    is_admission = any(case.file.startswith("admission/") for case in cases)
    is_runtime = all(case.file.startswith("runtime/") for case in cases)

    def go_on(tests: list[Proof]) -> None:
        _judge(cases, paths, tests, kinds, seeds=options.seeds, processes=options.processes)

    if is_runtime:
        tests = _of_runtime()
    elif is_admission and not (is_all or kinds):
        tests = _of_admission()
    else:
        tests = _tests(kinds, is_all=is_all, with_scenarios=options.scenarios)
    collect(tests, go_on)
    survivors = list(_report(cases))
    print(*survivors, sep="\n")
    if options.out:
        Path(options.out).write_text("\n".join(survivors) + "\n")
    return 1 if survivors else 0


def _files(name: str) -> Iterator[Path]:
    base = RUNTIME if name.startswith("runtime") else SOURCE
    path = base / name
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        if file.name not in NOT_DECIDING:
            yield file


def _short(path: Path) -> str:
    return str(path.relative_to(SOURCE if path.is_relative_to(SOURCE) else RUNTIME))


def _of_admission() -> list[str]:
    """Tests that mention admission, in any folder, except tests that start processes."""
    tests = sorted((ROOT / "packages/pykruise/tests").rglob("test_*.py"))
    paths = [path for path in tests if "pykruise.admission" in path.read_text()]
    paths.append(ROOT / "tests/properties/test_admission_properties.py")
    return [str(path) for path in paths if not path.stem.endswith("_process")]


def _of_runtime() -> list[str]:
    """The runtime's own tests, and those of CloneSets, which use the whole runtime."""
    own = [
        ROOT / "packages/kube/tests/runtime",
        ROOT / "packages/pykruise/tests/plans",
        ROOT / "tests/properties",
    ]
    return [str(path) for path in (*own, *sorted((ROOT / "tests/scenarios").glob("test_cloneset*.py")))]


def _tests(kinds: Sequence[str], *, is_all: bool, with_scenarios: bool) -> list[str]:
    """Tests of these kinds, or of all kinds."""
    unit, tests = ROOT / "packages/pykruise/tests", ROOT / "tests"
    admission = [
        path
        for name in ("test_admission_pods*.py", "test_admission_budgets*.py")
        for path in sorted((unit / "admission").glob(name))
    ]
    if is_all:
        paths = [unit / "pods", unit / "plans", unit / "kinds", *admission, tests / "properties"]
        return [str(path) for path in paths]
    shared = [*sorted((unit / "kinds").glob("*.py")), *admission]
    own = [
        path
        for kind in kinds
        for path in (
            *((unit / "kinds" / kind),),
            *sorted((tests / "properties").glob(f"*{kind}*.py")),
            *(sorted((tests / "scenarios").glob(f"test_{kind}*.py")) if with_scenarios else ()),
        )
        if path.exists()
    ]
    common = [
        tests / "properties" / name
        for name in ("test_conversion_properties.py", "test_in_place_properties.py")
    ]
    return [str(path) for path in (*own, *shared, *common, unit / "plans")]


def _judge(
    cases: list[Case], paths: list[Path], tests: list[Proof], kinds: list[str], *, seeds: int, processes: int
) -> None:
    begun = time.monotonic()
    functions = Functions()
    proofs = covered(tests, paths)
    print(
        f"{len(proofs)} of {len(tests)} tests run these files; {time.monotonic() - begun:.0f} s", flush=True
    )
    allowed = explained()
    _try(cases, proofs, functions, processes)
    left = [case for case in cases if not case.caught or case.caught == "uncovered"]
    for case in left:
        if case.mutant.name in allowed.get(case.file, {}):
            case.caught = "explained"
    left = [case for case in left if case.caught != "explained"]
    if seeds and left:
        used = sorted({case.path for case in left})
        generators = kinds or ["cloneset", "statefulset", "daemonset", "sidecarset", "workloadspread"]
        more = covered([*seeds_of(generators, seeds), *worlds_of(generators)], used)
        print(
            f"{len(left)} are left; {len(more)} seeds and worlds; {time.monotonic() - begun:.0f} s",
            flush=True,
        )
        _try(left, more, functions, processes)
    for case in cases:
        case.caught = case.caught or "survives"
    print(f"{time.monotonic() - begun:.0f} s", flush=True)


def _try(cases: Sequence[Case], proofs: Sequence[Proof], functions: Functions, processes: int) -> None:
    """Try each mutant in a copy of this process."""
    by_line: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, proof in enumerate(proofs):
        for file, lines in proof.lines.items():
            for line in lines:
                by_line[file, line].append(index)
    running: dict[int, tuple[Child, Case]] = {}

    def settle() -> None:
        child, answer = wait([child for child, _ in running.values()])
        _, case = running.pop(child.pid)
        case.caught, case.by = ("limit", "") if isinstance(answer, LimitError) else answer
        if not case.caught:
            print(f"{case.file}: {case.mutant.name}", flush=True)

    for case in cases:
        touching = {index for line in case.mutant.lines for index in by_line[str(case.path), line]}
        chosen = _chosen(case, [proofs[index] for index in touching])
        if not chosen:
            case.caught = case.caught or "uncovered"
            continue
        if len(running) == processes:
            settle()
        cost_s = sum(proof.cost_s for proof in chosen)
        child = start(
            lambda case=case, chosen=chosen: _attempt(case, chosen, functions), cpu_s=5.0 + 2 * cost_s
        )
        running[child.pid] = (child, case)
    while running:
        settle()


def _chosen(case: Case, proofs: list[Proof]) -> list[Proof]:
    """The proofs within the budget: first those of the folder that mirrors the file's, and the cheapest first."""
    folder = f"tests/{Path(case.file).parent}"
    proofs.sort(
        key=lambda proof: (LEVELS.index(proof.level), folder not in proof.name, proof.cost_s, proof.name)
    )
    spent: Counter[str] = Counter()
    chosen = []
    for proof in proofs:
        if spent[proof.level] <= BUDGET_S[proof.level]:
            spent[proof.level] += proof.cost_s  # type: ignore[assignment]
            chosen.append(proof)
    return chosen


def _attempt(case: Case, proofs: Sequence[Proof], functions: Functions) -> tuple[str, str]:
    """Find the first proof that detects the mutant, in a copy of the process."""
    try:
        functions.patch(case.path, case.mutant)
    except NotPatchedError as error:
        return "not made", str(error)
    for proof in proofs:
        if proof.is_broken():
            return proof.level, proof.name
    return "", ""


def _report(cases: Sequence[Case]) -> Iterator[str]:
    """Counts by folder; then each survivor."""
    columns = (*LEVELS, "limit", "explained", "uncovered", "not made", "survives")
    by_folder: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        by_folder[str(Path(case.file).parent)][case.caught] += 1
    print("| folder | mutants | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 2) + "|")
    for folder, counts in sorted(by_folder.items()):
        figures = " | ".join(str(counts[column]) for column in columns)
        print(f"| {folder} | {counts.total()} | {figures} |")
    for case in cases:
        if case.caught in ("survives", "uncovered"):
            yield f"{case.mutant.lines.start} {case.caught}  {case.file}: {case.mutant.name}"


if __name__ == "__main__":
    sys.exit(main())
