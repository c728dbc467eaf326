"""What ``loaderwatch doctor`` does inside the script's process: run it up to its first batch, and read a few samples."""
