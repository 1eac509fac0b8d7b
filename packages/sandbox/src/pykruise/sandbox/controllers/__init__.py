"""The controllers that every Kubernetes brings: what kube-controller-manager does, as far as the sandbox has it.

manager.py runs them all over one set of caches (base.py); each module is one of them, decisions as pure
functions first, then the loop that carries them out.
"""

from pykruise.sandbox.controllers.manager import Controllers
from pykruise.sandbox.controllers.pods import NODE_VIEWS, POD_VIEWS

__all__ = ["NODE_VIEWS", "POD_VIEWS", "Controllers"]
