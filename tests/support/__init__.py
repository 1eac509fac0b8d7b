"""Code that tests of several parts share. Import it as `from support.faults import FaultyTransport`."""
