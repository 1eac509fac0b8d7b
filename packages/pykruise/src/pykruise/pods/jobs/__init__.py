"""Rules that all kinds of jobs share."""
