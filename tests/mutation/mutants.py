"""The mutants of a module: each is one small change of one function.

source ──parse──▶ functions ──▶ mutants_of() ──▶ Mutants; Mutant.apply() changes the tree that they share

It does not change texts for people (messages, notes, docstrings), and code that runs once when a module is imported:
tables, defaults, declarations. It generates no mutant that is equal to another one for every test. For `a and b` it
generates `a`, `b` and False, because a test that detects `a or b` detects one of them; `x < 1` becomes `x <= 1`, but
not `x < 2`.
"""

import ast
from collections import Counter
from collections.abc import Iterator

import msgspec

__all__ = ["Mutant", "Place", "functions_of", "mutants_of"]

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
OTHER_FUNCTIONS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "sorted": "list",
    "reversed": "list",
}
EMPTY = {
    "bool": (False, True),
    "int": (0,),
    "str": ("",),
    "list": ([],),
    "Sequence": ([],),
    "tuple": ((),),
    "dict": ({},),
    "Mapping": ({},),
}
"""Other values that a function may return, by the name of its return type."""
NOT_LOOKED_AT = {"because", "message", "detail", "problem", "expected", "why", "remedy", "what", "strict"}
"""Arguments that are sentences; and `strict`, which only detects errors in the program itself."""
UNTOUCHED = {"__repr__", "__str__", "__hash__"}


class Place(msgspec.Struct, frozen=True):
    """A function of a module: `Class.method` or a plain name, and the line of its first decorator or `def`."""

    name: str
    first_line: int


class Mutant(msgspec.Struct, frozen=True):
    """One change. `lines`: its place; `name`: function, and the text before and after the change, without its line."""

    place: Place
    name: str
    lines: range
    change: "Change"
    tree: ast.Module

    def apply(self) -> ast.Module:
        """The tree with this change. It stays changed, so a process applies only one mutant."""
        change = self.change
        if change.index is None:
            setattr(change.parent, change.field, change.new)
        else:
            getattr(change.parent, change.field)[change.index] = change.new
        return ast.fix_missing_locations(self.tree)


