"""``loaderwatch doctor`` in the script's process: runs the script up to its first batch and reads samples."""
