### Why the loop waits: a lock that the workers share, or that another process holds.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1. Others are counts and names.

# $line is the line at which $worker was found waiting; both may be unknown. $how is the message that says what was seen of the lock.
shared-lock =
    .because = { lock-because }
    .cause = { lock-cause }
    .advice = Give each worker its own handle or connection: open it in worker_init_fn or at the first sample. Or open the file read-only (SQLite:
        file:…?mode=ro), hold the lock for a shorter time, and write many rows in one transaction. { lock-stack } More workers only wait
        in the same queue.
# One worker at a time keeps the lock, for many samples.
lock-held-long =
    .because = { lock-because }
    .cause = { lock-cause }
    .advice = Release the lock sooner: a transaction that stays open for many samples blocks all other workers until the commit. Or give each worker
        its own file. { lock-stack } More workers only wait in the same queue.
lock-because = its { $workers } workers take turns on a shared lock{ KNOWN($line) ->
        [yes] { " at " }{ $line }
       *[no] { "" }
    }
lock-cause = { worker-and-model }. { $how }
lock-stack = { KNOWN($worker) ->
        [yes] Worker { $worker } was waiting{ KNOWN($line) ->
            [yes] { " at " }{ $line }
           *[no] { "" }
        } (see its stack).
       *[no] The stacks of the workers show the line.
    }

## How workers wait for a lock

lock-in-kernel = Each worker waits for a lock in the kernel { PERCENT($waiting_ratio) } of the time: on average { RATE($at_work) } of { $workers }
    workers work. Typical locks are a multiprocessing.Lock, a file lock, one shared database connection and HDF5's global lock.
# $holders is how many workers were seen with the lock, unknown where it was not seen to go around. $slice_s and the ratios are unknown
# where nothing shows that the workers take turns.
lock-tried-for = Each worker sleeps { PERCENT($sleeping_ratio) } of the time between two attempts to get a lock{ KNOWN($holders) ->
        [yes] { ". " }{ $holders } workers were seen to hold it in turn
       *[no] { "" }
    }. SQLite's busy handler, filelock and loops around fcntl wait like this; the lock then stays free until a worker wakes up.{ KNOWN($slice_s) ->
        [yes] { " " }From one { DURATION($slice_s) } to the next the work of all workers together varies by { PERCENT($together_ratio) }; that of
            independent workers would vary by { PERCENT($own_ratio) }. So all workers share one lock or one limit.
       *[no] { "" }
    }
lock-kept = In { PERCENT($kept_out_ratio) } of the checks one worker held a file lock and worked, while most other workers slept between two attempts to
    get it. SQLite's busy handler, filelock and loops around fcntl wait like this.
lock-asked-for = Each worker waits { PERCENT($waiting_ratio) } of the time for another process to grant the lock, such as a multiprocessing.Manager or a lock
    server. The worker that holds the lock blocks the others for as long as it reads.

## A lock that another process holds

locked-out =
    .because = all { $workers } workers stop together, { times-so-far }, for up to { DURATION($longest_s) }{ KNOWN($line) ->
            [yes] , at { $line }
           *[no] { "" }
        }
    .cause = No sample is the cause: all workers stop and continue together. In { PERCENT($locked_ratio) } of the checks during these stops a worker
        waited for a lock, or slept between two attempts as in SQLite's busy handler. Another process holds a lock that all workers need.
    .advice = Find the process that writes to this file or database (`lslocks`). Keep its transactions short; with SQLite set journal_mode=WAL, or read
        from a copy. More workers only wait as well.
