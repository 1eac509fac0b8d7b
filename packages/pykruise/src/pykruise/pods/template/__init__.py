"""Pod templates: defaults, validation, placement."""
