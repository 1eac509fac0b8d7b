"""Errors of patches.

PatchError                the patch cannot be applied (or made); `code` is the HTTP status an API server
answers └── JsonPatchTestFailed   a `test` operation did not hold: a precondition, not a mistake
"""

__all__ = ["JsonPatchTestFailed", "PatchError"]


class PatchError(ValueError):
    """A patch that cannot be applied to this document; the message is worded as Kubernetes words it.

    `code` is what an API server answers with: 400 (not a patch), 422 (does not fit the document) or 500 (it
    has no better answer to some mistakes in strategic merge patches).
    """

    def __init__(self, message: str, *, code: int = 400) -> None:
        super().__init__(message)
        self.code = code


class JsonPatchTestFailed(PatchError):  # noqa: N818  # says what happened
    """A `test` operation found something else, or nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=422)
