"""The scheduler of the sandbox."""
