"""Bills of materials as CycloneDX 1.6, for each image and architecture, the plugin's files and each wheel.

packages of an image, wheels ──▶ bill ──▶ NAME.cdx.json

Two builds of the same content give the same bill: it has no time, and its serial number is the hash of its content.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from testbed.product_images import bill_of
from tools.release.images import ReleasedImage
from tools.release.staging import Sources

__all__ = ["build", "list_locked_packages", "write_bill"]


def build(
    sources: Sources,
    folder: Path,
    *,
    wheels: Mapping[str, Path],
    images: Sequence[ReleasedImage],
    plugins: Iterable[Path],
) -> list[Path]:
    """Write all bills."""
    written = []
    for image in images:
        for architecture, packages in image.packages.items():
            name = f"{image.name}-{sources.version}-{architecture}"
            written.append(write_bill(folder, name, bill_of(image.recipe, packages)))
    for wheel in wheels.values():
        written.append(write_bill(folder, wheel.name.partition("-py3")[0], _bill_of_wheel(wheel)))
    locked = list_locked_packages((sources.root / "supply/dashboard.txt").read_text("utf-8"))
    for plugin in plugins:
        written.append(write_bill(folder, plugin.name, _bill_of_plugin(plugin, sources, wheels, locked)))
    return written


def write_bill(folder: Path, name: str, document: Mapping[str, Any]) -> Path:
    """Write a bill with its serial number."""
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    whole = {**document, "serialNumber": f"urn:uuid:{identity}"}
    file = folder / f"{name}.cdx.json"
    file.write_text(json.dumps(whole, indent=2) + "\n", "utf-8")
    return file


def list_locked_packages(text: str) -> list[tuple[str, str]]:
    """Return the names and versions from the text of a requirements file with hashes."""
    return re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE)


def _bill_of_wheel(wheel: Path) -> dict[str, Any]:
    """Return the bill of a wheel. A wheel requires ranges of versions, so its components have no exact versions."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(text for text in archive.namelist() if text.endswith(".dist-info/METADATA"))
        about = HeaderParser().parsestr(archive.read(name).decode())
    reference = f"pkg:pypi/{about['Name']}@{about['Version']}"
    needed = [re.split(r"[\s;\[<>=!~]", text, maxsplit=1)[0] for text in about.get_all("Requires-Dist", [])]
    components = [
        {"type": "library", "bom-ref": f"pkg:pypi/{item}", "name": item, "purl": f"pkg:pypi/{item}"}
        for item in sorted(set(needed))
    ]
    product = {
        "type": "library",
        "bom-ref": reference,
        "name": about["Name"],
        "version": about["Version"],
        "purl": reference,
        "licenses": [{"expression": about["License-Expression"]}],
        "hashes": [_hash(wheel)],
    }
    return _document(product, components)


def _bill_of_plugin(
    plugin: Path, sources: Sources, wheels: Mapping[str, Path], locked: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    own = [(wheel.name.split("-")[0].replace("_", "-"), sources.version) for wheel in wheels.values()]
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version}",
        }
        for name, version in sorted((*own, *locked))
    ]
    product = {
        "type": "application",
        "bom-ref": plugin.name,
        "name": "kubectl-kruise",
        "version": sources.version,
        "hashes": [_hash(plugin)],
    }
    return _document(product, components)


def _document(product: Mapping[str, Any], components: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": product},
        "components": list(components),
        "dependencies": [
            {"ref": product["bom-ref"], "dependsOn": [str(component["bom-ref"]) for component in components]}
        ],
    }


def _hash(file: Path) -> dict[str, str]:
    return {"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}
