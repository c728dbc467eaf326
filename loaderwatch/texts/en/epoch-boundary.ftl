### What the end of one epoch and the beginning of the next cost, a resume that reads what it has seen, and shards that do not suffice.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1. Others are counts and names.

# $place is "making-iterators" or "at-boundaries"; $loader is known where the loop takes from several.
time-lost-at-epoch-boundaries = { who } { $who ->
        [training] loses
        [one] loses
       *[several] lose
    } { PERCENT($share_ratio) } of the time { $place ->
        [making-iterators] making iterators
       *[at-boundaries] at epoch boundaries
    }{ KNOWN($loader) ->
        [yes] { " of " }{ $loader }
       *[no] { "" }
    }: { $because }.
epoch-boundaries-have-cost =
    .cause = It has cost { DURATION($lost_s) } so far, { DURATION($each_s) } per { $per ->
            [iterator] iterator
           *[epoch] epoch
        }.

iterator-per-batch =
    .because = a new iterator is made for nearly every batch, { DURATION($each_s) } each
    .cause = iter({ $loader }) was recently called { $times } times, each time for only one or two batches{ KNOWN($ahead) ->
            [yes] { " " }while { $ahead } more batches were prefetched and thrown away
           *[no] { "" }
        }. This happens when next(iter(loader)) is called inside the training loop, or a DataLoader is built inside it.
    .advice = Make the iterator once, outside the loop: `for batch in { $loader }`, or keep `it = iter({ $loader })` and call next(it). Do not use
        itertools.cycle: it keeps every batch in memory.

of-samples = { KNOWN($samples) ->
        [yes] { " of " }{ COUNT($samples) } samples
       *[no] { "" }
    }
# $used is known where an epoch takes far fewer samples than are drawn.
slow-shuffle =
    .because = the sampler needs { DURATION($drawing_s) } to draw the order{ of-samples }
    .cause = Before the first batch of an epoch the sampler builds its whole index list{ of-samples } on the training thread, in every rank.
    .advice = { KNOWN($used) ->
            [yes] Draw only as many as an epoch takes, { COUNT($used) } here (num_samples).{ " " }
           *[no] { "" }
        }Draw the order in pieces or by a formula (a permutation of shards, replacement=True, a chunked shuffle), or build the next epoch's list
        in a thread while this one trains.

# $joins is how often the loader waited 5 s in vain; unknown where the time fits no such wait.
slow-worker-shutdown =
    .because = ending the epoch takes { DURATION($teardown_s) }, because { $workers ->
            [one] its worker is still busy
           *[other] { $workers } workers are still busy
        }
    .cause = When an epoch ends, the loader stops its workers one after the other and waits until each has finished its current
        read.{ KNOWN($joins) ->
            [yes] { " " }A DataLoader waits at most 5 s per worker; { DURATION($teardown_s) } means that { $joins ->
                [one] { $joins } wait
               *[other] { $joins } waits
            } ended at this limit.
           *[no] { "" }
        }
    .advice = Set persistent_workers=True, so that workers are not stopped. Or avoid long fetches at the end of an epoch: end the epoch with
        the sampler instead of a break, and make single reads shorter.

# $drained is how many batches were thrown away, where that is known.
read-ahead-thrown-away =
    .because = iter({ $loader }) takes { DURATION($start_s) } to throw away prefetched batches
    .cause = The previous epoch was left early (break). At that moment the persistent workers still had up to prefetch_factor
        { $prefetch_factor } × { $workers ->
            [one] { $workers } worker
           *[other] { $workers } workers
        } batches to read. Now iter() waits until they have read { KNOWN($drained) ->
            [yes] { $drained ->
                [one] { $drained } batch
               *[other] { $drained } batches
            }
           *[no] these batches
        }, and throws them away.
    .advice = Let the sampler end the epoch instead of break (RandomSampler(num_samples=…), Subset), keep one endless iterator, or lower
        prefetch_factor (now { $prefetch_factor }).

first-batch-takes = the first batch takes { DURATION($first_s) } each time
first-batch-advice = Make epochs longer (repeat the dataset in the sampler), or make the first samples of an epoch cheap to read.
# $persist is "yes" where the workers are started anew for every epoch.
shuffle-buffer-refilled =
    .because = { first-batch-takes }
    .cause = The workers are running, but need { DURATION($first_s) } until the first batch of every epoch: an iterable dataset first opens its
        shards and fills its shuffle buffer.
    .advice = Begin with a small buffer (webdataset: shuffle(size, initial=small)), { $persist ->
            [yes] persistent_workers=True,{ " " }
           *[no] { "" }
        }and treat the stream as endless with epochs of a fixed number of steps.
