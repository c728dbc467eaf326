"""Samplers of the hardware and the operating system. Every field that cannot be read is None."""
