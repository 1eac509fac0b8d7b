"""Errors that commands raise, with messages for the user."""


class CommandError(Exception):
    """An error that the user can correct; the message says what, where and what to do. Exit code 1."""


class CommandLineError(CommandError):
    """An invalid command line, independent of files and the cluster. It is shown as a usage error."""


class MissingError(CommandError):
    """The object that the user named does not exist."""


def format_one_line(error: Exception) -> str:
    """Message of an expected error in one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__
