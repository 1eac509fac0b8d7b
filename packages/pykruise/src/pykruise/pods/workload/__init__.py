"""Rules that all workloads with pods share."""
