"""The moments at which a stack is worth its signal though nobody asked for it: a handful an hour."""
