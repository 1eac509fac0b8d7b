"""Typed requests to an API server, and Events of controllers."""
