"""Live diagnosis of PyTorch input-pipeline stalls: which rank, which worker, which sample, which stack."""

__version__ = "0.1.0"
