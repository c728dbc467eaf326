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
        [yes] { " " }But { PERCENT($asleep_ratio) } of the time a worker sleeps for a set time, rather than in a read: if it tries for a lock or keeps
            to a limit of requests, more workers wait in the same queue. `loaderwatch tune` counts what each number of workers delivers.
       *[no] { "" }
    }

## No workers

# $class is the class of what is iterated; $has_threads whether threads read ahead for it.
no-dataloader =
    .because = { $loader } gives { RATE_OF($iteration_s) } batches/s, the model could take { RATE_OF($step_s) }
    .cause = { $loader } ({ $class }) takes { DURATION($wait_s) } to give a batch, and the training loop stands still meanwhile. A step takes
        { DURATION($step_s) }.
    .advice = Prepare batches ahead of time: in DataLoader workers{ $has_threads ->
            [yes] { " " }or in several threads.
           *[no] , or in a background thread that fills a queue.
        }
data-in-memory =
    .because = the data lies in memory, and the samples of a batch are taken one by one ({ DURATION($batch_s) })
    .cause = A sample costs { DURATION($sample_cpu_s) } of CPU time, and nothing is read from storage. The time goes into handling each sample:
        { RATE($samples) } of them are indexed and joined for every batch.
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
            [yes] With num_workers=0 { who-reads } reads and joins every batch one after the other ({ DURATION($read_s) } each), and a step takes
                { DURATION($step_s) }.
           *[no] With num_workers=0 the training thread itself reads and joins each batch ({ DURATION($read_s) }), then computes
                ({ DURATION($step_s) }). Nothing overlaps.
        }
    .advice = { $then ->
            [no-second-worker] { cheaper-samples } No CPU is free for more than one worker{ room-for-workers }, which would read no quicker than
                { who-reads } does.
            [workers] Set num_workers={ $workers }{ room-for-workers } and persistent_workers=True: batches are then read while the model computes,
                about { RATE_OF($after_s) } steps/s instead of { RATE_OF($iteration_s) }.
            [workers-in-part] Set num_workers={ $workers } and persistent_workers=True for { RATE_OF($after_s) } steps/s at most instead of
                { RATE_OF($iteration_s) }, as training and reading { keep-cpus-busy }. Threads that get in each other's way make it less. To go
                beyond that: make reading a sample cheaper: { ways-to-cheaper-samples }
           *[cheaper-samples] { cheaper-samples } Workers alone will hardly help, as training and reading { keep-cpus-busy }.
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
keep-cpus-busy = keep { RATE($own_cpus) } of { CPUS($usable_cpus, noun: "usable CPU") } busy already

## Workers that are too slow or too few

# $heavy are the workers with the heavy share, $heavy_workers is their number.
heavy-share =
    .because = { heavy-ones } { $heavy_workers ->
            [one] needs { DURATION($heavy_s) } for a batch of its share
           *[other] need { DURATION($heavy_s) } for a batch of their share
        }, the others at most { DURATION($light_s) }
    .cause = { $loader } reads an iterable dataset, and each worker has a share of its own. Batches are delivered in turn, so { heavy-ones } {
        $heavy_workers ->
            [one] sets
           *[other] set
        } the pace of all { $workers }: a batch every { DURATION($turn_s) } would be quick enough. What the others have read ahead lies ready
        meanwhile.
    .advice = Spread the heavy samples: more and smaller shards than workers, dealt out at random, or resampled; or make what { heavy-ones } {
        $heavy_workers ->
            [one] reads
           *[other] read
        } cheaper. A larger prefetch_factor or more workers do not help: the share stays where it is.
heavy-ones = { $heavy_workers ->
        [one] worker { $heavy }
       *[other] workers { LISTING($heavy, limit: 8) }
    }
# $of_cpu is whether the CPU time has risen, $kept_up whether the workers did at first.
fetches-keep-growing =
    .because = { workers-deliver }, and a fetch takes longer and longer
    .cause = { worker-and-model }. The { $of_cpu ->
            [yes] CPU time
           *[no] time
        } of a fetch has risen steadily, from { DURATION($first_s) } to { DURATION($last_s) } in { DURATION($span_s) }.{ $kept_up ->
            [yes] { " " }Before, { workers } kept up.
           *[no] { "" }
        }
    .advice = Look for what grows in the dataset with each sample (a list that is searched, a file that is read from its beginning, a cache or a
        connection that degrades), or for storage and CPUs that others use more and more. More workers only put it off.
# $sample_cpu_s is the CPU time of a sample, $samples_per_s what fits on the CPUs; both are unknown or none is.
no-cpu-for-more-workers =
    .because = { workers-deliver }, and no CPU is free for more workers
    .cause = { worker-and-model }.{ waits-in-a-comb } The workers compute, or wait for a CPU, { PERCENT($computing_ratio) } of the time they read, and the
        usable CPUs are taken.{ other-programs }{ KNOWN($samples_per_s) ->
            [yes] { " " }Reading costs { DURATION($sample_cpu_s) } of CPU per sample, so at most { RATE($samples_per_s) } samples/s{ $ranks ->
                    [1] { "" }
                   *[other] { " of each rank" }
                } fit on { CPUS($usable_cpus) }, whatever num_workers is.
           *[no] { "" }
        }
    .advice = { cheaper-samples } More workers on this machine will not help.
# $faults_per_s is how often a worker waits for a page of memory, unknown where that is seldom; $try_workers is a number to try.
slow-storage =
    .because = { workers-deliver }, and the workers only wait for storage or network
    .cause = { worker-and-model }.{ waits-in-a-comb } The workers compute only { PERCENT($computing_ratio) } of the time they read: they wait for storage
        or network, one sample after the other.{ KNOWN($faults_per_s) ->
            [yes] { " " }{ RATE($faults_per_s) } times a second a worker waits for a page of a memory-mapped file (or of swapped-out memory): such
                reads are small and come one after the other.
           *[no] { "" }
        }
    .advice = Read larger pieces: pack samples into shards (WebDataset, LMDB, MDS), copy the data to a local disk, or read several samples at once
        inside a worker (__getitems__ with a thread pool). More workers than CPUs also helps here: try num_workers={ $try_workers }.{
        KNOWN($faults_per_s) ->
            [yes] { " " }From a memory-mapped file (np.memmap, LMDB, Arrow) read whole samples ahead with madvise(MADV_WILLNEED), or read them with
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
            } up on average, but with nothing to spare for a batch that takes longer
        }.{ waits-in-a-comb }
    .advice = Raise num_workers { $workers } → { $target }: each fetch takes { DURATION($fetch_s) } and a step { DURATION($step_s) }. { $room ->
            [free] { RATE($free_cpus) } of { RATE($usable_cpus) } usable CPUs are free
            [little-used] The workers use only { PERCENT($computing_ratio) } of a CPU each while they read, so more of them fit
           *[unknown] The CPUs are not known to be busy
        }. prefetch_factor does not raise throughput.{ before-more-workers }
