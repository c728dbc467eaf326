### A training process that died: of its loader, of a full disk, of a sample, or of what nobody knows; and errors that the script catches.
### Parameters end with their unit: _s seconds, _bytes bytes. Others are counts and names.

training-died = { KNOWN($rank) ->
        [yes] Rank { $rank }
       *[no] Training
    } died { $because }.

## What it ran out of

# $shm_bytes is the size of /dev/shm and $batch_bytes that of the largest batch, where they are known; $ahead is how many lie there.
shared-memory-full =
    .because = because /dev/shm is full
    .cause = Workers put their batches into shared memory (/dev/shm).{ KNOWN($shm_bytes) ->
            [yes] { " " }/dev/shm has a size of { SIZE($shm_bytes) }.
           *[no] { "" }
        }{ KNOWN($batch_bytes) ->
            [yes] { " " }Up to { $ahead } batches of { SIZE($batch_bytes) } are there at the same time.
           *[no] { "" }
        }
    .advice = Give the container a larger /dev/shm: docker run --shm-size=8g or --ipc=host; in Kubernetes an emptyDir with medium: Memory. Or
        lower prefetch_factor, num_workers or the batch size.
# $open and $limit are numbers of descriptors.
descriptors-exhausted =
    .because = because it ran out of file descriptors
    .cause = Every tensor from a worker keeps a file descriptor open as long as it lives.{ KNOWN($open) ->
            [yes] { " " }The training process last had { WHOLE($open) } descriptors open{ KNOWN($limit) ->
                [yes] { " " }of { WHOLE($limit) } allowed
               *[no] { "" }
            }.
           *[no] { "" }
        }
    .advice = Do not keep batches: use .clone() or .item() for values in a list. Or raise `ulimit -n`, or call
        torch.multiprocessing.set_sharing_strategy('file_system').
worker-descriptors-exhausted =
    .because = because worker { $worker } ran out of file descriptors
    .cause = The dataset opens files or connections in this worker and does not close them. The worker last had { WHOLE($open) } of
        { WHOLE($limit) } descriptors open, and could not deliver its batch.
    .advice = { descriptors-run-out.advice }
# $cut is "yes" where the error only tells that a file could not be written to its end.
disk-full =
    .because = because { KNOWN($path) ->
            [yes] the disk at { $path }
           *[no] a disk
        } { $sure ->
            [yes] is
           *[no] seems to be
        } full and a file could not be written
    .cause = { $cut ->
            [yes] torch.save could not write its file to the end.
           *[no] The training process was writing a file, and the disk had no space for the rest.
        }{ KNOWN($left_bytes) ->
            [yes] { " " }At the last check { SIZE($left_bytes) } were free.
           *[no] { "" }
        }
    .advice = { disk-advice } Check the newest file before you resume from it.

## A process that a signal ended

# $process is "worker" or "training"; $worker and $pid are known where it is known which worker.
dead-process = { $process ->
        [training] the training process
       *[worker] { KNOWN($worker) ->
            [yes] worker { $worker }
           *[no] a worker
        }{ KNOWN($pid) ->
            [yes] { " (pid " }{ $pid })
           *[no] { "" }
        }
    }
# $sample is the one at which it died, where that is known.
was-reading = { KNOWN($sample) ->
        [yes] { " " }It was reading { sample-name }.
       *[no] { "" }
    }
# The figures of the last seconds; $used_bytes and $limit_hits are unknown outside a control group.
memory-at-death = { KNOWN($free_bytes) ->
        [yes] { " " }In the last seconds at least { SIZE($free_bytes) } of the host's { SIZE($host_bytes) } were free{ KNOWN($used_bytes) ->
            [yes] ; the control group used { SIZE($used_bytes) } of { SIZE($limit_bytes) } allowed
           *[no] { "" }
        }{ KNOWN($limit_hits) ->
            [yes] ; { KNOWN($used_bytes) ->
                [yes] it
               *[no] the control group
            } { $limit_hits ->
                [0] never reached its limit
                [one] reached its limit { $limit_hits } time
               *[other] reached its limit { $limit_hits } times
            }
           *[no] { "" }
        }.
       *[no] { "" }
    }
who-sent-it = Find the sender of the signal: a person (kill), a watchdog, the job scheduler or the container's runtime. Their logs name the pid. The
    loader needs no change.
less-memory = Lower num_workers or prefetch_factor, or give the job more memory. Keep metadata in NumPy or Arrow: Python lists are copied into each
    worker that reads them. Check the memory of the workers.
nine-of-ten = SIGKILL to a worker usually comes from the kernel's out-of-memory killer.

