"""What programs that run in a cluster have in common: flags, log lines, health and metrics behind plain HTTP."""
