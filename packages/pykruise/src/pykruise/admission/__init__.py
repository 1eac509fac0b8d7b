"""Admission: the reviews that an API server requests, and the reviewers that respond to them."""
