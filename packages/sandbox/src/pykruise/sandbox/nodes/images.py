"""Results of a registry: the digest of an image, or why it cannot be pulled.

image as a pod names it ──▶ ImageTable.pull() ──▶ Pulled (imageID) | PullFailure (reason, message)

Pure. There is no registry: the digest is computed from the name, so it is the same in every run. Several tags share a
digest when the table says that one is `same_as` another. An image whose repository ends in `broken`, or that the
table lists as broken, cannot be pulled.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256

import msgspec

from pykruise.kube.values.image_pulls import Pulled, PullFailure

_REFERENCE = re.compile(
    r"(?P<name>(?:[a-zA-Z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)


class ImageTable(msgspec.Struct, frozen=True, kw_only=True):
    """The images of a registry that has every image except those that are listed as broken.

    Names may be short, as in pods: `nginx` means `docker.io/library/nginx:latest`.
    """

    same_as: Mapping[str, str] = {}
    """Image → another image with the same digest (a second tag of the same image)."""
    broken: tuple[str, ...] = ()
    """Images whose pull fails."""
    private: Mapping[str, str] = {}
    """Repository without tag, as pods name it → `user:password` that an agent needs to pull its images."""
    pulled: dict[str, Pulled | PullFailure] = {}
    """Cache of results, because the same few images are pulled many times."""

    def pull(self, image: str) -> Pulled | PullFailure:
        """Return the image id of `image`, or why it cannot be pulled."""
        answer = self.pulled.get(image)
        if answer is None:
            if len(self.pulled) >= _REMEMBERED:
                self.pulled.clear()
            answer = self.pulled[image] = self._pull(image)
        return answer

    def pull_as(self, image: str, credentials: Sequence[str]) -> Pulled | PullFailure:
        """Try to pull with each of these `user:password` texts; if there are none, pull without credentials.

        This is the rule of the node agent: if the registry rejects all of them, there is no attempt without
        credentials.
        """
        match = _REFERENCE.fullmatch(image)
        repository = _expand_repository(match["name"]) if match is not None else ""
        needed = {_expand_repository(name): secret for name, secret in self.private.items()}.get(repository)
        if needed is None or needed in credentials:
            return self.pull(image)
        refused = "pull access denied, repository does not exist or may require authorization"
        return PullFailure("ErrImagePull", f'failed to pull "{image}": {refused}')

    def _pull(self, image: str) -> Pulled | PullFailure:
        match = _REFERENCE.fullmatch(image)
        if match is None:
            return PullFailure(
                "InvalidImageName",
                f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": '
                "invalid reference format",
            )
        repository, name = _expand_repository(match["name"]), expand_name(image)
        if repository.rsplit("/", 1)[-1] == "broken" or name in {expand_name(other) for other in self.broken}:
            return PullFailure(
                "ErrImagePull",
                f'rpc error: code = NotFound desc = failed to pull and unpack image "{name}": failed to resolve '
                f'reference "{name}": {name}: not found',
            )
        digest = match["digest"] or f"sha256:{sha256(self._find_digest_source(name).encode()).hexdigest()}"
        return Pulled(f"{repository}@{digest}")

    def _find_digest_source(self, name: str) -> str:
        """Source of the digest: the full name at the end of the `same_as` chain."""
        same = {expand_name(value): expand_name(other) for value, other in self.same_as.items()}
        seen: set[str] = set()
        while name in same and name not in seen:
            seen.add(name)
            name = same[name]
        return name


_REMEMBERED = 1024


@lru_cache(maxsize=1024)
def expand_name(image: str) -> str:
    """Return the full name: `nginx` → `docker.io/library/nginx:latest`. If the image has a digest,
    the tag is removed.

    Text that is not an image reference is returned unchanged.
    """
    match = _REFERENCE.fullmatch(image)
    if match is None:
        return image
    repository = _expand_repository(match["name"])
    if match["digest"]:
        return f"{repository}@{match['digest']}"
    return f"{repository}:{match['tag'] or 'latest'}"


def _expand_repository(name: str) -> str:
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"
