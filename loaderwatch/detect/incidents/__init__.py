"""From findings of one window to what a person is told: merged over time, folded under their cause, one sentence."""
