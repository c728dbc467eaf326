### Advice on a configuration, before anything stalls: what is configured, why that matters, what to change.
### A rule's id begins with the name of its check in docs/doctor.md.
### Parameters end with their unit: _s seconds, _bytes bytes, _ratio a share from 0 to 1. Others are counts and names.

n-workers = { $workers ->
        [one] { $workers } worker
       *[other] { $workers } workers
    }
# $of_cpus is unknown where all CPUs of the machine are usable.
usable-cpus = { PLAIN($usable_cpus) } usable { $usable_cpus ->
        [1] CPU
       *[other] CPUs
    }{ KNOWN($of_cpus) ->
        [yes] { " " }(of { $of_cpus })
       *[no] { "" }
    }
# How to read one sample.
one-sample = { $stream ->
        [yes] `next(iter(dataset))`
       *[no] `dataset[0]`
    }

## Workers against CPUs

# $split is how the workers of a rank are split over its loaders, "8 + 4"; unknown where one loader of one rank has them all.
# $ranks is unknown where there is one.
workers-cpus =
    .what = { n-workers }{ KNOWN($split) ->
            [yes] { " (" }{ KNOWN($ranks) ->
                [yes] { $ranks } ranks ×{ " " }
               *[no] { "" }
            }{ $split })
           *[no] { "" }
        } share { usable-cpus }.
    .why = { KNOWN($computing_ratio) ->
            [yes] Their fetches compute { PERCENT($computing_ratio) } of the time, so
           *[no] If they compute while they read,
        } beyond one worker per CPU each of them only gets slower, and they take CPU from the training process.{ $quota ->
            [yes] { " " }The limit is a CPU quota, which os.cpu_count() and PyTorch's own warning do not see.
           *[no] { "" }
        }
    .change = num_workers={ $num_workers } for { $loader } (now { $num_workers_now }){ KNOWN($ranks) ->
            [yes] { " " }on each of { $ranks } ranks.
           *[no] .
        }{ KNOWN($computing_ratio) ->
            [yes] { "" }
           *[no] { " " }Workers that only wait for storage or network may be more than CPUs.
        }
workers-none =
    .what = num_workers=0: a batch takes { DURATION($fetch_s) } to load{ KNOWN($step_s) ->
            [yes] { " " }and a step { DURATION($step_s) }
           *[no] { "" }
        }.
    .why = Batches are loaded on the training thread, so the model waits for each of them and nothing overlaps.
    .change = num_workers={ $num_workers }, persistent_workers=True{ KNOWN($usable_cpus) ->
            [yes] { " " }({ usable-cpus })
           *[no] { "" }
        }.{ split-first }
affinity =
    .what = The training process may run on 1 of { $cpus } CPUs, and its workers inherit that.
    .why = An affinity mask of one CPU comes from Slurm's --cpus-per-task=1 or from an OpenMP setting (OMP_PLACES, GOMP_CPU_AFFINITY,
        KMP_AFFINITY); all workers then take turns on that CPU.
    .change = Give the task more CPUs (srun --cpus-per-task, --cpu-bind=none) or unset those variables.

## Threads inside workers

# $limits are the variables that allow several threads, "OMP_NUM_THREADS=8"; unknown where none does.
worker-threads =
    .what = Each worker computes with { $threads } threads: { $computing } × { $threads } = { $total } on { usable-cpus }{ KNOWN($limits) ->
            [yes] { " " }({ $limits })
           *[no] { "" }
        }.
    .why = Workers are the parallelism already; threads of BLAS, OpenMP or OpenCV inside them fight for the same CPUs and can make a fetch
        many times slower. torch.set_num_threads in the training process does not reach workers.
    .change = Start Python with OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1, or limit them in worker_init_fn
        (threadpoolctl.threadpool_limits(1), torch.set_num_threads(1), cv2.setNumThreads(0)) for the { n-workers }.

## How workers start

# $start is "measured", or, before it was, how workers start: "spawned", "forked". $epoch_ratio is the share of an epoch that it takes.
# $rebuilt: whether the loader itself is built for each epoch.
persistent-workers =
    .what = persistent_workers=False{ $start ->
            [measured] { $rebuilt ->
                    [yes] , and a new DataLoader for each epoch
                   *[no] { "" }
                }: { n-workers }, started anew in each epoch, which takes { DURATION($start_s) } until the first batch{ KNOWN($epoch_ratio) ->
                    [yes] , { PERCENT($epoch_ratio) } of an epoch
                   *[no] { "" }
                }.
            [spawned] { " " }with start method '{ $method }': each epoch starts { $workers ->
                    [one] { $workers } process
                   *[other] { $workers } processes
                } anew, which import everything and unpickle the dataset.
           *[forked] : { n-workers }, started and ended in each epoch.
        }
    .why = Each epoch begins with an empty queue: the workers start, then read the first batches while the model waits.
    .change = { $rebuilt ->
            [yes] Make the DataLoader once, outside the epoch loop: with persistent_workers=True it keeps them.
           *[no] persistent_workers=True keeps them.{ $stream ->
                [yes] { " " }Caution: a dataset that changes between epochs (set_epoch on an IterableDataset) no longer reaches them.
               *[no] { "" }
            }
        }