killed-out-of-memory =
    .because = because { dead-process } was killed: out of memory
    .cause = { nine-of-ten } The kernel has counted { $kills ->
            [one] { $kills } out-of-memory kill
           *[other] { $kills } out-of-memory kills
        } in this run's control group since loaderwatch began to watch.{ memory-at-death }{ was-reading }
    .advice = { less-memory }
# $host_known is "yes" where the host's figures are.
killed-perhaps-out-of-memory =
    .because = because { dead-process } was killed (perhaps out of memory)
    .cause = { nine-of-ten }{ $host_known ->
            [yes] { " " }But the kernel's count of out-of-memory kills has not visibly risen, so another sender is possible.
           *[no] { "" }
        }{ memory-at-death }{ was-reading }
    .advice = { less-memory }
killed-from-outside =
    .because = because { dead-process } was killed from outside (memory was not short)
    .cause = A person or a program sent SIGKILL, not the kernel's out-of-memory killer: memory was not short.{ memory-at-death }{ was-reading }
    .advice = { who-sent-it }
ended-by-signal =
    .because = because { dead-process } was ended from outside ({ $signal })
    .cause = A person or a program sent this signal; a process does not raise it by a fault of its own.{ was-reading }
    .advice = { who-sent-it }
native-code-crashed =
    .because = because { dead-process } crashed ({ $signal }){ KNOWN($sample) ->
            [yes] { " in " }{ sample-name }
           *[no] { "" }
        }
    .cause = Native code in the worker crashed. Usual reasons are a decoder, an extension, or two incompatible libraries.{ was-reading }
    .advice = Read { KNOWN($sample) ->
            [yes] { sample-name }
           *[no] the samples of this worker
        } alone, with num_workers=0 and faulthandler enabled. Then update the library that the stack shows.
# $plenty is "yes" where there was plenty of memory.
worker-vanished =
    .because = because { dead-process } ended suddenly
    .cause = The worker was killed, or it ended itself (os._exit, a crash of native code).{ was-reading } The kernel's count of
        out-of-memory kills has not visibly risen.{ memory-at-death }
    .advice = Look for the worker's pid in the kernel log (dmesg), and check { $plenty ->
            [yes] the job scheduler's log
           *[no] the workers' memory before the end
        }. Run with num_workers=0 to see an error of native code.

## Workers that could not be started

# $method is how workers are started: fork, spawn or forkserver, where that is known.
start-method = { KNOWN($method) ->
        [yes] { $method }
       *[no] the default start method
    }
while-workers-started = before the first batch, while { $loader } started its workers ({ start-method })
loader-cannot-be-pickled =
    .because = { while-workers-started }: something in the loader cannot be pickled
    .cause = With spawn and forkserver a worker is a new process, and dataset, collate_fn, sampler and worker_init_fn are pickled for it. Lambdas,
        local functions, locks, open files and HDF5 handles cannot be.
    .advice = Move lambdas and local functions to module level, open files inside the worker (drop them in __getstate__), or use
        multiprocessing_context="fork" if no threads and no CUDA run yet.
cuda-used-before-fork =
    .because = before the first batch, in the workers of { $loader } ({ start-method }): CUDA was used before the fork
    .cause = A forked worker inherits CUDA's state but cannot use it (pytorch#40403).
    .advice = Return CPU tensors from the dataset and move them in the training loop, or use multiprocessing_context="spawn".
daemonic-process =
    .because = { while-workers-started }: a daemonic process cannot have children
    .cause = The training process is itself a daemonic worker of a pool. Python does not let daemonic processes start processes.
    .advice = Use num_workers=0 inside pools, or start this process with daemon=False.
no-main-guard =
    .because = { while-workers-started }: the workers died while they imported the script
    .cause = With { start-method } each worker imports the script again. Without a guard the import also starts the training and its workers, and
        fails.
    .advice = Put the training code under `if __name__ == "__main__":`, and read the first traceback in the job's log.
# $error is its type and text.
error-while-starting-workers =
    .because = { while-workers-started }
    .cause = The process ended before any batch was delivered ({ $error }).
    .advice = Read the traceback in the job's log; with num_workers=0 the same error shows the line in your own code.

## An error that a sample or a batch raised

sample-reader = { KNOWN($worker) ->
        [yes] worker { $worker }
       *[no] the training process
    }
# $samples are the first ones of a batch, as text, and $more is how many there are beside these.
named-samples = { $samples }{ $more ->
        [0] { "" }
       *[other] { " and " }{ $more } more
    }
# Where in the script, and the error itself, where they are known.
at-line-with-error = { KNOWN($file) ->
        [yes] , at { $file }:{ $line } in { $function }
       *[no] { "" }
    }{ KNOWN($error) ->
        [yes] : { $error }
       *[no] { "" }
    }
