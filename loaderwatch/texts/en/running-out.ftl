### What runs out: memory, file descriptors, shared memory, the disk of the checkpoints, and the batches that are ready.
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
    }: compared from step to step, the lowest

## Memory

memory-runs-out =
    .title = Memory runs out in about { DURATION($eta_s) }: { SIZE($left_bytes) } of { memory-of } left, { $grows ->
            [workers] { $workers ->
                [one] { $workers } worker grows
               *[other] { $workers } workers grow
            }
           *[training] the training process grows
        } by { SIZE($growth_bytes) }/s{ KNOWN($sample_bytes) ->
            [yes] { " " }({ SIZE($sample_bytes) } per sample)
           *[no] { "" }
        }.
    .cause = { forecast-basis } memory use of { process-name } rose from { SIZE($first_bytes) } to { SIZE($last_bytes) }.
        { $kept ->
            [copied] Forked workers share the dataset's memory until they touch it. Reading a Python object changes its reference count, and
                the page of that object is then copied into the worker.
            [by-worker] A worker keeps some memory of every sample: a cache without a limit, open files, or a decoder that leaks.
           *[by-loop] The training loop keeps memory that it should free: batches in a list, losses with their graph (use .item()),
                itertools.cycle(loader).
        }{ $epoch_ends ->
            [with-workers] { " " }The epoch ends earlier, in { DURATION($epoch_s) }, and its workers end with it.
            [with-cache] { " " }The epoch ends earlier, in { DURATION($epoch_s) }. If the dataset caches its samples, the cache is complete then.
           *[later] { "" }
        } Without free memory the kernel kills a worker; before that the page cache shrinks and reading slows down.
    .advice = { $grows ->
            [workers] Keep metadata in NumPy arrays, Arrow or one serialised buffer, not in Python lists and dicts. Limit every cache in the
                dataset, and close files. Fewer workers{ KNOWN($num_workers) ->
                    [yes] { " (now " }{ $num_workers })
                   *[no] { "" }
                } only delay the problem.{ $persistent ->
                    [yes] { " " }persistent_workers=False frees this memory at the end of each epoch.
                   *[no] { "" }
                }
           *[training] Keep numbers, not tensors: .item() for losses, .clone() for parts that must stay. Use `for batch in loader` instead of
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
    .cause = { forecast-basis } number of open descriptors of this process rose from { WHOLE($first) } to { WHOLE($last) }.{ KNOWN($per_step) ->
            [yes] { " " }That is about { DECIMAL($per_step) } per step.
           *[no] { "" }
        } { KNOWN($worker) ->
            [yes] The dataset opens files or connections in this worker and does not close them.
           *[no] Every tensor from a worker keeps one descriptor open as long as the tensor lives, so the loop probably keeps batches.
        }
    .advice = { KNOWN($worker) ->
            [yes] Close every file that __getitem__ opens (`with open(…)`, image.close()), or keep a limited number of handles per worker.
                Raising `ulimit -n` only delays the problem.
           *[no] Do not keep batches or parts of them: use .clone() or .item() for values in a list. If batches pile up, raising `ulimit -n` or
                torch.multiprocessing.set_sharing_strategy('file_system') only delays the problem.
        }

## /dev/shm

shared-memory-fills-up =
    .title = /dev/shm is full in about { DURATION($eta_s) }: { SIZE($left_bytes) } of { SIZE($total_bytes) } are left, and its use grows by
        { SIZE($growth_bytes) }/s.
    .cause = { forecast-basis } use of /dev/shm rose from { SIZE($first_bytes) } to { SIZE($last_bytes) }. Prefetched batches need at most
        { SIZE($needed_bytes) }, so the loop keeps batches from workers, or another program writes there. When /dev/shm is full, a worker dies
        with a bus error or the loader with “unable to write to file”.
    .advice = Do not keep batches or parts of them: use .clone() or .item() for values in a list. `ls -lS /dev/shm` shows files that other
        programs left there. A larger /dev/shm (docker run --shm-size, --ipc=host) only delays the problem.