pickle-fails =
    .what = Start method '{ $method }' has to pickle the dataset, collate_fn and worker_init_fn, and that fails: { $error }
    .why = The workers cannot start; the first iteration raises.
    .change = Use functions of a module instead of lambdas and local functions, and open files, databases and locks in the worker on first use
        (leave them out in __getstate__).
pickle-large =
    .what = Start method '{ $method }' pickles { MEGABYTES($pickle_bytes) } in { DURATION($pickle_s) } for each of { n-workers }, one after the other.
    .why = That is about { DURATION($total_s) } in the training process before the first batch, and each worker holds its own copy.
    .change = Keep file lists and labels in NumPy arrays or Arrow tables instead of Python objects, or load them in the worker;
        persistent_workers=True pays it once.
main-guard =
    .what = The script has no `if __name__ == "__main__":`, and its workers start by '{ $method }'.
    .why = Each worker imports the script again, and so begins to train by itself; Python stops that with an error about its bootstrapping
        phase.
    .change = Put what the script does under `if __name__ == "__main__":`.

## Samples and batches

sample-unfinished =
    .what = Reading the first samples as a worker does had not ended after { DURATION($waited_s) }.
    .why = The first batch takes at least as long, in each epoch whose workers are new, or never comes.
    .change = Time one sample alone, in a Python prompt: { one-sample }. Look at what it opens, downloads or waits for.
# $died is how the process ended: "SIGSEGV".
sample-died =
    .what = Reading the first samples as a worker does ends the process with { $died }.
    .why = A worker dies in the same way, and the training with it. SIGSEGV and SIGABRT come from a native library (often one that was used
        before the fork), SIGKILL from the memory limit, SIGBUS from a full /dev/shm.
    .change = Read one sample alone with `python -X faulthandler`: { one-sample }. If that works, open the library's files and clients in the
        worker, on first use.
sample-fails =
    .what = { sample-error }
    .why = { sample-error-comes }
    .change = Read one sample alone, in a Python prompt: { one-sample }.
sample-needs-cuda =
    .what = { sample-error }
    .why = { sample-error-comes }
    .change = Return CPU tensors from the dataset and move the batch to the GPU in the loop; num_workers=0 would hide the error and leave the
        GPU waiting.
sample-error = Reading the first samples as a worker does fails: { $error }
sample-error-comes = The first batch raises the same error.
# $parts is one of the three messages below, or several of them joined by and-also.
delivery =
    .what = A batch holds { $parts }.
    .why = The training thread unpacks every batch itself: each tensor costs a file descriptor and a memory map, NumPy arrays and Python
        objects travel through a pipe. More workers or more prefetch do not help there.
    .change = Stack into few large torch tensors in collate_fn (torch.from_numpy for arrays), encode strings as one uint8 tensor, and leave out
        what the loop does not use.
batch-tensors = { COUNT($number) } tensors
batch-objects = { COUNT($number) } Python objects
batch-arrays = NumPy arrays of { MEGABYTES($batch_bytes) }
and-also = { $first } and { $more }

## Batches read ahead

# $more_bytes is unknown where the size of a batch is.
prefetch =
    .what = prefetch_factor={ $prefetch_factor_now } × { n-workers } cover { DURATION($covered_s) } of training, but the slowest fetches take
        { DURATION($slowest_s) }.
    .why = On average the workers keep up ({ DURATION($fetch_s) } per fetch, { DURATION($step_s) } per step); only their rare slow fetches outlast
        the batches that lie ready.
    .change = prefetch_factor={ $prefetch_factor }.{ KNOWN($more_bytes) ->
            [yes] { " " }It takes up to { ROUGH_SIZE($more_bytes) } more shared memory.
           *[no] { "" }
        }
