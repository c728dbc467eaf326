"""The guided demo: a real training run on two ranks that goes wrong in six ways, with the page open."""