fetch-raised-error = The error occurred while { sample-reader } read for { KNOWN($loader) ->
        [yes] { $loader }
       *[no] a loader
    }. The training loop received the error instead of a batch.
read-up-to-sample = Read the dataset alone, without a DataLoader, up to that sample. Repair what it reads, or let the dataset leave it out.
collate-samples-alone = Collate these samples alone to see which one differs: collate_fn([dataset[i], dataset[j]]). Make their shapes and types
    alike, or pad them.
# $sample is its index, and $key is the index as it is written in Python; both are unknown where the index is neither a number nor text.
# $counted is "yes" where it is the number of an iterable dataset's sample, $collating where reading it went well.
sample-raised-error =
    .because = of an error that { sample-reader } raised { KNOWN($sample) ->
            [yes] { $counted ->
                [yes] on sample number { $sample } of an iterable dataset
               *[no] on sample { $sample }
            }
           *[no] on a sample
        }{ at-line-with-error }
    .cause = { fetch-raised-error }
    .advice = { $advice ->
            [collate] { collate-samples-alone }
            [up-to] { read-up-to-sample }
           *[alone] Read this sample alone: dataset[{ $key }] raises the same error. Repair the sample, or skip it in the dataset.
        }
batch-raised-error =
    .because = of an error that { sample-reader } raised { KNOWN($samples) ->
            [yes] on samples { named-samples }
           *[no] on a batch
        }{ at-line-with-error }
    .cause = { fetch-raised-error }
    .advice = { $advice ->
            [up-to] { read-up-to-sample }
           *[alone] Read this batch alone to see which sample fails. Repair that sample, or let the dataset leave it out.
        }
collating-raised-error =
    .because = of an error that { sample-reader } raised { KNOWN($samples) ->
            [yes] while collating samples { named-samples }
           *[no] on a batch
        }{ at-line-with-error }
    .cause = { fetch-raised-error }
    .advice = { collate-samples-alone }

## A sample that took longer than attach(sample_timeout=) allows

sample-timeout-advice = Check what the named line waits for. Raise sample_timeout, or set on_timeout="skip", which skips slow samples that can be
    interrupted.
# $error_says and $error_adds are the words of the error itself, where it was understood.
sample-took-too-long =
    .because = because { KNOWN($error_says) ->
            [yes] { $error_says }
           *[no] a sample took longer than its loader's sample_timeout
        }
    .cause = { KNOWN($error_says) ->
            [yes] { $error_adds }
           *[no] attach(sample_timeout=…) ended the training for it.
        }
    .advice = { sample-timeout-advice }
worker-ended-at-slow-sample =
    .because = because { KNOWN($sample) ->
            [yes] sample { $sample }
           *[no] a sample
        } took longer than its loader's sample_timeout in { dead-process }
    .cause = The sample could not be interrupted, so loaderwatch ended its worker. The worker was in code that does not return to Python, or that
        catches every exception. The job's log has the line.
    .advice = { sample-timeout-advice }

## Errors that the script catches, to try again

# $stands is "yes" where hardly a step was made between two errors; $failures is how many came in a row.
error-caught-again-and-again = { who } { $stands ->
        [yes] makes no progress: { $because }; the script catches the error and tries again.
       *[no] skips data after errors: { $because }; the script catches the error and starts another epoch.
    }
caught-cause = No epoch has been completed for { DURATION($since_s) }{ $stands ->
        [yes] , and hardly any training step.
       *[no] : the data after the error is never used.
    }
caught-advice = Log the error and let it end the run, or limit the number of attempts.
caught-loader = { KNOWN($loader) ->
        [yes] { $loader }
       *[no] its loader
    }
worker-death-caught =
    .because = a worker of { caught-loader } has died { $failures } times in a row
    .cause = { caught-cause }
    .advice = { caught-advice }
loader-error-caught =
    .because = { caught-loader } has raised an error { $failures } times in a row
    .cause = { caught-cause } Only the script sees the error, so loaderwatch does not know its text.
    .advice = { caught-advice } Usually the error comes from the dataset or from collate_fn.

## A death that no rule explains

# Where a process was in its script. $step counts its training steps.
place-before-first-epoch = before its first epoch
place-outside-loops = in step { $step }, outside its training loops
place-after-epoch = after step { $step }, { $exhausted ->
        [yes] after
       *[no] after it had left
    } epoch { $epoch }
