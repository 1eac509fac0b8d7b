"""Validation of paths and modes of files in volumes.

    a path or mode ──▶ check_descending(), check_no_backsteps(), check_file_path(), check_mode() ──▶ Causes

Pure; volumes.py and security_rules.py call these checks.
"""

from pykruise.kube.pod_rules.field_errors import make_invalid_error, make_required_error
from pykruise.kube.pod_rules.field_rules import Causes

__all__ = ["check_descending", "check_file_path", "check_mode", "check_no_backsteps"]


def check_no_backsteps(value: str, path: str) -> Causes:
    """Yield an error if a part of the path is `..`."""
    if ".." in value.split("/"):
        yield make_invalid_error(path, value, "must not contain '..'")


def check_descending(value: str, path: str) -> Causes:
    """Yield the errors of a path that must stay below its folder."""
    if value.startswith("/"):
        yield make_invalid_error(path, value, "must be a relative path")
    yield from check_no_backsteps(value, path)


def check_file_path(value: str, path: str) -> Causes:
    """Yield the errors of the path of a file that the kubelet writes. Names that begin with `..` are the kubelet's."""
    if not value:
        yield make_required_error(path)
    yield from check_descending(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield make_invalid_error(path, value, "must not start with '..'")


def check_mode(mode: int | None, path: str) -> Causes:
    """Yield the errors of the mode of a file."""
    if mode is not None and not 0 <= mode <= 0o777:
        yield make_invalid_error(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")
