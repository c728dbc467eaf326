"""From findings to what people are told: merged over time, folded under their cause, one sentence."""
