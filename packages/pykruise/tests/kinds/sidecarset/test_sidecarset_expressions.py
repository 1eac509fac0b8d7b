"""Expressions that give a sidecar's resources."""

import pytest

from pykruise.kinds.sidecarset.expressions import DEEPEST, ExpressionError, check, evaluate
from pykruise.kube.quantities import Quantity


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
    ],
)
def test_cpu(text: str, amount: str, expected: str) -> None:
    assert result(text, amount) == expected


@pytest.mark.parametrize(
    ("text", "amount", "expected"),
    [
        ("max(memory*20% + 100Mi, 200Mi)", "800Mi", "260Mi"),
        ("memory * 2", "1Gi", "2Gi"),
        ("MEMORY", "1G", "1G"),
        ("memory - memory + 100M", "1Gi", "100M"),
        ("max(memory, memory)", "64Mi", "64Mi"),
    ],
)
def test_memory(text: str, amount: str, expected: str) -> None:
    """case 56"""
    assert result(text, amount, "memory") == expected


def test_a_number_without_unit_is_whole_bytes_of_memory() -> None:
    assert result("10.7 + 0*1 + min(1, 0)", "1") == "10700m"
    with pytest.raises(ExpressionError, match="multiplies two quantities"):
        result("memory*memory", "1", "memory")


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
def test_what_can_never_be_evaluated_is_refused(text: str) -> None:
    """case 26"""
    with pytest.raises(ExpressionError):
        check(text, variable="cpu")


@pytest.mark.parametrize("text", ["cpu - 2", "cpu - 100000", "max(cpu*50%, 50m)"])
def test_what_is_negative_only_for_small_pods_is_accepted_and_refused_for_those(text: str) -> None:
    check(text, variable="cpu")


def test_a_negative_result_is_an_error() -> None:
    """case 55"""
    with pytest.raises(ExpressionError, match="must not be negative"):
        result("cpu - 2", "1")
