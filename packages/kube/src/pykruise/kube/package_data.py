"""Files that come with the package: tables of facts beside the code that reads them.

package_data("pykruise.kube", "merge_keys.json") ──▶ bytes of pykruise/kube/data/merge_keys.json

importlib.resources does the same and more, and would take longer to load than the files to read.
"""

import pkgutil

__all__ = ["package_data"]


def package_data(package: str, name: str) -> bytes:
    """A file of the package's folder `data`. Raises FileNotFoundError."""
    data = pkgutil.get_data(package, f"data/{name}")
    if data is None:
        raise FileNotFoundError(f"{package} is not a package with files: {name}")
    return data
