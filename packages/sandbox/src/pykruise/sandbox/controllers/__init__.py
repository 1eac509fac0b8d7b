"""The controllers of every Kubernetes cluster: the work of kube-controller-manager, as far as the sandbox has it.

each module: snapshot() ──▶ plan_…(), pure ──▶ WORK;   known.py: all of them ──▶ manager.py: one Operator
"""

from pykruise.sandbox.controllers.manager import Controllers
from pykruise.sandbox.controllers.pods import NODE_VIEWS, POD_VIEWS

__all__ = ["NODE_VIEWS", "POD_VIEWS", "Controllers"]
