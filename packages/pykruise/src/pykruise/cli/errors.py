"""Errors that commands raise for a person to read."""


class CommandError(Exception):
    """Something a person can put right; the message says what, where and what to do. Exit code 1."""


class CommandLineError(CommandError):
    """A command line that is wrong, whatever the files and the cluster say. It is shown as a usage error."""


class MissingError(CommandError):
    """An object that a person named is not there."""


def one_line(error: Exception) -> str:
    """An expected error as the user reads it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__
