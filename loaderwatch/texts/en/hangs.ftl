### What hangs: a loader, a process in its own code, and a process whose script is over.
### $because is why, from hang-reasons.ftl; $at is a line of code, as "train.py:31 in prepare".

# $loader is unknown where no loader is known.
hang-loader = { KNOWN($loader) ->
        [yes] { $loader }
       *[no] the loader
    }
# Ranks in the middle of a sentence; $number is how many they are.
hang-ranks = { $number ->
        [one] rank { $ranks }
       *[other] ranks { $ranks }
    }

## A loader does not deliver

# $stuck: who is to blame for it. $sample is unknown where no sample is known to be at work.
loader-hangs = { KNOWN($rank) ->
        [yes] Rank { $rank } hangs
       *[no] Training hangs
    }{ $evaluates ->
        [yes] { " in an evaluation" }
       *[no] { "" }
    }: { $stuck ->
        [worker] worker { $worker } (pid { $pid }) of { hang-loader } has been stuck for { DURATION($age_s) }{ hang-in-sample }, { $because }.
        [process] the training process (pid { $pid }) has been stuck for { DURATION($age_s) }{ hang-in-sample } of { hang-loader }, { $because }.
        [dead-worker] { hang-missing } for { DURATION($age_s) }, { $because }: worker { $worker } (pid { $pid }).
       *[nobody] { hang-missing } for { DURATION($age_s) }, { $because }.
    }
hang-in-sample = { KNOWN($sample) ->
        [yes] { " in " }{ sample-name }
       *[no] { "" }
    }
hang-missing = { $phase ->
        [iter] iter({ hang-loader }) has not returned
        [teardown] the end of the epoch of { hang-loader } has not been reached
       *[next] no batch has come from { hang-loader }
    }
# $batch is the number of the batch that is awaited, unknown where it has none.
loader-waited-for =
    .cause = { $evaluates ->
            [yes] The evaluation
           *[no] The training loop
        } has waited { DURATION($waited_s) } for { hang-awaited }{ KNOWN($usual_s) ->
            [yes] ; 99 % of its waits end within { DURATION($usual_s) }
           *[no] { "" }
        }. Since the wait began, no process that it depends on has made progress.
hang-awaited = { $phase ->
        [wait] { KNOWN($batch) ->
            [yes] batch { $batch } of { hang-loader }
           *[no] a batch of { hang-loader }
        }
        [iter] iter({ hang-loader })
        [teardown] the end of an epoch of { hang-loader }
       *[next] next({ hang-loader })
    }
# $worker is unknown where it is the training process that stands there.
process-stands-at =
    .cause = { KNOWN($worker) ->
            [yes] Worker { $worker } is
           *[no] The training process is
        } at { $at }.
ranks-wait-for-loader =
    .cause = { $number ->
            [one] Rank { $ranks } waits
           *[other] Ranks { $ranks } wait
        } for this rank in { $loaders ->
            [yes] a loader too
           *[no] the gradient exchange
        }.
# $stands says which rank stands where.
ranks-stand-there =
    .cause = Where the ranks are: { $stands }.
tries-again-asleep =
    .cause = The process reads data that is already in memory and sleeps in between. This is typical of a retry loop whose attempts all fail.
tries-again-at-once =
    .cause = The process reads and computes without a pause. This is typical of a retry loop whose attempts all fail.
still-reads =
    .cause = The process still reads bytes, so it may only be very slow.
memory-kills-lately =
    .cause = The kernel recently counted { $kills ->
            [one] { $kills } out-of-memory kill
           *[other] { $kills } out-of-memory kills
        } in this run's control group.
# $known: whether it is the run's own timeout, and not PyTorch's default.
collective-will-end =
    .cause = { $over ->
            [yes] PyTorch should have aborted the collective by now, after { hang-timeout }.
           *[no] In { DURATION($left_s) } PyTorch aborts the collective, after { hang-timeout }, and the job dies.
        }
hang-timeout = its timeout of { DURATION($timeout_s) }{ $known ->
        [yes] { "" }
       *[no] , PyTorch's default
    }

## A process makes no progress in its own code

# $stands: how it stands. $place: what is known of where, with $phase the name of the phase. $because is unknown where nobody knows why.
# $clears: whether the loader is not the cause.
stands-alone = { $stands ->
        [save] A save{ KNOWN($rank) ->
                [yes] { " of rank " }{ $rank }
               *[no] { "" }
            } hangs{ stands-where }: no data written for { DURATION($silent_s) }{ stands-because }.
        [searches] { stands-who } has been in one optimizer step for { DURATION($age_s) },{ stands-where }, still computing{ stands-clears }.
        [works] { stands-who } has been{ stands-where } for { DURATION($age_s) }, still computing or reading{ stands-because }{ stands-clears }.
       *[still] { stands-who } has made no progress{ stands-where } for { DURATION($age_s) }{ stands-because }{ stands-clears }.
    }
stands-who = { KNOWN($rank) ->
        [yes] Rank { $rank }
       *[no] Training
    }
stands-where = { $place ->
        [line] { " at " }{ $at }
        [outside] { " outside the training loops" }
        [named-phase] { " in its phase " }"{ $phase }"
       *[phase] { " in its " }{ $phase }
    }
stands-because = { KNOWN($because) ->
        [yes] , { $because }
       *[no] { "" }
    }
stands-clears = { $clears ->
        [yes] ; not the data loader
       *[no] { "" }
    }
search-comes-to-no-end =
    .cause = The optimizer's step calls its closure or a line search again and again without an end{ KNOWN($usual_s) ->
            [yes] ; 99 % of the optimizer steps end within { DURATION($usual_s) }
           *[no] { "" }
        }.
