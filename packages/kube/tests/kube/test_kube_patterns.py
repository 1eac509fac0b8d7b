"""Regular expressions from users: RE2, loaded with the first expression."""

import subprocess
import sys

import pytest

from pykruise.kube.values.patterns import PatternError, compile_pattern


@pytest.mark.parametrize("pattern", ["[x(", "(?=ahead)", r"(a)\1", "(a{1000}){1000}"])
def test_a_pattern_that_go_cannot_compile_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


def test_a_pattern_with_exponential_backtracking_is_evaluated_quickly() -> None:
    """An engine with backtracking needs 2^63 steps for this: the test would never end."""
    assert compile_pattern(r"^(\w+-?)+$").search("a" * 63 + ".") is None


def test_the_engine_is_not_loaded_before_there_is_a_pattern() -> None:
    # given a process that has loaded all of injection
    script = "import sys, pykruise.kinds.sidecarset.injection; sys.exit('re2' in sys.modules)"
    # then
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
