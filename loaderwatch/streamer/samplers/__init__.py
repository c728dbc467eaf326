"""Samplers of the hardware and the operating system. A field that cannot be read is None."""
