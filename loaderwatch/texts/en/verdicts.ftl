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
    .title = Finished before what was forecast: { $title }
    .advice = { $advice }

## Nobody knows how it goes on

look-at-the-host = Check that the host is up and can reach this server. What was recorded meanwhile waits on its disk and is shown when the
    connection is back.
# $last is the title before the silence, $advice its advice; both are unknown where nothing was said.
no-news =
    .title = No news for { DURATION($silent_s) }: whether training goes on is not known.{ KNOWN($last) ->
            [yes] { " " }When last heard of: { $last }
           *[no] { "" }
        }
    .advice = { KNOWN($advice) ->
            [yes] { $advice }{ " " }
           *[no] { "" }
        }{ look-at-the-host }
attempt-ended-unheard =
    .title = Nobody said how this attempt ended: its last news is older than the beginning of the next.
    .advice = Read the end of its log: what ended it ended the streamer beside it too, as a container or a host that goes does.
# $reason is the message of the operating system or the database.
server-cannot-store =
    .title = This server cannot store what the run sends; training goes on, and what you see here stands still.
    .advice = The reason: { $reason }. Free some space there, or make it writable; nothing needs to be restarted. What comes meanwhile waits on
        the run's hosts and is shown afterwards.
# $rank is unknown in a run with one rank; $others is how many more ranks are unwatched.
stepped-aside =
    .title = loaderwatch stepped aside{ on-rank }{ $others ->
            [0] { "" }
            [one] { " " }and { $others } other
           *[other] { " " }and { $others } others
        } after { $faults } faults of its own; training goes on unwatched.
    .advice = Nothing is wrong with the training: what the page says of it has stood still since. The job's stderr names the fault, and a bug
        report with that line helps. A restart of the job is watched again.

## The numbers speak

attach-the-loader = Attach the loader that the training loop iterates: loaderwatch.attach(train_loader). Of an iterable that is no DataLoader,
    iterate what attach returns: train_loader = loaderwatch.attach(train_loader). A training without any loader is timed between its steps, once
    one of PyTorch's optimizers steps.
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
    .title = Healthy: data wait takes { PERCENT($wait_ratio) } of each step{ KNOWN($steps_per_s) ->
            [yes] ; { SPEED($steps_per_s) } steps/s on
           *[no] { " " }on
        } { $ranks ->
            [one] { $ranks } rank
           *[other] { $ranks } ranks
        }.
waits-unjudged =
    .title = Data wait took { PERCENT($wait_ratio) } of each step; watching whether it lasts.
warming-up =
    .title = Warming up: too few steps yet for a verdict.
outside-loop =
    .title = Outside the training loop for { DURATION($age_s) }; { COUNT($steps) } steps so far.
few-steps-lately =
    .title = Few training steps lately, too few for a verdict; { COUNT($steps) } steps so far.
no-step-lately =
    .title = No training step ended in the last { WHOLE($within_s) } seconds; { COUNT($steps) } steps so far.
# $start_ratio is the share of the starts of epochs; it is unknown where it is small. $much is "yes" where much of the time was lost.
too-short =
    .title = { $over ->
            [yes] { every-process-finished }
           *[no] Warming up.
        } { PERCENT($wait_ratio) } of { DURATION($elapsed_s) } were data wait{ KNOWN($start_ratio) ->
            [yes] { " " }and { PERCENT($start_ratio) } starts of an epoch
           *[no] { "" }
        }; too short for a diagnosis (needs about { DURATION($needed_s) } of steps).
    .advice = { $much ->
            [yes] Let it run for longer, or ask `loaderwatch doctor` for the settings of its loaders.
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
            [at-sample] is in { sample-name }
            [idle] is idle
            [fetch] is reading
            [collate] is joining its samples
            [starting] is starting
           *[busy] is busy
        }
       *[no] { "" }
    }
batch-awaited =
    .title = { training-or-rank } has waited { DURATION($age_s) } for { which-batch }{ awaited-worker }; watching whether it comes.
# $line is the line of the script, where a stack was taken.
standing =
    .title = { training-or-rank } has been { $where ->
            [between-steps] between two steps
            [between-passes] between two passes over its loader
            [outside] outside its loops
            [before-first-batch] before its first batch
            [iter] in iter() of { the-loader }
            [teardown] ending its pass over { the-loader }
            [own-phase] { KNOWN($phase) ->
                [yes] in its phase '{ $phase }'
               *[no] in a phase of its own
            }
            [at-batch] at work with { which-batch }
           *[step] in step { $step }
        } for { DURATION($age_s) }{ KNOWN($line) ->
            [yes] , at { $line }
           *[no] { "" }
        }; watching whether it goes on.
