"""The part of ``loaderwatch doctor`` in the script's process: it runs the script up to its first batch and reads samples."""
