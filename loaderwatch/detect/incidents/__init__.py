"""From findings to alerts: merged over time, effects under their cause, and one sentence that comes first."""
