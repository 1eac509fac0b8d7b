"""Requests to the API server: parsing them, executing them, and encoding the responses."""
