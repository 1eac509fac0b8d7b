"""Small worlds, in which everything is tried that can happen: see docs/lab/simulation.md, "Exhaustive exploration of small worlds"."""
