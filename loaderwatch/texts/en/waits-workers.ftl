### Why the loop waits: workers that are missing, too few or too slow, and one of them that has a heavy share.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1, _cpus a number of CPUs, _per_s a rate. Others are counts and names.

## Shared clauses

workers-deliver = { $workers ->
        [one] { $workers } worker delivers
       *[other] { $workers } workers deliver
    } { RATE_OF($iteration_s) } batches/s, the model could take { RATE_OF($step_s) }
worker-and-model = A worker needs { DURATION($fetch_s) } for a batch and the model { DURATION($step_s) } for a step
# $comb is after how many batches a long wait comes again, unknown where none does.
waits-in-a-comb = { KNOWN($comb) ->
        [yes] { " " }A long wait comes every { $comb } batches, because the workers finish together.
       *[no] { "" }
    }
cheaper-samples = Make reading a sample cheaper: { ways-to-cheaper-samples }
ways-to-cheaper-samples = resize and decode the dataset once ahead of time, decode with a faster library, do augmentation on the GPU, cache decoded
    samples.
# What to know before there are more workers. $asleep_ratio is how much they sleep for a set time, unknown where that says nothing.
before-more-workers = { split-first }{ KNOWN($asleep_ratio) ->
        [yes] { " " }Compare numbers of workers with `loaderwatch tune` first: each worker spends { PERCENT($asleep_ratio) } of its time in sleeps of
            a set length, not in reads. If it waits for a lock or a request limit, more workers do not help.
       *[no] { "" }
    }

## No workers

# $class is the class of what is iterated; $has_threads whether threads read ahead for it.
no-dataloader =
    .because = { $loader } delivers { RATE_OF($iteration_s) } batches/s, the model could take { RATE_OF($step_s) }
    .cause = { $loader } ({ $class }) takes { DURATION($wait_s) } to deliver a batch, and the training loop waits for it. A step takes
        { DURATION($step_s) }.
    .advice = Prepare batches ahead of time: in DataLoader workers{ $has_threads ->
            [yes] { " " }or in several threads.
           *[no] , or in a background thread that fills a queue.
        }
data-in-memory =
    .because = the data is in memory, but a batch takes its samples one by one ({ DURATION($batch_s) })
    .cause = A sample costs { DURATION($sample_cpu_s) } of CPU time, and nothing is read from storage. The time goes into handling each sample:
        { RATE($samples) } of them are indexed and collated for every batch.
    .advice = Take a whole batch at once: index the tensors with a permutation (data[order[i:i + batch_size]]), give the dataset
        __getitems__(indices), or use a BatchSampler as sampler with batch_size=None.{ $has_workers ->
            [yes] { " " }Then num_workers=0 is enough.
           *[no] { "" }
        } More processes would only copy the data.
# $reader is the name of the thread that reads ahead for the training thread, unknown where that reads itself. $then is what helps:
# "workers", "workers-in-part" where they gain a little, "no-second-worker" where the CPUs carry one that gains nothing, or "cheaper-samples".
# $fork_failed is whether workers may have been switched off because CUDA was in use.
no-workers =
    .because = num_workers=0 reads every batch { KNOWN($reader) ->
            [yes] in
           *[no] on
        } { who-reads }, { DURATION($read_s) } each
    .cause = { KNOWN($reader) ->
            [yes] With num_workers=0 { who-reads } reads and collates one batch after the other ({ DURATION($read_s) } each), and a step takes
                { DURATION($step_s) }.
           *[no] With num_workers=0 the training thread itself reads and collates each batch ({ DURATION($read_s) }), then computes
                ({ DURATION($step_s) }). Nothing overlaps.
        }
    .advice = { $then ->
            [no-second-worker] { cheaper-samples } Do not add a worker: the CPUs have room for only one{ room-for-workers }, and one worker is no
                faster than { who-reads }.
            [workers] Set num_workers={ $workers }{ room-for-workers } and persistent_workers=True. Batches are then read while the model computes:
                about { RATE_OF($after_s) } steps/s instead of { RATE_OF($iteration_s) }.
            [workers-in-part] Set num_workers={ $workers } and persistent_workers=True: at most { RATE_OF($after_s) } steps/s instead of
                { RATE_OF($iteration_s) }, because training and reading { keep-cpus-busy }. For more speed, make reading a sample
                cheaper: { ways-to-cheaper-samples }
           *[cheaper-samples] { cheaper-samples } Workers alone will hardly help, because training and reading { keep-cpus-busy }.
        }{ other-programs }{ $fork_failed ->
            [yes] { " " }If workers were switched off because of a CUDA fork error, return CPU tensors from the dataset instead.
           *[no] { "" }
        }{ split-first }
who-reads = { KNOWN($reader) ->
        [yes] the thread { $reader }
       *[no] the training thread
    }
room-for-workers = { KNOWN($usable_cpus) ->
        [yes] { " " }({ CPUS($usable_cpus, noun: "usable CPU") }{ $ranks ->
            [1] { "" }
           *[other] { " for " }{ $ranks } ranks
        })
       *[no] { "" }
    }
