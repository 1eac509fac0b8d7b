"""Decides which of several equal programs works, and on which keys."""
