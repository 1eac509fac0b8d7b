"""Errors of patches.

- PatchError: the patch cannot be applied (or made); `code` is the HTTP status of an API server's response.
- JsonPatchTestFailed, a PatchError: a `test` operation failed, which is an unmet precondition, not a mistake.
"""

__all__ = ["JsonPatchTestFailed", "PatchError"]


class PatchError(ValueError):
    """A patch that cannot be applied to this document, with Kubernetes' message.

    `code` is the status of an API server's response: 400 (not a patch), 422 (does not fit the document) or 500 (for
    some mistakes in strategic merge patches).
    """

    def __init__(self, message: str, *, code: int = 400) -> None:
        super().__init__(message)
        self.code = code


class JsonPatchTestFailed(PatchError):  # noqa: N818  # says what happened
    """The document does not have the value that a `test` operation requires."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=422)
