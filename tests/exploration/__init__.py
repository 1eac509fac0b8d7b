"""Small worlds, in which everything is tried that can happen: see docs/simulation.md, "Exhaustive in the small"."""
