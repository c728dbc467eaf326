### What the commands print, beside findings, verdicts and advice.

## A run

run-state = { $state ->
        [live] live
        [finished] finished
        [hung] hung
        [crashed] crashed
        [lost] lost
        [stopped] stopped
       *[other] { $state }
    }
rank-count = { $ranks ->
        [one] { $ranks } rank
       *[other] { $ranks } ranks
    }
# $steps is unknown where they were not counted.
after-steps = { KNOWN($steps) ->
        [yes] { $steps ->
            [one] , { $steps } step
           *[other] , { $steps } steps
        }
       *[no] { "" }
    }
# $attempt is unknown for a run with one attempt.
run-described = { $name } ({ $run_id }), { rank-count }, { run-state }{ KNOWN($attempt) ->
        [yes] , attempt { $attempt } of { $attempts }
       *[no] { "" }
    }{ after-steps }
run-recorded = { $name } ({ $run_id }), recorded in { $file }
run-redacted = { $name } ({ $run_id })
run-audited = { $name } ({ $run_id }), { run-state }
run-compared = { $which }{ "  " }{ $name } ({ $run_id }), { rank-count }, { run-state }{ after-steps }, { WHOLE($seconds_s) } s compared

## Findings and advice

severity = { $severity ->
        [critical] critical
        [warning] warning
       *[info] info
    }
nothing-found = Nothing found: no data stall, no costly epoch boundary, no hang.
no-alert-raised = The server raised no alert. It judges what comes while it comes; --hang-after 30 judges the whole run anew, also what came
    late.
finding-titled = { "[" }{ severity }] { $title }
# $kind is the code of the finding and its scenario. $lost_s and $gain_ratio are unknown where nothing is known of them.
finding-facts = { $kind }, { $state ->
        [firing] firing
        [acknowledged] acknowledged
        [silenced] silenced
       *[resolved] resolved
    }{ KNOWN($lost_s) ->
        [yes] , { DECIMAL($lost_s) } s lost
       *[no] { "" }
    }{ KNOWN($gain_percent) ->
        [yes] , at most { WHOLE($gain_percent) }% of the { $gain_of ->
            [run] run to win
           *[finding] time to win while it lasts
        }
       *[no] { "" }
    }
labelled = { $label ->
        [cause] Cause
        [advice] Advice
        [why] Why
       *[change] Change
    }: { $text }
printed-evidence = { $label }: { $value }
value-unknown = unknown
# $number is written with the digits that it has.
value-with-unit = { $number } { $unit ->
        [per_s] per s
        [bytes] bytes
       *[s] s
    }
# $worker is unknown for the training process.
process-or-worker = { KNOWN($worker) ->
        [yes] worker { $worker }
       *[no] training process
    }
stack-head = Stack of rank { $rank }, { process-or-worker }, pid { $pid }:
stack-frame = File "{ $file }", line { $line } in { $function }
more-frames = … { $more } more

## Other settings of a loader, with analyze --what-if

no-other-settings = No other settings are told: that takes a DataLoader that trains, at least eight measured batches, and a loop that waits
    for what its workers do.
# $cpus and $free are unknown where nothing is known of them. $free_in is "memory" or the path of the shared memory.
settings-basis = { $name } of rank { $rank }: { RATE($measured_per_s) } batches/s today. Played with its last { $fetches ->
        [one] { $fetches } batch
       *[other] { $fetches } batches
    } ({ DURATION($fetch_s) } to read one, { DURATION($step_s) } a step){ KNOWN($cpus) ->
        [yes] , with { RATE($cpus) } CPUs to share
       *[no] { "" }
    }. It holds while storage gives more readers as much as it gives today's.{ KNOWN($free) ->
        [yes] { " " }{ $free } are free in { free-in }.
       *[no] { "" }
    }
free-in = { $free_in }
# The speed stands before this, in batches per second. $saved_percent is unknown where it is noise, $ahead where nothing is read ahead.
setting-played = batches/s ({ RATE($least_per_s) } to { RATE($most_per_s) }){ KNOWN($saved_percent) ->
        [yes] , saves { WHOLE($saved_percent) }%
       *[no] { "" }
    }{ KNOWN($ahead) ->
        [yes] , { $ahead } read ahead
       *[no] { "" }
    }{ $beyond ->
        [yes] , more than is free in { free-in }
       *[no] { "" }
    }{ $is_today ->
        [yes] , today
       *[no] { "" }
    }{ $is_knee ->
        [yes] , as good as any
       *[no] { "" }
    }
# $saves: how much. $per_epoch_s is unknown where epochs have no part in it.
option-saves = { $saves ->
        [nothing] saves nothing
        [costs] costs up to { WHOLE($cost_percent) }%
        [between] saves { WHOLE($least_percent) }% to { WHOLE($most_percent) }%{ of-an-epoch }
       *[about] saves { WHOLE($most_percent) }%{ of-an-epoch }
    }
