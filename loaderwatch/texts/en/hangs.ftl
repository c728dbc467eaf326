### What stands still: a loader, a process in its own code, and a process whose script is over.
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
        }. Nothing it waits for has moved since.
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
            [yes] Worker { $worker } stands
           *[no] It stands
        } at { $at }.
ranks-wait-for-loader =
    .cause = { $number ->
            [one] Rank { $ranks } waits for it
           *[other] Ranks { $ranks } wait for it
        } in { $loaders ->
            [yes] a loader too
           *[no] the gradient exchange
        }.
# $stands says which rank stands where.
ranks-stand-there =
    .cause = Where they stand: { $stands }.
tries-again-asleep =
    .cause = It reads what is in memory already and sleeps in between, as one does that tries again each time it fails.
tries-again-at-once =
    .cause = It reads and computes all the while, as one does that begins anew each time it fails.
still-reads =
    .cause = It still reads bytes, so it may only be very slow.
memory-kills-lately =
    .cause = The kernel counts { $kills ->
            [one] { $kills } out-of-memory kill
           *[other] { $kills } out-of-memory kills
        } in this run's control group lately.
# $known: whether it is the run's own timeout, and not PyTorch's default.
collective-will-end =
    .cause = { $over ->
            [yes] The collective should have been given up by now, after { hang-timeout }.
           *[no] In { DURATION($left_s) } the collective is given up, after { hang-timeout }, and the job dies.
        }
hang-timeout = its timeout of { DURATION($timeout_s) }{ $known ->
        [yes] { "" }
       *[no] , PyTorch's default
    }

## A process stands still in its own code

# $stands: how it stands. $place: what is known of where, with $phase the name of the phase. $because is unknown where nobody knows why.
# $clears: whether the loader is not the cause.
stands-alone = { $stands ->
        [save] A save{ KNOWN($rank) ->
                [yes] { " of rank " }{ $rank }
               *[no] { "" }
            } hangs{ stands-where }: nothing has been written for { DURATION($silent_s) }{ stands-because }.
        [searches] { stands-who } has been in one step of its optimizer for { DURATION($age_s) },{ stands-where }, and computes there{ stands-clears }.
        [works] { stands-who } has not come further than{ stands-where } for { DURATION($age_s) }{ stands-because }, and computes or reads there{ stands-clears }.
       *[still] { stands-who } has stood still{ stands-where } for { DURATION($age_s) }{ stands-because }{ stands-clears }.
    }
stands-who = { KNOWN($rank) ->
        [yes] Rank { $rank }
       *[no] Training
    }
stands-where = { $place ->
        [line] { " at " }{ $at }
        [outside] { " in the code outside its loops" }
        [named-phase] { " in its phase " }"{ $phase }"
       *[phase] { " in its " }{ $phase }
    }
stands-because = { KNOWN($because) ->
        [yes] , { $because }
       *[no] { "" }
    }
stands-clears = { $clears ->
        [yes] ; the data loader is not the cause
       *[no] { "" }
    }
search-comes-to-no-end =
    .cause = The optimizer calls its closure again and again, or searches along a line, and comes to no end{ KNOWN($usual_s) ->
            [yes] ; 99 % of its steps end within { DURATION($usual_s) }
           *[no] { "" }
        }.
stands-in-its-code =
    .cause = { $does ->
            [works] The training process is at work in its own code, for far longer than ever before.
            [queue] The training process waits on a queue in its own code and uses no CPU.
            [waits] The training process waits for something in its own code and uses no CPU.
           *[looks] The training process waits in its own code: it sleeps, or looks again and again.
        }
compiles-kernels =
    .cause = It compiles.
compilers-do-nothing =
    .cause = It waits for its compilers, and nobody compiles: none of its children or of this host computes.
children-have-ended =
    .cause = { $children ->
            [one] { $children } process that it started has ended, and nobody has asked for its exit code: what it was
           *[other] { $children } processes that it started have ended, and nobody has asked for their exit code: what they were
        } to send does not come.
takes-no-signal =
    .cause = No stack of it can be taken: in such a wait it takes no signal.
outside-its-loops =
    .cause = { $outside ->
            [before-first-batch] It has not asked its loader for a first batch yet.
            [between-steps] It is between two steps of its optimizer.
            [after-step] It is past a step of its optimizer, which may be the last.
            [between-passes] It is between two passes over its loader, in a loop that comes to the loader again.
           *[outside] It is outside its training loops: between two epochs, or after the last.
        }
