"""Admission: the reviews that an API server requests, and the reviewers that answer them."""
