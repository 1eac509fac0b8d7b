"""A pod as decisions see it."""
