"""Requests to the API server: reading, answering and encoding them."""
