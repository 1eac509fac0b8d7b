"""Webhooks that the API server calls: admission and conversion.

configurations.py (webhooks in configurations) ──▶ admission.py ──▶ wire.py ──▶ calling.Caller ──▶ the webhook
CRDs with a conversion webhook                 ──▶ conversion.py ──▶ wire.py ──┘
"""

from pykruise.sandbox.apiserver.webhooks.calling import Caller, CallFailedError, CallTarget

__all__ = ["CallFailedError", "CallTarget", "Caller"]
