### Why single batches come late: a slow sample, a block that is read at once, fetches that differ much.
### Parameters end with their unit: _s seconds, _bytes bytes. Others are counts and names.

# $block is how many samples lie between two slow ones. $then says what else there is to say: "stays", that workers are slower on average
# as well, or "prefetch", that $prefetch_factor covers the stops. $memory_bytes is the /dev/shm that it needs, unknown where that is little.
slow-blocks =
    .because = every { $block } samples a worker reads a whole block, for up to { DURATION($tail_s) }
    .cause = In each worker a slow sample comes every { $block } samples. There the dataset reads a whole block: a shuffle buffer, a row group or a
        shard. The next samples come from memory, and a usual batch takes { DURATION($usual_s) }.
    .advice = Read the next block in a thread of the dataset, while the samples of the current block are used. With a shuffle buffer, add one new sample
        for each sample taken. Smaller blocks make shorter but more frequent stops.{ $then ->
            [stays] { " " }Even then the workers need { DURATION($each_s) } per batch on average, and a step takes { DURATION($step_s) }.
            [prefetch] { " " }prefetch_factor={ $prefetch_factor } covers the stops as well.{ prefetch-memory }
           *[nothing] { "" }
        }
prefetch-memory = { KNOWN($memory_bytes) ->
        [yes] { " " }It needs about { MEBIBYTES($memory_bytes) } of /dev/shm.
       *[no] { "" }
    }
# $raise is whether a larger prefetch_factor covers them; $pass whether ready batches could pass the awaited one. $named are the slowest samples.
uneven-fetches =
    .because = { $slow_fetches ->
            [one] { $slow_fetches } slow fetch
           *[other] { $slow_fetches } slow fetches
        } of up to { DURATION($tail_s) } took longer than the prefetched batches last ({ DURATION($cushion_s) })
    .cause = On average the workers keep up, but a few fetches take up to { DURATION($tail_s) }. The prefetched batches last only { DURATION($cushion_s) }
        (prefetch_factor { $prefetch_factor_now } × { workers } × { DURATION($step_s) } per step).
    .advice = { $raise ->
            [yes] Set prefetch_factor={ $prefetch_factor } (now { $prefetch_factor_now }).{ prefetch-memory }{ $pass ->
                [yes] { " " }in_order=False (torch 2.6 or newer) takes no memory, but changes the order.
               *[no] { "" }
            }
           *[no] Find out why some fetches take { DURATION($tail_s) }.{ $pass ->
                [yes] { " " }in_order=False (torch 2.6 or newer) lets others pass them.
               *[no] { "" }
            }
        }{ KNOWN($named) ->
            [yes] { " " }The slowest were { $named }.
           *[no] { "" }
        }
# $sample is unknown where only the batch is known. $several is whether there are several slow samples, $slow_samples their number and
# $named their names; $behind whether finished batches waited; $pass whether ready batches could pass.
slow-sample =
    .because = { what-took }{ $several ->
            [yes] { " (slowest of " }{ $slow_samples })
           *[no] { "" }
        }{ $behind ->
            [yes] , while finished batches waited behind it
           *[no] { "" }
        }
    .cause = Batches are delivered in order, so { $several ->
            [yes] each
           *[no] one
        } slow sample delays all batches that are ready. Here { what-took }; a usual batch takes { DURATION($usual_s) }. Meanwhile the other workers get
        no new work and become idle.
    .advice = { KNOWN($sample) ->
            [yes] Look at { $named }: shorten, cache or skip { $several ->
                [yes] them
               *[no] it
            }.
           *[no] Look at the samples of the batches named here: shorten, cache or skip the long ones.
        }{ $pass ->
            [yes] { " " }With torch 2.6 or newer in_order=False lets ready batches pass a slow one (the order then changes).
           *[no] { "" }
        } More workers do not help against such { $several ->
            [yes] samples
           *[no] a sample
        }.
what-took = { KNOWN($sample) ->
        [yes] { sample-name }
       *[no] one batch
    } took { DURATION($took_s) } in { one-worker }
