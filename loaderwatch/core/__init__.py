"""What every part shares: records, ring, wire, clock, settings, errors. It needs no packages but msgspec."""
