"""What the integration tests stand on: processes, where servers come from, wire formats, leftovers."""
