### Lines in the job's terminal: from the streamer, from the supervisor of `loaderwatch run`, and from the server.

job-line = loaderwatch: { $line }
watching-run = watching { $run } — open { $url }

## The streamer

# $why: what the server did, or what was wrong with the way to it, at $reason.
server-away = { $url } { $how ->
        [answers] answers { $status }
        [unreachable] cannot be reached ({ $reason })
       *[away] { $reason }
    }
server-not-reached = { server-away }; check LOADERWATCH_SERVER. This run's data waits on disk until it is reached.
server-refuses = { $url } refuses this run's data ({ $status }: { $reason }); { $move ->
        [token] set LOADERWATCH_TOKEN to the server's agent token
       *[address] check that LOADERWATCH_SERVER is the address of a loaderwatch server
    }. It is kept on disk meanwhile.
server-unproven = { $url } has not proven that it is your loaderwatch server ({ $reason }), so it gets nothing of this run. Set
    LOADERWATCH_TOKEN to that server's agent token; if it is set right, somebody else listens there. This run's data waits on disk.
server-rejects-part = { $url } cannot read a part of this run's data ({ $status }: { $reason }); that part is missing on the page. If the
    server is of another version, restart it with this one.
sent-unencrypted = this run's stacks and paths, and the token, travel to { $url } unencrypted: whoever is on the way can read them. Use https
    (loaderwatch serve --ssl-certfile …), or LOADERWATCH_REDACT=1 to keep paths and messages here.
page-not-started = the page cannot be started: { $why } — this run's data waits on disk, see { $folder }
server-exit-code = exit code { $code }; see { $log }
# What the address answers with, where it is no loaderwatch server.
not-a-receipt = not a receipt: { $error }
outbox-not-written = cannot write to { $folder } ({ $why }): what waits for the server is kept in shared memory, and beyond
    { $most_megabytes } MB it is lost and counted. Free some space there; nothing needs to be restarted
addresses-not-told = nobody will be told at the addresses of this run (attach(notify=), LOADERWATCH_NOTIFY): its server is not that of
    { $data_dir }, or is of an older version, and takes no addresses over the network. Start that server with --notify, or write the
    addresses into its config.toml

## Addresses that a run gave

address-refused = { $why }. Nobody is told of this run there
apprise-says-nothing = Apprise does not say why
apprise-plugin-raised = its Apprise plugin raised { $error }: { $said }

## Why a host has no GPU charts

gpu-charts-off = { $why ->
        [no-driver] no NVIDIA driver on this host
        [driver-fails] the NVIDIA driver does not work ({ $error })
        [reading-fails] reading the NVIDIA driver failed ({ $error })
        [no-gpu] the NVIDIA driver shows no GPU to this process
        [gpu-fails] GPU { $gpu }: { $error }
       *[no-answer] the GPU does not answer
    }: GPU charts are off; waits are measured in the training loop

## Why a process has no stack

no-stack = { $why ->
        [unregistered] process has not registered a stack signal
        [stopped] process is stopped (state { $state }): it cannot answer
        [traced] a debugger is attached: the signal would stop the process in it
        [no-handler] process has no handler for signal { $signal }: none was sent
        [uninterruptible] process is in an uninterruptible wait (state D, { $wchan }): it cannot answer
       *[no-answer] process did not answer within 1 s (state { $state })
    }

## The supervisor

supervisor-fault = a fault of ours ({ $error }): the job goes on, without restarts and alerts
job-not-started = the job cannot be started: { $error }
hang-saved = saved { $file }
job-is-ended = { $finding } It has lasted { PLAIN($after_s) } s or more: the job is ended
processes-live-on = processes { $pids } cannot be killed, so the job is not started again
job-restarts = restart { $restart } of { $restarts } in { PLAIN($pause_s) } s: the same command again
hangs-again = the job hangs again and has been restarted as often as it may be: it is left as it is
no-fresh-stacks = no fresh stacks of { $run }: { $error }
no-recording = no recording of { $run }: { $error }
on-alert-exhausted = --on-alert has run { $most } times for this job and is not run again
# $said is the last line of the command's stderr, unknown where it wrote none.
on-alert-failed = --on-alert { $command } { $how ->
        [not-started] cannot be started: { $error }
        [late] was killed after { PLAIN($after_s) } s
        [signal] was killed by signal { $number }
       *[code] failed with exit code { $number }
    }{ KNOWN($said) ->
        [yes] : { $said }
       *[no] { "" }
    }
alerts-not-seen = the alerts of this job cannot be seen: { $why }. The job goes on
no-server-here = no server is up
no-proven-server = no server can prove that it is yours: set LOADERWATCH_TOKEN
viewer-refused = { $reason }: set LOADERWATCH_PAGE_TOKEN to that server's viewer token, or the owner's

## The server, as it starts

page-is-at = loaderwatch: the page is at { $url }
others-reach-server = loaderwatch: listening on { $host }: other machines can reach this server, { $encrypted ->
        [yes] over TLS
       *[no] over plain http; see --ssl-certfile
    }
trainers-elsewhere = loaderwatch: trainers elsewhere: LOADERWATCH_SERVER={ $url } LOADERWATCH_TOKEN={ $token }
server-will-leave = loaderwatch: this server leaves when no run has reported and nobody has looked for { $idle }
# $hours is unknown where it is less than six minutes.
idle-time = { KNOWN($hours) ->
        [yes] { PLAIN($hours) } h
       *[no] { PLAIN($seconds_s) } s
    }
everyone-is-let-in = loaderwatch: --no-auth: everyone who can reach this address can read every run
