"""HTTP/1.1: the client of an API server, and servers for webhooks, metrics and pages."""
