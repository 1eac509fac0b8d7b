"""The sandbox's API server and a real one: the same requests, with a comparison of the responses."""
