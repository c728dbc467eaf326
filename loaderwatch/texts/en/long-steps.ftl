### Steps that now and then take far longer than the usual one, and steps that grow longer and longer.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1. Others are counts and names.

## Steps that now and then take far longer
# $steps is the number of long steps, $longest_s how much the longest takes beyond $usual_s, and $lost_s what all of them take beyond it.

long-steps = { $steps ->
        [one] { $steps } long step
       *[other] { $steps } long steps
    } (up to { DURATION($longest_s) })
spends-in-long-steps = { who } spends { PERCENT($share_ratio) } of the time { measured } in { long-steps }

# $longest_s is the longest pause of the collector within a step.
garbage-collector-in-steps =
    .title = { who } loses { PERCENT($share_ratio) } of the time to garbage collection { measured }: { $steps ->
            [one] { $steps } pause
           *[other] { $steps } pauses
        } of up to { DURATION($longest_s) } within steps.
    .cause = A full collection visits every container of the process. With a large heap (metadata, vocabularies, caches) it takes
        { DURATION($longest_s) }, and the training loop stops. The loader is not the cause.{ $who ->
            [training] { "" }
           *[one] { " " }Each time a different rank pauses, and the other ranks wait for it in backward.
        }
    .advice = Call gc.collect() and gc.freeze() once after setup, so that later collections skip long-lived objects. Or call gc.disable(), and
        gc.collect(1) every few hundred steps, on all ranks at the same step.

# $seen_compiling: whether a stack of a long step shows the compiler. $at is the line that calls it, unknown where no stack shows one.
new-batch-sizes =
    .title = { lost-in-long-steps }: each came with batches of a new size.
    .cause = { new-shapes-compile }
    .advice = { keep-shapes }
last-batch-shorter =
    .title = { lost-in-long-steps }: each came with the last, shorter batch of an epoch.
    .cause = { new-shapes-compile }
    .advice = { keep-shapes }
compiling-in-steps =
    .title = { lost-in-long-steps }, compiling.
    .cause = { new-shapes-compile }
    .advice = { keep-shapes }
lost-in-long-steps = { who } lost { DURATION($lost_s) } in { long-steps }
new-shapes-compile = Every new input shape costs extra time: torch.compile compiles again, cudnn.benchmark tests its kernels, CUDA graphs are
    recorded again and
    the allocator requests new blocks. A usual step takes { DURATION($usual_s) }. The loader is not the cause.{ $seen_compiling ->
        [yes] { " " }The stack of a long step shows the compiler{ KNOWN($at) ->
                [yes] , called from { $at }
               *[no] { "" }
            }.
       *[no] { "" }
    }
keep-shapes = Keep shapes the same: set drop_last=True, or pad to a few bucket lengths. For varying sizes use torch._dynamo.mark_dynamic and
    cudnn.benchmark=False. TORCH_LOGS=recompiles names the guard that failed.

# $times is how many times as large as usual the batches of long steps are.
padded-batches =
    .title = { spends-in-long-steps }, with batches about { DECIMAL($times) } times larger than usual.
    .cause = A usual step takes { DURATION($usual_s) }. Usually one long sample causes this: all samples of its batch are padded to the same length.
        The data
        loader is not the cause.
    .advice = Batch samples of similar length (sort within a buffer), limit the padded size of a batch, or truncate very long samples.

# What the loop does itself now and then. $every is every how many steps, and $every_s every how many seconds; at most one is known.
# $at is the line at which the loop was found, unknown where it was not. $there is what it does there: "polling", "file-lock", "model-acts" or
# "own-work".
own-work-in-steps =
    .title = { spends-with-rhythm }; not the data loader.
    .cause = { loop-does-something }
    .advice = { if-not-meant }
polling-in-steps =
    .title = { spends-with-rhythm }; not the data loader.
    .cause = { loop-does-something } { loop-polls }
    .advice = Find out what the loop polls for, and why that comes late. Use a notification instead of polling (a barrier, an event, a
        queue), or poll more often. { if-not-meant }