of-an-epoch = { KNOWN($per_epoch_s) ->
        [yes] , { DURATION($per_epoch_s) } of an epoch at most
       *[no] { "" }
    }

## compare

comparison-note = Note: { $note }
settings-differ = Settings that differ:
no-setting-differs = No setting that is known differs.
setting-changed = { $where } { $what }: { $a } → { $b }
comparison-columns = change (95 %)
measured-value = { $number } { $unit ->
        [per_s] /s
       *[s] s
    }
# $change is a difference of percentages, or relative to A. $low is unknown where too little was measured for an interval.
measured-change = { $change }{ $is_points ->
        [yes] { " " }points
       *[no] { "" }
    }{ KNOWN($low) ->
        [yes] { " " }({ $low } to { $high })
       *[no] { "" }
    }
condition-failed = Failed: { $condition }: { $measure } { KNOWN($value) ->
        [yes] is { $value }
       *[no] is not known
    }

## doctor

nothing-to-change = Nothing to change.
advice-titled = { "[" }{ severity }] { $check }{ KNOWN($where) ->
        [yes] { " " }({ $where })
       *[no] { "" }
    }: { $what }
script-audited = { $script }{ KNOWN($usable_cpus) ->
        [yes] , { PLAIN($usable_cpus) } of { $cpus } CPUs usable
       *[no] { "" }
    }, torch { $torch }, Python { $python }
# What is unknown is left out. $fetch_s is what a batch takes to load, $able_per_s how many batches a second the workers can load at most.
loader-audited = { $name } ({ $role }{ KNOWN($made_at) ->
        [yes] , { $made_at }
       *[no] { "" }
    }): { $loader_class } of { $dataset_class }{ KNOWN($samples) ->
        [yes] , { COUNT($samples) } samples
       *[no] { "" }
    }{ KNOWN($batch) ->
        [yes] , batch { $batch }
       *[no] { "" }
    }, { $workers ->
        [one] { $workers } worker
       *[other] { $workers } workers
    }{ KNOWN($start_method) ->
        [yes] { " " }by { $start_method }
       *[no] { "" }
    }{ KNOWN($fetch_s) ->
        [yes] , a batch takes about { DURATION($fetch_s) } to load
       *[no] { "" }
    }{ KNOWN($able_per_s) ->
        [yes] , so up to about { RATE($able_per_s) } batches/s
       *[no] { "" }
    }
script-wants-torchrun = It wants the environment of torchrun: loaderwatch doctor --ranks 2 (as many as you train with) ...
script-wants-arguments = Its arguments follow its name: loaderwatch doctor { $script } ARGS
script-stood-at = It stood at (most recent call first):

## runs

no-runs-yet = No runs yet. Add `loaderwatch.attach(train_loader)` to a training script and start it.
runs-columns =
    .run = RUN
    .name = NAME
    .state = STATE
    .started = STARTED
    .seen = LAST SEEN
    .ranks = RANKS
    .attempts = ATTEMPTS
    .steps = STEPS
    .verdict = VERDICT
no-server-is-up = No server is up; the next run starts one, and so does `loaderwatch serve`.
server-is-at = Server: { $url }
# $leaves_at is unknown where the server stays.
server-is-up = Server: { $url } (pid { $pid }, { $data_dir }), { $started_by ->
        [hand] started by hand
        [run] started by a run
        [demo] started by the demo
       *[other] started
    } at { $started_at }; { KNOWN($leaves_at) ->
        [yes] leaves at { $leaves_at } if no run reports and nobody looks until then
       *[no] stays
    }.

## stop and token

no-server-to-stop = No server is up for { $data_dir }: there is nothing to stop.
server-has-ended = The server at { $url }{ KNOWN($pid) ->
        [yes] { " " }(pid { $pid })
       *[no] { "" }
    } has ended. Its runs stay in { $data_dir }.
another-server-starts = { $runs } was reporting and starts another server within a minute.
tokens-written = new tokens are in { $file }
tokens-for-next-server = no server runs here now; the next one takes them
tokens-taken = the server at { $url } refuses the old ones; trainers on other machines need the new agent token

## stacks

process-of-rank = rank { $rank }, { process-or-worker } (pid { $pid })
no-stack-came = no stack came back
stack-not-answered = { process-of-rank }: not answered within { PLAIN($within_s) } s; its last stack is of { $taken_at }

## The profile, with stacks --profile and analyze

profile-part = { $of ->
        [step] step
        [evaluation] evaluation
        [boundary] epoch boundary
       *[fetch] fetch
    }
sample-count = { $samples ->
        [one] { COUNT($samples) } sample
       *[other] { COUNT($samples) } samples
    }
# $rank is unknown where there are several, $seconds_s where no time is known. $states is a list of profile-state.
profile-headline = { profile-part }: { sample-count } of { KNOWN($rank) ->
        [yes] rank { $rank }
       *[no] { rank-count }
    }{ KNOWN($seconds_s) ->
        [yes] { " " }in { WHOLE_DURATION($seconds_s) }
       *[no] { "" }
    }: { profile-states }
