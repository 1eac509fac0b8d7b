"""The amount of work of a call: counted instead of timed, per line of code.

modules of pykruise ──▶ imported again, instrumented ──▶ a call ──▶ {"kube/values/selectors.py:71 call": 1284, …}

It counts calls, iterations of loops, and the work of the interpreter's own functions by the size of their
arguments: `names.count(name)`, `name in names`, `text + more`, `[*one, *other]`, `sorted(...)`, `json.dumps(...)`. A
profile of calls does not contain these. Each line has its own count. So a line whose work grows with the square of the
input is detected with inputs of a few dozen items, independent of the cost of other lines.

Instrumented modules are separate modules: those that tests have imported do not change.
"""

import ast
import builtins
import importlib.abc
import importlib.util
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import _lru_cache_wrapper, partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from math import log2
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

__all__ = ["WorkMeter"]

ROOT: Final = "pykruise"

PLAIN: Final = frozenset({"pykruise.kube.values.hashing"})
"""Modules that are left as they are: a few lines that read each byte once, and would be counted millions of times."""

_SIZED: Final = (str, bytes, list, tuple, dict, set, frozenset, deque, Counter)
_VIEWS: Final = (type({}.keys()), type({}.values()), type({}.items()))
_BUILDING: Final = frozenset({list, tuple, dict, set, frozenset, str, bytes, bytearray, deque, Counter})
_CONSTANT: Final = frozenset(
    {
        *(
            "len",
            "isinstance",
            "issubclass",
            "getattr",
            "setattr",
            "hasattr",
            "id",
            "iter",
            "next",
            "type",
            "callable",
        ),
        *("ord", "chr", "abs", "divmod", "round", "hash", "print", "vars"),
        *("get", "setdefault", "popitem", "keys", "values", "items", "append", "add", "discard", "clear"),
        *("popleft", "appendleft", "startswith", "endswith", "isdecimal", "isascii"),
        *("bisect_left", "bisect_right", "force_setattr", "getrandbits", "random", "group", "start", "end"),
    }
)
_SCANNING: Final = frozenset({"count", "index", "remove", "insert", "copy", "reverse"})
_HASHED: Final = frozenset({dict, set, frozenset})
_STRUCTS: Final = frozenset({"msgspec._core"})


def _size(value: Any) -> int:
    return len(value) if isinstance(value, _SIZED) or type(value) in _VIEWS else 0


