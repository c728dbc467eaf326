"""Callbacks in each framework's own form. One line attaches; the page shows its stage, epoch and step."""
