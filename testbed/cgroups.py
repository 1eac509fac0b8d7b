"""Control groups for real nodes: create folders, and remove them after all their processes have ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "io", "hugetlb")


def make(path: str) -> list[Path]:
    """Create the control group /a/b in each hierarchy, and return its folders."""
    made = []
    for root, version in _list_hierarchies():
        folder = root
        for name in path.strip("/").split("/"):
            parent, folder = folder, folder / name
            if version == "cgroup2":
                _enable_controllers(parent)
            folder.mkdir(exist_ok=True)
            _allow_processors(parent, folder)
        made.append(folder)
    return made


def may_make() -> bool:
    """Whether control groups can be created here: the hierarchies exist and are writable."""
    roots = [root for root, _ in _list_hierarchies()]
    return bool(roots) and all(os.access(root, os.W_OK) for root in roots)


def _list_hierarchies() -> Iterator[tuple[Path, str]]:
    """Yield the mount point of each hierarchy, and its type: "cgroup" or "cgroup2"."""
    seen = set[str]()
    for line in MOUNTS.read_text().splitlines():
        _, folder, version, *_ = line.split()
        if version in ("cgroup", "cgroup2") and (real := str(Path(folder).resolve())) not in seen:
            seen.add(real)
            yield Path(real), version


def _enable_controllers(folder: Path) -> None:
    """Enable all controllers for the groups below this one (version 2)."""
    available = (folder / "cgroup.controllers").read_text().split()
    handed = (folder / "cgroup.subtree_control").read_text().split()
    for controller in set(available) & set(CONTROLLERS) - set(handed):
        (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _allow_processors(parent: Path, folder: Path) -> None:
    """Allow a group to use processors: in version 1, a new group may not use any."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (folder / name).exists() and not (folder / "cgroup.controllers").exists():
            (folder / name).write_text((parent / name).read_text())
