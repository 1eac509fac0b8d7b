"""Names of container images as pods write them, converted into one canonical form.

"docker.io/library/nginx:1.9" ──▶ parse_image() ──▶ ImageName("nginx", "1.9") ──▶ .reference, .repository

Pure. Rule: the reference grammar of container registries. The name omits `docker.io` and `library/`, the tag is
`latest` where none is given, and a digest takes precedence over a tag.
"""

import re
from typing import Final

import msgspec

__all__ = ["ImageName", "parse_image"]

DEFAULT_DOMAIN: Final = "docker.io"
OFFICIAL: Final = "library/"
LONGEST_NAME: Final = 255

_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?", re.ASCII)
_PATH: Final = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*", re.ASCII
)
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}", re.ASCII)
_SHA256: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}", re.ASCII)


class ImageName(msgspec.Struct, frozen=True):
    """An image without its tag, and the tag or digest."""

    name: str
    """`nginx`, `foo/bar`, `gcr.io/p/app`."""
    tag: str
    """`1.9`, or `sha256:…`."""

    @property
    def is_digest(self) -> bool:
        """Whether the reference names a digest."""
        return ":" in self.tag

    @property
    def reference(self) -> str:
        """The reference as it is pulled: `nginx:1.9`, `nginx@sha256:…`."""
        return f"{self.name}{'@' if self.is_digest else ':'}{self.tag}"

    @property
    def repository(self) -> str:
        """The name with its registry: `docker.io/library/nginx`."""
        domain, rest = _split_registry(self.name)
        return f"{domain}/{rest}"


def parse_image(text: str) -> ImageName:
    """Parse the name and tag of an image reference. Raises ValueError with the mistake."""
    if not text:
        raise ValueError("an image must have a name")
    if _IDENTIFIER.fullmatch(text):
        raise ValueError("64 hexadecimal digits are not the name of an image")
    name, _, digest = text.partition("@")
    if "@" in text and not _is_digest(digest):
        raise ValueError(f"{digest!r} is not a digest, such as sha256:…")
    head, colon, tag = name.rpartition(":")
    if colon and "/" not in tag:
        name = head
        if not _TAG.fullmatch(tag):
            raise ValueError(f"{tag!r} is not a tag")
    else:
        tag = ""
    domain, rest = _split_registry(name)
    if rest != rest.lower():
        raise ValueError(f"the repository {rest!r} must be lower case")
    if not _DOMAIN.fullmatch(domain) or not _PATH.fullmatch(rest):
        raise ValueError(f"{name!r} is not an image name")
    if len(domain) + 1 + len(rest) > LONGEST_NAME:
        raise ValueError(f"the name must have at most {LONGEST_NAME} characters")
    return ImageName(_shorten_name(domain, rest), digest or tag or "latest")


def _is_digest(text: str) -> bool:
    if text.startswith("sha256:"):
        return _SHA256.fullmatch(text) is not None
    return _DIGEST.fullmatch(text) is not None


def _split_registry(name: str) -> tuple[str, str]:
    """Return registry and repository."""
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        first, rest = DEFAULT_DOMAIN, name
    if first == "index.docker.io":
        first = DEFAULT_DOMAIN
    if first == DEFAULT_DOMAIN and "/" not in rest:
        rest = f"{OFFICIAL}{rest}"
    return first, rest


def _shorten_name(domain: str, rest: str) -> str:
    return rest.removeprefix(OFFICIAL) if domain == DEFAULT_DOMAIN else f"{domain}/{rest}"
