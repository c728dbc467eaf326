### Why the loop waits: what is done to a batch besides reading its samples, and what a script without a loader does between two steps.
### Parameters end with their unit: _s seconds, _bytes bytes, _ratio a share from 0 to 1. Others are counts and names.

# The workers of the loader, as a number with its noun.
workers = { $workers ->
        [one] { $workers } worker
       *[other] { $workers } workers
    }

## Collating the samples

slow-collate =
    .because = collate_fn takes { DURATION($collate_s) } of the { DURATION($fetch_s) } that a worker needs for a batch
    .cause = Reading { KNOWN($samples) ->
            [yes] { RATE($samples) }
           *[no] the
        } samples takes { DURATION($read_s) }; collate_fn then takes { DURATION($collate_s) } ({ PERCENT($collate_ratio) } of a fetch). collate_fn runs in
        the { workers }, so this time does not appear in the training process.
    .advice = Make collate_fn cheap. Allocate the batch once and copy into it (torch.stack of equal shapes), without a Python loop over elements. Pad
        to a few bucket lengths. Tokenize ahead of time, or a whole batch at once (__getitems__). More workers only spread the cost; a larger batch
        increases it.{ other-programs }

## The garbage collector

garbage-collector-in-workers =
    .because = garbage collection takes { DURATION($collected_s) } of the { DURATION($fetch_s) } that a worker needs per batch
    .cause = The { workers } spend { PERCENT($collected_ratio) } of their time in garbage collection. A full collection visits every container that the
        worker holds, including the dataset's metadata.
    .advice = { collector-advice }
garbage-collector-pause =
    .because = garbage collection stopped { one-worker } for { DURATION($collected_s) } within a batch
    .cause = The longest wait was for { one-worker }: its batch took { DURATION($fetch_s) }, and garbage collection { DURATION($collected_s) } of that. A full
        collection visits every container that the worker holds, including the dataset's metadata. No sample is the cause.
    .advice = { collector-advice }
collector-advice = Call gc.collect() and then gc.freeze() in worker_init_fn, so that later collections skip the dataset. If samples leave no reference
    cycles, call gc.disable() instead. Remove gc.collect() from __getitem__ and collate_fn. Hold metadata in NumPy or Arrow, not in lists and
    dictionaries. More workers do not help.
# A worker by its number, unknown where no worker is known.
one-worker = { KNOWN($worker) ->
        [yes] worker { $worker }
       *[no] a worker
    }
garbage-collector-in-loop =
    .because = garbage collection takes { DURATION($collected_s) } of the { DURATION($wait_s) } wait before each step{ KNOWN($line) ->
            [yes] , seen at { $line }
           *[no] { "" }
        }
    .cause = Garbage collection takes { PERCENT($collected_ratio) } of the wait. A full collection visits every container that the process holds, including a
        replay buffer of Python objects.
    .advice = Remove gc.collect() from the loop, or call gc.freeze() once after setup and gc.collect(1) every few hundred steps. Keep growing data in
        arrays or tensors, not in Python objects.

## Choosing the samples

slow-sampler =
    .because = choosing the samples of a batch takes { DURATION($choosing_s) }, reading them { DURATION($read_s) }
    .cause = The sampler computes for { PERCENT($choosing_ratio) } of the wait before it returns the next indices. Reading and collating come after that.
    .advice = { choose-at-once }
slow-sampler-beside-workers =
    .because = batches are ready, but the sampler needs { DURATION($wait_s) } per batch in the training thread
    .cause = { workers-are-ahead }, yet each next() takes { DURATION($wait_s) }, { PERCENT($cpu_ratio) } of it CPU time of the training thread. In
        each next() the training thread also runs the sampler, which chooses the samples of a later batch.
    .advice = { choose-at-once }
choose-at-once = Choose the samples of many batches at once, or those of the next epoch in a thread. More workers do not help: a sampler always runs
    in the training process.
workers-are-ahead = Batches are ready ({ RATE($ready) } on average)

## Taking the batch

# $every is snapshot_every_n_steps, unknown where it is not set; $often whether that is with every batch.
dataset-snapshots =
    .because = its { $loader } sends the dataset's state { how-often } ({ DURATION($wait_s) } per batch to unpickle)
    .cause = Each worker pickles the state of dataset and sampler { how-often } (snapshot_every_n_steps { KNOWN($every) ->
            [yes] { $every }
           *[no] (1 unless set)
        }), and the training thread unpickles it. Batches are ready, yet each next() takes { DURATION($wait_s) }, { PERCENT($cpu_ratio) } of it CPU
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
    .because = batches are ready, but the training thread needs { DURATION($wait_s) } to unpickle each batch
    .cause = { workers-are-ahead }, yet each next() takes { DURATION($wait_s) }, { PERCENT($cpu_ratio) } of it CPU time of the training thread, which unpickles
        the batch. This is typical of batches with many small tensors, strings, NumPy arrays or Python objects.
    .advice = Return a few large torch tensors per batch: stack in collate_fn, turn NumPy arrays into tensors with torch.from_numpy, encode strings
        as uint8 tensors, leave metadata out. More workers or more prefetch will not help.
slow-pinning =
    .because = { RATE($ready) } batches are ready, but the pin_memory thread delivers only one every { DURATION($iteration_s) }
    .cause = { workers-are-ahead }, yet next() takes { DURATION($wait_s) } with hardly any CPU time. One thread unpickles all batches and copies them into
        pinned memory, and this thread is too slow. It uses { PERCENT($cpu_ratio) } of a CPU.
    .advice = Return fewer and larger tensors per batch (one flat tensor is pinned in one call), give the batch its own pin_memory(), send uint8
        instead of float32, and leave pin_memory off for validation. More workers will not help.
# $reader is the name of the thread; $has_workers whether workers read for it.
slow-reader-thread =
    .because = the prefetch thread of { $loader } ({ $reader }) delivers only one batch every { DURATION($iteration_s) }
    .cause = The training loop waits { DURATION($wait_s) } per batch for the thread { $reader }, although { $has_workers ->
            [yes] { RATE($ready) } batches are ready on average when the thread asks for a batch
           *[no] reading a batch takes only { DURATION($fetch_s) }
        }. So the thread's own work on each batch is too slow. A step takes { DURATION($step_s) }.
    .advice = Move the work that { $reader } does on each batch into the dataset or collate_fn, so that DataLoader workers do it in parallel. Or use
        several threads. A faster loader, more workers or a deeper queue do not help.

## A training without a loader: what its script does between two steps

# $line is the line that the script was found at, unknown without a stack.
between-steps-speed = { RATE_OF($iteration_s) } iterations/s, the model could take { RATE_OF($step_s) }{ KNOWN($line) ->
        [yes] ; seen at { $line }
       *[no] { "" }
    }
between-steps-cause = No DataLoader is iterated. The script takes { DURATION($wait_s) } from the optimizer's step to the model's next call, and the model
    waits. A step takes { DURATION($step_s) }.
queue-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause } The script waits for a queue, which is filled too slowly.
    .advice = Fill the queue from several processes, or make each entry cheaper to make. Threads do not help: they compute in turn, because they share
        the GIL.
save-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause }
    .advice = Save less often, or asynchronously: copy the state first, and write it in another thread.
answer-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause } The script waits for { awaited }.
    .advice = { need-no-answer }
script-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause }
    .advice = Move the code that makes batches into a Dataset and iterate a DataLoader with num_workers, or fill a queue from a background
        process. If the script logs or saves between steps, do that less often or in the background.
