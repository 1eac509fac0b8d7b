"""Warnings in the headers of an API server's answers."""

import pytest

from pykruise.kube.client.warnings import warnings_in


@pytest.mark.parametrize(
    ("header", "warnings"),
    [
        ("", []),
        ('299 - "careful"', ["careful"]),
        ('299 - "a, b", 299 - "a \\"quote\\" and a \\\\"', ["a, b", 'a "quote" and a \\']),
        ('299 kube-apiserver "from an agent"', ["from an agent"]),
        ('199 - "of a proxy"', []),
        ('299 - "not closed', []),
    ],
)
def test_all_warnings_of_a_header_are_read(header: str, warnings: list[str]) -> None:
    assert list(warnings_in({"warning": header} if header else {})) == warnings
