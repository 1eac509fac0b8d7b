"""Requests to the API server: how each is understood, answered and encoded."""