stands-in-its-code =
    .cause = { $does ->
            [works] The training process computes in its own code, for far longer than ever before.
            [queue] The training process waits for a queue in its own code and uses no CPU.
            [waits] The training process waits in its own code and uses no CPU.
           *[looks] The training process waits in its own code: it sleeps or polls.
        }
compiles-kernels =
    .cause = The training process compiles kernels.
compilers-do-nothing =
    .cause = The training process waits for its compiler processes, but no compiler on this host uses the CPU.
children-have-ended =
    .cause = { $children ->
            [one] { $children } child process has ended, and the training process has not read its exit code. Data that this process should
           *[other] { $children } child processes have ended, and the training process has not read their exit codes. Data that these processes should
        } send will not come.
takes-no-signal =
    .cause = No stack of the training process could be taken: in this kernel wait a process does not react to signals.
outside-its-loops =
    .cause = { $outside ->
            [before-first-batch] It has not yet asked its loader for the first batch.
            [between-steps] It is between two optimizer steps.
            [after-step] It is after an optimizer step, perhaps the last one.
            [between-passes] It is between two epochs of its loader, and its loop returns to the loader.
           *[outside] It is outside its training loops: between two epochs or after the last one.
        }
save-has-not-returned =
    .cause = The save has not returned for { DURATION($age_s) }.
others-do-not-end =
    .cause = { $number ->
            [one] The process of { hang-ranks } does not exit either, although its script has finished.
           *[other] The processes of { hang-ranks } do not exit either, although their scripts have finished.
        }
meant-to-take-long =
    .advice = Wrap this code in `with loaderwatch.phase("…")` if it is meant to take long.

compilers-hang =
    .advice = List the compiler processes with `ps --ppid { $pid }`, and take the stack of each with `py-spy dump --pid`. With
        TORCHINDUCTOR_COMPILE_THREADS=1 inductor compiles in the training process, without a pool.
save-hangs =
    .advice = Find the file that the process writes with `ls -l /proc/{ $pid }/fd`. { save-where-it-answers }
save-where-it-answers = Check the target of the save: it may be a mount that does not answer (df, the kernel log), or a pipe that no process
    reads. Save to a local disk first and copy from there in another process; then a dead mount does not stop training.
optimizer-search-endless =
    .advice = Check that the loss is not NaN (torch.isfinite): with NaN a line search never ends. Limit the search: max_iter and max_eval in LBFGS,
        a smallest step size in your own search.
child-ended-without-answer =
    .advice = Find out why the child ended: `ps --ppid { $pid }` shows it as <defunct>, its output or `dmesg` gives the reason. After the start, close
        the child's ends of the pipe in the parent; then recv() fails when the child is gone. Or use poll() with a timeout and check
        is_alive().
stands-still-in-own-code =
    .advice = Read the stack. Typical causes are a request without a timeout, a full disk, a full pipe or a lock.

## A process whose script is over does not end

# $waits: what it waits for. $in_sample: whether a worker is in a sample. $lines: where its threads stand, of which $threads there are.
does-not-end = { KNOWN($rank) ->
        [yes] The script of rank { $rank }
       *[no] The script
    } has finished, but its process has not exited for { DURATION($age_s) }: { $waits ->
        [worker] worker { $worker } (pid { $pid }) of { hang-loader }{ $in_sample ->
                [yes] { " is still in " }{ sample-name }{ KNOWN($at) ->
                    [yes] { " at " }{ $at }
                   *[no] { "" }
                }
               *[no] { KNOWN($at) ->
                    [yes] { " is still at " }{ $at }
                   *[no] { " does not end" }
                }
            }, { $because }.
        [child] it waits for a child process{ KNOWN($at) ->
                [yes] , at { $at }
               *[no] { "" }
            }.
        [thread] it waits for a thread{ KNOWN($lines) ->
                [yes] , which is at { $lines }
               *[no] { "" }
            }.
        [threads] it waits for a thread; its threads are at { $lines }.
        [library] it is in native code of a library, { $because }.
       *[function] it is { KNOWN($at) ->
                [yes] at { $at }
               *[no] in an exit function
            }, { $because }.
    }
waits-at-its-end =
    .cause = { $moves ->
            [worker] The worker still uses a CPU.
            [child] A child process still works.
            [thread] A thread still wakes up again and again, so it may still work.
            [no-worker] The worker uses no CPU, and the training process waits for it without a timeout.
            [unknown] The training process itself does nothing. It waits for something whose state is not known.
           *[nothing] The training process uses no CPU, and nothing that it waits for makes progress.
        } Until the process exits, torchrun or the scheduler waits, and the memory, ports and GPUs that the process holds stay in use.
worker-outlives-sigterm =
    .advice = Do not change the handling of SIGTERM in worker_init_fn or in the dataset. PyTorch ends workers with SIGTERM; this worker handles,
        ignores or blocks it, or is in a kernel wait that no signal ends.
thread-outlives-script =
    .advice = Stop the thread before the script ends, or start it with daemon=True. Give every wait of the thread a timeout. Python
        exits only after all non-daemon threads have ended.
child-outlives-script =
    .advice = Join each child process with a timeout and then terminate() it; multiprocessing waits for every child at exit.
        `ps --ppid { $pid }` lists the children, and `py-spy dump --pid` shows the stack of each.
library-outlives-script =
    .advice = Find the library with `gdb -p { $pid } -batch -ex bt`: its code still runs, although Python has already removed its modules. Often a
        collective or a CUDA stream is still active. Wait for them and call dist.destroy_process_group() before the last line of the script.
