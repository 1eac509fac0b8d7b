"""Numbers with their noun, as people read them: `1 pod is`, `2 pods are`. Pure."""

__all__ = ["format_count"]


def format_count(count: int, singular: str, plural: str = "") -> str:
    """`count` and its noun, or its noun and verb. `plural`: where it is another word than the singular with an s."""
    return f"{count} {singular if count == 1 else plural or f'{singular}s'}"
