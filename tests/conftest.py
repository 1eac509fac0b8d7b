"""Options and fixtures of all tests."""

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cluster",
        choices=("sandbox", "real"),
        default="sandbox",
        help="where scenarios run: in the sandbox (virtual time), or on the real control plane of testbed/",
    )
    parser.addoption(
        "--record",
        action="store_true",
        help="with --cluster=real: keep what the real API server answers to tests/conformance",
    )
