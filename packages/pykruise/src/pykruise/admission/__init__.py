"""Admission: an API server sends an admission review for a write, and a reviewer responds to it."""
