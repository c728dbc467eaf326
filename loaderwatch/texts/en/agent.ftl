### Lines in the job's terminal from the training process and its workers, and reasons that they record.

## Watching begins

unwatched-for-fault = cannot watch this run, for a fault of its own ({ $fault }); training goes on unwatched
partly-watched-for-fault = cannot watch all that attach was given, for a fault of its own ({ $fault }); training is not affected
agent-not-loaded = cannot be loaded here ({ $fault }); training goes on unwatched
hooks-removed = stepped aside after { $faults } faults of its own; training goes on unwatched. The last one: { $fault }
unknown-framework = does not know { $framework } { $version }; the run is watched, but its stages and epochs are not shown. Try another
    version of either
loader-not-tuned = cannot tune this loader, which is not watched; see the line before
addresses-not-written = cannot write to { $folder } ({ $why }), so nobody is told at the addresses of this run; the page and this terminal show
    its alerts all the same
folder-of-another-user = cannot write to { $path } ({ $why }); training goes on unwatched. Set LOADERWATCH_DIR to a directory of your own
# $shared_memory: the file system of the rings, unknown where space in it is not what is missing.
rings-not-written = cannot write to { $path } ({ $why }); training goes on unwatched. { KNOWN($shared_memory) ->
        [yes] Free some space in { $shared_memory }, or give the container more: docker run --shm-size=8g or --ipc=host, in Kubernetes
            an emptyDir with medium: Memory on { $shared_memory }
       *[no] Free some space there, or set LOADERWATCH_DIR to a writable directory
    }
data-dir-replaced = your own data directory cannot be written; { $folder } takes its place
streamer-not-started = cannot start the streamer ({ $error }); training goes on unwatched. Set LOADERWATCH_DIR to a writable directory
recorded-as-another-run = this rank is recorded as { $recorded } since it began, not as { $wanted }; use --name { $name }
# $server: unknown for the server of this machine.
sent-to-another-server = this rank has sent to { KNOWN($server) ->
        [yes] { $server }
       *[no] the server of this machine
    } since it began, not to { $wanted }; set LOADERWATCH_SERVER={ $wanted }
stacks-not-written = cannot write to { $folder } ({ $why }); processes that cannot have no stacks
worker-not-recorded = cannot record DataLoader worker { $worker } in { $folder } ({ $why }): it and others like it work unwatched. Free
    some space there
nothing-to-watch = { $script } iterated no DataLoader and stepped no optimizer of PyTorch's, so nothing was measured; if it reads data some
    other way, wrap that iterable: loader = loaderwatch.attach(loader)

## Cached batches

cached-batches-repeat = { $loader }: its first { $batches } batches are given again from now on; what is trained is worthless
too-few-cached-batches = { $loader }: too few batches for a speed with cached ones: { $read } were read, { $steps } steps done with them again
# $times: how much faster, unknown where the run would not be faster.
speed-with-cached-batches = { $loader }: { $again_per_s } batches/s with { $kept } cached batches, { $read_per_s }
    while it read them itself; { KNOWN($times) ->
        [yes] a perfect loader would make this run at most { DECIMAL($times) } times as fast
       *[no] a perfect loader would not make this run faster
    }

## attach(autotune=True)

autotune-moved = autotune of { $loader } { $move }
autotune-move = before epoch { $epoch }: { $changes } ({ $taken_back ->
        [yes] taken back: { $per_s } batches/s, { $predicted_per_s } were predicted
       *[no] { $per_s } batches/s, { $predicted_per_s } predicted
    })

## attach(sample_timeout=)

# $option: the argument as it was written, such as "sample_timeout=60".
limit-of-unwatched-run = { $option } is not kept either
limit-of-unwatched-loader = cannot keep { $option }, as this loader is not watched; see the line before
limit-needs-timers = cannot keep { $option } of { $loader }: it needs Linux's timers and three free real-time signals, and this process has
    none. Training goes on without it