first-batch-not-read-ahead =
    .because = { first-batch-takes }
    .cause = The workers are running, but they begin the first batch of every epoch only when the epoch starts: { DURATION($first_s) }. Nothing
        is prefetched across the end of an epoch.
    .advice = { first-batch-advice }
first-batch-without-workers =
    .because = { first-batch-takes }
    .cause = Without workers the loop reads the first batch of every epoch itself, for { DURATION($first_s) }.
    .advice = { first-batch-advice }

# How workers are started: fork, spawn or forkserver, where that is known.
by-method = { KNOWN($method) ->
        [yes] { " by " }{ $method }
       *[no] { "" }
    }
until-first-batch = { DURATION($until_s) } until the first batch
# $pickles is "yes" where each worker imports the script and unpickles the dataset.
workers-started-cost = { $workers ->
        [one] { $workers } worker process
       *[other] { $workers } worker processes
    }{ by-method } ({ DURATION($start_s) } inside iter()) and then waits { DURATION($first_s) } for the first batch; ending them took { DURATION($teardown_s) }.{ $pickles ->
        [yes] { " " }With { $method } each worker is a new Python that imports the script again and unpickles the dataset, so keep the dataset light
            (paths in a NumPy array).
       *[no] { "" }
    }
workers-restarted-each-epoch =
    .because = { $workers ->
            [one] { $workers } worker is
           *[other] { $workers } workers are
        } restarted{ by-method } for every epoch, { until-first-batch }
    .cause = Every epoch starts { workers-started-cost }
    .advice = Set persistent_workers=True: workers then live through all epochs.
# $persistent is whether persistent_workers is on.
dataloader-made-each-epoch =
    .because = a new DataLoader is made for every epoch and starts { $workers ->
            [one] { $workers } worker
           *[other] { $workers } workers
        }{ by-method }, { until-first-batch }
    .cause = Every epoch makes a new DataLoader, which starts { workers-started-cost }
    .advice = { $persistent ->
            [yes] Make the DataLoader once, outside the epoch loop: persistent_workers is on, but does not help while each epoch makes a new
                DataLoader.
           *[no] Make the DataLoader once, outside the epoch loop, and set persistent_workers=True: workers then live through all epochs. Both
                changes are needed.
        }

# $over is whether it has ended; $eta_s is unknown where the length of the epoch is.
resume-reads-again =
    .title = Training { $over ->
            [yes] fast-forwarded
           *[no] is fast-forwarding
        } { $loader }: it read and dropped { COUNT($batches) } batches ({ RATE($batches_per_s) }/s) before any training step{ KNOWN($eta_s) ->
            [yes] ; at most { DURATION($eta_s) } more until the epoch ends
           *[no] { "" }
        }.
    .cause = The loop takes batches without training on them. This is typical of a resume that skips the batches of the earlier run by reading them
        again. It is
        progress, not a hang.
    .advice = Skip in the sampler, so that no sample is loaded: use accelerate's skip_first_batches for map-style datasets, or a
        StatefulDataLoader. With transformers set ignore_data_skip=True, which restarts the epoch.

# $exhausted are the workers that read no more, and $delivered is what each worker delivered, from worker 0 on.
exhausted-workers = { $exhausted_count ->
        [one] worker { LISTING($exhausted, limit: 8) } has
       *[other] workers { LISTING($exhausted, limit: 8) } have
    }
workers-out-of-shards =
    .title = Only { $reading } of { $workers } workers{ of-rank } still { $reading ->
            [one] reads
           *[other] read
        } ({ exhausted-workers } no data left); the loop waits for data { PERCENT($share_ratio) } of the time { measured }.
    .cause = { $loader } reads an iterable dataset, whose shards are distributed to the workers once per epoch. The workers delivered
        { LISTING($delivered, limit: 16) } batches{ $lately ->
            [yes] { " recently" }
           *[no] { "" }
        }; { exhausted-workers } been idle for { DURATION($idle_s) }; the others deliver only { RATE($batches_per_s) } batches/s.
    .advice = Give every worker the same amount: { $world ->
            [1] at least { $shards } shards of equal size
           *[other] a multiple of { $shards } shards ({ $workers } workers × { $world } ranks) of equal size
        }, or resample shards. With datasets 5.0, shuffle() can leave all data to worker 0: check num_shards afterwards. Additional workers
        would be idle too.
