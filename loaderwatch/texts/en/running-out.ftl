### What runs out: memory, file descriptors, shared memory, the disk of the checkpoints, and the batches that lie ready.
### Parameters end with their unit: _s seconds, _bytes bytes, _ratio a share from 0 to 1. Others are counts and names.

# A process of the run. $worker and $rank are unknown where it is the training process, or of a run with one rank.
process-name = { KNOWN($worker) ->
        [yes] worker { $worker }
       *[no] the training process
    }{ KNOWN($rank) ->
        [yes] { " of rank " }{ $rank }
       *[no] { "" }
    } (pid { $pid })
forecast-basis = The forecast is based on { DURATION($seen_s) } of training, { $steps ->
        [one] { $steps } step
       *[other] { $steps } steps
    }: the least that

## Memory

memory-runs-out =
    .title = Memory runs out in about { DURATION($eta_s) }: { $grows ->
            [workers] { $workers ->
                [one] { $workers } worker grows
               *[other] { $workers } workers grow
            }
           *[training] the training process grows
        } by { SIZE($growth_bytes) } per second{ KNOWN($sample_bytes) ->
            [yes] , { SIZE($sample_bytes) } per sample
           *[no] { "" }
        }, and { SIZE($left_bytes) } of { memory-of } are left.
    .cause = { forecast-basis } { process-name } held rose from { SIZE($first_bytes) } to { SIZE($last_bytes) }, from step to step.
        { $kept ->
            [copied] Workers that were forked share the dataset's memory until they touch it; reading a Python object changes its
                reference count, so its page is copied into every worker.
            [by-worker] A worker keeps something of every sample: a cache without a bound, open files, or a decoder that leaks.
           *[by-loop] Something in the training loop keeps what it should drop: batches in a list, losses with their graph
                (use .item()), itertools.cycle(loader).
        }{ $epoch_ends ->
            [with-workers] { " " }The epoch ends in { DURATION($epoch_s) }, before that, and its workers with it.
            [with-cache] { " " }The epoch ends in { DURATION($epoch_s) }, before that: if it is a cache of its samples, it is complete then.
           *[later] { "" }
        } When it is gone the kernel kills a worker; before that the page cache shrinks and reading slows down.
    .advice = { $grows ->
            [workers] Keep metadata in NumPy arrays, Arrow or one serialised buffer instead of Python lists and dicts, bound every
                cache in the dataset, close files. Fewer workers{ KNOWN($num_workers) ->
                    [yes] { " (now " }{ $num_workers })
                   *[no] { "" }
                } put it off.{ $persistent ->
                    [yes] { " " }persistent_workers=False ends the workers with each epoch and frees it.
                   *[no] { "" }
                }
           *[training] Keep numbers, not tensors: .item() for losses, .clone() for what must stay; `for batch in loader` instead of
                itertools.cycle.
        }
memory-of = { $of ->
        [container] the container's memory limit
       *[host] the host's memory
    }

## File descriptors

descriptors-run-out =
    .title = { KNOWN($worker) ->
            [yes] Worker { $worker }{ KNOWN($rank) ->
                [yes] { " of rank " }{ $rank }
               *[no] { "" }
            }
           *[no] { KNOWN($rank) ->
                [yes] Rank { $rank }
               *[no] Training
            }
        } will run out of file descriptors in about { DURATION($eta_s) }: { WHOLE($open) } of { WHOLE($limit) } are open.
    .cause = { forecast-basis } this process had open rose from { WHOLE($first) } to { WHOLE($last) }, from step to step.{ KNOWN($per_step) ->
            [yes] { " " }That is about { DECIMAL($per_step) } per step.
           *[no] { "" }
        } { KNOWN($worker) ->
            [yes] The dataset opens files or connections in this worker and does not close them.
           *[no] Every tensor that comes from a worker keeps one open as long as it lives, so something keeps batches.
        }
    .advice = { KNOWN($worker) ->
            [yes] Close what __getitem__ opens (`with open(…)`, image.close()), or keep a bounded number of handles per worker. Raising
                `ulimit -n` only puts it off.
           *[no] Do not keep batches or parts of them: .clone() or .item() what goes into a list. Raising `ulimit -n` or
                torch.multiprocessing.set_sharing_strategy('file_system') only puts it off if batches pile up.
        }

## /dev/shm

shared-memory-fills-up =
    .title = /dev/shm is full in about { DURATION($eta_s) }: { SIZE($left_bytes) } of { SIZE($total_bytes) } are left, and { SIZE($growth_bytes) } more
        are taken each second.
    .cause = { forecast-basis } /dev/shm held rose from { SIZE($first_bytes) } to { SIZE($last_bytes) }, from step to step. What the loaders
        read ahead is { SIZE($needed_bytes) } at most: batches that came from workers are kept, or something else writes there. When it is full,
        a worker dies with a bus error or the loader with “unable to write to file”.
    .advice = Do not keep batches or parts of them: .clone() or .item() what goes into a list. `ls -lS /dev/shm` shows what other programs have
        left there. A larger one (docker run --shm-size, --ipc=host) only puts it off.
