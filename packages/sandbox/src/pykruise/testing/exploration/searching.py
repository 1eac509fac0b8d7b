"""Every path of a world: the process is copied at each state, with one child process for each choice.

a world ──▶ search() ──▶ the world in a child ──state──▶ known already? ── yes ──▶ the child ends
                                                         └── no ──▶ fork() per choice, each goes on from here
             journal of all steps ──▶ Graph (graph.py)

A process is copied in a few milliseconds, whatever its content, so paths do not have to be played again from the start.
States that were seen are in memory that all processes share. `follow_labels()` plays a path again: it takes the choices
with these labels, without copies.
"""

import asyncio
import fcntl
import gc
import logging
import mmap
import os
import random
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from pykruise.testing.exploration.choices import Choice, Chooser, ChoosingLoop, State
from pykruise.testing.simulation.worlds import Violation

__all__ = ["MOST_STATES", "ExploredStep", "Play", "follow_labels", "search"]

Play = Callable[[Chooser], Coroutine[Any, Any, NoReturn]]
"""Brings a new world to its first state, and then lets the chooser decide. Never returns."""

MOST_STATES = 1_000_000


class ExploredStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the journal: a choice led from one state to another."""

    before: int
    """State before the step; 0 is the beginning."""
    label: str
    after: int
    is_new: bool = False
    choices: int = 0
    is_rest: bool = False
    is_left: bool = False
    """Whether the state after the step was not followed, because the bound was reached."""
    rule: str = ""
    what: str = ""
    path: tuple[str, ...] = ()
    """Labels from the beginning; empty unless a rule was broken."""


class _Seen:
    """States that some process has visited, in memory that all processes share."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._slots = 1 << (2 * most).bit_length()
        self._table = mmap.mmap(-1, 8 * self._slots + 16)
        self._lock = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process lives

    def add(self, digest: int) -> bool | None:
        """Add a state. Return True if it is new, None if it is new but the bound is reached, otherwise False."""
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            slot = digest % self._slots
            while True:
                number = self._read(slot)
                if number == digest:
                    return False
                if number == 0:
                    break
                slot = (slot + 1) % self._slots
            count = self._read(self._slots)
            if count >= self._most:
                return None
            self._write(slot, digest)
            self._write(self._slots, count + 1)
            return True
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    @property
    def is_enough(self) -> bool:
        """Whether a process has ended the search."""
        return self._read(self._slots + 1) != 0

    def say_enough(self) -> None:
        """End the search in all processes."""
        self._write(self._slots + 1, 1)

    def _read(self, slot: int) -> int:
        return int.from_bytes(self._table[8 * slot : 8 * slot + 8], "little")

    def _write(self, slot: int, value: int) -> None:
        self._table[8 * slot : 8 * slot + 8] = value.to_bytes(8, "little")


class _Places:
    """Counts the further processes that may run in parallel: each of them needs a free place."""

    def __init__(self, count: int) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.write(self._write, b"x" * count)

    def take(self) -> bool:
        """Take a place. Return whether a place was free."""
        try:
            return os.read(self._read, 1) == b"x"
        except BlockingIOError:
            return False

    def give_back(self) -> None:
        """Return a place."""
        os.write(self._write, b"x")


