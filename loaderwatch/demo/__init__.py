"""The guided demo: a real two-rank training run that goes wrong in five ways, with the page open beside it."""
