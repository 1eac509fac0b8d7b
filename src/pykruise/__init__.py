"""pykruise: OpenKruise's workloads for Kubernetes, decided by pure functions."""

__version__ = "0.1.0"