class _Explorer:
    """Tries all choices of each state in copies of the process."""

    def __init__(
        self,
        journal: Path,
        *,
        most_states: int,
        processes: int,
        until_broken: bool,
        seed: int,
        deepest: int,
        lead: Sequence[str],
    ) -> None:
        self._deepest = deepest
        self._lead = lead
        self._until_broken = until_broken
        self._seed = seed
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._seen = _Seen(most_states)
        self._places = _Places(processes - 1)
        self._has_place = False
        self._children: list[int] = []
        self._before = 0
        self._path: list[str] = []

    def __call__(self, state: State) -> Choice:
        """Try the choices in copies of the process, and the last choice in this process. Does not return if no choice
        remains.
        """
        is_new = self._seen.add(state.digest)
        label = self._path[-1] if self._path else ""
        step = ExploredStep(
            self._before, label, state.digest, bool(is_new), len(state.choices), state.is_rest
        )
        if state.violation is not None:
            rule, what = state.violation.rule, state.violation.what
            step = msgspec.structs.replace(step, rule=rule, what=what, path=tuple(self._path))
            if self._until_broken:
                self._seen.say_enough()
        is_far = 0 < self._deepest <= len(self._path)
        self._write(msgspec.structs.replace(step, is_left=is_new is None or is_far))
        if not is_new or is_far or state.violation is not None or not state.choices:
            self.end()
        self._before = state.digest
        choices = list(state.choices)
        if len(self._path) < len(self._lead):
            beginning = self._lead[len(self._path)]
            choices = [choice for choice in choices if choice.label.startswith(beginning)][:1] or choices
        if self._seed:
            # The state's digest is not the seed: each release that adds a field changes the digest, and with it the
            # order of choices.
            random.Random("\n".join((str(self._seed), *self._path))).shuffle(choices)
        for choice in choices[:-1]:
            if self._seen.is_enough:
                self.end()
            if self._copy():
                return self._take(choice)
        return self._take(choices[-1])

    def _take(self, choice: Choice) -> Choice:
        self._path.append(choice.label)
        return choice

    def _copy(self) -> bool:
        """Copy the process. Return whether this process is the copy. The original waits until the copy ends, unless a
        place is free.
        """
        is_beside = self._places.take()
        loop = asyncio.get_running_loop()
        child = os.fork()
        if child == 0:
            asyncio._set_running_loop(loop)
            self._has_place, self._children = is_beside, []
            return True
        if is_beside:
            self._children.append(child)
        else:
            os.waitpid(child, 0)
        return False

    def fail(self, error: BaseException) -> None:
        """Record an unexpected error of the world."""
        what = f"{type(error).__name__}: {error}"
        self._write(
            ExploredStep(
                self._before,
                self._path[-1] if self._path else "",
                1,
                rule="world",
                what=what,
                path=tuple(self._path),
            )
        )

    def end(self) -> NoReturn:
        """End this process after all processes that it started have ended."""
        for child in self._children:
            os.waitpid(child, 0)
        if self._has_place:
            self._places.give_back()
        os._exit(0)

    def _write(self, step: ExploredStep) -> None:
        os.write(self._journal, msgspec.json.encode(step) + b"\n")


def search(
    play: Play,
    *,
    most_states: int = MOST_STATES,
    processes: int = 1,
    until_broken: bool = False,
    seed: int = 0,
    deepest: int = 0,
    lead: Sequence[str] = (),
) -> list[ExploredStep]:
    """Try everything that can happen in a world, and return each step. `until_broken`: stop at the first broken rule.

    `seed`: determines the order in which choices are tried (0: the given order). The order matters only if the search
    ends early: at a bound, or at a broken rule. `deepest`: maximum number of steps of a path; 0: unlimited. `lead`:
    prefixes of the labels of the first choices. `most_states`, `processes`: bounds.
    """
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "steps"
        child = os.fork()
        if child == 0:
            explorer = _Explorer(
                journal,
                most_states=most_states,
                processes=processes,
                until_broken=until_broken,
                seed=seed,
                deepest=deepest,
                lead=lead,
            )
            try:
                _run(play, explorer)
            except BaseException as error:
                explorer.fail(error)
            finally:
                explorer.end()
        os.waitpid(child, 0)
        return [msgspec.json.decode(line, type=ExploredStep) for line in journal.read_bytes().splitlines()]


class _Came(msgspec.Struct):
    """Result of choices that were followed."""

    violation: Violation | None
    choices: tuple[str, ...]


def follow_labels(play: Play, labels: Sequence[str]) -> tuple[Violation | None, tuple[str, ...]]:
    """Play these choices in a separate process. Return the rule that is broken then, and the next possible labels."""
    left = list(labels)

    def choose(state: State) -> Choice:
        chosen = None
        if state.violation is None and left:
            label = left.pop(0)
            chosen = next((choice for choice in state.choices if choice.label == label), None)
        if chosen is None:
            came = _Came(state.violation, tuple(choice.label for choice in state.choices))
            answer.write_bytes(msgspec.json.encode(came))
            os._exit(0)
        return chosen

    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "came"
        child = os.fork()
        if child == 0:
            try:
                _run(play, choose)
            except BaseException as error:
                fallen = Violation("world", f"{type(error).__name__}: {error}", 0.0)
                answer.write_bytes(msgspec.json.encode(_Came(fallen, ())))
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        came = msgspec.json.decode(answer.read_bytes(), type=_Came)
        return came.violation, came.choices


def _run(play: Play, choose: Chooser) -> None:
    """Play without Python's garbage collector, which would find different objects in each copy."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    gc.freeze()
    loop = ChoosingLoop()
    try:
        loop.run_until_complete(play(choose))
    finally:
        gc.enable()