limit-not-in-process = cannot keep { $option } of { $loader } in the training process: { $error }
limit-not-in-workers = cannot keep { $option } of { $loader } in its workers: { $error }
limit-needs-fetchers = cannot keep { $option } of { $loader }: this version of PyTorch makes its fetchers elsewhere
limit-needs-main-thread = cannot keep { $option } of { $loader }: its samples are read outside the main thread, which alone can be interrupted.
    Iterate it there, or use num_workers=1 or more
# $last: whether further ones are not named.
sample-left-out = left out { $read ->
        [call] { $index }
        [number] sample number { $index }
       *[sample] sample { $index }
    } of { $loader }: it took { DECIMAL($took_s) } s in { process-that-reads }, longer than { $option }, at { place-of-sample }.{ $last ->
        [yes] { " " }Further ones are only counted, on the page
       *[no] { "" }
    }
# $worker is unknown for the training process.
process-that-reads = { KNOWN($worker) ->
        [yes] worker { $worker }
       *[no] the training process
    }
place-of-sample = { $stood ->
        [own-code] the dataset's own code
       *[line] { $stood }
    }
# $index, $loader, $took_s and $option are unknown where nobody noted them; $stood is unknown for a worker without a stack.
sample-ended-worker = { KNOWN($index) ->
        [yes] sample { $index }
       *[no] a batch
    } of { KNOWN($loader) ->
        [yes] { $loader }
       *[no] a loader
    } took { KNOWN($took_s) ->
        [yes] { DECIMAL($took_s) } s
       *[no] too long
    } in worker { $worker }, longer than { KNOWN($option) ->
        [yes] { $option }
       *[no] its sample_timeout
    }. It could not be interrupted, so the worker was ended: { KNOWN($stood) ->
        [yes] it stood at { place-of-sample }, in code that does not return to Python or in an `except:` that catches everything
       *[no] it was stuck in the kernel, as with storage that does not answer
    }. Give that call a timeout of its own, run it in a process that can be killed, or raise sample_timeout

## The end of a process

run-ended-after = { $name } ended after { $steps ->
        [one] 1 step
       *[other] { COUNT($steps) } steps
    } in { WHOLE_DURATION($took_s) }, { $lost }
run-ended-early = { $name } { $how }
process-stopped = stopped by { $signal }{ at-step }
process-exited = ended with exit code { $code }{ at-step }
process-crashed = crashed{ at-step }: { $error }{ place-of-error }
# $error: another error that the sample's error led to, unknown where there is none.
process-crashed-at-sample = crashed{ at-step }: { $sample }{ KNOWN($error) ->
        [yes] ; then { $error }{ place-of-error }
       *[no] { "" }
    }
# $rank is unknown in a run of one rank; $step is 0 before the first.
at-step = { KNOWN($rank) ->
        [yes] { " " }on rank { $rank }
       *[no] { "" }
    }{ $step ->
        [0] { " " }before its first step
       *[other] { " " }in step { COUNT($step) }
    }
# $place is the script's line, $raised_in the library's function that raised the error; each may be unknown.
place-of-error = { KNOWN($place) ->
        [yes] { " " }({ $place }{ KNOWN($raised_in) ->
            [yes] , raised in { $raised_in }
           *[no] { "" }
        })
       *[no] { "" }
    }
# $keys: the samples' indices as far as they are named, unknown where none is; $more: how many are not named; $place may be unknown.
sample-failed = { process-that-reads } failed while { $collating ->
        [yes] collating
       *[no] reading
    } { failed-samples }{ KNOWN($place) ->
        [yes] , at { $place }
       *[no] { "" }
    }: { $error }
failed-samples = { KNOWN($keys) ->
        [yes] { $counted ->
            [yes] sample number
           *[no] sample
        }{ $samples ->
            [0] { "" }
            [one] { "" }
           *[other] s
        } { $keys }{ $more ->
            [0] { "" }
           *[other] { " " }and { $more } more
        }
       *[no] { $samples ->
            [0] a batch
            [one] a sample
           *[other] a batch of { $samples } samples
        }
    }
sample-error-not-sent = { $sample }. The error cannot be handed to the training process, which waits for this batch in vain ({ $why }). Define
    its class at the top of a module
