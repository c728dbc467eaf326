"""The commands that export runs from a store and import them."""