file-lock-in-steps =
    .title = { spends-with-rhythm }; not the data loader.
    .cause = { loop-does-something } { loop-waits-for-file-lock }
    .advice = Find the holder of the lock with `lslocks`, and let that process hold the lock for a shorter time. Or take the lock with LOCK_NB
        and continue without it. { if-not-meant }
model-acts-in-steps =
    .title = { spends-with-rhythm }; not the data loader.
    .cause = { loop-does-something } { loop-calls-model }
    .advice = { if-not-meant }
unattached-loader-in-steps =
    .title = { spends-with-rhythm }, reading a DataLoader that is not attached.
    .cause = { loop-does-something }{ $there ->
            [polling] { " " }{ loop-polls }
            [file-lock] { " " }{ loop-waits-for-file-lock }
            [model-acts] { " " }{ loop-calls-model }
           *[own-work] { "" }
        }
    .advice = Attach that loader too, with loaderwatch.attach(loader, role="eval"): loaderwatch then measures its waits separately and gives advice.
        { if-not-meant }
spends-with-rhythm = { spends-in-long-steps }{ KNOWN($every) ->
        [yes] , every { $every } steps
       *[no] { KNOWN($every_s) ->
            [yes] , every { DURATION($every_s) }
           *[no] { "" }
        }
    }{ lately-at }
lately-at = { KNOWN($at) ->
        [yes] , seen at { $at }
       *[no] { "" }
    }
loop-does-something = A usual step takes { DURATION($usual_s) }. In the long steps the loop does not wait for an attached loader. It does extra work,
    such as
    logging, metrics, pictures, evaluation or a checkpoint.
loop-polls = The loop polls for something that comes late, and sleeps in between.
loop-waits-for-file-lock = The loop waits for a file lock that another process holds.
loop-calls-model = The loop calls the model many times without gradients, as an agent or an evaluation does.
if-not-meant = Do this work less often, on rank 0 only, or in a background process; save checkpoints asynchronously. If the work is
    intended, wrap it in `with loaderwatch.phase("…")`: the page then shows it by name.

## Steps that grow longer and longer
# $first_s is what the part that has grown took $span_s ago, and $last_s what it takes now; $step_s is a whole step now. $at is the line at which
# the loop was found, unknown where it was not.

script-work-grows =
    .title = { who } loses { PERCENT($share_ratio) } of the time to growing script work: { DURATION($first_s) } → { DURATION($last_s) } per step
        in { DURATION($span_s) }{ lately-at }; not the data loader.
    .cause = A step takes { DURATION($step_s) } now. Its script part (neither model nor optimizer) has risen steadily from { DURATION($first_s) }
        to { DURATION($last_s) }. Model and optimizer have not become slower.
    .advice = Look for work that grows with each step: a metric over all batches so far, a list or log that is read or rewritten completely. Keep
        running
        sums, process only the newest part, or do the work once per epoch.

model-pass-grows =
    .title = { who } loses { PERCENT($share_ratio) } of the time to a slower model pass (same batch size): { DURATION($first_s) } →
        { DURATION($last_s) } in { DURATION($span_s) }{ lately-at }; not the data loader.
    .cause = A step takes { DURATION($step_s) } now. The time of the model's forward and backward pass has risen steadily from { DURATION($first_s) }
        to
        { DURATION($last_s) }. The rest of the step has not become slower.
    .advice = Look for data that the model collects: hooks that are registered again and again, a growing list or memory bank, a graph that reaches
        back into
        earlier steps. Remove the hook's handle, limit the bank, detach tensors that are kept. Ignore this if you make the model larger on purpose.

# No model is watched, so that only the whole step is known.
steps-grow =
    .title = { who } loses { PERCENT($share_ratio) } of the time to slower steps (same batch size): { DURATION($first_s) } →
        { DURATION($last_s) } in { DURATION($span_s) }{ lately-at }; not the data loader.
    .cause = The step time has risen steadily from { DURATION($first_s) } to { DURATION($last_s) }; its optimizer part has not. loaderwatch does not
        know the
        model, so it cannot measure the model's part.
    .advice = Look for data that is kept between steps: a tensor with its graph (detach() it), retain_graph=True, a list that is read in each
        step. Also look for hooks that are registered again and again. Pass model= to loaderwatch.attach() to see which part grows.