shared-memory-too-small =
    .title = { $fits ->
            [yes] /dev/shm is nearly too small: the prefetched batches may need { SIZE($needed_bytes) } of { SIZE($total_bytes) }.
           *[no] /dev/shm is too small for the prefetched batches: they need up to { SIZE($needed_bytes) } of { SIZE($total_bytes) }.
        }
    .cause = Workers put their batches into /dev/shm: for each loader prefetch_factor × num_workers batches and the batch in use. That makes
        { $needs }. { KNOWN($used_ratio) ->
            [yes] { PERCENT($used_ratio) }
           *[no] An unknown part
        } of /dev/shm is in use now. When it is full, a worker dies with a bus error or the loader with “unable to write to file”.
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
            [yes] enough for { $saves ->
                    [one] { $saves } more save
                   *[other] { $saves } more saves
                } of { SIZE($save_bytes) }.
           *[no] and the job writes { SIZE($growth_bytes) }/s.
        }
    .cause = { disk-cause }
    .advice = { disk-advice }
checkpoint-does-not-fit =
    .title = The next save does not fit on the disk at { $path }: the save needs { SIZE($save_bytes) }, only { SIZE($left_bytes) } are left.
    .cause = { disk-cause }
    .advice = { disk-advice }
disk-cause = The forecast is based on { DURATION($seen_s) } in which the training processes wrote to this disk. Its free space reaches a new
    minimum with what they write, and none of it is deleted.
disk-advice = Free space there now. Keep fewer checkpoints: save_total_limit=2 in transformers, save_top_k in Lightning, or delete the oldest
    one after each save. A save that does not fit ends training with “No space left on device” and may leave a broken file.

## Batches that are ready for the loop

fetches-get-slower =
    .title = Fetches of { $loader }{ on-rank } get slower: { DURATION($before_s) } → { DURATION($fetch_s) } per batch in { DURATION($ago_s) };
        { $waits ->
            [gpu] the GPU will starve
           *[loop] the loop will wait for data
        } in about { DURATION($eta_s) }.
    .cause = The workers together deliver a batch every { DURATION($each_s) }, and a step takes { DURATION($step_s) }: the workers are busy
        { PERCENT($load_ratio) } of the time that the loop leaves them. The fetch time has risen steadily, but the step time has not.
    .advice = Look for something in the dataset that grows with each sample: a list that is searched, a file that is read from its beginning, a
        cache or connection that degrades. Otherwise check whether other programs use more of the storage or the CPUs. No time is lost yet.
read-ahead-used-up =
    .title = Ready batches of { $loader }{ on-rank } run out: { RATE($before) } → { RATE($ready) } in { DURATION($ago_s) }; the loop will wait for
        data in about { DURATION($eta_s) }.
    .cause = The { $workers ->
            [one] { $workers } worker delivers
           *[other] { $workers } workers together deliver
        } a batch every { DURATION($each_s) }, and the loop takes a batch every { DURATION($iteration_s) }.
    .advice = Make samples cheaper to read, or add workers if CPUs are free. The fetch times of the workers show the reason. No time is lost yet.
gpu-work-used-up =
    .title = The GPU{ of-rank } will starve in about { DURATION($eta_s) }: its queued work and ready batches fell from { DURATION($before_s) } to
        { DURATION($left_s) } in { DURATION($ago_s) }.
    .cause = { headroom-cause }
    .advice = { headroom-advice }
loader-barely-keeps-up =
    .title = The loader barely keeps up: when a batch is requested, the GPU{ of-rank } has { DURATION($left_s) } of work left and no batch is
        ready.
    .cause = { headroom-cause }
    .advice = { headroom-advice }
headroom-cause = { $slower ->
        [yes] A worker needs { DURATION($fetch_s) } per batch now and needed { DURATION($fetch_before_s) } before.
       *[no] Batches come only as fast as the GPU uses them, one in { DURATION($iteration_s) }.
    } So far the GPU lacked data { PERCENT($lacked_ratio) } of the time.
headroom-advice = Add workers, or make samples cheaper to read. If fetches get slower, find the reason. No time is lost yet.
