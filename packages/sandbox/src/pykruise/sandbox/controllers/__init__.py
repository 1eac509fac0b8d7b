"""The controllers that every Kubernetes brings: what kube-controller-manager does, as far as the sandbox has it.

manager.py runs them all over one set of caches (base.py); each module is one of them, decisions as pure
functions first, then the loop that carries them out.
"""

from pykruise.sandbox.controllers.base import POD_INDEXES
from pykruise.sandbox.controllers.manager import Controllers

__all__ = ["POD_INDEXES", "Controllers"]
