### Why the loop waits: the storage, what the workers ask over the network, and the page cache.
### Parameters end with their unit: _s seconds, _bytes bytes, _ratio a share from 0 to 1. Others are counts and names.

## Storage that slowed down, or stops

# $ago_s is the time since the change, $factor by how many times fetches take longer.
fetches-slowed-down = fetches in { readers } became { RATE($factor) } times slower { DURATION($ago_s) } ago
    ({ DURATION($before_s) } → { DURATION($after_s) }), without more CPU time
readers = { $workers ->
        [1] the worker
       *[other] all workers
    }
storage-slowed-down =
    .because = { fetches-slowed-down }
    .cause = Fetches went from { DURATION($before_s) } to { DURATION($after_s) } in { readers } at the same moment. The batches did not grow and the CPUs
        are idle ({ PERCENT($cpu_ratio) } of the reading time is CPU time), so the storage is slower than before.{ KNOWN($held_bytes) ->
            [yes] { " " }Reading stays at about { SIZE($held_bytes) }/s.
           *[no] { "" }
        } Possible reasons: burst credits are used up, a throughput limit, or another user of a shared file system.
    .advice = Check the volume's burst balance and its limits (IOPS and MB/s). Then provision more, copy the data to a local disk, or read fewer and
        larger pieces. The speed returns when burst credits refill. More workers share the same limit.
# $line is the line at which a worker was found waiting, unknown where the stack shows none.
answers-slowed-down =
    .because = { fetches-slowed-down }
    .cause = Fetches became slower in all workers at the same moment. The batches did not grow and the CPUs are idle. So the service that the workers ask
        over the network answers slower, or the workers ask it in another way.{ KNOWN($line) ->
            [yes] { " " }Worker { $worker } was waiting for an answer at { $line } (see its stack).
           *[no] { "" }
        }
    .advice = Find out what changed in that service: a request limit, retries, an expired cache, more load. A request that is sent in several pieces loses
        about 40 ms per piece without TCP_NODELAY. Ask for many samples at once. More workers help only if the service answers them in
        parallel.
storage-stops =
    .because = all { $workers } workers stop together, { times-so-far }, for up to { DURATION($longest_s) }, and use no CPU
    .cause = No sample is the cause: all workers stop and continue together, and none of them computes. The storage or its server stops from time to
        time.
    .advice = Check the storage of the dataset at these times: server pauses, limits, a mount that reconnects. A larger prefetch_factor covers short stops;
        a local copy avoids all of them. More workers stop as well.
times-so-far = { $times ->
        [one] { $times } time
       *[other] { $times } times
    } so far

## Reading more than is used

# $read_bytes is what is read for one sample, $used_bytes is its size, $rate_bytes is what is read per second.
read-amplification =
    .because = the workers read { SIZE($read_bytes) } for each sample of { SIZE($used_bytes) }, { RATE($factor) } times what is used
    .cause = For each sample of { SIZE($used_bytes) } the workers read { SIZE($read_bytes) }, { RATE($factor) } times the data that ends up in a batch
        ({ SIZE($rate_bytes) }/s in all). They compute during { PERCENT($cpu_ratio) } of the reading time. A typical reason is random access to large
        compressed chunks, row groups or archives: a whole block is read and decompressed for one sample. Another one is a file that is read from its
        beginning to reach one row.
    .advice = Store one sample per chunk (or the samples of one batch), in an uncompressed or LZ4 container. Or read chunks in sequence and shuffle in a
        buffer (Hugging Face: flatten_indices() or to_iterable_dataset().shuffle()). In a file of lines, store where each line begins and seek
        there. Cut or shrink large photos or recordings once, ahead of time.

## The page cache and caches of datasets

# $read_bytes is what comes from storage per second, $evicted_bytes the part of it that had been in memory.
page-cache-too-small =
    .because = the page cache cannot hold the dataset, and every epoch reads { SIZE($read_bytes) }/s from storage again
    .cause = This is not the first epoch, yet the workers still read { SIZE($read_bytes) }/s from storage; { SIZE($evicted_bytes) }/s of that had
        been in memory and was evicted. The dataset is larger than the memory that is left for the page cache. Reading in random order evicts
        samples before their next use, so later epochs will not be faster.
    .advice = Give the job more memory (a container's limit includes its page cache), or use fewer workers if they use most of the memory. Or store the
        samples smaller, or in shards that are read in sequence with a shuffle buffer.
page-cache-fills =
    .because = waits are getting shorter ({ DURATION($early_s) } → { DURATION($late_s) }), as in a first epoch on cold storage
    .cause = This is the first epoch, and reading gets faster as it goes on: the page cache fills. If the dataset fits into memory, the next epoch
        will be fast.
    .advice = Wait for the second epoch. If that one waits as long, the dataset does not fit into memory: stage it on a local disk or pack it into
        shards that are read in sequence.
dataset-fills-cache =
    .because = the first epoch writes { SIZE($written_bytes) } for each sample that it reads, as into a cache
    .cause = If later epochs read what is written now, they will be fast.
    .advice = Wait for the second epoch. To speed up the first one, fill the cache before training, on all CPUs. If the dataset has no cache, find
        out what it writes for each sample.
# $since_s is what a fetch has taken since, unknown where there was none.
first-epoch-was-cold =
    .because = in the first epoch nearly every batch took about { DURATION($cold_s) }{ KNOWN($since_s) ->
            [yes] , later { DURATION($since_s) }
           *[no] { "" }
        }, as from cold storage
    .cause = Up to the last long wait { PERCENT($slow_ratio) } of the batches took about this long, in every worker, so no single sample is the cause. The
        first read of a sample comes from storage (or fills the dataset's own cache). Later the sample is in memory.
    .advice = Wait for the next epoch. If it is fast, change nothing; to speed up the first epoch, copy the data to a local disk or read it once before
        training. If it waits as long, the dataset does not fit into memory.

## Whoever answers the workers

# $limit_s is the time limit, $once whether each of these fetches ran into it only once. $awaited: see the message awaited.
requests-time-out =
    .because = { PERCENT($limited_ratio) } of the fetches take { $once ->
            [yes] almost exactly { DURATION($limit_s) }
           *[no] { DURATION($limit_s) } or a multiple of it
        }, the others { DURATION($quick_s) }
    .cause = In these fetches a worker waits for { awaited } and computes nothing. Equal times mean a timeout: a request gets no answer and is
        repeated after the timeout.{ KNOWN($line) ->
            [yes] { " " }Worker { $worker } was waiting at { $line } (see its stack).
           *[no] { "" }
        }
    .advice = Log which host, key or file does not answer, and skip it for some time after a timeout. A shorter timeout, or a second source that is asked in
        parallel, shortens each wait. More workers only wait in parallel.
live-source =
    .because = its source delivers a batch every { DURATION($each_s) } at a fixed rate, and the model takes each at once
    .cause = The worker computes nothing and waits for the next sample of a stream. After a late sample the next ones come sooner, so the source
        keeps its rate: a live source has no more data to give. A limit on requests per second looks the same.
    .advice = Change nothing if the source is live: training takes every sample when it comes. If it is a limit, raise the limit, or ask for
        more samples per request. More workers do not get more data.
