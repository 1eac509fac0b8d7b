"""What commands raise for a person to read."""


class CommandError(Exception):
    """Something a person can put right; the message says what, where and what to do. Exit code 1."""