def _depth_size(value: Any) -> int:
    """All members of a JSON value, however deep."""
    if isinstance(value, (str, bytes)):
        return 1 + len(value)
    if isinstance(value, Mapping):
        return 1 + sum(1 + _depth_size(item) for item in value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return 1 + sum(map(_depth_size, value))
    return 1


class WorkMeter:
    """Instruments `pykruise`, and counts."""

    def __init__(self) -> None:
        self.sites: list[str] = []
        self.work: list[int] = []
        self._modules: dict[str, ModuleType] = {}
        self._known: dict[tuple[str, int, str], int] = {}
        self._caches: set[Any] = set()

    @contextmanager
    def instrumented(self) -> Iterator[None]:
        """Instrument the modules that the block imports with `import pykruise…`."""
        finder = _Finder(self)
        others = {name: module for name, module in sys.modules.items() if _is_ours(name)}
        for name in others:
            del sys.modules[name]
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            self._modules = {name: module for name, module in sys.modules.items() if _is_ours(name)}
            for name in self._modules:
                del sys.modules[name]
            sys.modules.update(others)

    def measured(self, call: Callable[[], Any]) -> dict[str, int]:
        """The work of a call, by line. Caches of bounded size are emptied before."""
        for cache in self._caches:
            cache.cache_clear()
        self.work[:] = [0] * len(self.work)
        call()
        return {self.sites[number]: count for number, count in enumerate(self.work) if count}

    # what instrumented code calls

    def site(self, module: str, line: int, what: str) -> int:
        """The number of a place in the code."""
        key = (module, line, what)
        if key not in self._known:
            self._known[key] = len(self.sites)
            self.sites.append(f"{module.replace('.', '/')}.py:{line} {what}")
            self.work.append(0)
        return self._known[key]

    def tools(self) -> dict[str, Any]:
        """Names that instrumented modules use."""
        return {
            "__meter_work__": self.work,
            "__meter_call__": self._call,
            "__meter_each__": self._each,
            "__meter_in__": self._contains,
            "__meter_eq__": self._equals,
            "__meter_made__": self._made,
            "__meter_grown__": self._grown,
            "__meter_tick__": self._tick,
        }

    def _tick(self, site: int) -> None:
        self.work[site] += 1

    def _call(self, site: int, called: Any, /, *given: Any, **named: Any) -> Any:
        self.work[site] += 1
        kind = type(called)
        if kind is FunctionType or kind is MethodType:
            if kind is FunctionType and "cache_clear" in called.__dict__:
                self._caches.add(called)
            return called(*given, **named)
        if kind is _lru_cache_wrapper and called not in self._caches and called.cache_parameters()["maxsize"]:
            self._caches.add(called)
        result = called(*given, **named)
        self.work[site] += _weight(called, given, result)
        return result

    def _each(self, site: int, items: Iterable[Any]) -> Iterator[Any]:
        work = self.work
        for item in items:
            work[site] += 1
            yield item

    def _contains(self, site: int, item: Any, items: Any) -> bool:
        contains: bool = item in items
        if type(items) in _HASHED:
            self.work[site] += 1
        elif isinstance(items, (list, tuple, deque)):
            self.work[site] += items.index(item) + 1 if contains else len(items)
        elif isinstance(items, (str, bytes)) or type(items) is _VIEWS[1]:
            self.work[site] += len(items)
        else:
            self.work[site] += 1
        return contains

    def _equals(self, site: int, item: Any, other: Any) -> Any:
        equals = item == other
        self.work[site] += 1 + (_depth_size(item) if equals is True and _size(item) else 0)
        return equals

    def _made(self, site: int, value: Any) -> Any:
        self.work[site] += 1 + _size(value)
        return value

    def _grown(self, site: int, before: Any, added: Any) -> Any:
        self.work[site] += 1 + _size(added) + (len(before) if isinstance(before, (str, bytes, tuple)) else 0)
        return added


def _weight(called: Any, given: tuple[Any, ...], result: Any) -> int:
    """Cost of a call of a function that is not written in Python."""
    if isinstance(called, type):
        return _size(result) + sum(map(_size, given)) if called in _BUILDING else _numeral(called, given)
    if isinstance(called, _lru_cache_wrapper):
        return sum(map(_size, given))
    if isinstance(called, partial):
        return 0
    name, owner = getattr(called, "__name__", ""), getattr(called, "__self__", None)
    if isinstance(called, BuiltinFunctionType) and (owner is None or isinstance(owner, ModuleType)):
        return _function_weight(name, called.__module__ or "", given, result)
    if name in _CONSTANT:
        return 0
    if isinstance(owner, re.Pattern):
        return sum(map(_size, given))
    if isinstance(owner, list):
        return _list_weight(owner, name, given)
    if isinstance(owner, (dict, set, frozenset, deque)):
        return sum(map(_size, given)) + (0 if name in ("pop", "update", "difference") else _size(result))
    return _size(owner) + sum(map(_size, given)) + _size(result)


def _numeral(called: Any, given: tuple[Any, ...]) -> int:
    return len(given[0]) if given and isinstance(given[0], str) and called.__module__ != "enum" else 0


def _function_weight(name: str, module: str, given: tuple[Any, ...], result: Any) -> int:
    if name in _CONSTANT or (module == "msgspec.structs" and name == "replace"):
        return 0
    if name == "sorted":
        return int(len(result) * log2(len(result) + 2))
    if module.startswith(("orjson", "msgspec", "_json")):
        return len(result) if isinstance(result, bytes) else _depth_size(given[0]) if given else 0
    return sum(map(_size, given)) + _size(result)


def _list_weight(owner: list[Any], name: str, given: tuple[Any, ...]) -> int:
    if name == "sort":
        return int(len(owner) * log2(len(owner) + 2))
    if name == "pop":
        return len(owner) - given[0] if given and given[0] >= 0 else 0
    return len(owner) if name in _SCANNING else sum(map(_size, given))


# ── import ───────────────────────────────────────────────────────────────────


def _is_ours(name: str) -> bool:
    return name == ROOT or name.startswith(f"{ROOT}.")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds pykruise's modules, and has them loaded with instrumentation."""

    def __init__(self, meter: WorkMeter) -> None:
        self._meter = meter

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if not _is_ours(name):
            return None
        module_spec = PathFinder.find_spec(name, path, target)
        if module_spec is not None and isinstance(module_spec.loader, SourceFileLoader) and name not in PLAIN:
            module_spec.loader = _Loader(name, module_spec.loader.path, self._meter)
        return module_spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, meter: WorkMeter) -> None:
        super().__init__(name, path)
        self._meter = meter

    def get_code(self, fullname: str) -> CodeType:
        """Compile the instrumented module, without a bytecode cache."""
        tree = ast.parse(self.get_data(self.path), self.path)
        instrumented = ast.fix_missing_locations(_Instrument(fullname, self._meter).visit(tree))
        code: CodeType = builtins.compile(instrumented, self.path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._meter.tools())
        super().exec_module(module)


