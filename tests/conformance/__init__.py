"""The sandbox's API server against a real one: the same requests, the answers compared."""
