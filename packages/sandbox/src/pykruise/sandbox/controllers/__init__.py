"""The controllers of every Kubernetes cluster: the parts of kube-controller-manager that the sandbox implements.

each module: snapshot() ──▶ plan_…(), pure ──▶ WORK;   known.py: all of them ──▶ manager.py: one Operator
"""

from pykruise.sandbox.controllers.manager import Controllers
from pykruise.sandbox.controllers.pods import NODE_VIEWS, POD_VIEWS

__all__ = ["NODE_VIEWS", "POD_VIEWS", "Controllers"]
