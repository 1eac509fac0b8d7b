"""Loops that work on keys: queue, workers, bounded work beside the event loop."""
