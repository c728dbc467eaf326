### What is said first about a run: its verdict, and the remark on what goes on longer than usual.
### Parameters end with their unit: _s seconds, _ratio shares from 0 to 1. Others are counts and names.

## An alert speaks

# The words of a finding that no rule of this version has.
as-written = { $text }
# Sentences that follow each other; each may be empty.
one-after-another = { $first } { $next }
# $title and $advice are those of the alert.
verdict-of-alert =
    .title = { $title }
    .advice = { $advice }
finished-with-alert =
    .title = Finished. While it ran: { $title }
    .advice = { $advice }
finished-before-forecast =
    .title = Finished before the forecast came true: { $title }
    .advice = { $advice }

## Nobody knows how it goes on

look-at-the-host = Check that the host is up and can reach this server. The host keeps its records on disk; the page shows them after the
    connection is back.
# $last is the title before the silence, $advice its advice; both are unknown where nothing was said.
no-news =
    .title = No contact with the run for { DURATION($silent_s) }; its state is unknown.{ KNOWN($last) ->
            [yes] { " " }At the last contact: { $last }
           *[no] { "" }
        }
    .advice = { KNOWN($advice) ->
            [yes] { $advice }{ " " }
           *[no] { "" }
        }{ look-at-the-host }
attempt-ended-unheard =
    .title = It is not known how this attempt ended: contact was lost before the next attempt began.
    .advice = Read the end of its log. The training process and loaderwatch's streamer ended together; that happens when a container or a host
        stops.
# $reason is the message of the operating system or the database.
server-cannot-store =
    .title = This server cannot store the run's data; training goes on, but this page is not updated.
    .advice = Free space where this server stores its data, or make that place writable. The reason: { $reason }. Nothing needs a restart. Meanwhile
        the run's hosts keep the data and send it later.
# $rank is unknown in a run with one rank; $others is how many more ranks are unwatched.
stepped-aside =
    .title = loaderwatch stopped watching{ on-rank }{ $others ->
            [0] { "" }
            [one] { " " }and { $others } other
           *[other] { " " }and { $others } others
        } after { $faults } errors of its own; training goes on.
    .advice = Let the training go on: only its page is not updated. After a restart of the job loaderwatch watches it again. Please report
        the error that the job's stderr names.

## The numbers speak

attach-the-loader = Attach the loader that the training loop iterates: loaderwatch.attach(train_loader). If it is not a DataLoader, iterate the
    returned object: train_loader = loaderwatch.attach(train_loader). Without any loader, loaderwatch measures the time between steps,
    as soon as one of PyTorch's optimizers steps.
finished-unmeasured =
    .title = Finished. No loader was iterated: nothing was measured.
    .advice = { attach-the-loader }
unmeasured =
    .title = No loader has been iterated yet: nothing is measured.
    .advice = { attach-the-loader }
every-process-finished = Finished: every training process ended by itself.
finished =
    .title = { every-process-finished }
# $steps_per_s is unknown in the first seconds.
healthy =
    .title = Healthy: data wait takes { PERCENT($wait_ratio) } of each iteration{ KNOWN($steps_per_s) ->
            [yes] ; { SPEED($steps_per_s) } steps/s on
           *[no] { " " }on
        } { $ranks ->
            [one] { $ranks } rank
           *[other] { $ranks } ranks
        }.
waits-unjudged =
    .title = Data wait took { PERCENT($wait_ratio) } of each iteration; not yet an alert.
warming-up =
    .title = Warming up: too few steps yet for a verdict.
outside-loop =
    .title = Training has been outside its loop for { DURATION($age_s) }; { COUNT($steps) } steps so far.
few-steps-lately =
    .title = Too few recent training steps for a verdict; { COUNT($steps) } steps so far.
no-step-lately =
    .title = No training step ended in the last { WHOLE($within_s) } seconds; { COUNT($steps) } steps so far.
# $start_ratio is the share of the starts of epochs; it is unknown where it is small. $much is "yes" where much of the time was lost.
too-short =
    .title = { $over ->
            [yes] { every-process-finished }
           *[no] Warming up.
        } Data wait took { PERCENT($wait_ratio) } of { DURATION($elapsed_s) }{ KNOWN($start_ratio) ->
            [yes] , epoch starts { PERCENT($start_ratio) }
           *[no] { "" }
        }; a diagnosis needs about { DURATION($needed_s) } of steps.
    .advice = { $much ->
            [yes] Let the training run longer, or run `loaderwatch doctor` to check the settings of the loaders.
           *[no] { "" }
        }

## What goes on longer than usual

training-or-rank = { KNOWN($rank) ->
        [yes] Rank { $rank }
       *[no] Training
    }
# $loader is unknown where it has no name, and for a batch also where the process has one loader only.
the-loader = { KNOWN($loader) ->
        [yes] { $loader }
       *[no] its loader
    }
# $of_loader is "yes" where the process has several loaders.
which-batch = { KNOWN($batch) ->
        [yes] batch { $batch }
       *[no] its next batch
    }{ $of_loader ->
        [yes] { " of " }{ the-loader }
       *[no] { "" }
    }
# $worker is unknown where it is not known from which worker the batch is awaited.
awaited-worker = { KNOWN($worker) ->
        [yes] ; worker { $worker } { $worker_is ->
            [dead] is dead
            [at-sample] is reading { sample-name }
            [idle] is idle
            [fetch] is reading
            [collate] is collating
            [starting] is starting
           *[busy] is busy
        }
       *[no] { "" }
    }
batch-awaited =
    .title = { training-or-rank } has waited { DURATION($age_s) } for { which-batch }{ awaited-worker }; longer than usual, not yet an alert.
# $line is the line of the script, where a stack was taken.
standing =
    .title = { training-or-rank } has been { $where ->
            [between-steps] between two steps
            [between-passes] between two epochs of its loader
            [outside] outside its training loops
            [before-first-batch] before its first batch
            [iter] in iter() of { the-loader }
            [teardown] at the end of an epoch of { the-loader }
            [own-phase] { KNOWN($phase) ->
                [yes] in its phase '{ $phase }'
               *[no] in a phase of its own
            }
            [at-batch] busy with { which-batch }
           *[step] in step { $step }
        } for { DURATION($age_s) }{ KNOWN($line) ->
            [yes] , at { $line }
           *[no] { "" }
        }; longer than usual, not yet an alert.