profile-heading = Where the lost time goes, from sampled stacks:
profile-state = { PERCENT($share_ratio) } { $state ->
        [running] running
        [runnable] waiting for a CPU
        [disk] disk
        [network] network
        [lock] lock
        [pipe] pipe
        [child] child process
        [timer] sleep
       *[waiting] other waits
    }
profile-states = { $states }
profile-columns =
    .share = share
    .interval = 95 %
    .each = time
    .line = line → call of a library, and what it does
profile-interval = { WHOLE($low_percent) }–{ WHOLE($high_percent) } %
profile-each = { DURATION($each_s) }/{ $unit ->
        [sample] sample
        [step] step
       *[batch] batch
    }
profile-without-line = without it: at most { DECIMAL($times) } times as fast
profile-rest = The rest: { PERCENT($rest_ratio) }{ $more ->
        [0] { "" }
        [one] , with { $more } other line
       *[other] , with { $more } other lines
    }.
profile-unread = { $unread ->
        [one] { COUNT($unread) } more sample has no stack
       *[other] { COUNT($unread) } more samples have no stack
    }: the process could not be read at that moment, or the stack is rare.
profile-few = Fewer than { $fewest } samples: these shares are rough. More samples come while a rank loses time.
profile-empty = { profile-part }: no stack was sampled. Either no time was lost there, or the run is older than profiles, or loaderwatch may
    not read the processes. Look at another part with --of. { permit-reading }
profile-unreadable = { profile-part }: { $unread ->
        [one] { COUNT($unread) } sample
       *[other] { COUNT($unread) } samples
    }, none with a stack: loaderwatch may not read the processes. { permit-reading }
permit-reading = To permit reading, set kernel.yama.ptrace_scope to 1 or 0; for a container, add the capability SYS_PTRACE.
profile-written = { $file }: { sample-count }

## export and import

run-exported = { $file }: { $kilobytes } kB; { $redacted ->
        [yes] paths, arguments, messages and names of hosts are replaced; names of functions, classes, loaders and phases are not
       *[no] it holds paths, arguments, host names and stacks of the run; --redact replaces them
    }
run-imported = { $run }: imported, { DURATION($seconds_s) } of training
run-is-there = { $run }: is there already, with the same content
file-lies-there = { $run }: it lies there already
file-not-imported = loaderwatch: { $file }: not imported: { $why }

## notify

notify-test =
    .title = A test of loaderwatch
    .body = This is a test from { $host }: `loaderwatch notify test` sent it. Alerts of runs come like this.
# $why is unknown where the message was delivered.
notify-tested = { $number } { $address } (of { $source }): { KNOWN($why) ->
        [yes] not delivered: { $why }
       *[no] delivered
    }
keys-are-open = loaderwatch: other users can read { $file }, and its keys: chmod 600 { $file }

## run and tune

starts-as-tuned = loaderwatch: { $loader } ({ $made_at }) starts with { $setting }, as loaderwatch tune found; this once: write it into the
    script to keep it
tuning-columns =
    .workers = num_workers
    .speed = batches/s
    .start = first batch
    .memory = memory
tuning-marks = ← { $mark ->
        [both] now, advised
        [now] now
       *[advised] advised
    }
tuning-with-steps = With a step of { DURATION($step_s) } between batches:
# $wait_percent is unknown where no steps were between the batches.
tuning-trial = { $setting }: { RATE($batches_per_s) } batches/s{ KNOWN($wait_percent) ->
        [yes] , { WHOLE($wait_percent) }% of the time is waiting
       *[no] { "" }
    }
nothing-tried = Nothing could be tried.
setting-is-smallest = Nothing to change: num_workers={ $workers } is the smallest setting that does it.
use-setting = Use DataLoader(…, { $setting }): { RATE($then_per_s) } batches/s, { RATE($now_per_s) } now.
tuning-failed = The search ended early: { $why }.
tuning-stopped = The search ended because { $why }.
step-not-given = With --step-ms, what a training step takes, the smallest setting is found that keeps up with it.
no-setting-to-keep = There is no setting to start the next run with.
setting-is-kept = The next `loaderwatch run` of { $script } starts with { $setting }.

## Why a search for settings ended, and what it left out

time-was-up = the time was up
no-gain-by-workers = more workers brought no more
stopped-by-you = you stopped it
no-room-in-memory = { $workers } workers would take { $wanted_gb } of { $free_gb } GB of free memory
no-room-for-batches = { $workers } workers with prefetch_factor={ $prefetch } would hold { $batches_gb } GB of batches, and { $folder } has
    { $free_gb } GB free
no-room-for-files = { $workers } workers would take most of the { $limit } files that this process may open
stream-is-not-split = Every worker would read the whole stream: the dataset does not split it, so no more than one was tried.
