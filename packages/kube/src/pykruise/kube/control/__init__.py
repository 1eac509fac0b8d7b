"""Loops that work on keys: queue, workers, long computations outside the event loop."""
