"""Where a cluster is, and who this program is there."""
