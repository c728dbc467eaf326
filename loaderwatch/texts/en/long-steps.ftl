### Steps that now and then take far longer than the usual one, and steps that grow longer and longer.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1. Others are counts and names.

## Steps that now and then take far longer
# $steps is the number of long steps, $longest_s how much the longest takes beyond $usual_s, and $lost_s what all of them take beyond it.

long-steps = { $steps ->
        [one] { $steps } long step
       *[other] { $steps } long steps
    } of up to { DURATION($longest_s) }
spends-in-long-steps = { who } spends { PERCENT($share_ratio) } of its time { measured } in { long-steps }

# $longest_s is the longest pause of the collector within a step.
garbage-collector-in-steps =
    .title = { who } loses { PERCENT($share_ratio) } of its time to Python's garbage collector { measured }: { $steps ->
            [one] { $steps } pause
           *[other] { $steps } pauses
        } of up to { DURATION($longest_s) } within steps.
    .cause = A full collection walks every container the process holds; with a large heap (metadata, vocabularies, caches) each takes
        { DURATION($longest_s) }, and the whole loop stands still. The loader is not the cause.{ $who ->
            [training] { "" }
           *[one] { " " }The other ranks wait for it in backward, each time another one.
        }
    .advice = Call gc.collect() and gc.freeze() once after setup, so that what lives for ever is not walked again; or gc.disable() and
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
new-shapes-compile = For every new input shape torch.compile compiles anew, cudnn.benchmark tries its kernels, CUDA graphs are recorded and the
    allocator asks for new blocks. A usual step takes { DURATION($usual_s) }. The loader is not the cause.{ $seen_compiling ->
        [yes] { " " }The stack of such a step shows the compiler at work{ KNOWN($at) ->
                [yes] , called from { $at }
               *[no] { "" }
            }.
       *[no] { "" }
    }
keep-shapes = Keep shapes the same: drop_last=True, pad to a few bucket lengths, mark varying dimensions with torch._dynamo.mark_dynamic,
    cudnn.benchmark=False for varying sizes. TORCH_LOGS=recompiles names the guard that failed.

# $times is how many times as large as usual the batches of long steps are.
padded-batches =
    .title = { spends-in-long-steps }: each came with a batch about { DECIMAL($times) } times larger than usual.
    .cause = A usual step takes { DURATION($usual_s) }. As a rule one long sample makes all others of its batch as long, by padding. The data
        loader is not the cause.
    .advice = Batch samples of a similar length (sort within a buffer), limit the padded size of a batch, or cut the few that are far longer.

# What the loop does itself now and then. $every is every how many steps, and $every_s every how many seconds; at most one is known.
# $at is the line at which the loop was found, unknown where it was not. $there is what it does there: "polling", "file-lock", "model-acts" or
# "own-work".
own-work-in-steps =
    .title = { spends-with-rhythm }; the data loader is not the cause.
    .cause = { loop-does-something }
    .advice = { if-not-meant }
polling-in-steps =
    .title = { spends-with-rhythm }; the data loader is not the cause.
    .cause = { loop-does-something } { loop-polls }
    .advice = See who makes what it looks for, and why so late: wait to be told of it (a barrier, an event, a queue), or look more often.
        { if-not-meant }
file-lock-in-steps =
    .title = { spends-with-rhythm }; the data loader is not the cause.
    .cause = { loop-does-something } { loop-waits-for-file-lock }
    .advice = `lslocks` shows who holds the lock: let it hold it for less long, or take it with LOCK_NB and go on without. { if-not-meant }
model-acts-in-steps =
    .title = { spends-with-rhythm }; the data loader is not the cause.
    .cause = { loop-does-something } { loop-calls-model }
    .advice = { if-not-meant }
unattached-loader-in-steps =
    .title = { spends-with-rhythm }; it reads a DataLoader there that is not attached.
    .cause = { loop-does-something }{ $there ->
            [polling] { " " }{ loop-polls }
            [file-lock] { " " }{ loop-waits-for-file-lock }
            [model-acts] { " " }{ loop-calls-model }
           *[own-work] { "" }
        }
    .advice = Attach that loader too, with loaderwatch.attach(loader, role="eval"): its waits are then told apart, with what to change.
        { if-not-meant }
spends-with-rhythm = { spends-in-long-steps }{ KNOWN($every) ->
        [yes] , every { $every } steps
       *[no] { KNOWN($every_s) ->
            [yes] , every { DURATION($every_s) }
           *[no] { "" }
        }
    }{ lately-at }
lately-at = { KNOWN($at) ->
        [yes] , lately at { $at }
       *[no] { "" }
    }
loop-does-something = A usual step takes { DURATION($usual_s) }, and no data of an attached loader is awaited in the long ones: the loop itself does
    something now and then, such as logging, metrics, pictures, evaluation or a checkpoint.
loop-polls = It looks there again and again for something that comes late, and sleeps in between.
loop-waits-for-file-lock = It waits there for a file lock that another process holds.
loop-calls-model = The model is called many times without gradients there, as by an agent that acts or by an evaluation.
if-not-meant = If it is not meant to be so: do it less often, on rank 0 only, or in a background process; save checkpoints asynchronously. With
    `with loaderwatch.phase("…")` around it, the page shows it by name.

## Steps that grow longer and longer
# $first_s is what the part that has grown took $span_s ago, and $last_s what it takes now; $step_s is a whole step now. $at is the line at which
# the loop was found, unknown where it was not.

script-work-grows =
    .title = { who } loses { PERCENT($share_ratio) } of its time to work of the script's own that grows from step to step{ lately-at }:
        { DURATION($first_s) } of a step { DURATION($span_s) } ago, { DURATION($last_s) } now; the data loader is not the cause.
    .cause = A step takes { DURATION($step_s) } now. The part of it that is neither the model nor the optimizer has risen steadily, from
        { DURATION($first_s) } to { DURATION($last_s) }, while those have not.
    .advice = Look for what grows with each step: a metric over all batches so far, a list or a log that is walked or written anew. Keep running
        sums, look at the newest part only, or do it once per epoch.

model-pass-grows =
    .title = { who } loses { PERCENT($share_ratio) } of its time to a model whose pass takes longer from step to step{ lately-at }, while batches
        stay as large: { DURATION($first_s) } { DURATION($span_s) } ago, { DURATION($last_s) } now; the data loader is not the cause.
    .cause = A step takes { DURATION($step_s) } now. The model's forward and backward pass has risen steadily, from { DURATION($first_s) } to
        { DURATION($last_s) }, while the rest has not.
    .advice = Look for what the model gathers: hooks that are registered again and again, a list or a bank that it keeps, a graph that reaches back
        into earlier steps. Remove the handle, bound the bank, detach what is kept. A model that is made larger on purpose is none of these.

# No model is watched, so that only the whole step is known.
steps-grow =
    .title = { who } loses { PERCENT($share_ratio) } of its time to steps that take longer and longer{ lately-at }, while batches stay as large:
        { DURATION($first_s) } { DURATION($span_s) } ago, { DURATION($last_s) } now; the data loader is not the cause.
    .cause = A step has risen steadily, from { DURATION($first_s) } to { DURATION($last_s) }, while the optimizer's part of it has not. No model is
        watched, so that its passes are not told from the rest.
    .advice = Look for what is kept from step to step: a tensor that still has its graph (detach() it), retain_graph=True, hooks that are
        registered again and again, a list that is walked in each step. Pass model= to loaderwatch.attach() to see which part grows.
