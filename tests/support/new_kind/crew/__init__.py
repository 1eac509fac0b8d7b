"""Crew: a kind made of nothing but this folder, for tests and for those who add one. It keeps `size` pods."""
