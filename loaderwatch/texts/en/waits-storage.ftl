### Why the loop waits: the storage, what the workers ask over the network, and the page cache.
### Parameters end with their unit: _s seconds, _bytes bytes, _ratio a share from 0 to 1. Others are counts and names.

## Storage that slowed down, or stops

# $ago_s is the time since the change, $factor by how many times fetches take longer.
fetches-slowed-down = for { DURATION($ago_s) } now, fetches have taken { RATE($factor) } times as long in { readers } at once
    ({ DURATION($before_s) } → { DURATION($after_s) }), and nobody computes more
readers = { $workers ->
        [1] the worker
       *[other] all workers
    }
storage-slowed-down =
    .because = { fetches-slowed-down }
    .cause = Fetches went from { DURATION($before_s) } to { DURATION($after_s) } in { readers } at the same moment, while the batches stayed as
        large and the CPUs idle ({ PERCENT($cpu_ratio) } of the reading time is computing): the storage gives less than before.{ KNOWN($held_bytes) ->
            [yes] { " " }Reading is held at about { SIZE($held_bytes) }/s.
           *[no] { "" }
        } Burst credits that are used up, a throughput cap or a neighbour on a shared file system look like this.
    .advice = Look at the volume's burst balance and limits (IOPS and MB/s): provision more of them, copy the data to a local disk, or read fewer
        and larger pieces. It recovers by itself when credits refill. More workers share the same cap.
# $line is the line at which a worker was found waiting, unknown where the stack shows none.
answers-slowed-down =
    .because = { fetches-slowed-down }
    .cause = Fetches have become slower in all workers at the same moment, while the batches stayed as large and the CPUs idle: what they ask over
        the network answers slower than before, or is asked in another way.{ KNOWN($line) ->
            [yes] { " " }Worker { $worker } was found waiting for it at { $line }, see its stack.
           *[no] { "" }
        }
    .advice = See what changed there: a limit of requests, retries, a cache that expired, a service under load. A request that is written in pieces
        waits some 40 ms for each without TCP_NODELAY. Ask for many samples at once; more workers help as far as the service serves them side by
        side.
storage-stops =
    .because = all { $workers } workers stand still at the same moments, { times-so-far }, for up to { DURATION($longest_s) }, and nobody computes
    .cause = No sample is to blame: no worker computes meanwhile, and they go on together. The storage or the server behind them stops now and then
        for everybody.
    .advice = Look at what they read from at these times: pauses of a server, limits, a mount that is reached anew. A larger prefetch_factor bears
        short stops, a local copy all. More workers stand still as well.
times-so-far = { $times ->
        [one] { $times } time
       *[other] { $times } times
    } so far

## Reading more than is used

# $read_bytes is what is read for one sample, $used_bytes is its size, $rate_bytes is what is read per second.
read-amplification =
    .because = the workers read { SIZE($read_bytes) } for each sample of { SIZE($used_bytes) }, { RATE($factor) } times what is used
    .cause = For each sample of { SIZE($used_bytes) } the workers read { SIZE($read_bytes) } ({ SIZE($rate_bytes) }/s in all), { RATE($factor) } times
        what ends up in a batch, and spend { PERCENT($cpu_ratio) } of the time computing on it. Random access into large compressed chunks, row
        groups or archives does this: a whole block is read and unpacked for one sample. So does a file that is read from its beginning to reach one
        row.
    .advice = Make what is stored as large as what is read: one sample per chunk (or chunks of a batch), an uncompressed or LZ4 container, or read
        chunks in sequence and shuffle in a buffer (Hugging Face: flatten_indices() or to_iterable_dataset().shuffle()). In a file of lines, keep
        where each begins and seek there. If the files are large photos or recordings, cut or shrink them once ahead of time.

## The page cache and caches of datasets

# $read_bytes is what comes from storage per second, $evicted_bytes the part of it that had been in memory.
page-cache-too-small =
    .because = { SIZE($read_bytes) }/s come from storage again in every epoch, because the page cache cannot hold the dataset
    .cause = This is not the first epoch, yet the workers still read { SIZE($read_bytes) }/s from storage, and { SIZE($evicted_bytes) }/s of that had
        been in memory and was evicted. The dataset is larger than the memory that is left for the page cache, and reading it in random order evicts
        what is needed next: it will not get faster.
    .advice = Give the job more memory (a container's limit counts its page cache), use fewer workers if they take the memory, store the samples
        smaller, or pack them into shards that are read in sequence with a shuffle buffer.
page-cache-fills =
    .because = waits are getting shorter ({ DURATION($early_s) } → { DURATION($late_s) }), as in a first epoch on cold storage
    .cause = This is the first epoch, and reading gets faster as it goes on: the page cache fills. If the dataset fits into memory, the next epoch
        will be fast.
    .advice = Wait for the second epoch. If that one waits as long, the dataset does not fit into memory: stage it on a local disk or pack it into
        shards that are read in sequence.
dataset-fills-cache =
    .because = in its first epoch it writes { SIZE($written_bytes) } for each sample that it reads, as into a cache
    .cause = If later epochs read what is written now, they will be quick.
    .advice = Wait for the second epoch. To save the first one, fill the cache before training, on all CPUs. If it is no cache, see what is written
        for each sample.
# $since_s is what a fetch has taken since, unknown where there was none.
first-epoch-was-cold =
    .because = in the first epoch nearly every batch took about { DURATION($cold_s) } to read{ KNOWN($since_s) ->
            [yes] , and { DURATION($since_s) } since
           *[no] { "" }
        }, as from cold storage
    .cause = { PERCENT($slow_ratio) } of the batches up to then took as long, in every worker, so no sample is to blame: what is read for the first
        time comes from storage (or fills a cache of the dataset's own), and is in memory afterwards.
    .advice = If the next epochs stay quick, there is nothing to do; to save the first one, stage the data on a local disk or read it once before
        training. If they wait as long, the dataset does not fit into memory.

## Whoever answers the workers

# $limit_s is the time limit, $once whether each of these fetches ran into it only once. $awaited: see the message awaited.
requests-time-out =
    .because = { PERCENT($limited_ratio) } of the fetches take { DURATION($limit_s) }{ $once ->
            [yes] , all nearly alike, the quick ones
           *[no] { " or that several times, the quick ones" }
        } { DURATION($quick_s) }
    .cause = A worker waits for { awaited } there and computes nothing. A time limit takes as long each time: a request is not answered, and another
        try is, when the limit has passed.{ KNOWN($line) ->
            [yes] { " " }Worker { $worker } was found waiting at { $line }, see its stack.
           *[no] { "" }
        }
    .advice = Log which host, key or file is not answered, and leave it alone for a while once that is known. A shorter limit, or another source that
        is asked beside the first one, makes each such wait shorter. More workers only wait side by side.
live-source =
    .because = its source hands out a batch every { DURATION($each_s) }, by a clock, and the model takes each at once
    .cause = The worker computes nothing and waits for the next row of a stream, and one that is late is made up for: a live source has no more to
        give. A limit of so many requests a second looks the same.
    .advice = If the source is live, nothing is lost. If it is a limit, raise it, or ask for more rows in each request. More workers get no more.
