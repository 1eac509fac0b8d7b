"""What tests of several parts share. Import as `from support.faults import FaultyTransport`."""
