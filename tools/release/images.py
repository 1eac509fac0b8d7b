"""The images of the manager, the agent and the dashboard, each with all architectures under one digest.

wheels, Debian's packages ──testbed.product_images──▶ Image by architecture ──▶ index ──▶ NAME-VERSION.oci.tar
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testbed.images import Image, build_archive, index_of
from testbed.product_images import AGENT, DASHBOARD, MANAGER, Package, Recipe, build_images
from tools.release.staging import Sources

__all__ = ["ARCHITECTURES", "ReleasedImage", "build"]

ARCHITECTURES: Final = ("amd64", "arm64")

_TITLES: Final = {
    MANAGER: "The manager: controllers and webhooks",
    AGENT: "The agent of each node",
    DASHBOARD: "The dashboard",
}


@dataclass(frozen=True)
class ReleasedImage:
    """One image with its contents by architecture."""

    recipe: Recipe
    image: Image
    """The image; its manifest is an index."""
    packages: Mapping[str, tuple[Package, ...]]

    @property
    def name(self) -> str:
        """Name of the image, such as `kruise-manager`."""
        return self.recipe.name.rpartition("/")[2]


def build(
    sources: Sources,
    folder: Path,
    wheels: Mapping[str, Path],
    *,
    architectures: Sequence[str] = ARCHITECTURES,
    recipes: Sequence[Recipe] = (MANAGER, AGENT, DASHBOARD),
) -> list[ReleasedImage]:
    """Build the images, and write an archive of each."""
    built = {
        architecture: {
            recipe: image
            for recipe in recipes
            for image in build_images(
                recipe,
                architecture=architecture,
                wheels=wheels,
                root=sources.root,
                labels=_labels(recipe, sources),
            ).values()
        }
        for architecture in architectures
    }
    released = []
    for recipe in recipes:
        index = index_of({name: images[recipe].image for name, images in built.items()})
        released_image = ReleasedImage(
            recipe, index, {name: images[recipe].packages for name, images in built.items()}
        )
        name = f"{sources.registry or 'docker.io/pykruise'}/{released_image.name}:{sources.tag}"
        (folder / f"{released_image.name}-{sources.version}.oci.tar").write_bytes(build_archive(index, name))
        released.append(released_image)
    return released


def _labels(recipe: Recipe, sources: Sources) -> dict[str, str]:
    labels = {
        "title": recipe.name.rpartition("/")[2],
        "description": f"{_TITLES[recipe]} of pykruise, which implements OpenKruise's workloads in Python",
        "version": sources.version,
        "revision": sources.commit,
        "licenses": "Apache-2.0",
        **({"source": sources.repository} if sources.repository else {}),
    }
    return {f"org.opencontainers.image.{name}": value for name, value in labels.items()}
