"""Watching a script whose code says nothing of loaderwatch: how it is started, and what is put on its path."""
