"""CEL: expressions that compile, those that are refused when they are written, and those without a value."""

from typing import Any

import pytest

from pykruise.sandbox.apiserver.custom.expressions import EvaluationError, ExpressionError, compile_expression

NAMES = frozenset(("self", "oldSelf"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("has(self.spec.x) && self.spec.x > 1", True),
        ("self.list.all(x, x.startsWith('a'))", True),
        ("self.list.exists_one(x, x == 'ab') ? 'yes' : 'no'", "yes"),
        ("self.list.isSorted() && self.list.indexOf('ac') == 1", True),
        ("self.text.find('b+')", "bb"),
        ("self.text.findAll('[a-z]').size()", 3),
        ("type(self.spec.x) == int", True),
        ("self.none.x == 1 || true", True),
        ("math.abs(-2)", 2),
        ("duration('1h') > duration('30m')", True),
        ("quantity('1Gi') == quantity('1024Mi') && quantity('1.5').isGreaterThan(quantity('1'))", True),
        ("quantity('1').sub(quantity('1500m')).compareTo(quantity('-500m'))", 0),
        ("[isQuantity('1k'), isQuantity('one'), quantity('500m').isInteger()]", [True, False, False]),
        ("[sign(quantity('-1k')), quantity('50k').asInteger()]", [-1, 50_000]),
        ("'%s has %d, %.1f%%'.format([self.text, self.spec.x, 2.25])", "abb has 2, 2.2%"),
        ("'%s %s %s'.format([self.list, true, null])", '["ab", "ac"] true null'),
    ],
)
def test_expressions_have_the_value_that_cel_gives_them(text: str, value: Any) -> None:
    doc = {"spec": {"x": 2}, "list": ["ab", "ac"], "text": "abb"}
    assert compile_expression(text, NAMES).evaluate({"self": doc}) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("self.x ==", "Syntax error"),
        ("other == 1", "undeclared reference to 'other'"),
        ("ip('1.2.3.4').family() == 4", "undeclared reference to 'ip'"),
        ("self.?x.orValue(1) == 1", "unsupported syntax"),
        ("cel.bind(x, 1, x == 1)", "undeclared reference to 'bind'"),
        ("(" * 500 + "self" + ")" * 500, "ERROR"),
        ("self + " * 3_000 + "self", "longer than"),
    ],
)
def test_an_unsupported_expression_is_refused_when_it_is_written(text: str, why: str) -> None:
    with pytest.raises(ExpressionError, match=why):
        compile_expression(text, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "self.none",
        "self.a + 1",
        "self.list[9]",
        "1 / 0",
        "self.a.matches('(')",
        "quantity('x')",
        "'%d'.format(['x'])",
        "'%d %d'.format([1])",
        "'%q'.format([1])",
        "self.list.isLessThan(quantity('1'))",
    ],
)
def test_an_expression_without_a_value_is_an_error(text: str) -> None:
    with pytest.raises(EvaluationError):
        compile_expression(text, NAMES).evaluate({"self": {"a": "x", "list": []}})


def test_a_condition_must_be_true_or_false() -> None:
    with pytest.raises(EvaluationError, match="must evaluate to bool"):
        compile_expression("1", NAMES).holds({})