# $loaders is a loader-reads-ahead of each loader of one rank, joined by comma-also. $ranks is unknown where there is one.
# $prefetch_factor is unknown where no lower one is enough.
shared-memory-short =
    .what = Batches in flight need up to { ROUGH_SIZE($needed_bytes) } of shared memory ({ $loaders }{ KNOWN($ranks) ->
            [yes] , times { $ranks } ranks
           *[no] { "" }
        }); /dev/shm on { $host } has { ROUGH_SIZE($free_bytes) } free of { ROUGH_SIZE($total_bytes) }.
    .why = Workers hand batches over in shared memory. When it is full they fail with a bus error or 'unable to write to file', often only when
        the second loader starts.
    .change = Enlarge it to at least { ROUGH_SIZE($enough_bytes) } (docker --shm-size or --ipc=host; in Kubernetes an emptyDir with medium: Memory
        on /dev/shm), or { KNOWN($prefetch_factor) ->
            [yes] set prefetch_factor={ $prefetch_factor } (now { $prefetch_factor_now }) for { $loader }.
           *[no] lower num_workers (now { $num_workers }) or the batch size of { $loader }.
        }
# $all: whether the loader reads its whole epoch ahead.
loader-reads-ahead = { $loader }: { $all ->
        [yes] all { $batches }
       *[no] { $workers } × { $prefetch_factor }
    } batches of { ROUGH_SIZE($batch_bytes) }
comma-also = { $first }, { $more }
shared-memory-default =
    .what = /dev/shm on { $host } has { ROUGH_SIZE($total_bytes) }, a container's default.
    .why = Workers hand batches over in shared memory, and it is shared by all loaders and ranks.
    .change = Start the container with --shm-size or --ipc=host.
prefetch-none =
    .what = prefetch_factor=0 with { $workers } workers.
    .why = PyTorch accepts it when the loader is made and stops with an AssertionError at the first iteration.
    .change = prefetch_factor of at least 1; leave it out for 2.

## Single options

# $error is PyTorch's message, $option what it is about.
refused =
    .what = DataLoader raises: { $error }
    .why = { $option ->
            [persistent-workers] With num_workers=0 there are no workers that could persist: batches are loaded on the training thread.
            [prefetch-factor] Only workers read ahead; with num_workers=0 there are none.
            [start-method] The start method is for workers; with num_workers=0 there are none.
           *[other] PyTorch does not accept these arguments.
        }
    .change = { $option ->
            [persistent-workers] num_workers of at least 1 to load beside training, or leave persistent_workers out.
            [prefetch-factor] num_workers of at least 1 to load beside training, or leave prefetch_factor out.
            [start-method] num_workers of at least 1, or leave multiprocessing_context out.
           *[other] Change what the message names.
        }
pin-memory-off =
    .what = pin_memory=False, and the training process uses CUDA.
    .why = Copies from pageable memory block the training thread until they are done.
    .change = pin_memory=True in the loader and .to(device, non_blocking=True) in the loop; not .pin_memory() inside the loop, which is slower
        than a plain copy.
pin-memory-without-gpu =
    .what = pin_memory=True, and there is no GPU here.
    .why = Without an accelerator PyTorch ignores it; it costs nothing and gives nothing.
    .change = Nothing, or pin_memory=torch.cuda.is_available() to be rid of the warning.
timeout-without-workers =
    .what = timeout={ PLAIN($timeout_s) } with num_workers=0.
    .why = PyTorch stops with a bare AssertionError at the first iteration: there is no worker to wait for.
    .change = timeout=0, or num_workers of at least 1.
# $probed: whether samples were read to find out, instead of a run.
timeout-short =
    .what = timeout={ PLAIN($timeout_s) } s, and a batch { $probed ->
            [yes] takes about { DURATION($slowest_s) } to load.
           *[no] has already taken { DURATION($slowest_s) }.
        }
    .why = The timeout counts for every batch, the first of an epoch included; PyTorch then ends the run with an error that names no worker.
    .change = timeout={ $enough_s }, or 0 and let loaderwatch tell a hang from a slow batch.
snapshots =
    .what = { $loader_class } takes a snapshot with every batch (snapshot_every_n_steps=1).
    .why = The dataset's state_dict() is pickled and sent along each time; with shuffle buffers in it that costs more than the batch.
    .change = snapshot_every_n_steps = the steps between two checkpoints.
flight-recorder =
    .what = NCCL is in use, and no flight recorder's dump is written when a collective times out.
    .why = After a hang it names the collective that one rank did not come to; loaderwatch reads the dumps of all ranks.
    .change = { flight-recorder-switches }.

## How ranks and workers share the data

