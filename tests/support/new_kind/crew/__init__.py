"""Crew: a complete kind in one folder, for tests and for developers who add a kind. It keeps `size` pods."""
