### The demo: what it prints, and its acts.

demo-page = The page: { $url }
demo-images = { $images } handwritten digits are in { $folder }
demo-gpus = { $gpus } simulated GPUs, one a rank, run what their rank launches
demo-without-gpus = GPU charts are off: { $why }
demo-ended = Demo ended.
demo-page-stays = The page stays at { $url } until Ctrl-C.

demo-act = { "[" }{ $number }/{ $acts }] { $act }: { $what }.
demo-look = Look at: { $look }.
demo-act-played = { WHOLE($took_s) } s; { WHOLE($right_percent) }% of the digits right

## The table at its end

demo-columns =
    .act = act
    .expected = expected
    .found = found
demo-either = { $one } or { $other }
demo-nothing = nothing
demo-right = { $right ->
        [yes] ok
       *[no] NOT
    }

## The acts: what happens, and what to look at

act-healthy = A healthy stretch
    .what = two workers per rank keep up with the model; nothing should be found
    .look = the verdict says healthy, the timeline is nearly all forward and backward, data wait is near 0 %
act-few-workers = Too few workers
    .what = images now come from slow remote storage: a worker needs five times as long for a batch as the model for a step
    .look = the comb of waits (every 2nd step), GPU utilization as a sawtooth, and how many workers are advised
act-slow-sample = One slow sample
    .what = one image takes 3.5 s to read; all other batches wait in line behind it
    .look = single tall waits with ready batches standing by, and the index of the slow image on the rank page
act-epoch-restart = An epoch boundary with worker restart
    .what = short epochs, and every one starts its workers anew (spawn, persistent_workers=False)
    .look = the epoch bands: seconds of worker start before each, and what persistent_workers=True would give back
act-sawtooth = A sawtooth that is not the loader's
    .what = data is there in time, but each ten steps the loop itself waits for the GPU and saves previews for 0.6 s
    .look = GPU utilization swings while data wait stays near 0 %, and the alert names the line of the loop
act-hang = A worker that hangs
    .what = one read is not answered for { PLAIN($hang_s) } s; then the worker recovers and training goes on
    .look = the alert while it hangs: rank, worker, pid, sample index and the stack with the blocking line
