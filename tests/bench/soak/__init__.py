"""Long runs that look for leaks: `python -m bench.soak`; see __main__.py."""
