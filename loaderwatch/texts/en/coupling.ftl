### Why it cannot be told which rank waits for which.

coupling-of-one-rank = the run has a single rank
coupling-of-few-ranks = fewer than two ranks are running
coupling-of-few-steps = { who } did fewer than { $least } steps lately
coupling-of-other-batches = the ranks have not done the same batches lately
# $quick and $slow are ranks, the others what an iteration takes them.
ranks-out-of-step = the ranks do not go in step: rank { $quick } takes { DURATION($quick_s) } per iteration, rank { $slow } { DURATION($slow_s) }
waits-not-mirrored = no rank's step grows by what another waits for data
