"""Common parts of programs in a cluster: flags, log lines, health and metrics over plain HTTP."""
