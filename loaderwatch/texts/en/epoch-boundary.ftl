### What the end of one epoch and the beginning of the next cost, a resume that reads what it has seen, and shards that do not suffice.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1. Others are counts and names.

# $place is "making-iterators" or "at-boundaries"; $loader is known where the loop takes from several.
time-lost-at-epoch-boundaries = { who } { $who ->
        [training] loses { PERCENT($share_ratio) } of its time
        [one] loses { PERCENT($share_ratio) } of its time
       *[several] lose { PERCENT($share_ratio) } of their time
    } { $place ->
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
    .cause = iter({ $loader }) was called { $times } times lately for one or two batches each{ KNOWN($ahead) ->
            [yes] , and each time { $ahead } batches are read ahead and thrown away
           *[no] { "" }
        }. This is what next(iter(loader)) inside the training loop does, or a DataLoader that is built inside it.
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
    .cause = When an epoch ends, the loader stops its workers one after the other and waits for each to finish what it is reading.{ KNOWN($joins) ->
            [yes] { " " }{ DURATION($teardown_s) } is { $joins ->
                [one] { $joins } time
               *[other] { $joins } times
            } the 5 s that a DataLoader waits for a worker that does not end.
           *[no] { "" }
        }
    .advice = Set persistent_workers=True so that workers are not stopped, or leave no long fetch in flight: end the epoch with the sampler instead
        of a break, and make single reads shorter.

# $drained is how many batches were thrown away, where that is known.
read-ahead-thrown-away =
    .because = iter({ $loader }) takes { DURATION($start_s) } to throw away batches that were read ahead
    .cause = The epoch before was left early (break), but the persistent workers had been asked for prefetch_factor { $prefetch_factor } × { $workers ->
            [one] { $workers } worker
           *[other] { $workers } workers
        } more batches. iter() waits until they have read { KNOWN($drained) ->
            [yes] { $drained ->
                [one] { $drained } batch
               *[other] { $drained } batches
            }
           *[no] the batches
        } nobody wants.
    .advice = Let the sampler end the epoch instead of break (RandomSampler(num_samples=…), Subset), keep one endless iterator, or lower
        prefetch_factor (now { $prefetch_factor }).

first-batch-takes = the first batch takes { DURATION($first_s) } each time
first-batch-advice = Make epochs longer (repeat the dataset in the sampler), or make the first samples of an epoch cheap to read.
# $persist is "yes" where the workers are started anew for every epoch.
shuffle-buffer-refilled =
    .because = { first-batch-takes }
    .cause = The workers are up, but need { DURATION($first_s) } until the first batch of every epoch: an iterable dataset opens its shards and fills
        its shuffle buffer first.
    .advice = Begin with a small buffer (webdataset: shuffle(size, initial=small)), { $persist ->
            [yes] persistent_workers=True,{ " " }
           *[no] { "" }
        }and treat the stream as endless with epochs of a fixed number of steps.
first-batch-not-read-ahead =
    .because = { first-batch-takes }
    .cause = The workers are up, but the first batch of every epoch has to be read from nothing: { DURATION($first_s) }. Nothing is read ahead across
        the end of an epoch.
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
        } started anew{ by-method } for every epoch, { until-first-batch }
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
            [yes] persistent_workers is on, but a new DataLoader is made each epoch: make it once, outside the epoch loop.
           *[no] Make the DataLoader once, outside the epoch loop, and set persistent_workers=True: workers then live through all epochs. One
                without the other does not keep them.
        }

# $over is whether it has ended; $eta_s is unknown where the length of the epoch is.
resume-reads-again =
    .title = Training { $over ->
            [yes] fast-forwarded
           *[no] is fast-forwarding
        } { $loader }: { COUNT($batches) } batches were read and thrown away, { RATE($batches_per_s) }/s, before any training step{ KNOWN($eta_s) ->
            [yes] ; at most { DURATION($eta_s) } more until the epoch ends
           *[no] { "" }
        }.
    .cause = Batches are delivered, but the loop does nothing with them: so does a resume that skips what was already seen by reading it again. It is
        progress, not a hang.
    .advice = To resume without reading it all: skip in the sampler (no sample is loaded then), as accelerate's skip_first_batches does for map-style
        datasets, use a StatefulDataLoader, or with transformers set ignore_data_skip=True, which starts the epoch anew.

# $exhausted are the workers that read no more, and $delivered is what each worker delivered, from worker 0 on.
exhausted-workers = { $exhausted_count ->
        [one] worker { LISTING($exhausted, limit: 8) } has
       *[other] workers { LISTING($exhausted, limit: 8) } have
    }
workers-out-of-shards =
    .title = Only { $reading } of { $workers } workers{ of-rank } still { $reading ->
            [one] reads
           *[other] read
        }, and the loop loses { PERCENT($share_ratio) } of its time waiting for data { measured }: { exhausted-workers } nothing left.
    .cause = { $loader } reads an iterable dataset, whose shards are dealt out to the workers once per epoch. The workers delivered
        { LISTING($delivered, limit: 16) } batches{ $lately ->
            [yes] { " lately" }
           *[no] { "" }
        }; { exhausted-workers } been idle for { DURATION($idle_s) }, so { RATE($batches_per_s) } batches/s are all that is left.
    .advice = Give every worker the same amount: { $world ->
            [1] at least { $shards } shards of equal size
           *[other] a multiple of { $shards } shards ({ $workers } workers × { $world } ranks) of equal size
        }, or resample shards. With datasets 5.0, shuffle() can leave all data to worker 0: check num_shards afterwards. More workers would only
        idle as well.
