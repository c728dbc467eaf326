### What makes steps slow that is not the data loader.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1, _per_s a rate. Others are counts and names.

## Within every step

# $at is where the other thread computes; $blocked_s is how long the training thread neither ran nor lacked a CPU.
interpreter-held-in-steps =
    .title = { who } loses { PERCENT($lost_ratio) } of the time { measured } to another thread, which holds the GIL at { $at }; not the data
        loader.
    .cause = The other thread computes in Python in the same process. For { DURATION($blocked_s) } the training thread neither ran nor waited
        for a CPU. It asked for the interpreter's lock (GIL) { WHOLE($woken_per_s) } times a second. Each PyTorch operator must get the
        lock again and may wait up to 5 ms for it.
    .advice = { work-in-another-process }

# $looks stacks were taken in steps, $compiling of them show the compiler. $at is the line that calls it, where that is known.
recompiles-most-steps =
    .title = { who } spends about { PERCENT($compiling_ratio) } of the time compiling: { $compiling } of { $looks } stack checks in steps show the
        compiler.
    .cause = Nearly every step compiles again, so the compiled code is hardly used. torch.compile compiles again for every new input shape, and when a
        Python value changes that it guards. The loader is not the cause.{ KNOWN($at) ->
            [yes] { " " }The compiler is called from { $at }.
           *[no] { "" }
        }
    .advice = Keep shapes the same: set drop_last=True, or pad to a few bucket lengths. For varying sizes use torch._dynamo.mark_dynamic or
        dynamic=True in torch.compile. TORCH_LOGS=recompiles names the guard that failed.

## Ranks

# $others wait for $rank. $larger is how many times as large its batches are, $at the line of the script that it was found at; each may be unknown.
rank-works-longer =
    .title = Rank { $rank } needs { DURATION($own_s) } per iteration, other ranks { DURATION($usual_s) }: { $waiting ->
            [one] rank { $others } waits
           *[other] ranks { $others } wait
        } { DURATION($wait_s) } for rank { $rank }.
    .cause = An iteration takes { DURATION($iteration_s) } on all ranks. { PERCENT($lost_ratio) } of it the other ranks wait in DDP's collectives for
        rank { $rank }, which waits for no other rank. The loader is not the cause.{ KNOWN($larger) ->
            [yes] { " " }The batches of rank { $rank } are { RATE($larger) } times as large as those of the other ranks, on average.
           *[no] { "" }
        }{ KNOWN($at) ->
            [yes] { " " }Rank { $rank } was running script code at { $at } (see its stack).
           *[no] { "" }
        }
    .advice = { KNOWN($larger) ->
            [yes] Distribute the long samples over all ranks: choose each batch (or each bucket of samples of similar length) for all ranks together,
                and give every rank its share.
           *[no] Compare rank { $rank } on { $host } with the other ranks: GPU clock, other processes on its GPU or CPUs, CPU affinity. Also check for
                longer samples and for code that only this rank runs.
        }
