### Why a process does not get on, from its state and its stack. `because` ends a title that has another beginning.
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
    .because = waiting on a queue that nobody fills
    .advice = What it waits for is brought, or put back, by code that did not get so far: an error between get() and put() loses it, and the
        worker's log may show it. Put back in `finally`, and use get(timeout=…). Where a thread should fill the queue, start it in the
        worker: threads do not outlive a fork.
batch-lost-on-the-way =
    .because = although { $idle ->
            [one] its only worker is
           *[other] all { $idle } workers are
        } idle
    .advice = The workers have handed over their batches, but the message was lost on the way: look at the stack of the training
        process for a dead pin-memory or prefetch thread, and at the job's log for an exception in a thread.

# $reader is the thread that read $loader, $error the type of the exception that ended it.
reader-thread-left =
    .because = and the loop waits for a thread that has ended: { $reader }, which read { $loader } and left it before its end
    .advice = Look for what the thread catches: an error that it drops, or logs at a level that is not shown. Hand a thread's errors on
        through its queue, and use get(timeout=…) with a check that the thread is alive.
reader-thread-died =
    .because = and the loop waits for a thread that has ended: { $reader }, which read { $loader }, by { $error }
    .advice = { $error } ended the thread, and nobody told the loop: its message and line are in the job's log. Mend what
        it names. Hand a thread's errors on through its queue, and use get(timeout=…) with a check that the thread is alive.
queue-never-filled =
    .because = and the loop waits on a queue that nobody fills{ KNOWN($reader) ->
            [yes] : { $reader }, which reads { $loader }, brings nothing
           *[no] { "" }
        }
    .advice = The thread that fills the queue has ended or is stuck: look for its exception in the job's log. Hand its errors on through
        the queue, and use get(timeout=…) with a check that the thread is alive.

pool-gives-no-sign =
    .because = waiting for a pool of processes or threads that gives no sign
    .advice = If a worker of multiprocessing.Pool was killed (dmesg, a limit of its own), its task is lost, and the pool waits for
        ever: use concurrent.futures.ProcessPoolExecutor, which raises BrokenProcessPool, or map_async(...).get(timeout). Else look
        with `py-spy dump` where its workers stand.
# $lines are the lines of code at which the threads stand, none where they are not known.
future-gives-no-sign =
    .because = waiting for a future that gives no sign{ KNOWN($lines) ->
            [yes] ; its threads stand at { $lines }
           *[no] { "" }
        }
    .advice = A task that waits for another task of the same executor keeps a thread of it: once all do, none can begin. Give what
        tasks submit an executor of its own, and wait with result(timeout=...).
thread-gives-no-sign =
    .because = waiting for another thread of its own that gives no sign
    .advice = That thread has ended or is stuck: look for its exception in the job's log. Set an event in a `finally:`, and wait with a
        timeout and a check that the thread is alive.

retries-without-end =
    .because = trying the same again and again
    .advice = { without-end-advice }
computes-without-end =
    .because = computing without an end
    .advice = { without-end-advice }
without-end-advice = Look at that sample and at the line named here: a retry loop, an augmentation that cannot succeed, a regular expression
    that backtracks without end, or a corrupt file in a decoder. Bound every retry and skip the sample with a log line.

stopped-by-signal =
    .because = stopped by a signal
    .advice = Somebody stopped { KNOWN($worker) ->
            [yes] worker { $worker }
           *[no] the training process
        }: resume it with kill -CONT { $pid }, or find out what froze it.
lock-never-released =
    .because = waiting for a lock that nobody releases{ in-kernel }
    .advice = { KNOWN($worker) ->
            [yes] A lock was probably held by a thread when the worker was forked: create the loader before starting threads, use
                multiprocessing_context="forkserver", open files and clients inside the worker, and limit library threads
                (cv2.setNumThreads(0), OMP_NUM_THREADS=1).
           *[no] See who holds the lock in the stacks of the training process.
        }
file-lock-held =
    .because = waiting for a file lock that another process holds{ in-kernel }
    .advice = `lslocks` shows who holds the lock, which may be a process of another job or host. Take it with a limit (LOCK_NB and a deadline),
        and hold it for as short as possible.
named-pipe-never-opened =
    .because = opening a named pipe whose other end nobody opens{ in-kernel }
    .advice = Put a file in its place, or start what should write to it: the stack shows the line that opens it, and `ls -l` a
        pipe as p. A dataset that lists a folder can leave out what is no regular file.
sleeps-in-own-code =
    .because = asleep in its own code{ in-kernel }
    .advice = It sleeps for long, or again and again: look at the line named here. A loop that retries or polls needs a bound, and a
        line in the log for what it waits for.
child-never-ends =
    .because = waiting for a child process that does not end{ in-kernel }
    .advice = `ps --ppid { $pid } -o pid,stat,wchan:24,cmd` shows the child and where it stands. One that hands results over by a
        queue or a pipe does not end before they are read: read them first, then join() it (of a subprocess, communicate()), and give
        the wait a timeout.
connection-never-answers =
    .because = waiting for the network or a pipe that never answers{ in-kernel }
    .advice = { never-answers-advice }
something-never-answers =
    .because = waiting for something that never answers{ in-kernel }
    .advice = { never-answers-advice }
# $loops: whether the loop waits for a worker's batch; $pipe: whether it waits in a pipe.
never-answers-advice = Give every connection and read a timeout with bounded retries.{ $loops ->
        [yes] { " " }DataLoader(timeout=…) turns such a wait into an error; choose it longer than the slowest first batch.
       *[no] { "" }
    }{ $pipe ->
        [yes] { " " }If a program of its own is at the other end, `ps --ppid { $pid } -o pid,stat,wchan:24,cmd` shows where that stands: in
            pipe_write, an output of it, such as stderr=PIPE, is full, since nobody reads it.
       *[no] { "" }
    }
storage-never-answers =
    .because = waiting for storage that does not answer{ in-kernel }
    .advice = This is the storage, not your code: check the mount that it reads or writes (NFS, Lustre, FUSE; `df` hangs on a dead one)
        and the kernel log of the host.
uninterruptible-wait =
    .because = in an uninterruptible wait in the kernel{ in-kernel }
    .advice = A driver or a mount does not answer. `sudo cat /proc/{ $pid }/stack` says which, and the kernel log names processes
        that have been blocked for more than 120 seconds. Signals, also SIGKILL, may only work once it is over.
