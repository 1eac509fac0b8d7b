"""The bill of materials of a Python environment as CycloneDX 1.6 (JSON): what is in it, and the hashes it is locked to.

installed distributions, supply/*.txt (hashes) ──▶ bill() ──▶ python supply/sbom.py LOCK [LOCK…] > sbom.cdx.json

Nothing but the standard library, and nothing that differs between two builds of the same: no time, no random number.
"""

import json
import re
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
PRODUCT = "pykruise"


def normalized(name: str) -> str:
    """A distribution's name as indexes write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[str, list[str]]:
    """Accepted SHA-256 by `name==version` of a file of requirements with hashes."""
    result: dict[str, list[str]] = {}
    hashes: list[str] = []
    for line in text.splitlines():
        if pin := PIN.match(line):
            hashes = result.setdefault(f"{normalized(pin[1])}=={pin[2]}", [])
        hashes += HASH.findall(line)
    return result


def bill(installed: Iterable[Distribution], hashes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The whole document. A distribution that no lock knows has no hash in it."""
    parts = sorted((_part(item, hashes) for item in installed), key=lambda part: str(part["purl"]))
    product = next((part for part in parts if part["name"] == PRODUCT), None)
    others = [part for part in parts if part is not product]
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**product, "type": "application"}} if product else {},
        "components": others,
        "dependencies": _dependencies(parts),
    }
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{identity}"}


def _part(item: Distribution, hashes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    name, version = normalized(item.metadata["Name"]), item.version
    purl = f"pkg:pypi/{name}@{version}"
    part: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "properties": [
            {"name": "pykruise:accepted-sha256", "value": accepted}
            for accepted in hashes.get(f"{name}=={version}", ())
        ],
    }
    expression = item.metadata.get("License-Expression")
    if expression:
        part["licenses"] = [{"expression": expression}]
    return part


def _dependencies(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    references = [str(part["bom-ref"]) for part in parts]
    own = next((ref for ref in references if ref.startswith(f"pkg:pypi/{PRODUCT}@")), None)
    return [{"ref": own, "dependsOn": [ref for ref in references if ref != own]}] if own else []


def main(files: Sequence[str]) -> int:
    """Print the bill of the environment that runs this."""
    hashes: dict[str, list[str]] = {}
    for file in files:
        hashes |= locked(Path(file).read_text())
    print(json.dumps(bill(distributions(), hashes), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
