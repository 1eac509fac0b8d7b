"""Crew: a kind made of nothing but this folder, for tests and for whoever adds one. It keeps `size` pods."""