shared-memory-too-small =
    .title = { $fits ->
            [yes] /dev/shm is nearly too small: the loaders may need { SIZE($needed_bytes) } of its { SIZE($total_bytes) }.
           *[no] /dev/shm is too small for what the loaders read ahead: up to { SIZE($needed_bytes) } of { SIZE($total_bytes) }.
        }
    .cause = Batches on their way from the workers lie in /dev/shm: prefetch_factor × num_workers of each loader, and the one in use:
        { $needs }. { KNOWN($used_ratio) ->
            [yes] { PERCENT($used_ratio) }
           *[no] An unknown part
        } of it is taken now. When it is full, a worker dies with a bus error or the loader with “unable to write to file”.
    .advice = Give the container at least { SIZE($enough_bytes) } (docker run --shm-size, --ipc=host; in Kubernetes an emptyDir with medium: Memory on
        /dev/shm), or { KNOWN($prefetch_factor) ->
            [yes] set prefetch_factor={ $prefetch_factor } (now { $prefetch_factor_now }) on { $loader }.
           *[no] lower num_workers (now { $num_workers }) or the batch size of { $loader }.
        }
# The batches that one loader keeps in /dev/shm at most.
loader-needs = { $loader } { $batches } × { SIZE($batch_bytes) }{ KNOWN($rank) ->
        [yes] { " on rank " }{ $rank }
       *[no] { "" }
    }

## The disk of the checkpoints

disk-fills-up =
    .title = The disk at { $path } is full in about { DURATION($eta_s) }: { SIZE($left_bytes) } are left, { KNOWN($saves) ->
            [yes] which is room for { $saves ->
                    [one] { $saves } more save
                   *[other] { $saves } more saves
                } of { SIZE($save_bytes) }.
           *[no] and the job fills { SIZE($growth_bytes) } per second.
        }
    .cause = { disk-cause }
    .advice = { disk-advice }
checkpoint-does-not-fit =
    .title = The next save does not fit on the disk at { $path }: it takes { SIZE($save_bytes) }, and { SIZE($left_bytes) } are left.
    .cause = { disk-cause }
    .advice = { disk-advice }
disk-cause = The forecast is based on { DURATION($seen_s) } in which the training processes wrote there. Its free space falls to a new low with what
    they write, and nothing of it is deleted.
disk-advice = Keep fewer checkpoints (save_total_limit=2 in transformers, save_top_k in Lightning, or delete the oldest after each save), or make
    room there now. A save that does not fit ends training with “No space left on device” and may leave a broken file.

## What lies ready for the loop

fetches-get-slower =
    .title = Batches take longer and longer: a worker of { $loader }{ on-rank } fetches one in { DURATION($fetch_s) }, { DURATION($ago_s) } ago it took
        { DURATION($before_s) }. At this rate { $waits ->
            [gpu] the GPU will starve
           *[loop] the loop will wait for data
        } in about { DURATION($eta_s) }.
    .cause = The workers bring a batch each { DURATION($each_s) }, and a step takes { DURATION($step_s) }: they are busy { PERCENT($load_ratio) } of the time
        that the loop leaves them. The time of a fetch has risen steadily, and that of a step has not risen with it.
    .advice = Nothing is lost yet. Look for what grows in the dataset with each sample (a list that is searched, a file that is read from its
        beginning, a cache or a connection that degrades), or for storage and CPUs that others use more and more.
read-ahead-used-up =
    .title = The batches that { $loader } has read ahead{ on-rank } are being used up: { RATE($ready) } of them lie ready, { DURATION($ago_s) } ago
        { RATE($before) } did. At this rate the loop will wait for data in about { DURATION($eta_s) }.
    .cause = The { $workers ->
            [one] { $workers } worker
           *[other] { $workers } workers
        } together bring a batch each { DURATION($each_s) }, and the loop takes one each { DURATION($iteration_s) }.
    .advice = Nothing is lost yet. What makes a fetch longer shows in the times of the workers; samples that are cheaper to read, or more workers where
        CPUs are free, keep batches ready.
gpu-work-used-up =
    .title = The GPU{ of-rank } has { DURATION($left_s) } of work left when a batch is asked for, batches that lie ready included; { DURATION($ago_s) } ago it
        had { DURATION($before_s) }. At this rate it starves in about { DURATION($eta_s) }.
    .cause = { headroom-cause }
    .advice = { headroom-advice }
loader-barely-keeps-up =
    .title = The loader only just keeps up: the GPU{ of-rank } has { DURATION($left_s) } of work left when a batch is asked for, and no batch lies ready.
    .cause = { headroom-cause }
    .advice = { headroom-advice }
headroom-cause = { $slower ->
        [yes] Fetching a batch takes a worker { DURATION($fetch_s) } now and took { DURATION($fetch_before_s) } before.
       *[no] Batches come about as quickly as the GPU uses them up, one in { DURATION($iteration_s) }.
    } So far the GPU has lacked data { PERCENT($lacked_ratio) } of the time.
headroom-advice = Nothing is lost yet. More workers, or cheaper samples, keep batches ready; see what makes fetches slower if they do.