# The run shows it: $passes epochs began with the same one, 2 or more.
set-epoch-forgotten =
    .what = { $passes ->
            [2] 2
           *[other] 3 or more
        } epochs in a row began with the same { $sampler }.epoch.
    .why = { same-order }
    .change = Call set_epoch(epoch) on the sampler of { $loader } at the beginning of each epoch.
# The script shows it, before the run.
set-epoch-absent =
    .what = Nothing in the script calls set_epoch, and { $loader }'s { $sampler } shuffles by its epoch.
    .why = { same-order }
    .change = Call set_epoch(epoch) on the sampler of { $loader } at the beginning of each epoch; for a single one nothing changes.
same-order = The sampler's order depends on its epoch alone, so every epoch goes through the data in the same order.
# $readers are all workers of all ranks, $idle those that get no shard; $num_workers is unknown where no lower number divides.
shards-few =
    .what = { n-shards } for { shard-readers }: { $idle ->
            [one] { $idle } reader
           *[other] { $idle } readers
        } of { $readers } get none.
    .why = { shards-run-out }
    .change = At least { $readers } shards of equal size{ KNOWN($num_workers) ->
            [yes] , or num_workers={ $num_workers } (now { $num_workers_now }).
           *[no] .
        }
shards-uneven =
    .what = { n-shards } do not divide over { shard-readers }: some readers get one more than others.
    .why = { shards-run-out }
    .change = A multiple of { $readers } shards of equal size.
n-shards = { $shards ->
        [one] { $shards } shard
       *[other] { $shards } shards
    }
shard-readers = { n-workers }{ KNOWN($ranks) ->
        [yes] { " " }× { $ranks } ranks
       *[no] { "" }
    }
shards-run-out = A worker that runs out of shards leaves the rest of the epoch to the others{ KNOWN($ranks) ->
        [yes] ; ranks then see different numbers of batches, and the longer one hangs.
       *[no] .
    }
stream-split =
    .what = { n-workers } read { dataset-name }, and nothing in its code or in worker_init_fn asks which of them it is in.
    .why = Each worker iterates a copy of an IterableDataset, so every row is delivered { $workers } times: an epoch is { $workers } times as long, and
        of the steps/s only every { $workers ->
            [2] second
           *[other] { $workers }th
        } is of new rows.
    .change = In { dataset-name }.__iter__ give each worker its part, as rows[info.id :: info.num_workers] with
        info = torch.utils.data.get_worker_info(); until then num_workers=1.
uneven-batches =
    .what = { batches-of-ranks }
    .why = Collectives pair up by count: when one rank's epoch ends, the others wait in backward until the collective times out.
    .change = Give every rank the same number: DistributedSampler, drop_last=True, or `with Join([model])`.
uneven-batches-of-evaluation =
    .what = { batches-of-ranks }
    .why = That is fine as long as validation makes no collective. With different numbers of forward passes on each rank, a DDP model's buffers
        or a metric's collective no longer pair up, and the run hangs at the next training step.
    .change = Give every rank the same number, or call model.module in validation under torch.no_grad() ({ $switch }=False).
batches-of-ranks = { $loader } has { $fewest } batches on rank { $fewest_rank } and { $most } on rank { $most_rank }.
ddp-buffers =
    .what = The DDP model sends { $buffers ->
            [one] { $buffers } buffer
           *[other] { $buffers } buffers
        } around in each forward pass (ranks { $ranks }), and there is an evaluation loader.
    .why = Validation through the DDP wrapper takes part in that: with different numbers of forward passes per rank the run hangs, usually at the
        first step of the next epoch (pytorch#54059).
    .change = Call model.module(x) in validation, under torch.no_grad(); { $switch }=False also stops it.

## What an option of a running loader would bring rests on

option-persistent-workers = Workers started anew in { $epochs ->
        [one] { $epochs } epoch
       *[other] { $epochs } epochs
    }, { DURATION($start_s) } until the first batch, of { DURATION($epoch_s) } an epoch. Workers that are kept{ $rebuilt ->
        [yes] , made once and not for each epoch
       *[no] { "" }
    } still read that batch.
option-fork = With '{ $method }' it takes { DURATION($start_s) } until the first batch of an epoch. How much of that are imports and the pickled
    dataset, which a forked worker inherits, was not measured.
option-batch-size = Twice the samples take a worker twice as long, and the batches read ahead twice the memory. The step takes twice as long at
    worst, and as long as now at best. The model learns from other batches then.
option-pin-memory = From its delivery to the model's first call a batch takes { DURATION($copied_s) }, the copy to the GPU with it. From pinned
    memory, with .to(device, non_blocking=True), that copy runs beside the model; a thread then copies each batch once more on the host.
