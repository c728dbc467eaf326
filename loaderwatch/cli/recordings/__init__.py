"""The commands that take runs out of a store and into one."""
