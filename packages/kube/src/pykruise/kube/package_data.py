"""Files of a package: tables of facts in the package of the code that reads them.

read_package_data("pykruise.kube", "merge_keys.json") ──▶ bytes of pykruise/kube/data/merge_keys.json

importlib.resources does the same and more, but its import takes longer than reading the files.
"""

import pkgutil

__all__ = ["read_package_data"]


def read_package_data(package: str, name: str) -> bytes:
    """Return the content of a file in the package's folder `data`. Raises FileNotFoundError."""
    data = pkgutil.get_data(package, f"data/{name}")
    if data is None:
        raise FileNotFoundError(f"{package} is not a package with files: {name}")
    return data
