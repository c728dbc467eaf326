"""What every part shares: records, ring, wire, clock, configuration and errors. Standard library and msgspec only."""
