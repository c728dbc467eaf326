### What makes steps slow that is not the data loader.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1, _per_s a rate. Others are counts and names.

## Within every step

# $at is where the other thread computes; $blocked_s is how long the training thread neither ran nor lacked a CPU.
interpreter-held-in-steps =
    .title = { who } loses { PERCENT($lost_ratio) } of its time { measured } to another thread of its own process, which computes in Python at { $at }
        and holds the interpreter; the data loader is not the cause.
    .cause = The training thread neither ran nor lacked a CPU for { DURATION($blocked_s) }, and asked for the interpreter's lock
        { WHOLE($woken_per_s) } times a second: each of PyTorch's operators has to get it back, up to 5 ms each time.
    .advice = { work-in-another-process }

# $looks stacks were taken in steps, $compiling of them show the compiler. $at is the line that calls it, where that is known.
recompiles-most-steps =
    .title = { who } spends about { PERCENT($compiling_ratio) } of its time compiling: { $compiling } of { $looks } looks at its steps found the
        compiler at work.
    .cause = Nearly every step compiles anew, so that what was compiled is hardly used. For every new input shape torch.compile compiles anew;
        so it does where a Python value that it guards changes. The loader is not the cause.{ KNOWN($at) ->
            [yes] { " " }It is called from { $at }.
           *[no] { "" }
        }
    .advice = Keep shapes the same: drop_last=True, pad to a few bucket lengths, mark varying dimensions with torch._dynamo.mark_dynamic,
        dynamic=True in torch.compile. TORCH_LOGS=recompiles names the guard that failed.

## Ranks

# $others wait for $rank. $larger is how many times as large its batches are, $at the line of the script that it was found at; each may be unknown.
rank-works-longer =
    .title = Rank { $rank } works { DURATION($own_s) } in each iteration where others need { DURATION($usual_s) }: { $waiting ->
            [one] rank { $others } waits
           *[other] ranks { $others } wait
        } { DURATION($wait_s) } for it.
    .cause = All ranks take { DURATION($iteration_s) } per iteration. { PERCENT($lost_ratio) } of that the others wait in DDP's collectives for
        rank { $rank }, which waits for nobody. The loader is not the cause.{ KNOWN($larger) ->
            [yes] { " " }Its batches are { RATE($larger) } times as large as theirs, on average.
           *[no] { "" }
        }{ KNOWN($at) ->
            [yes] { " " }It was found at work of the script's own at { $at }, see its stack.
           *[no] { "" }
        }
    .advice = { KNOWN($larger) ->
            [yes] Deal the long samples out to all ranks: choose each batch, or each bucket of samples of a like length, for all ranks together,
                and give every rank its share of it.
           *[no] Compare rank { $rank } on { $host } with the others: clock and other processes of its GPU or CPU, CPU affinity, more work per
                batch (longer samples), or code that only this rank runs.
        }
