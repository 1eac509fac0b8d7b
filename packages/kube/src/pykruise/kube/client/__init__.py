"""Typed requests to an API server, and the events of controllers."""
