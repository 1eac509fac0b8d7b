"""Generated mutants: small changes of files that contain decisions. A test must detect each of them."""
