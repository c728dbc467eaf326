"""What every part shares: records, ring, wire, clock, settings and errors. It needs the standard library and msgspec only."""