def functions_of(tree: ast.Module) -> Iterator[tuple[Place, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions of a module and methods of its classes; inner functions belong to the outer one."""

    def inside(
        body: list[ast.stmt], prefix: str
    ) -> Iterator[tuple[Place, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from inside(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in UNTOUCHED:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                yield Place(f"{prefix}{node.name}", first), node

    yield from inside(tree.body, "")


def mutants_of(source: str) -> Iterator[Mutant]:
    """All mutants of a module. Mutants with the same text in one function are numbered from the second on."""
    tree = ast.parse(source)
    for place, function in functions_of(tree):
        names: Counter[str] = Counter()
        for change in _Changes(function).all():
            before, after, at = change.before, change.after, change.at
            name = f"{place.name}: {before} → {after}"
            names[name] += 1
            if names[name] > 1:
                name = f"{name} ({names[name]})"
            yield Mutant(place, name, range(at.lineno, (at.end_lineno or at.lineno) + 1), change, tree)


class Change(msgspec.Struct, frozen=True):
    """A change: `field` of `parent` (at `index`, if it is a list) becomes `new`."""

    parent: ast.AST
    field: str
    index: int | None
    new: ast.AST
    before: str
    after: str
    at: ast.stmt | ast.expr


class _Changes:
    """Walks one function and yields the possible changes."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._function = function
        self._stored = Counter(
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        self._stored.update(argument.arg for argument in ast.walk(function) if isinstance(argument, ast.arg))

    def all(self) -> Iterator[Change]:
        """Every change, in order of the text."""
        seen = set[tuple[int, str, str]]()
        for change in self._of_body(self._function, "body", self._function.returns):
            key = (id(change.at), change.before, change.after)
            if change.before != change.after and key not in seen:
                seen.add(key)
                yield change

    def _of_body(self, parent: ast.AST, field: str, returns: ast.expr | None) -> Iterator[Change]:
        body: list[ast.stmt] = getattr(parent, field)
        for index, node in enumerate(body):
            yield from self._dropped(parent, field, index, node)
            if isinstance(node, ast.Return) and node.value is not None:
                yield from self._returned(node, returns)
            if isinstance(node, ast.If | ast.While):
                yield from self._certain(node, "test", None, node.test)
            for name, value in ast.iter_fields(node):
                if name in ("annotation", "decorator_list", "returns", "args", "type_comment"):
                    continue
                if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                    inner = (
                        node.returns if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else returns
                    )
                    yield from self._of_body(node, name, inner)
                elif isinstance(node, ast.Assign) and _is_sentence(node):
                    continue
                elif isinstance(node, ast.Try | ast.Match) and isinstance(value, list):
                    for match_case in value:
                        yield from self._of_body(match_case, "body", returns)
                        if isinstance(match_case, ast.match_case) and match_case.guard is not None:
                            yield from self._of_expression(match_case, "guard", None, match_case.guard)
                else:
                    yield from self._inside(node, name, value)

    def _inside(self, parent: ast.AST, field: str, value: object) -> Iterator[Change]:
        if isinstance(value, ast.expr):
            yield from self._of_expression(parent, field, None, value)
        elif isinstance(value, list):
            for index, keyword in enumerate(value):
                if isinstance(keyword, ast.expr):
                    if not (isinstance(parent, ast.Compare) and isinstance(keyword, ast.Constant)):
                        yield from self._of_expression(parent, field, index, keyword)
                elif isinstance(keyword, ast.keyword) and keyword.arg not in NOT_LOOKED_AT:
                    yield from self._of_expression(keyword, "value", None, keyword.value)
                elif isinstance(keyword, ast.comprehension | ast.withitem):
                    for name, inner in ast.iter_fields(keyword):
                        yield from self._inside(keyword, name, inner)
                    if isinstance(keyword, ast.comprehension):
                        for place, test in enumerate(keyword.ifs):
                            yield from self._certain(keyword, "ifs", place, test)

    def _dropped(self, parent: ast.AST, field: str, index: int, node: ast.stmt) -> Iterator[Change]:
        is_said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
        is_kept = isinstance(node, ast.Assign) and all(
            not isinstance(target, ast.Name) or self._stored[target.id] > 1 for target in node.targets
        )
        if is_said or is_kept or isinstance(node, ast.AugAssign | ast.Continue | ast.Break | ast.Delete):
            if is_said and "log" in ast.unparse(node).partition("(")[0]:
                return
            yield Change(parent, field, index, ast.Pass(), _text(node), "pass", node)

    def _returned(self, node: ast.Return, returns: ast.expr | None) -> Iterator[Change]:
        assert node.value is not None
        if returns is None:
            return
        kinds = {part.strip().partition("[")[0] for part in ast.unparse(returns).split("|")}
        others = [value for kind in kinds for value in EMPTY.get(kind, ())]
        if "None" in kinds:
            others.append(None)
        for value in others:
            yield self._instead(
                node, "value", None, node.value, ast.parse(repr(value), mode="eval").body, at=node
            )

    def _certain(self, parent: ast.AST, field: str, index: int | None, test: ast.expr) -> Iterator[Change]:
        for value in (True, False):
            if isinstance(parent, ast.While) and value:
                continue
            if isinstance(test, ast.BoolOp) and value == isinstance(test.op, ast.And):
                continue
            yield self._instead(parent, field, index, test, ast.Constant(value), at=test)

    def _instead(
        self,
        parent: ast.AST,
        field: str,
        index: int | None,
        old: ast.AST,
        new: ast.AST,
        *,
        at: ast.stmt | ast.expr,
    ) -> Change:
        return Change(parent, field, index, new, _text(old), _text(new), at)

    def _of_expression(
        self, parent: ast.AST, field: str, index: int | None, node: ast.expr
    ) -> Iterator[Change]:
        if isinstance(node, ast.JoinedStr):
            return
        for new in _others(node, is_condition=field in ("test", "ifs")):
            yield self._instead(parent, field, index, node, new, at=node)
        if isinstance(node, ast.IfExp):
            yield from self._certain(node, "test", None, node.test)
        for name, value in ast.iter_fields(node):
            yield from self._inside(node, name, value)


def _others(node: ast.expr, *, is_condition: bool) -> Iterator[ast.expr]:
    """Expressions that may replace an expression. A condition becomes True and False, which covers its negation."""
    match node:
        case ast.Compare(left, ops, comparators):
            for place, operator in enumerate(ops):
                other = SWAPS.get(type(operator))
                if other is not None and not (is_condition and not isinstance(operator, ORDERED)):
                    changed = [*ops[:place], other(), *ops[place + 1 :]]
                    yield ast.Compare(left, changed, comparators)  # type: ignore[arg-type]
                for by in (1, -1):
                    match comparators[place]:
                        case ast.Constant(int() as value) if not isinstance(value, bool):
                            if isinstance(operator, ORDERED) and by == _like_boundary(operator):
                                continue
                            moved = [
                                *comparators[:place],
                                ast.Constant(value + by),
                                *comparators[place + 1 :],
                            ]
                            yield ast.Compare(left, ops, moved)
        case ast.BoolOp(operator, values):
            for place in range(len(values)):
                left = [*values[:place], *values[place + 1 :]]
                yield left[0] if len(left) == 1 else ast.BoolOp(operator, left)
        case ast.UnaryOp(ast.Not(), operand) if not is_condition:
            yield operand
        case ast.BinOp(left, operator, right) if type(operator) in SWAPS and not _is_text(left, right):
            yield ast.BinOp(left, SWAPS[type(operator)](), right)  # type: ignore[arg-type]
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in OTHER_FUNCTIONS:
            is_list = OTHER_FUNCTIONS[name] == "list"
            yield ast.Call(
                ast.Name(OTHER_FUNCTIONS[name], ast.Load()), arguments, [] if is_list else keywords
            )
        case ast.Subscript(value, ast.Slice(lower, upper, step), context) if lower or upper:
            yield ast.Subscript(value, ast.Slice(None, None, step), context)


def _like_boundary(operator: ast.AST) -> int:
    """The step of an integer that equals a moved boundary: `x < 2` is `x <= 1`."""
    return {ast.Lt: 1, ast.LtE: -1, ast.Gt: -1, ast.GtE: 1}[type(operator)]


def _is_sentence(node: ast.Assign) -> bool:
    """Whether the assigned value is a text for people."""
    return any(isinstance(target, ast.Name) and target.id in NOT_LOOKED_AT for target in node.targets)


def _is_text(*sides: ast.expr) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 120 else f"{text[:117]}..."
