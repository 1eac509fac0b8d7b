"""Lifecycle of a pod: readiness, availability, hooks, order of deletion and update."""
