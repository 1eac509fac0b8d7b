"""Files of the page, from the installed package. Names contain a hash of the content, so browsers may cache them
forever.

static/*.js, *.css, *.svg ──names within them are replaced──▶ Assets.get("app.1f3a….js"), Assets.shell (the HTML page)

The page requests nothing from other hosts. The files are read once, at the start.
"""

import gzip
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Final

import msgspec

_TYPES: Final = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


class Asset(msgspec.Struct, frozen=True):
    """One file."""

    content_type: str
    body: bytes
    zipped: bytes


class Assets:
    """All files. The names in imports are replaced, so each file is processed after the files that it imports."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        result = dict(files) if files is not None else _read()
        shell = result.pop("index.html")
        names: dict[str, str] = {}
        self._assets: dict[str, Asset] = {}
        for name in _in_order(result):
            body = _replace_names(result[name], names)
            stem, _, kind = name.rpartition(".")
            names[name] = f"{stem}.{hashlib.sha256(body).hexdigest()[:12]}.{kind}"
            self._assets[names[name]] = _make_asset(_TYPES[kind], body)
        self.shell = _make_asset("text/html; charset=utf-8", _replace_names(shell, names))

    def get(self, name: str) -> Asset | None:
        """Return a file by its name with the hash."""
        return self._assets.get(name)

    @property
    def size(self) -> int:
        """Number of bytes that a browser fetches for the whole page."""
        return sum(len(asset.zipped) for asset in (*self._assets.values(), self.shell))


def _make_asset(content_type: str, body: bytes) -> Asset:
    return Asset(content_type, body, gzip.compress(body, mtime=0))


def _read() -> dict[str, bytes]:
    folder = resources.files("pykruise.dashboard") / "static"
    return {
        traversable.name: traversable.read_bytes()
        for traversable in folder.iterdir()
        if traversable.is_file()
    }


def _in_order(files: Mapping[str, bytes]) -> list[str]:
    order: list[str] = []

    def add(name: str) -> None:
        if name in order:
            return
        for other in sorted(files):
            if other != name and _format_mention(other) in files[name]:
                add(other)
        order.append(name)

    for name in sorted(files):
        add(name)
    return order


def _format_mention(name: str) -> bytes:
    return b"/" + name.encode() + b'"'


def _replace_names(body: bytes, names: Mapping[str, str]) -> bytes:
    for name, hashed in names.items():
        body = body.replace(_format_mention(name), _format_mention(hashed))
    return body
