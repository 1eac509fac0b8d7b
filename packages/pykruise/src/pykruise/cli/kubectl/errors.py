"""How failures of a command are shown: kubectl's words and exit codes.

KubectlError, UsageError, KubeError ──▶ shown() ──▶ lines for standard error
"""

import json
from collections.abc import Sequence

from pykruise.cli.errors import CommandError, one_line
from pykruise.kube.errors import ApiError, InvalidError, UnreachableError


class KubectlError(CommandError):
    """Something that a person can put right; shown after `error: `."""


class UsageError(KubectlError):
    """A command line that cannot be meant; the command's help is pointed at."""


class ResourceError(KubectlError):
    """About one object: `deployments.apps "web" is already paused`. Among several failures it says `error: ` itself."""


class SeveralErrors(KubectlError):  # noqa: N818 - they are several
    """Several things failed before anything was done."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)


class ExitCode(Exception):  # noqa: N818 - it ends the command and is no failure of it
    """End with this exit code, with nothing more to say."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def shown(errors: Sequence[Exception]) -> str:
    """The lines for standard error, without the last line end."""
    if len(errors) == 1:
        error = errors[0]
        return _of_server(error) or f"error: {_message(error)}"
    return "\n".join(_of_server(error) or _alone(error) for error in errors)


def _alone(error: Exception) -> str:
    return f"error: {_message(error)}" if isinstance(error, ResourceError) else _message(error)


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, KubectlError) else one_line(error)


def _of_server(error: Exception) -> str:
    """Answer of the API server, as kubectl shows it; empty: the error has another source."""
    if isinstance(error, UnreachableError):
        return f"error: {one_line(error)}; is the kubeconfig the right one, and the cluster running?"
    if not isinstance(error, ApiError):
        return ""
    if isinstance(error, InvalidError) and (lines := _invalid(error)):
        return lines
    if error.reason:
        return f"Error from server ({error.reason}): {error}"
    return f"Error from server: {error}"


def _invalid(error: InvalidError) -> str:
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