def _is_constant(called: ast.expr) -> bool:
    """Whether a call needs no count: its cost is constant, and its caller is counted. pykruise's functions of
    such a name are counted at their start."""
    match called:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _CONSTANT
    return False


class _Instrument(ast.NodeTransformer):
    """Adds a count to each operation."""

    def __init__(self, module: str, meter: WorkMeter) -> None:
        self._module = module.removeprefix(f"{ROOT}.")
        self._meter = meter

    def _site(self, node: Any, what: str) -> ast.Constant:
        return ast.Constant(self._meter.site(self._module, node.lineno, what))

    def _tool(self, name: str, node: Any, what: str, *given: ast.expr) -> Any:
        call = ast.Call(ast.Name(name, ast.Load()), [self._site(node, what), *given], [])
        return ast.copy_location(call, node)

    def _counted(self, node: Any, what: str) -> ast.stmt:
        place = ast.Subscript(ast.Name("__meter_work__", ast.Load()), self._site(node, what), ast.Store())
        return ast.copy_location(ast.AugAssign(place, ast.Add(), ast.Constant(1)), node)

    def _function(self, node: Any) -> Any:
        body = [self.visit(item) for item in node.body]
        has_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        at = 1 if has_text else 0
        node.body = [*body[:at], self._counted(node, node.name), *body[at:]]
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        tick = self._tool("__meter_tick__", node, "lambda")
        node.body = ast.copy_location(ast.BoolOp(ast.Or(), [tick, self.visit(node.body)]), node)
        return node

    def _loop(self, node: Any) -> Any:
        self.generic_visit(node)
        node.body.insert(0, self._counted(node, "loop"))
        return node

    visit_For = visit_AsyncFor = visit_While = _loop  # noqa: N815

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        self.generic_visit(node)
        if not node.is_async:
            node.iter = self._tool("__meter_each__", node.iter, "items", node.iter)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if (isinstance(node.func, ast.Name) and node.func.id == "super") or _is_constant(node.func):
            return node
        called = ast.unparse(node.func)[-40:]
        node.args = [self._site(node, f"{called}()"), node.func, *node.args]
        node.func = ast.copy_location(ast.Name("__meter_call__", ast.Load()), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) != 1:
            return node
        match node.ops[0]:
            case ast.In():
                return self._tool("__meter_in__", node, "in", node.left, node.comparators[0])
            case ast.NotIn():
                result = self._tool("__meter_in__", node, "in", node.left, node.comparators[0])
                return ast.copy_location(ast.UnaryOp(ast.Not(), result), node)
            case ast.Eq():
                return self._tool("__meter_eq__", node, "==", node.left, node.comparators[0])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        return self._tool("__meter_made__", node, "operator", node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        is_name = isinstance(node.target, ast.Name)
        before = ast.Name(node.target.id, ast.Load()) if is_name else ast.Constant(None)  # type: ignore[union-attr]
        node.value = self._tool("__meter_grown__", node, "+=", before, node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Slice):
            return self._tool("__meter_made__", node, "slice", node)
        return node

    def _display(self, node: Any) -> Any:
        self.generic_visit(node)
        is_unpacked = any(isinstance(elt, ast.Starred) for elt in node.elts)
        if is_unpacked and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return self._tool("__meter_made__", node, "display", node)
        return node

    visit_List = visit_Tuple = visit_Set = _display  # noqa: N815

    def visit_Dict(self, node: ast.Dict) -> Any:
        self.generic_visit(node)
        return self._tool("__meter_made__", node, "display", node) if None in node.keys else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        self.generic_visit(node)
        return self._tool("__meter_made__", node, "text", node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        node.value = self.visit(node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node
