### Two runs beside each other: A, and B that changed something.
### Parameters end with their unit: _per_s a rate, _ratio a share from 0 to 1 (a change may be less than 0), _s seconds.

## The title: the speed. $unit is "steps" or "samples".

speed-not-known = Too little is known of the speed of these runs to compare it.
speed-hardly-measured = Too little was measured to compare the speed: { speeds }.
speed-is-the-same = No difference in speed beyond noise: { speeds } ({ speed-interval }).
speed-rose = B is { PERCENT($by_ratio) } faster than A: { speeds } ({ speed-interval }).
speed-fell = B is { PERCENT($by_ratio) } slower than A: { speeds } ({ speed-interval }).
speeds = { THREE_DIGITS($a_per_s) } → { THREE_DIGITS($b_per_s) } { $unit ->
        [samples] samples/s
       *[steps] steps/s
    }
speed-interval = 95 % interval { SIGNED($low_ratio) } to { SIGNED($high_ratio) }

## What to know before the numbers are believed

compared-samples-differ = Samples of a step: { KNOWN($a_samples) ->
        [yes] { $a_samples }
       *[no] not known
    } in A, { KNOWN($b_samples) ->
        [yes] { $b_samples }
       *[no] not known
    } in B. Compare samples per second, not steps.
compared-ranks-differ = Ranks: { $a_ranks } in A, { $b_ranks } in B.
compared-run-is-short = { $run } was measured for { WHOLE($measured_s) } s only.
compared-run-goes-on = { $run } still runs; its numbers go on changing.

## What is compared, and what came of it

compared-measure = { $measure ->
        [steps_per_s] Steps per second
        [samples_per_s] Samples per second, all ranks
        [data_wait_ratio] Data wait
        [worst_rank_data_wait_ratio] Data wait of the worst rank at each time
        [gpu_starved_ratio] GPU starved
        [gpu_utilization_ratio] GPU utilization
        [iteration_s] Iteration
        [data_wait_s] Data wait of a step
        [step_s] Step
        [fetch_s] Fetch of a batch, in its worker
        [startup_s] First batch of the run
        [epoch_start_s] First batch of each later epoch
        [epoch_gap_s] Gap between epochs
        [teardown_s] Teardown of the workers
       *[other] { $measure }
    }
comparison-judged = { $judgement ->
        [better] more than noise: better
        [worse] more than noise: worse
        [changed] more than noise
        [noise] not more than noise
       *[unknown] too little was measured to tell
    }
# A later run did what the advice of a finding says. $promised_per_s is unknown where nothing was promised.
advice-followed = followed: { speeds }{ KNOWN($promised_per_s) ->
        [yes] , promised at most { THREE_DIGITS($promised_per_s) }
       *[no] { "" }
    }{ $judgement ->
        [noise] ; { comparison-judged }
       *[other] { "" }
    }
