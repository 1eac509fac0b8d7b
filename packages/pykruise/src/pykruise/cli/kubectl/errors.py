"""Errors of commands as text, with kubectl's words.

KubectlError, UsageError, KubeError ──▶ format_errors() ──▶ lines for standard error
"""

import json
from collections.abc import Sequence

from pykruise.cli.errors import CommandError, format_one_line
from pykruise.kube.errors import ApiError, InvalidError, UnreachableError


class KubectlError(CommandError):
    """An error that the user can correct; printed after `error: `."""


class UsageError(KubectlError):
    """An invalid command line; the message refers to the command's help."""


class ResourceError(KubectlError):
    """An error of one object: `deployments.apps "web" is already paused`. Among several errors its line starts with
    `error: ` too.
    """


class SeveralErrors(KubectlError):  # noqa: N818 - they are several
    """Several errors that were found before any change."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)


class ExitCode(Exception):  # noqa: N818 - it ends the command and is no failure of it
    """Ends the command with this exit code and without a message."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def format_errors(errors: Sequence[Exception]) -> str:
    """Lines for standard error, without the last line end."""
    if len(errors) == 1:
        error = errors[0]
        return _format_server_error(error) or f"error: {_format_message(error)}"
    return "\n".join(_format_server_error(error) or _format_error_line(error) for error in errors)


def _format_error_line(error: Exception) -> str:
    return f"error: {_format_message(error)}" if isinstance(error, ResourceError) else _format_message(error)


def _format_message(error: Exception) -> str:
    return str(error) if isinstance(error, KubectlError) else format_one_line(error)


def _format_server_error(error: Exception) -> str:
    """Error of the API server, formatted as kubectl does; empty if the error has another source."""
    if isinstance(error, UnreachableError):
        return f"error: {format_one_line(error)}; check that the kubeconfig is the right one, and that the cluster runs"
    if not isinstance(error, ApiError):
        return ""
    if isinstance(error, InvalidError) and (lines := _format_invalid_object(error)):
        return lines
    if error.reason:
        return f"Error from server ({error.reason}): {error}"
    return f"Error from server: {error}"


def _format_invalid_object(error: InvalidError) -> str:
    details = error.status.details
    if details is None or not details.kind:
        return ""
    what = f"The {details.kind} {json.dumps(details.name)} is invalid"
    if not error.causes:
        return f"{what}: {error}"
    causes = [f"{cause.field}: {cause.message}" for cause in error.causes]
    if len(causes) == 1:
        return f"{what}: {causes[0]}"
    return "\n".join([f"{what}: ", *(f"* {cause}" for cause in causes)])
