### Why the loop waits: a lock that the workers share, or that somebody else holds.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1. Others are counts and names.

# $line is the line at which $worker was found waiting; both may be unknown. $how is the message that says what was seen of the lock.
shared-lock =
    .because = { lock-because }
    .cause = { lock-cause }
    .advice = Give each worker a handle or connection of its own (open it in worker_init_fn or at the first sample), hold the lock for less, or open
        read-only (SQLite: file:…?mode=ro), and write many rows in one transaction. { lock-stack } More workers only wait in the same queue.
# One worker at a time keeps the lock, for many samples.
lock-held-long =
    .because = { lock-because }
    .cause = { lock-cause }
    .advice = Let go of the lock sooner: a transaction that stays open over many samples keeps all other workers out until it is committed. Or give
        each worker a file of its own. { lock-stack } More workers only wait in the same queue.
lock-because = its { $workers } workers wait for a lock that they share{ KNOWN($line) ->
        [yes] { " at " }{ $line }
       *[no] { "" }
    }, and one works at a time
lock-cause = { worker-and-model }. { $how }
lock-stack = { KNOWN($worker) ->
        [yes] Worker { $worker } was found waiting{ KNOWN($line) ->
            [yes] { " at " }{ $line }
           *[no] { "" }
        }, see its stack.
       *[no] The stacks of the workers show the line.
    }

## How workers wait for a lock

lock-in-kernel = { PERCENT($waiting_ratio) } of the time a worker stands in the kernel and waits for a lock: about { RATE($at_work) } of { $workers }
    work at any moment. A multiprocessing.Lock, a file lock, one database connection or HDF5's global lock does this.
# $holders is how many workers were seen with the lock, unknown where it was not seen to go around. $slice_s and the ratios are unknown
# where nothing shows that the workers take turns.
lock-tried-for = { PERCENT($sleeping_ratio) } of the time a worker sleeps between two tries to get a lock{ KNOWN($holders) ->
        [yes] , which { $holders } workers were seen to hold in turn
       *[no] { "" }
    }. SQLite's busy handler, filelock and loops around fcntl wait like this, and the lock lies free until one of them wakes up.{ KNOWN($slice_s) ->
        [yes] { " " }What one gets done the others lack, as with one lock or one limit for all: in { DURATION($slice_s) } they get the same done
            together within { PERCENT($together_ratio) }, and would by chance within { PERCENT($own_ratio) }.
       *[no] { "" }
    }
lock-kept = In { PERCENT($kept_out_ratio) } of the looks one worker has a file lock and is at work, and most of the others sleep between two tries to
    get it, as in SQLite's busy handler, filelock or a loop around fcntl.
lock-asked-for = { PERCENT($waiting_ratio) } of the time a worker waits for another process to hand it the lock, as that of a multiprocessing.Manager
    or a server of locks. Whoever has it lets the others wait for as long as it reads.

## A lock that somebody else holds

locked-out =
    .because = all { $workers } workers stand still at the same moments{ KNOWN($line) ->
            [yes] , at { $line }
           *[no] { "" }
        }, { times-so-far }, for up to { DURATION($longest_s) }
    .cause = No sample is to blame: they wake up together, and { PERCENT($locked_ratio) } of the looks meanwhile found them in a lock or asleep between
        two tries, as in SQLite's busy handler: somebody else holds what all of them need.
    .advice = See who writes there (`lslocks`). Keep a writer's transactions short, with SQLite use journal_mode=WAL, or read from a copy. More
        workers only wait as well.