keep-cpus-busy = already use { RATE($own_cpus) } of { CPUS($usable_cpus, noun: "usable CPU") }

## Workers that are too slow or too few

# $heavy are the workers with the heavy share, $heavy_workers is their number.
heavy-share =
    .because = { heavy-ones } { $heavy_workers ->
            [one] needs
           *[other] need
        } { DURATION($heavy_s) } per batch, the other workers at most { DURATION($light_s) }
    .cause = { $loader } reads an iterable dataset, and each worker has its own share. Workers deliver batches in turn, so { heavy-ones } {
        $heavy_workers ->
            [one] slows
           *[other] slow
        } down all { $workers }. To keep up, each worker must deliver a batch every { DURATION($turn_s) }. The prefetched batches of the other
        workers have to wait.
    .advice = Spread the heavy samples: use more and smaller shards than workers, in random order or resampled. Or make the samples cheaper that
        { heavy-ones } { $heavy_workers ->
            [one] reads
           *[other] read
        }. A larger prefetch_factor or more workers do not help, because the heavy share stays with the same worker.
heavy-ones = { $heavy_workers ->
        [one] worker { $heavy }
       *[other] workers { LISTING($heavy, limit: 8) }
    }
# $of_cpu is whether the CPU time has risen, $kept_up whether the workers did at first.
fetches-keep-growing =
    .because = { workers-deliver }, and fetches keep getting slower
    .cause = { worker-and-model }. The { $of_cpu ->
            [yes] CPU time
           *[no] time
        } of a fetch has risen steadily within { DURATION($span_s) }, from { DURATION($first_s) } to { DURATION($last_s) }.{ $kept_up ->
            [yes] { " " }At first { workers } kept up.
           *[no] { "" }
        }
    .advice = Look for something in the dataset that grows with each sample: a list that is searched, a file that is read from its beginning, a
        cache or connection that degrades. Otherwise check whether other programs use more and more of the storage or the CPUs. More workers only delay the
        problem.
# $sample_cpu_s is the CPU time of a sample, $samples_per_s what fits on the CPUs; both are unknown or none is.
no-cpu-for-more-workers =
    .because = { workers-deliver }; no CPU is free
    .cause = { worker-and-model }.{ waits-in-a-comb } The workers compute or wait for a CPU { PERCENT($computing_ratio) } of their reading time, and
        all usable CPUs are busy.{ other-programs }{ KNOWN($samples_per_s) ->
            [yes] { " " }A sample needs { DURATION($sample_cpu_s) } of CPU time, so { CPUS($usable_cpus) } can read at most { RATE($samples_per_s)
                } samples/s{ $ranks ->
                    [1] { "" }
                   *[other] { " for each rank" }
                }, whatever num_workers is.
           *[no] { "" }
        }
    .advice = { cheaper-samples } More workers on this machine will not help.
# $faults_per_s is how often a worker waits for a page of memory, unknown where that is seldom; $try_workers is a number to try.
slow-storage =
    .because = { workers-deliver }; workers wait for storage or network
    .cause = { worker-and-model }.{ waits-in-a-comb } The workers compute only { PERCENT($computing_ratio) } of their reading time. The rest is waiting for
        storage or network, one sample after the other.{ KNOWN($faults_per_s) ->
            [yes] { " " }A worker waits { RATE($faults_per_s) } times a second for a page of a memory-mapped file (or of swapped-out memory). These
                reads are small and come one after the other.
           *[no] { "" }
        }
    .advice = Read larger pieces: pack samples into shards (WebDataset, LMDB, MDS) or copy the data to a local disk. Or read several samples at once
        inside a worker (__getitems__ with a thread pool). More workers than CPUs also help here: try num_workers={ $try_workers }.{
        KNOWN($faults_per_s) ->
            [yes] { " " }From a memory-mapped file (np.memmap, LMDB, Arrow) prefetch whole samples with madvise(MADV_WILLNEED), or read them with
                read() instead.
           *[no] { "" }
        }{ before-more-workers }
# $short is whether the workers are too slow on average, $room what is known of the CPUs: "free", "little-used" or "unknown".
too-few-workers =
    .because = { workers-deliver }
    .cause = { worker-and-model }{ $short ->
            [yes] , so { workers } cannot keep up
           *[no] : { $workers ->
                [one] { $workers } worker keeps
               *[other] { $workers } workers keep
            } up on average, but without a reserve for slow batches
        }.{ waits-in-a-comb }
    .advice = Raise num_workers { $workers } → { $target }: a fetch takes { DURATION($fetch_s) }, a step { DURATION($step_s) }. { $room ->
            [free] { RATE($free_cpus) } of { RATE($usable_cpus) } usable CPUs are free
            [little-used] While reading, each worker uses only { PERCENT($computing_ratio) } of a CPU, so the CPUs have room for more
           *[unknown] Whether CPUs are free is unknown
        }. prefetch_factor does not raise throughput.{ before-more-workers }
