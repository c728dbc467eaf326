### A GPU that idles within its steps while its batches are there: what it waits for.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1. Others are names.

# $rank is unknown in a run with one rank, $period_s where the GPU does not swing, or swings quicker than its readings show.
# $because is what the GPU waits for, unknown where that is not known.
gpu-idles-in-steps = The GPU{ of-rank } idles within steps { PERCENT($share_ratio) } of the time { measured }, although batches are
    ready{ KNOWN($because) ->
        [yes] : { $because }
       *[no] { "" }
    } ({ KNOWN($period_s) ->
        [yes] swings between { PERCENT($low_ratio) } and { PERCENT($high_ratio) } every { DURATION($period_s) }
       *[no] idle { PERCENT($idle_ratio) } in all
    }).
gpu-idle-unexplained =
    .cause = Each batch was ready, and the GPU was idle within the step for an unknown reason. The loader is not the cause.
    .advice = Record a step with torch.profiler: it shows the gaps between the kernels. Wrap parts of the step in loaderwatch.phase(name) to
        see their times.

# How much of an iteration a part of the step takes. $phase is a phase of the user's own that holds most of it, $line the line that a stack
# shows, and $age_s how old that stack is, unknown where it is new; each may be unknown.
part-of-iteration = { DURATION($part_s) } of the { DURATION($iteration_s) } of an iteration{ part-seen }
part-seen = { KNOWN($phase) ->
        [yes] { " " }(phase “{ $phase }”{ KNOWN($line) ->
                [yes] , { part-line }
               *[no] { "" }
            })
       *[no] { KNOWN($line) ->
                [yes] { " " }({ part-line })
               *[no] { "" }
            }
    }
part-line = { $line }{ KNOWN($age_s) ->
        [yes] , { DURATION($age_s) } ago
       *[no] { "" }
    }
# $now_and_then: whether it is not done in each step.
on-average = { $now_and_then ->
        [yes] , on average of all steps
       *[no] { "" }
    }

## In what the loop does outside of the model

gpu-waits-for-checkpoint =
    .because = it waits for a checkpoint
    .cause = Each batch was ready, and the GPU waited until a checkpoint was written. That takes { part-of-iteration }{ on-average }. The
        loader is not the cause.
    .advice = Copy the state to the host's memory and write it on another thread (torch.distributed.checkpoint.async_save does both). Or save
        less often, or to a faster disk.

gpu-waits-for-loop =
    .because = it waits for the loop's own work
    .cause = Each batch was ready, and the GPU waited for other work of the training loop (logging, metrics, pictures, copies from the GPU).
        This work takes { part-of-iteration }{ on-average }. The loader is not the cause.
    .advice = Do this work less often or on another thread. Keep losses and metrics on the GPU and log them every few steps. Avoid .item(), .cpu() and
        print(loss) in each step. Wrap parts of the step in loaderwatch.phase(name) to see their times.

gpu-waits-for-batch-copy =
    .because = it waits for work on the batch before the model call
    .cause = Each batch was ready, and the GPU waited for the loop's work before the model call, such as the copy of the batch.
        This work takes { part-of-iteration }. The loader is not the cause.
    .advice = Set pin_memory=True and call .to(device, non_blocking=True), or copy the next batch on a side stream. Move conversions of the
        batch into the workers or onto the GPU.

gpu-waits-for-optimizer =
    .because = it waits for optimizer.step()
    .cause = Each batch was ready, and the GPU waited for optimizer.step(), which runs on the CPU: { part-of-iteration }. The loader is not the
        cause.
    .advice = Use a fused optimizer (fused=True), and keep its state and the gradients on the GPU.

## In the model, or where its kernels are launched

# $blocked_s is how long the loop waits for the GPU, $idle_s how long the GPU then waits for the loop; both per step.
gpu-synchronised-each-step =
    .because = the loop waits for the GPU in each step, and only then launches more
    .cause = In each step the loop waits { DURATION($blocked_s) } for the GPU, typically in .item(), .cpu(), print(loss) or synchronize(). The loop
        launches the
        next step only after that, and the GPU is idle for { DURATION($idle_s) }. The loader is not the cause.
    .advice = Keep the loss on the GPU and read it about every 50 steps; copy with non_blocking=True. The loop then launches work ahead of the GPU,
        and a
        late batch does not stop the GPU immediately.

# $launching_s is how long the thread launches kernels in each step.
launch-bound =
    .because = the training thread launches its work too slowly
    .cause = The step is launch-bound: the training thread spends { PERCENT($cpu_ratio) } of the time launching the model's kernels
        ({ DURATION($launching_s) } per step), and the GPU finishes each kernel before the next one arrives. The loader is not the cause.
    .advice = Give the GPU more work per launch: a larger batch, torch.compile or CUDA graphs (mode='reduce-overhead'), a fused optimizer.
        torch.profiler shows Python loops over tensors.

# $part is "forward" or "backward".
model-on-the-cpu =
    .because = it waits for the { model-pass }
    .cause = Each batch was ready, and the GPU waited for the { model-pass }, which runs on the CPU: { part-of-iteration }. The loader is not
        the cause.
    .advice = Find what computes on the CPU in the model (torch.profiler shows the gaps): copies back with .item() or .cpu(), Python loops over
        tensors, operators without a GPU kernel.
model-pass = { $part ->
        [forward] forward pass
       *[backward] backward pass
    }
