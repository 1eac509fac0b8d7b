"""Output format `-o go-template=…`, with the optional library gotpl: `pip install gotpl`.

template, document ──▶ render() ──▶ text
"""

from typing import Any

from pykruise.cli.kubectl.errors import KubectlError


def render(template: str, document: Any, *, allow_missing: bool = True) -> str:
    """Render a Go template for a document. Raises KubectlError, also for a missing key unless `allow_missing`."""
    try:
        from gotpl import Template
    except ImportError as error:
        raise KubectlError(
            "-o go-template needs the package gotpl (pip install gotpl); -o jsonpath works without it"
        ) from error
    try:
        return str(Template(template, missing_key="default" if allow_missing else "error").render(document))
    except Exception as error:  # the library's parser, lexer and functions have no common error class
        raise KubectlError(f"error parsing template {template}, {error}") from error