save-has-not-returned =
    .cause = It has not returned from saving for { DURATION($age_s) }.
others-do-not-end =
    .cause = { $number ->
            [one] The script of { hang-ranks } is over, and its process does not end either.
           *[other] The scripts of { hang-ranks } are over, and their processes do not end either.
        }
meant-to-take-long =
    .advice = If it is meant to take long, put it in `with loaderwatch.phase("…")`.

compilers-hang =
    .advice = `ps --ppid { $pid }` shows its compilers, and `py-spy dump --pid` where one stands. TORCHINDUCTOR_COMPILE_THREADS=1 has
        inductor compile in the training process itself, without a pool.
save-hangs =
    .advice = `ls -l /proc/{ $pid }/fd` shows what it writes. { save-where-it-answers }
save-where-it-answers = See whether the mount that it saves to answers (df, the kernel log), and whether it is a pipe that nobody reads. Save to
    a local disk first and copy from there in another process, so that no dead mount stops training.
optimizer-search-endless =
    .advice = Look whether the loss is a number (torch.isfinite): a search does not end where it is NaN. Bound it: max_iter and max_eval of
        LBFGS, a least step size in a search of your own.
child-ended-without-answer =
    .advice = `ps --ppid { $pid }` shows it as <defunct>; its own output, or `dmesg` where it was killed, says why it ended. Close the
        child's ends of a pipe in the parent after the start, so that recv() fails when the child is gone; or poll() with a timeout
        and look at is_alive().
stands-still-in-own-code =
    .advice = Look at the stack: a request without a timeout, a full disk or pipe, a lock.

## A process whose script is over does not end

# $waits: what it waits for. $in_sample: whether a worker is in a sample. $lines: where its threads stand, of which $threads there are.
does-not-end = { KNOWN($rank) ->
        [yes] The script of rank { $rank }
       *[no] The script
    } is over, but its process does not end: for { DURATION($age_s) } it has { $waits ->
        [worker] waited for worker { $worker } (pid { $pid }) of { hang-loader }, which does not end{ $in_sample ->
                [yes] : it is in { sample-name }{ KNOWN($at) ->
                    [yes] { " at " }{ $at }
                   *[no] { "" }
                }
               *[no] { KNOWN($at) ->
                    [yes] : it stands at { $at }
                   *[no] { "" }
                }
            }, { $because }.
        [child] waited for a child process that does not end{ KNOWN($at) ->
                [yes] , at { $at }
               *[no] { "" }
            }.
        [thread] waited for a thread that does not end{ KNOWN($lines) ->
                [yes] , at { $lines }
               *[no] { "" }
            }.
        [threads] waited for a thread that does not end; its threads stand at { $lines }.
        [library] stood in native code of a library, { $because }.
       *[function] stood { KNOWN($at) ->
                [yes] at { $at }
               *[no] in a function that runs at exit
            }, { $because }.
    }
waits-at-its-end =
    .cause = { $moves ->
            [worker] The worker still uses a CPU.
            [child] A child of it is still at work.
            [thread] A thread of it is still woken again and again, as one at work is.
            [no-worker] The worker uses no CPU, and the training process waits for it without a limit.
            [unknown] The training process does nothing itself; whether what it waits for does is not known.
           *[nothing] Nothing of it moves: no CPU is used, and none of what it waits for is woken.
        } Until it ends, whoever waits for the job (torchrun, a scheduler) waits as well, and what it holds stays taken.
worker-outlives-sigterm =
    .advice = At the end a worker is ended by SIGTERM, so this one handles, ignores or blocks that signal, or is in a wait that no signal ends: leave
        SIGTERM as it is in worker_init_fn and in the dataset.
thread-outlives-script =
    .advice = Python ends only when all threads have ended that are no daemons: give what the thread waits for a timeout, tell it to end before the
        script does, or start it with daemon=True.
child-outlives-script =
    .advice = multiprocessing waits at the end for every child: `ps --ppid { $pid }` shows them, and `py-spy dump --pid` where one stands. Join each
        with a timeout and terminate() it then.
library-outlives-script =
    .advice = Python has taken down its modules already, and a library does not end: `gdb -p { $pid } -batch -ex bt` shows which. Often it is an
        exchange or a stream that is still under way: wait for all of it, and end it (dist.destroy_process_group()), before the last line of
        the script.
