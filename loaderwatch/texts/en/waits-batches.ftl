### Why the loop waits: what is done to a batch beside reading its samples, and what a script without a loader does between two steps.
### Parameters end with their unit: _s seconds, _bytes bytes, _ratio a share from 0 to 1. Others are counts and names.

# The workers of the loader, as a number with its noun.
workers = { $workers ->
        [one] { $workers } worker
       *[other] { $workers } workers
    }

## Joining the samples

slow-collate =
    .because = collate_fn takes { DURATION($collate_s) } of the { DURATION($fetch_s) } that a worker needs for a batch
    .cause = Reading { KNOWN($samples) ->
            [yes] { RATE($samples) }
           *[no] the
        } samples takes { DURATION($read_s) }, joining them in collate_fn { DURATION($collate_s) } ({ PERCENT($collate_ratio) } of a fetch). It runs in
        the { workers }, so nothing of it shows in the training process.
    .advice = Make collate_fn cheap: allocate the batch once and copy into it (torch.stack of equal shapes), no Python loop over elements, pad to a
        few bucketed lengths, tokenize ahead of time or a whole batch at once (__getitems__). More workers only spread the cost, and a larger batch
        makes it worse.{ other-programs }

## The garbage collector

garbage-collector-in-workers =
    .because = Python's garbage collector takes { DURATION($collected_s) } of the { DURATION($fetch_s) } that a worker needs for a batch
    .cause = { PERCENT($collected_ratio) } of what the { workers } do is collecting garbage: a full collection walks every container the worker
        holds, the dataset's metadata included.
    .advice = { collector-advice }
garbage-collector-pause =
    .because = Python's garbage collector stopped { one-worker } for { DURATION($collected_s) } in the middle of a batch
    .cause = The longest wait was for { one-worker }, which took { DURATION($fetch_s) } for its batch, { DURATION($collected_s) } of it in the
        garbage collector: a full collection walks every container the worker holds, the dataset's metadata included. No sample is to blame.
    .advice = { collector-advice }
collector-advice = In worker_init_fn call gc.collect() and gc.freeze(), so that what the dataset holds is not walked again, or gc.disable() where
    samples leave no reference cycles; take gc.collect() out of __getitem__ and collate_fn; hold metadata in NumPy or Arrow instead of lists and
    dictionaries. More workers do not help.
# A worker by its number, unknown where no worker is known.
one-worker = { KNOWN($worker) ->
        [yes] worker { $worker }
       *[no] a worker
    }
garbage-collector-in-loop =
    .because = Python's garbage collector takes { DURATION($collected_s) } of the { DURATION($wait_s) } in which the model waits for its next batch{
        KNOWN($line) ->
            [yes] , lately at { $line }
           *[no] { "" }
        }
    .cause = { PERCENT($collected_ratio) } of that time is a full collection, which walks every container that the process holds, a replay buffer of
        Python objects included.
    .advice = Take gc.collect() out of the loop, or call gc.freeze() once after setup and gc.collect(1) every few hundred steps. Hold what grows in
        arrays or tensors.

## Choosing the samples

slow-sampler =
    .because = the sampler takes { DURATION($choosing_s) } to choose the samples of a batch, reading them { DURATION($read_s) }
    .cause = { PERCENT($choosing_ratio) } of the wait is neither reading nor joining samples: the sampler computes before it gives the next indices.
    .advice = { choose-at-once }
slow-sampler-beside-workers =
    .because = batches lie ready, but the sampler takes the training thread { DURATION($wait_s) } to choose the samples of another
    .cause = { workers-are-ahead }, yet each next() takes { DURATION($wait_s) }, of it { PERCENT($cpu_ratio) } CPU time of the training thread: it
        also asks the sampler for the indices of a later batch, and that computes.
    .advice = { choose-at-once }
choose-at-once = Choose the samples of many batches at once, or of the next epoch in a thread. Workers do not help: a sampler runs in the training
    process whatever their number.
workers-are-ahead = Workers are ahead ({ RATE($ready) } batches ready on average)

## Taking the batch

