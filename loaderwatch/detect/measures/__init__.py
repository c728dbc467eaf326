"""What detectors measure: paces, machines, CPUs, GPUs, stacks, and the statistics of these."""
