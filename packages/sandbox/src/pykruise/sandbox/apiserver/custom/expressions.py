"""CEL expressions: compiled once, and rejected when they use something that is not supported here.

text + names of variables ──▶ compile_expression() ──▶ Expression ──▶ evaluate(variables) ──▶ a value

The `common-expression-language` package provides the language. expression_functions.py adds Kubernetes' functions.
There are no functions for URLs, IP addresses and semantic versions, no optional field selection (`a.?b`), no `cel.bind`
and no two-variable comprehensions. An expression that uses one of these is rejected when it is written, and the message
names it. There is no type checker: a field that does not exist, or a comparison of different types, is reported when
the expression is evaluated.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from pykruise.kube.values.go_text import quote_text

CONDITION_VARIABLES: Final = frozenset(("object", "oldObject", "request"))
"""Variables of a webhook's matchConditions. `authorizer` is not supported."""

RESERVED_WORDS: Final = frozenset(
    """true false null in as break const continue else for function if import let loop package namespace
    return var void while""".split()  # noqa: SIM905  (a list of words reads better)
)
"""Names that CEL's syntax does not allow."""

POLICY_VARIABLES: Final = CONDITION_VARIABLES | {"namespaceObject"}
"""Variables of an admission policy's validations; `params` and `variables` are added for policies that have them."""

_LONGEST: Final = 10_000


class ExpressionError(ValueError):
    """An expression cannot be compiled. The message is shown after `compilation failed: `."""


class EvaluationError(ValueError):
    """An expression cannot be evaluated with the values of its variables."""


class Expression:
    """A compiled expression. Create it with `compile_expression`."""

    def __init__(self, text: str, program: Any) -> None:
        self.text = text
        self._program = program
        self.variables: frozenset[str] = frozenset(program.variables())

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """Return the value. Raises EvaluationError."""
        context = _build_context(variables)
        for name, function in _load_functions().items():
            context.add_function(name, function)
        try:
            return self._program.execute(context)
        except KeyError as err:
            raise EvaluationError(f"no such key: {err.args[0] if err.args else ''}") from err
        except RecursionError as err:
            raise EvaluationError("nested too deep") from err
        except Exception as err:  # the library may raise any exception
            raise EvaluationError(str(err)) from err

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Whether the value is true. Raises EvaluationError, also for a value that is not a bool."""
        value = self.evaluate(variables)
        if not isinstance(value, bool):
            raise EvaluationError("must evaluate to bool")
        return value


@lru_cache(maxsize=4_096)
def compile_expression(text: str, variables: frozenset[str]) -> Expression:
    """Compile an expression that may use these `variables`. Raises ExpressionError."""
    if len(text) > _LONGEST:
        raise ExpressionError(f"the expression is longer than {_LONGEST} characters")
    try:
        program = _load_library().compile(text)
    except Exception as err:
        message = str(err).partition(": ")[2] or str(err)
        raise ExpressionError(message) from err
    expression = Expression(text, program)
    missing = [name for name in sorted(program.functions()) if not _is_known(name)]
    bound = set(_BOUND.findall(text))
    missing += sorted(expression.variables - variables - _TYPES - _LIBRARIES - bound)
    if missing:
        lines = [_describe_undeclared(text, name) for name in missing]
        raise ExpressionError("\n".join(lines))
    return expression


def evaluate_conditions(conditions: Iterable[Expression], variables: Mapping[str, Any]) -> bool:
    """Whether all match conditions are true. With one false condition, the result is false, even if another
    condition cannot be evaluated.

    Raises EvaluationError. This is the rule of Kubernetes' matchConditions.
    """
    failed: list[str] = []
    for condition in conditions:
        try:
            if not condition.holds(variables):
                return False
        except EvaluationError as err:
            failed.append(f"expression '{condition.text}' resulted in error: {err}")
    if failed:
        raise EvaluationError(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
    return True


def make_optional(value: Any = None, *, is_there: bool = True) -> Any:
    """Return CEL's optional value."""
    kind = _load_library().OptionalValue
    return kind.of(value) if is_there else kind.none()


@cache
def _load_library() -> Any:
    """Import the library when the first expression is compiled: its import takes longer than that of the API server."""
    import cel

    return cel


def _load_functions() -> Mapping[str, Callable[..., Any]]:
    from pykruise.sandbox.apiserver.custom.expression_functions import FUNCTIONS

    return FUNCTIONS


def _build_context(variables: Mapping[str, Any]) -> Any:
    from cel.stdlib import add_stdlib_to_context

    context = _load_library().Context(dict(variables))
    add_stdlib_to_context(context)
    return context


_BOUND: Final = re.compile(r"\.(?:all|exists|exists_one|filter|map)\(\s*([A-Za-z_]\w*)\s*,")
"""Matches the names that comprehensions in an expression declare."""


def _describe_undeclared(text: str, name: str) -> str:
    """Error for an undeclared name, with its position, in cel-go's words."""
    match = re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", text)
    column = match.start() if match else 0
    shown = quote_text(name).replace('"', "'")
    return (
        f"ERROR: <input>:1:{column + 1}: undeclared reference to {shown} (in container '')\n"
        f" | {text}\n | {'.' * column}^"
    )


_LIBRARIES: Final = frozenset(("base64", "math", "optional", "sets"))
_TYPES: Final = frozenset(
    "bool bytes double duration dyn int list map null_type string timestamp type uint".split()  # noqa: SIM905
)
"""Names of types, which are also values."""


@lru_cache(maxsize=1)
def _list_known_functions() -> frozenset[str]:
    context = _build_context({})
    return frozenset(name.rpartition(".")[2] for name in (*context.functions, *_load_functions()))


_NATIVE: Final = frozenset(
    """all bool bytes contains double duration dyn endsWith exists exists_one filter getDate getDayOfMonth
    getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds has hasValue
    int map matches none of ofNonZeroValue or orValue size startsWith string timestamp type uint
    value""".split()  # noqa: SIM905  (a list of words reads better)
)


def _is_known(name: str) -> bool:
    """Whether a function is supported. Operators are functions too; their names do not begin with a letter."""
    return not re.match(r"[A-Za-z]", name) or name in _NATIVE or name in _list_known_functions()