place-in-pass = in step { $step }, in the pass over { $loader }
# It was in this epoch until an error ended it.
place-in-left-epoch = in step { $step }, in epoch { $epoch }{ comma-doing }
place-in-step = in step { $step }{ KNOWN($epoch) ->
        [yes] { " of epoch " }{ $epoch }
       *[no] { "" }
    }{ comma-doing }
comma-doing = { KNOWN($doing) ->
        [yes] , { $doing ->
            [iter] while its workers were started (inside iter(loader))
            [wait] while waiting for data{ KNOWN($awaited) ->
                [yes] { " (worker " }{ $awaited }'s batch)
               *[no] { "" }
            }
            [h2d] while copying a batch to the GPU
            [forward] in the forward pass
            [backward] in the backward pass
            [optimizer] in the optimizer's step
            [teardown] while the epoch's iterator was taken down
            [phase] in the phase { $phase }
           *[step] in the body of the loop
        }
       *[no] { "" }
    }
# $host is known where the run has several.
crashed-process = { KNOWN($rank) ->
        [yes] Rank { $rank }
       *[no] The training process
    } (pid { $pid }{ KNOWN($host) ->
        [yes] { " on " }{ $host }
       *[no] { "" }
    })
exit-code = exit code { $exit_code }
# $clock is the time of day of its last sign of life, $how its last words or what ended it, $others how many other ranks crashed.
crash-title = { crashed-process } crashed{ KNOWN($how) ->
        [yes] { " (" }{ $how })
       *[no] { "" }
    } at { $clock }{ KNOWN($where) ->
        [yes] { " " }{ $where }
       *[no] { "" }
    }.{ $others ->
        [0] { "" }
        [one] { " " }{ $others } other rank crashed too.
       *[other] { " " }{ $others } other ranks crashed too.
    }
crash-cause = { KNOWN($last_words) ->
        [yes] Its last output: { $last_words }.
       *[no] { KNOWN($ended_by) ->
            [yes] { $ended_by } ended it.
           *[no] The process ended without any output. This is typical of SIGKILL and of crashes of native code.
        }
    }
# $gone is how many workers died before their training process, and $gone_workers are their names.
worker-with-pid = { $worker } (pid { $pid })
workers-died-before = { $gone ->
        [0] { "" }
        [one] Find out what ended worker { $gone_workers }, which died before this process.{ " " }
       *[other] Find out what ended workers { $gone_workers }, which died before this process.{ " " }
    }
# $short is "yes" where memory was, and the figures are unknown where nothing is known of the host's memory.
memory-and-look = { KNOWN($free_bytes) ->
        [yes] { $short ->
            [yes] Use fewer workers, a smaller prefetch_factor, or a dataset that is not copied into each worker. Memory was short:
                { memory-left }. Probably the kernel's out-of-memory killer ended the process. { $look }
           *[no] { $look } The host had enough memory: { memory-left }. A limit of the container or job may be lower.
        }
       *[no] { $look }
    }
memory-left = { SIZE($free_bytes) } of the host's { SIZE($host_bytes) } were free{ KNOWN($held_bytes) ->
        [yes] , the process used { SIZE($held_bytes) }
       *[no] { "" }
    }
look-at-stderr = Read the last lines of its stderr for a Python traceback. If there is none, the process was ended from outside:
    `dmesg -T` on its host or the job scheduler's log names the sender.
look-who-killed = Find the sender of SIGKILL: see `dmesg -T` on its host and the job scheduler's log.

# $error is the last thing that it said, its type and text.
uncaught-error =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }Read the traceback in the job's log: { $error }
exit-code-chosen =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }Read its last lines in the job's log. The script chose this exit code, with sys.exit() or os._exit().
fault-in-native-code =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }Read the last lines of its stderr: a fault in native code raised this signal. Set PYTHONFAULTHANDLER=1 to get
        the stack in the next run.
signal-was-sent =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }Find the sender of this signal in the scheduler's log: a person, a program or the job scheduler.
process-was-killed =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }{ memory-and-look }
process-vanished =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }{ memory-and-look }

## Verdicts on a run that ended

some-process-crashed =
    .title = A training process crashed.
    .advice = { look-at-stderr }
ended-in-hang = { crashed-process } hung until it ended at { $clock }.
# How long before the end people were warned.
death-was-warned-of = loaderwatch warned { DURATION($before_s) } before the crash.
# $by is Ctrl-C or the name of a signal.
run-was-stopped =
    .title = Stopped by { $by }{ KNOWN($where) ->
            [yes] { " " }{ $where }
           *[no] { "" }
        }.
    .advice = { $by_hand ->
            [yes] Change nothing: a person pressed Ctrl-C, or a program sent SIGINT. Nothing failed.
           *[no] Change nothing: a person, a program or the job scheduler stopped the training. Nothing failed.
        }
