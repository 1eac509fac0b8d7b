"""HTTP/1.1: the client for an API server, and servers for webhooks, metrics and pages."""
