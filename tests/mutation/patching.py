"""Patching of a running process with a mutant: it replaces the code of one function.

Mutant ──apply, compile──▶ code of the module ──find──▶ code of the function ──▶ all references to the old code
"""

import functools
import gc
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from mutation.mutants import Mutant

__all__ = ["Functions", "NotPatchedError"]


class NotPatchedError(Exception):
    """The running process cannot be patched with the mutant."""


class Functions:
    """The functions of a process, by file and place, including wrapped and decorated ones: the lookup uses code."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int], list[FunctionType]] = {}
        self._caches: list[Any] = []
        gc.unfreeze()
        for function_type in gc.get_objects():
            if type(function_type) is FunctionType:
                code = function_type.__code__
                key = (code.co_filename, code.co_qualname, code.co_firstlineno)
                self._found.setdefault(key, []).append(function_type)
                if "cache_clear" in function_type.__dict__:
                    self._caches.append(function_type)
            elif type(function_type) is functools._lru_cache_wrapper and function_type.__module__.startswith(
                "pykruise."
            ):
                self._caches.append(function_type)

        # Otherwise a garbage collection in a copy would visit all objects, and so copy their memory.
        gc.collect()
        gc.freeze()

    def patch(self, path: Path, mutant: Mutant) -> None:
        """Put a mutant into this process, which cannot remove it again."""
        place = mutant.place
        module = compile(mutant.apply(), str(path), "exec")
        code = next(
            (
                code
                for code in _codes(module)
                if code.co_qualname == place.name and code.co_firstlineno == place.first_line
            ),
            None,
        )
        functions = self._found.get((str(path), place.name, place.first_line))
        if code is None or not functions:
            raise NotPatchedError(f"{place.name} is not in this process")
        for function in functions:
            if code.co_freevars != function.__code__.co_freevars:
                raise NotPatchedError("it needs other cells")
            function.__code__ = code
        for cache in self._caches:
            cache.cache_clear()


def _codes(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _codes(const)
