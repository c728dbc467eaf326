### Why loaderwatch cannot say which rank waits for which.

coupling-of-one-rank = the run has a single rank
coupling-of-few-ranks = fewer than two ranks are running
coupling-of-few-steps = { who } did fewer than { $least } steps recently
coupling-of-other-batches = the ranks have not trained on the same batches recently
# $quick and $slow are ranks, $quick_s and $slow_s the duration of their iterations.
ranks-out-of-step = the ranks are not in step: an iteration takes { DURATION($quick_s) } on rank { $quick } and { DURATION($slow_s) } on rank { $slow }
waits-not-mirrored = no rank's steps get longer by the time that another rank waits for data