# $every is snapshot_every_n_steps, unknown where it is not set; $often whether that is with every batch.
dataset-snapshots =
    .because = its { $loader } ships the dataset's state { how-often }, and unpacking takes the training thread { DURATION($wait_s) } per batch
    .cause = A worker pickles the state of dataset and sampler { how-often } (snapshot_every_n_steps { KNOWN($every) ->
            [yes] { $every }
           *[no] (1 unless set)
        }) and the training thread unpacks it: batches lie ready, yet each next() takes { DURATION($wait_s) }, of it { PERCENT($cpu_ratio) } CPU
        time.
    .advice = Set snapshot_every_n_steps{ KNOWN($every) ->
            [yes] { " " }{ $every }
           *[no] { "" }
        } → the number of steps between checkpoints: state_dict() is only needed there. Keep shuffle buffers and caches out of the dataset's
        state_dict(). More workers or more prefetch will not help.
how-often = { $often ->
        [yes] with every batch
       *[no] every { $every } batches
    }
slow-unpacking =
    .because = batches lie ready, but unpacking one takes the training thread { DURATION($wait_s) }
    .cause = { workers-are-ahead }, yet each next() takes { DURATION($wait_s) } of which { PERCENT($cpu_ratio) } is CPU time of the training
        thread: it unpickles the batch. Many small tensors, strings, NumPy arrays or Python objects in a batch do this.
    .advice = Return a few large torch tensors per batch: stack in collate_fn, turn NumPy arrays into tensors with torch.from_numpy, encode strings
        as uint8 tensors, leave metadata out. More workers or more prefetch will not help.
slow-pinning =
    .because = { RATE($ready) } batches lie ready, but the thread that pins their memory passes one on only every { DURATION($iteration_s) }
    .cause = { workers-are-ahead } and next() uses hardly any CPU, yet takes { DURATION($wait_s) }: the one thread that unpacks batches and copies
        them into page-locked memory cannot keep up. It uses { PERCENT($cpu_ratio) } of a CPU.
    .advice = Return fewer and larger tensors per batch (one flat tensor is pinned in one call), give the batch its own pin_memory(), send uint8
        instead of float32, and leave pin_memory off for validation. More workers will not help.
# $reader is the name of the thread; $has_workers whether workers read for it.
slow-reader-thread =
    .because = the thread that reads { $loader } ahead ({ $reader }) hands a batch on only every { DURATION($iteration_s) }
    .cause = The loop waits { DURATION($wait_s) } for a batch of the thread { $reader }, although { $has_workers ->
            [yes] { RATE($ready) } batches lie ready on average when it asks for one
           *[no] a batch is read in { DURATION($fetch_s) }
        }: what takes the time is what the thread does with each batch before it hands it on. A step takes { DURATION($step_s) }.
    .advice = Move what { $reader } does with a batch into the dataset or collate_fn, so that DataLoader workers do it side by side, or let several
        threads do it. A faster loader, more workers or a deeper queue do not help.

## A training without a loader: what its script does between two steps

# $line is the line that the script was found at, unknown without a stack.
between-steps-speed = { KNOWN($line) ->
        [yes] lately at { $line };{ " " }
       *[no] { "" }
    }{ RATE_OF($iteration_s) } iterations/s, the model could take { RATE_OF($step_s) }
between-steps-cause = No DataLoader is iterated. From a step of the optimizer to the model's next call the script takes { DURATION($wait_s) }, and the
    model stands still meanwhile. A step takes { DURATION($step_s) }.
queue-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause } It waits on a queue: whoever fills it does not keep up.
    .advice = Fill the queue from several processes, or make each entry cheaper to make. Threads share one interpreter, and compute in turn.
save-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause }
    .advice = Save less often, or asynchronously: copy the state first, and write it in another thread.
answer-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause } It waits there for { awaited }.
    .advice = { need-no-answer }
script-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause }
    .advice = If a batch is made there, let others make it while the model works: move that code into a Dataset and iterate a DataLoader with
        num_workers, or fill a queue from a background process. If it is logging or a save, do it less often or in the background.
