"""Expressions for the resources of a sidecar."""

from contextlib import nullcontext

import pytest

from pykruise.kinds.sidecarset.expressions import DEEPEST, LONGEST, ResourceExpressionError, check, evaluate
from pykruise.kube.values.quantities import Quantity


def result(text: str, amount: str, variable: str = "cpu") -> str:
    return str(evaluate(text, variable=variable, amount=Quantity.parse(amount)))


@pytest.mark.parametrize(
    ("text", "amount", "expected"),
    [
        ("max(cpu*50%, 50m)", "600m", "300m"),
        ("max(cpu*50%, 50m)", "20m", "50m"),
        ("min(cpu, 1)", "2", "1"),
        ("CPU * 0.5 + 1", "1", "1500m"),
        ("cpu - 200m - 100m", "1", "700m"),
        ("-(-cpu)", "1", "1"),
        ("2 + 3 * 2", "1", "8"),
        ("(2 + 3) * 2", "1", "10"),
        ("1.2345", "1", "1234m"),
        (".5e1", "1", "5"),
        ("cpu/3", "1", "333m"),
        ("cpu*50%", "0", "0"),
        ("cpu + 0.0015", "1", "1001m"),
        ("0.0015 + cpu", "1", "1001m"),
        ("3 - 1 - 0.5", "1", "1500m"),
        ("3 - cpu", "1", "2"),
        ("6 / 4", "1", "1500m"),
        ("2 * cpu", "1", "2"),
        ("cpu * (1 + 1)", "1", "2"),
        ("cpu * max(1, 2)", "1", "2"),
        ("max(1, 2)", "1", "2"),
        ("max(2, 1)", "1", "2"),
        ("min(2, 1)", "1", "1"),
        ("min(1, 2)", "1", "1"),
        ("max(0.5, cpu)", "1", "1"),
        ("1e30", "1", "1000000000000E"),
        ("cpu", "1n", "1n"),
    ],
)
def test_cpu_expressions_are_evaluated(text: str, amount: str, expected: str) -> None:
    assert result(text, amount) == expected


@pytest.mark.parametrize(
    ("text", "amount", "expected"),
    [
        ("max(memory*20% + 100Mi, 200Mi)", "800Mi", "260Mi"),
        ("memory * 2", "1Gi", "2Gi"),
        ("MEMORY", "1G", "1G"),
        ("memory - memory + 100M", "1Gi", "100M"),
        ("max(memory, memory)", "64Mi", "64Mi"),
        # of two equal amounts, the first
        ("max(memory, 1024)", "1Ki", "1Ki"),
        ("min(memory, 1024)", "1Ki", "1Ki"),
        ("min(1024, memory)", "1Ki", "1024"),
        # an amount that is no power of two is written as a decimal number
        ("memory * 2", "1e3", "2k"),
    ],
)
def test_memory_expressions_are_evaluated(text: str, amount: str, expected: str) -> None:
    """sidecarset case 56"""
    assert result(text, amount, "memory") == expected


@pytest.mark.parametrize("variable", ["cpu", "memory"])
def test_a_number_without_unit_is_cut_to_thousandths(variable: str) -> None:
    assert result("10.7004 + 0*1 + min(1, 0)", "1", variable) == "10700m"


def test_a_large_amount_does_not_overflow() -> None:
    assert result("memory*3", "9P", "memory") == "27P"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "max(cpu)",
        "max(cpu, 1, 2)",
        "foo",
        "memory",
        "(cpu",
        "cpu)",
        "cpu cpu",
        "cpu*cpu",
        "1/cpu",
        "cpu/0",
        "100MB",
        "10Kib",
        "5e",
        "2E",
        "2Ei",
        "1e2k",
        "50m%",
        "1e99999999",
        "cpu ** 2",
        "__import__('os')",
        "cpu.real",
        "(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1),
        "-" * 900 + "1",
        "1+" * 600 + "1",
    ],
)
def test_an_unevaluable_expression_is_refused(text: str) -> None:
    """sidecarset case 26"""
    with pytest.raises(ResourceExpressionError):
        check(text, variable="cpu")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max(cpu)", "has ')' where ',' is expected"),
        ("(cpu", "has 'the end' where ')' is expected"),
        ("cpu +", "has the end where a number, a variable or '(' is expected"),
        ("*", "has '*' where a number, a variable or '(' is expected"),
        ("cpu cpu", "has an unexpected 'cpu'"),
        ("  cpu & 1", "has '&', which is not allowed here"),
        ("cores", "has the unknown name 'cores'; known are cpu, max and min"),
        ("1e31", "has the number '1e31', which is too large or too small"),
        ("1e-31", "has the number '1e-31', which is too large or too small"),
        ("10Kib", "has '10Kib', which is not a quantity"),
        ("1e2k", "has '1e2k'; a number has an exponent or a unit, not both"),
        ("cpu*cpu", "multiplies two quantities"),
        # max and min of a quantity are a quantity
        ("cpu*max(2, cpu)", "multiplies two quantities"),
        ("cpu*min(2, cpu + 2)", "multiplies two quantities"),
        ("cpu*max(cpu, 2)", "multiplies two quantities"),
        ("1/cpu", "divides by a quantity"),
        ("cpu/0", "divides by zero"),
    ],
)
def test_an_expression_error_names_its_cause(text: str, problem: str) -> None:
    with pytest.raises(ResourceExpressionError) as caught:
        check(text, variable="cpu")
    assert str(caught.value).startswith(problem)


def nested(depth: int) -> str:
    """A number in parentheses with this depth."""
    return "(" * (depth - 1) + "1" + ")" * (depth - 1)


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("cpu".ljust(LONGEST), False),
        ("cpu".ljust(LONGEST + 1), True),
        (nested(DEEPEST), False),
        (nested(DEEPEST + 1), True),
        # parentheses side by side are not nested
        ("+".join(["(1)"] * (DEEPEST + 1)), False),
        (f"(1) + (1) + {nested(DEEPEST + 1)}", True),
    ],
)
def test_an_expression_has_a_greatest_length_and_depth(text: str, *, is_refused: bool) -> None:
    with pytest.raises(ResourceExpressionError) if is_refused else nullcontext():
        check(text, variable="cpu")


@pytest.mark.parametrize("text", ["cpu - 2", "cpu - 100000", "max(cpu*50%, 50m)"])
def test_an_expression_that_is_negative_only_for_small_values_passes_the_check(text: str) -> None:
    check(text, variable="cpu")


def test_a_negative_result_is_an_error() -> None:
    """sidecarset case 55"""
    with pytest.raises(ResourceExpressionError, match="must not be negative"):
        result("cpu - 2", "1")
    with pytest.raises(ResourceExpressionError, match="must not be negative"):
        result("-cpu", "1n")
