### Why a process makes no progress, from its state and its stack. `because` ends a title that has another beginning.
### $worker is unknown where it is the training process; $wchan is the kernel function that it waits in, $pid its process.

in-kernel = { KNOWN($wchan) ->
        [yes] { " (" }{ $wchan })
       *[no] { "" }
    }

worker-process-dead =
    .because = and the worker process is dead
    .advice = Look for an out-of-memory kill (dmesg, memory.events) or a crash of native code in that worker. Lower num_workers or
        prefetch_factor if memory is the reason, and do not swallow exceptions around next().
worker-queue-never-filled =
    .because = waiting for a queue that stays empty
    .advice = Read the worker's log for an error between get() and put(): such an error loses the item that the worker waits for. Put items back in
        `finally`, and use get(timeout=…). If a thread fills the queue, start that thread in the worker: threads do not survive a
        fork.
batch-lost-on-the-way =
    .because = although { $idle ->
            [one] its only worker is
           *[other] all { $idle } workers are
        } idle
    .advice = Look in the stack of the training process for a dead pin_memory or prefetch thread, and in the job's log for an exception in a
        thread. The workers have delivered their batches, but the training process has not received them.

# $reader is the thread that read $loader, $error the type of the exception that ended it.
reader-thread-left =
    .because = because thread { $reader } stopped reading { $loader } before its end
    .advice = Find the error that the thread catches and drops, or logs at a level that is not shown. Pass a thread's errors through its queue, and
        use get(timeout=…) with a check that the thread is alive.
reader-thread-died =
    .because = because thread { $reader }, which reads { $loader }, died of { $error }
    .advice = Fix the cause of { $error }; its message and line are in the job's log. The training loop did not get the error. Pass a thread's errors
        through its queue, and use get(timeout=…) with a check that the thread is alive.
queue-never-filled =
    .because = because its queue stays empty{ KNOWN($reader) ->
            [yes] : thread { $reader }, which reads { $loader }, delivers nothing
           *[no] { "" }
        }
    .advice = Look in the job's log for an exception of the thread that fills the queue: it has ended or is stuck. Pass its errors through the
        queue, and use get(timeout=…) with a check that the thread is alive.

pool-gives-no-sign =
    .because = waiting for a pool of processes or threads that does not answer
    .advice = Use concurrent.futures.ProcessPoolExecutor, which raises BrokenProcessPool, or map_async(...).get(timeout). If a worker of
        multiprocessing.Pool is killed (dmesg, a limit of its own), its task is lost and the pool waits forever. If no worker was killed,
        take their stacks with `py-spy dump`.
# $lines are the lines of code at which the threads are, none where they are not known.
future-gives-no-sign =
    .because = waiting for a future that does not complete{ KNOWN($lines) ->
            [yes] ; its threads are at { $lines }
           *[no] { "" }
        }
    .advice = Use a second executor for tasks that are submitted by tasks, and wait with result(timeout=...). A task that waits for another
        task of the same executor occupies a thread; when all threads wait, no task can start.
thread-gives-no-sign =
    .because = waiting for another of its threads, which does not answer
    .advice = Look in the job's log for an exception of that thread: it has ended or is stuck. Set an event in a `finally:`, and wait with a
        timeout and a check that the thread is alive.

retries-without-end =
    .because = repeating the same attempt endlessly
    .advice = { without-end-advice }
computes-without-end =
    .because = computing without an end
    .advice = { without-end-advice }
without-end-advice = Check that sample and the line named here. Typical causes are a retry loop, an augmentation that cannot succeed, a regular
    expression that backtracks endlessly, and a corrupt file in a decoder. Limit every retry; then skip the sample and log it.

stopped-by-signal =
    .because = stopped by a signal
    .advice = Resume { KNOWN($worker) ->
            [yes] worker { $worker }
           *[no] the training process
        } with kill -CONT { $pid }, or find out what stopped it.
lock-never-released =
    .because = waiting for a lock that is never released{ in-kernel }
    .advice = { KNOWN($worker) ->
            [yes] Create the loader before you start threads, or use multiprocessing_context="forkserver". Open files and clients inside the worker,
                and limit library threads (cv2.setNumThreads(0), OMP_NUM_THREADS=1). Probably a thread held the lock when the worker
                was forked.
           *[no] Look in the stacks of the training process for the thread that holds the lock.
        }
file-lock-held =
    .because = waiting for a file lock that another process holds{ in-kernel }
    .advice = Find the holder of the lock with `lslocks`; it may be a process of another job or host. Take the lock with a timeout (LOCK_NB and a
        deadline), and hold it as briefly as possible.
named-pipe-never-opened =
    .because = opening a named pipe that no other process opens{ in-kernel }
    .advice = Replace the pipe by a file, or start the process that uses its other end. The stack shows the line that opens the pipe; `ls -l` marks
        a pipe with p. In a dataset that lists a folder, skip everything that is not a regular file.
sleeps-in-own-code =
    .because = asleep in its own code{ in-kernel }
    .advice = Check the line named here: the code sleeps for long, or again and again. Limit every loop that retries or polls, and log what it
        waits for.
child-never-ends =
    .because = waiting for a child process that does not end{ in-kernel }
    .advice = Read all results of a child from its queue or pipe before you join() it (for a subprocess use communicate()), and wait with a timeout.
        A child with unread results does not end. `ps --ppid { $pid } -o pid,stat,wchan:24,cmd` shows the child and the kernel function
        that it waits in.
connection-never-answers =
    .because = waiting for the network or a pipe that never answers{ in-kernel }
    .advice = { never-answers-advice }
something-never-answers =
    .because = waiting for an answer that never comes{ in-kernel }
    .advice = { never-answers-advice }
# $loops: whether the loop waits for a worker's batch; $pipe: whether it waits in a pipe.
never-answers-advice = Give every connection and read a timeout, with a limited number of retries.{ $loops ->
        [yes] { " " }DataLoader(timeout=…) turns such a wait into an error; make it longer than the slowest first batch.
       *[no] { "" }
    }{ $pipe ->
        [yes] { " " }If a child program is at the other end, run `ps --ppid { $pid } -o pid,stat,wchan:24,cmd`. If the child is in
            pipe_write, its output pipe (such as stderr=PIPE) is full: read that pipe.
       *[no] { "" }
    }
storage-never-answers =
    .because = waiting for storage that does not answer{ in-kernel }
    .advice = Check the mount that the process reads or writes (NFS, Lustre, FUSE; `df` hangs on a dead mount) and the kernel log of the host. Your
        code is not the cause.
uninterruptible-wait =
    .because = in an uninterruptible kernel wait{ in-kernel }
    .advice = Find the driver or mount that does not answer: `sudo cat /proc/{ $pid }/stack` shows it, and the kernel log names processes that are
        blocked for more than 120 seconds. Signals, even SIGKILL, may take effect only after the wait.
