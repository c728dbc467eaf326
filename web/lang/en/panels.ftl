### What stands on the page: titles of cards, heads of tables, buttons, and short remarks on what is shown.
### Parameters end with their unit: _s seconds, _ratio shares from 0 to 1, _bytes bytes. Others are counts, names, and $when, a time of day.
### <b> and <code> within a message mark words that are drawn bold or as code.

## Words of many places

rank-number = rank { $rank }
rank-heading = Rank { $rank }
worker-number = worker { $worker }
epoch-number = epoch { $epoch }
process-id = pid { $pid }
main-process = main
training-process = training process
ranks-counted = { $ranks ->
        [one] { COUNT($ranks) }{ "\u00A0" }rank
       *[other] { COUNT($ranks) }{ "\u00A0" }ranks
    }
steps-counted = { $steps ->
        [one] { COUNT($steps) }{ "\u00A0" }step
       *[other] { COUNT($steps) }{ "\u00A0" }steps
    }
hosts-counted = { $hosts ->
        [one] { COUNT($hosts) }{ "\u00A0" }host
       *[other] { COUNT($hosts) }{ "\u00A0" }hosts
    }
runs-counted = { $runs ->
        [one] { COUNT($runs) }{ "\u00A0" }run
       *[other] { COUNT($runs) }{ "\u00A0" }runs
    }
attempts-counted = { $attempts ->
        [one] { COUNT($attempts) }{ "\u00A0" }attempt
       *[other] { COUNT($attempts) }{ "\u00A0" }attempts
    }
# Ranks by their numbers, which spaces separate in $ranks; of many the first ones. $number is how many there are.
ranks-named = { $number ->
        [one] rank { LISTING($ranks) }
       *[other] ranks { LISTING($ranks) }
    }
# The same at the beginning of a sentence.
ranks-named-first = { $number ->
        [one] Rank { LISTING($ranks) }
       *[other] Ranks { LISTING($ranks) }
    }
# A phase as the API names it, or as the script named one of its own.
phase-name = { $phase ->
        [wait] wait
        [forward] forward
        [backward] backward
        [optimizer] optimizer
        [step] step
        [teardown] teardown
        [outside] outside
        [idle] idle
        [fetch] fetch
        [collate] collate
        [starting] starting
       *[other] { $phase }
    }
run-state = { $state ->
        [live] Live
        [finished] Finished
        [hung] Hung
        [crashed] Crashed
        [stopped] Stopped
        [lost] Lost contact
       *[other] { $state }
    }
for-so-long = for { DURATION($lasted_s) }
simulated = simulated
simulated-gpu = simulated GPU
show = Show
hide = Hide
show-all = Show all
close = Close
cancel = Cancel
save = Save
trying-again = { $error }. Trying again.
trying-again-soon = { $error }. Trying again every few seconds.
could-not-be-loaded = Could not be loaded
choose-longer-range = Choose a longer range, or All.
no-steps-in-range = No steps in this range
not-known-in-range = Not known in this range
cuda-events-come-late = CUDA events tell it some steps later.
not-known-yet = Not known yet
not-watched = not watched any more
joined-by-comma = { $before }, { $next }
joined-by-semicolon = { $before }; { $next }
copy-text = Copy { $text }
copied-text = Copied { $text }
copy-failed = Could not copy; select it by hand: { $text }

## Heads of tables, which tiles and facts have as well

column-data-wait = Data wait
column-steps-per-s = Steps/s
column-step-time = Step
column-wait = Wait
column-now-in = Now in
column-state = State
column-gpu = GPU
column-epoch = Epoch
column-rank = Rank
column-worker = Worker
column-process = Process
column-sample = Sample
column-took = Took
column-load-alone = Load it alone

## Alerts

alerts-title = { $of ->
        [rank] Alerts of this rank
       *[run] Alerts
    }
alerts-counted = { $firing ->
        [0] { $all }, none firing
       *[other] { $firing } firing, { $all } in all
    }
alerts-none = No detector has found anything in this { $of ->
        [rank] rank
       *[run] run
    }.
alert-state = { $state ->
        [firing] Firing
        [acknowledged] Acknowledged
        [silenced] Silenced
        [resolved] Resolved
       *[other] { $state }
    }
alert-lost = <b>{ DURATION($lost_s) }</b> lost
alert-lasted = lasted { DURATION($lasted_s) }
alert-open-for = open for { DURATION($lasted_s) }
began-at = began { $when }
alert-ended-at = ended { $when }
alert-confidence = confidence { PERCENT($confidence_ratio) }
alert-silent-until = silent until { $when }
alert-why = Why
alert-advice = What to do
# $of: whether the share is of the whole run, or of the time while the finding lasts.
alert-gain = Mending it can give back at most <b>{ PERCENT($most_ratio) }</b> of the { $of ->
        [run] run
       *[finding] time while it lasts
    }.
acknowledge = Acknowledge
silence-for-an-hour = Silence for 1 h
open-rank = Open rank { $rank }
evidence = Evidence
finding-main-process = main process
finding-sample = sample { $sample }
finding-samples = { $samples ->
        [one] { COUNT($samples) }{ "\u00A0" }sample
       *[other] { COUNT($samples) }{ "\u00A0" }samples
    }
also-seen = Also seen, same cause
also-warned = warned { DURATION($before_s) } before · { $scenario }

## A hang

hang-card = { $is ->
        [recovering] What was frozen
       *[frozen] What is frozen
    }
hang-title = { $is ->
        [recovering] Recovered, watching
        [frozen] Frozen
       *[unheard] Frozen when last heard of
    }
hang-recovering = it goes on; it stood still from { $began }. This stays for a moment, lest it freezes again
hang-since = no progress since { $began }, <b>{ DURATION($lasted_s) }</b>
hang-until = no progress from { $began } until { $until }, <b>{ DURATION($lasted_s) }</b>
hang-open-rank = open
hang-process-state = state { $state }
hang-process-waits = in { $place }
hang-process-ended = not alive
hang-no-sample = no sample is being read
hang-load-alone = load it alone to see it again
hang-stuck-at = Stuck at
hang-no-stack = no stack yet
hang-in-function = in { $function }

## A sample alone, and the last fetches of a worker

script = Script
copy-the-script = Copy the script
copy-script-for-sample = Copy a script that loads it alone
script-for-sample = A script that loads dataset[{ $sample }] alone
script-for-sample-copied = Copied a script that loads dataset[{ $sample }] alone
sample-without-index = It cannot be loaded alone: its samples have no index.
copy-for-an-issue = Copy for an issue
stack-copied = Copied the stack as Markdown, with run and loader
last-fetches = Last fetches
last-fetches-of-worker = Last fetches of worker { $worker }
fetches-none = No fetch of this worker has ended yet.
fetches-that-ended = Last fetches of worker { $worker } that ended
fetch-began = Began
fetch-collate = of it collate
fetch-on-cpu = on a CPU
fetch-samples = Samples
fetch-slowest-sample = Slowest sample
fetch-slowest-took = dataset[{ $sample }], { DURATION($slow_s) }

## Attempts of a run

attempt-of = Attempt { $attempt } of { $attempts }
# $steps and $exit, what ended its process, may be unknown.
attempt-before = the one before { $state ->
        [lost] ended without a word
        [stopped] ended
        [finished] finished
        [crashed] crashed
       *[other] { $state }
    }{ KNOWN($steps) ->
        [yes] { " after " }{ steps-counted }
       *[no] { "" }
    }{ KNOWN($exit) ->
        [yes] : { $exit }
       *[no] { "" }
    }
attempt-newest = Attempt { $attempt }, the newest
attempt-choice = Attempt { $attempt }, { $state ->
        [lost] no news of its end
        [stopped] stopped
        [finished] finished
        [crashed] crashed
       *[other] { $state }
    }
attempts-of-run = Attempts of this run
to-the-newest = To the newest

## Advice on the configuration

audit-title = Configuration advice
# Each of $changes and $remarks may be 0.
audit-counted = { $changes ->
        [0] { $remarks ->
                [0] nothing to change
               *[other] { audit-remarks }
            }
       *[other] { audit-changes }{ $remarks ->
                [0] { "" }
               *[other] , { audit-remarks }
            }
    }
audit-changes = { $changes ->
        [one] { COUNT($changes) }{ "\u00A0" }thing to change
       *[other] { COUNT($changes) }{ "\u00A0" }things to change
    }
audit-remarks = { $remarks ->
        [one] { COUNT($remarks) }{ "\u00A0" }remark
       *[other] { COUNT($remarks) }{ "\u00A0" }remarks
    }
audit-nothing = Nothing to change
audit-nothing-why = Workers, memory, starting and sharding are configured sensibly.

## Epoch boundaries

boundaries-title = Epoch boundaries
# $rank is unknown in a run with one rank.
boundaries-about = what each epoch{ boundaries-of-rank } consisted of
boundaries-about-cost = { boundaries-about }; start, sampler, first batch and teardown cost { DURATION($cost_s) }{ KNOWN($run_s) ->
        [yes] { " " }of { DURATION($run_s) } ({ PERCENT($cost_ratio) })
       *[no] { "" }
    }
boundaries-of-rank = { KNOWN($rank) ->
        [yes] { " of rank " }{ $rank }
       *[no] { "" }
    }
epoch-part = { $part ->
        [start] Workers’ start
        [sampler] Sampler
        [first] First batch
        [steady] Steady
        [teardown] Teardown
       *[gap] Gap to the next
    }
epoch-part-took = { epoch-part } { DURATION($took_s) }
epoch-part-in-legend = { $part ->
        [start] workers’ start
        [sampler] sampler
        [first] first batch
        [teardown] teardown
       *[gap] gap to the next
    }
epoch-boundary = Boundary
epoch-goes-on = goes on
epoch-ended-by = { $by ->
        [break] left early
        [error] ended by an error
        [worker_died] ended by a worker's death
       *[left_after_death] left after a worker's death
    }
# $shown is unknown where all epochs are shown.
epochs-of-loader = { $epochs ->
        [one] { COUNT($epochs) }{ "\u00A0" }epoch
       *[other] { COUNT($epochs) }{ "\u00A0" }epochs
    }, cost { DURATION($cost_s) }{ KNOWN($shown) ->
        [yes] ; the newest { $shown } are shown
       *[no] { "" }
    }
epochs-show-first = Show { $number }
epochs-show-more = Show { $all ->
        [yes] all
       *[no] the newest
    } { $number }
loader-role = { $role ->
        [eval] evaluation
       *[train] training
    }
epochs-none = No epoch has begun
epochs-none-why = A row comes with each iter(loader) of a watched loader.
epoch-batches = { COUNT($batches) } batches
# How the epoch's iterator came to be; $workers is unknown where there are none.
epoch-workers-started = started{ KNOWN($workers) ->
        [yes] { " " }{ $workers }
       *[no] { "" }
    }
epoch-workers-reset = reset{ KNOWN($workers) ->
        [yes] { " " }{ $workers }
       *[no] { "" }
    }
epoch-batches-thrown-away = reset, { $batches } thrown away

## Two runs

compare-title = Two runs
compare-swap = Swap A and B
compare-impossible = These runs cannot be compared
all-runs = All runs
compared-run = Run { $which }
started-at = started { $when }
compared-for = { DURATION($compared_s) } compared
compare-sentence = In a sentence
settings-that-differ = Settings that differ
settings-none-differ = none that is known
setting-of = Of
setting = Setting
# Where a setting is: in a loader of this name, the process or the machine.
setting-where = { $where ->
        [process] process
        [machine] machine
       *[other] { $where }
    }
what-was-measured = What was measured
measured-about = means over time; the change from A to B with its 95 % interval
measure = Measure
measure-change = Change
change-in-points = { $points } points
change-interval = { $low } to { $high }
course-metric = { $metric ->
        [steps_per_s] Steps per second
       *[data_wait_ratio] Data wait
    }
course-of-both = { course-metric } of both runs
course-about = from each run's start on
course-lines = { course-metric }: A dashed, B solid

## Who waits for whom

coupling-title = { $is ->
        [standing] Who stands where
       *[going] Who waits for whom
    }
coupling-about = last { DURATION($span_s) }, mean of { $iterations ->
        [one] { COUNT($iterations) }{ "\u00A0" }iteration
       *[other] { COUNT($iterations) }{ "\u00A0" }iterations
    } that all ranks did{ $source ->
        [measured] , waits measured in DDP's collectives
        [durations] , waits from their durations
       *[none] { "" }
    }
own-data-wait = own data wait
own-work = own work
waits-for-other-ranks = waits for other ranks
# What the $late ranks need that the others wait for.
coupling-late = { $late ->
        [one] { $cause ->
                [data] waits { DURATION($takes_s) } for its data
               *[work] needs { DURATION($takes_s) } for its own work
            }
       *[other] { $cause ->
                [data] wait { DURATION($takes_s) } for their data
               *[work] need { DURATION($takes_s) } for their own work
            }
    }
# $phase is unknown where the $early ranks wait in none that is named.
coupling-early = { $early ->
        [one] waits
       *[other] wait
    }{ KNOWN($phase) ->
        [yes] { " in " }{ phase-name }
       *[no] { "" }
    }
coupling-wait = <b>{ DURATION($wait_s) }</b> of { DURATION($iteration_s) }
coupling-sentence = { ranks-named-first } { $number ->
        [one] waits
       *[other] wait
    } { DURATION($wait_s) } of each iteration for { $waited_for }
coupling-turns = The ranks wait { DURATION($wait_s) } of each iteration for others, now for one and now for another: their data or their work varies from
    batch to batch.
coupling-even = No rank waits for another for long.
coupling-apart = { $reason }. Who waits for whom cannot be told from durations.
coupling-unknown = { $reason }.
coupling-bar = { $is ->
        [late-data] data wait { DURATION($takes_s) }
        [late-work] own work { DURATION($takes_s) }
        [unmeasured] { DURATION($takes_s) } each
        [several] wait { DURATION($takes_s) } on average
       *[waiting] waits { DURATION($takes_s) }
    }
coupling-others = { COUNT($number) } others
coupling-parts = data wait { DURATION($data_s) }, own work { DURATION($own_s) }, waits for other ranks { DURATION($others_s) }
coupling-bar-label = { $name }: { coupling-parts }
coupling-bar-title = { coupling-parts }; { DURATION($iteration_s) } in all
standing-since = <b>{ DURATION($wait_s) }</b> { $going ->
        [yes] so far
       *[no] when last heard of
    }
standing-sentence = { ranks-named-first } { $number ->
        [one] waits
       *[other] wait
    } for { $waited_for }
standing-each-for-others = Each waits for the others: they are in different collectives.
stands-in = { $number ->
        [one] stands in { $place }
       *[other] stand in { $place }
    }
place-of-ranks = { $state ->
        [moving] goes on
        [ended] ended
        [crashed] crashed
       *[unknown] not heard of
    }
place-share = { PERCENT($share_ratio) }: { ranks-named }
places-left-out = { $places ->
        [one] { COUNT($places) }{ "\u00A0" }more group
       *[other] { COUNT($places) }{ "\u00A0" }more groups
    }; the stack of each rank is on its page.
collective-ends = The collective is given up in <b>{ DURATION($left_s) }</b> (timeout { DURATION($timeout_s) }); then the job dies.
collective-is-over = The collective should have been given up by now (timeout { DURATION($timeout_s) }).
collective-ended-unheard = When last heard of, the collective had { DURATION($left_s) } left until it is given up (timeout { DURATION($timeout_s) }).
collective-was-over = When last heard of, the collective should have been given up already (timeout { DURATION($timeout_s) }).
stack = Stack
stack-of-ranks = Stack of { ranks-named }

## Around the page: top bar, range of time, states of cards, keyboard

brand-link = loaderwatch, all runs
where-you-are = Where you are
runs = Runs
crumb-two-runs = two runs
zone-switch = { $utc ->
        [yes] Times in UTC; show your own zone (u)
       *[no] Times in your zone; show UTC (u)
    }
zone-now = Times in UTC, now { $zone }
attention-switch = { $on ->
        [yes] Notification and sound at an alert are on (n)
       *[no] Tell me of alerts: notification and sound (n)
    }
attention = Notification and sound at an alert
bar-theme = Theme: { $theme ->
        [auto] auto
        [dark] dark
       *[light] light
    } (t)
bar-theme-change = Theme: { $theme ->
        [auto] auto
        [dark] dark
       *[light] light
    }. Change
keyboard-help = Keyboard (?)
keyboard-shortcuts = Keyboard shortcuts
keyboard = Keyboard
run-not-found = Not found
run-was-deleted = Run deleted
signed-out = Signed out
no-connection = No connection
page-is-stale = Stale, { DURATION($age_s) } old
connecting = Connecting
paused = Paused
live = Live
up-to-date = Up to date
resume = Resume (space)
pause = Pause (space)
range-of-charts = Time range of all charts
range-last = { $going ->
        [yes] Last
       *[no] Show last
    }
range-span = { $span ->
        [300] 5 min
        [900] 15 min
        [3600] 1 h
       *[all] All
    }
range-back = Back (double click a chart)
range-hint = Drag over a chart to zoom all
open-alerts = { $alerts ->
        [0] No open alerts
        [one] { $alerts } open alert
       *[other] { $alerts } open alerts
    }
card-is-gone = gone
# $age_s is unknown where nothing was ever loaded.
card-is-stale = stale{ KNOWN($age_s) ->
        [yes] , { DURATION($age_s) }
       *[no] { "" }
    }
shortcut-keys = { $shortcut ->
        [list] j / k or ↓ / ↑
        [open] Enter
        [up] Esc or Backspace
        [ranks] { "[ / ]" }
        [ranges] 1 2 3 4
        [pause] Space
        [alerts] a
        [theme] t
        [zone] u
        [language] l
        [attention] n
       *[help] ?
    }
shortcut-does = { $shortcut ->
        [list] next, previous in a list
        [open] open
        [up] one page up
        [ranks] previous, next rank
        [ranges] last 5 min, 15 min, 1 h, all
        [pause] pause, resume
        [alerts] to the alerts
        [theme] theme: system, light, dark
        [zone] times in UTC, in your zone
        [language] language: English, 中文
        [attention] notification and sound at an alert: on, off
       *[help] this list
    }

## A page that can show nothing

you-are-signed-out = You are signed out
you-are-signed-out-why = The server has new tokens, or the session has ended, or another process answers at this address. Sign in with a token, or open
    the address that loaderwatch printed in the terminal.
token-needed = This page needs a token
token-needed-why = Open the address that loaderwatch printed in the terminal; it holds the token. The token is also in token.json in the server's
    data directory.
token = Token
sign-in = Sign in
no-such-attempt = There is no attempt { $attempt } of { $run }
attempts-had = It has had { attempts-counted }.
to-its-newest = To its newest
no-such-run = There is no run { $run } here
no-such-run-why = Its id is mistyped, or it was deleted, or it has outlived what this server keeps.
did-you-mean = Did you mean
page-run-deleted = This run was deleted on the server. What you see is its last picture.
page-no-answer = The server does not answer. Trying again every few seconds.

## GPUs

gpus-title = { KNOWN($host) ->
        [yes] GPUs of { $host }
       *[no] GPUs
    }
# $from and $to are unknown where all GPUs are shown, $hosts where they are of one host, $ago_s where they were looked at lately.
gpus-about = { KNOWN($from) ->
        [yes] { $from } to { $to } of { $gpus }
       *[no] { $gpus ->
                [one] { COUNT($gpus) }{ "\u00A0" }GPU
               *[other] { COUNT($gpus) }{ "\u00A0" }GPUs
            }
    }{ KNOWN($hosts) ->
        [yes] { " of " }{ $hosts } hosts
       *[no] { "" }
    }, means of five seconds{ KNOWN($ago_s) ->
        [yes] , { DURATION($ago_s) } ago
       *[no] { "" }
    }
gpus-none = No GPU is known
gpus-none-why = The streamer of this host has not reported its GPUs.
gpu-utilization-column = Utilization
gpu-memory-column = Memory
gpu-power-column = Power
gpu-clock-column = SM clock
gpu-temperature-column = Temperature
gpu-processes-column = Processes
gpu-number = GPU { $gpu }
gpu-of-ranks = GPU { $gpu }, { $number ->
        [one] rank { $ranks }
       *[other] ranks { $ranks }
    }
gpu-memory-of = { SIZE($used_bytes) } of { SIZE($total_bytes) }
gpu-power-limit = of { COUNT($limit_w) }{ "\u202F" }W
gpu-processes-none = none listed
gpu-processes-more = and { $number } more
# $name and $user are unknown where the host does not tell. $rank is unknown for a process that is not of the run.
gpu-process = { KNOWN($rank) ->
        [yes] rank { $rank }
       *[no] { KNOWN($name) ->
                [yes] { $name }
               *[no] another process
            }{ KNOWN($user) ->
                [yes] { " of " }{ $user }
               *[no] { "" }
            }
    }, pid { $pid }{ KNOWN($memory_bytes) ->
        [yes] : { SIZE($memory_bytes) }{ KNOWN($sm_ratio) ->
                [yes] , { gpu-process-time }
               *[no] { "" }
            }
       *[no] { KNOWN($sm_ratio) ->
                [yes] : { gpu-process-time }
               *[no] { "" }
            }
    }
gpu-process-time = { PERCENT($sm_ratio) } of the time

## Groups of ranks

groups-of-ranks = Groups of ranks
groups-ranks-column = Ranks
groups-what-they-do = What they do
group-ended = { $state ->
        [crashed] have crashed
        [finished] have finished
       *[lost] are silent
    }
group-differs = { $measure ->
        [data_wait_ratio] { $more ->
                [yes] wait more for data than most
               *[no] wait less for data than most
            }
        [step_s] { $more ->
                [yes] have longer steps than most
               *[no] have shorter steps than most
            }
       *[gpu_utilization_ratio] { $more ->
                [yes] use their GPU more than most
               *[no] use their GPU less than most
            }
    }
group-goes-on = { $as_most ->
        [yes] go on, as most do
       *[no] go on alike
    }
# $differs is unknown for ranks that differ in nothing else.
group-stands = stand in { phase-name } for { DURATION($age_s) }{ KNOWN($differs) ->
        [yes] , and { $differs }
       *[no] { "" }
    }
groups-left-out = { ranks-counted } in further groups.
groups-show-all = Show the ranks of all groups

## The heat map

heatmap-title = { $metric ->
        [data_wait_ratio] Who waits, and when
       *[other] { heat-metric }, by { heatmap-by } and time
    }
heatmap-label = Heat map of { heat-metric } by { heatmap-by } and time
heatmap-by = { $by ->
        [host] host
       *[rank] rank
    }
heatmap-one-rank = share of time in data wait
# $value: what is drawn. $low: whether the least is the worst. $drawn is unknown where all $rows are drawn.
heatmap-about = { $value ->
        [wait] share of time in data wait
        [share] share of time or capacity
        [number] its value
       *[unit] in { $unit }
    }, { $by ->
        [host] a row per host: the { $low ->
                [yes] least
               *[no] greatest
            } of its ranks
       *[rank] by rank
    }{ KNOWN($drawn) ->
        [yes] ; { COUNT($drawn) } of { COUNT($rows) } rows
       *[no] { "" }
    }; click a row to open { $by ->
        [host] its worst rank
       *[rank] the rank
    }
heatmap-what-is-drawn = What is drawn
heatmap-rows = Rows
heatmap-rows-by = { $by ->
        [host] by host
       *[rank] by rank
    }
heatmap-order = Order of the rows
heatmap-order-by = { $order ->
        [worst] worst first
       *[rank] by number
    }
heatmap-find = Find a rank or host
heatmap-no-row = No row matches
heatmap-no-row-why = No rank or host of this run is “{ $find }”.
heatmap-empty = Nothing in this range
heatmap-not-reported = This system does not report it, or not for these ranks.
heatmap-all-wait = { PERCENT($wait_ratio) } wait

## Name, tags and note of a run, and its end

delete-run-named = Delete { $name }
labels-of-run = Name, tags and note of { $name }
delete-this-run = Delete this run
labels = Name, tags and note
run-name = Name
run-tags = Tags, with commas between
run-tags-example = baseline, resnet50
run-note = Note
run-pinned = Pinned: first in the list, and kept however old it gets
delete-the-run = Delete the run…
labels-need-token = Changing this takes the owner's token.
delete-needs-token = Deleting takes the owner's token.
delete-while-reporting = It is reporting; end its processes before you delete it.
delete-loses = This is lost for good, with its file on the server:
delete-loses-records = { SIZE($records_bytes) } of records over { DURATION($recorded_s) }
delete-loses-alerts = { $alerts ->
        [one] { COUNT($alerts) }{ "\u00A0" }alert
       *[other] { COUNT($alerts) }{ "\u00A0" }alerts
    }
delete-loses-labels = its name, tags and note
delete-write-name = To delete it, write its name:
delete-for-good = Delete for good

## The pages of a run and of a rank

no-such-rank = There is no rank { $rank }
no-such-rank-why = This run has { ranks-counted }.
back-to-the-run = Back to the run
rank-process = { $host }, pid { $pid }
rank-epoch = epoch { $epoch }, batch { KNOWN($batch) ->
        [yes] { $batch }
       *[no] { "–" }
    }
rank-seen-at = seen { $when }
rank-previous = Previous rank ([)
rank-next = Next rank (])
processes-title = Processes now
processes-about = the training process and its DataLoader workers
processes-none = No process is known
processes-none-why = The streamer has not reported this rank's processes yet.
samples-title = Slowest samples
samples-about = over the whole run, one row per index
samples-none = No samples timed yet
samples-none-why = Iterable datasets and wrapped loaders have no index to name.
samples-show-first = Show { $number }
samples-show-all = Show all { $number }
steps-title = Where a step's time goes
# $rank is unknown in a run with one rank and on a rank's own page. $split: whether the phases of a step are timed.
steps-about = mean per step{ KNOWN($rank) ->
        [yes] { " of rank " }{ $rank }
       *[no] { "" }
    }{ $by_device ->
        [yes] , by the GPU's clock
       *[no] { "" }
    }{ in-buckets }{ $split ->
        [yes] { "" }
       *[no] { " · " }pass model= and optimizer= to attach() to see forward, backward and optimizer
    }
# $bucket_s is unknown before the data is there.
in-buckets = { KNOWN($bucket_s) ->
        [yes] , { DURATION($bucket_s) } buckets
       *[no] { "" }
    }
steps-label = Stacked bars over time: data wait, H2D copy, forward, backward, optimizer, other, waiting for other ranks
gpu-title = { $gpu ->
        [yes] GPU utilization
       *[no] Compute duty
    }
gpu-about = { $clock ->
        [simulated] follows the training process; not a real device
        [gpu] share of time a kernel ran, and power
       *[loop] share of time spent in the step, not waiting
    }
gpu-label = { $gpu ->
        [yes] GPU utilization and power over time
       *[no] Compute duty over time
    }
no-readings-in-range = No readings in this range
gaps-stay-gaps = Gaps in the readings stay gaps.
lanes-title = Worker lanes
# $newest is unknown where all fetches are shown.
lanes-about = each bar is one fetch{ KNOWN($newest) ->
        [yes] ; the newest { $newest } are shown
       *[no] { "" }
    }
lanes-held-up = held up by one sample
lanes-open-for-long = open for long
lanes-label = One lane per worker, one bar per fetch
lanes-none = No fetches in this range
lanes-none-why = Workers report when they fetch; wrapped loaders have none.
ready-title = Ready batches
# $most is unknown for a loader without workers.
ready-about = waiting unread when the loop asks for one{ KNOWN($most) ->
        [yes] ; the dotted line is the most there can be ({ $most })
       *[no] { "" }
    }
ready-label = Ready batches over time
ready-none = Not known for this loader
ready-none-why = Loaders without worker processes have no queue to look into.
headroom-title = Headroom of the GPU
headroom-about = how long it goes on without another batch
headroom-label = How long the GPU would go on without another batch, over time
counters-of-gpu = { $simulated ->
        [yes] GPU (simulated)
       *[no] GPU
    }
counters-of-machine = Machine and processes
counter-not-offered = Not offered by this system
stacks-title = Stacks
# $when is unknown where no stack was taken.
stacks-about = { KNOWN($when) ->
        [yes] newest of each process, taken { $when }
       *[no] of the training process and its workers
    }
stacks-take-now = Take stacks now
stacks-none = No stacks taken yet
stacks-none-why = They are taken by themselves when something is stuck, or a GPU swings within steps; or take them now, training does not stop.

## Ranks

ranks-title = Ranks
ranks-find = Find a rank
ranks-ready-column = Ready
ranks-step-column = At step
ranks-none-found = No rank of this run matches “{ $find }”: try a number, a host or a state.
# $detailed is unknown where all ranks are looked at in detail.
ranks-shown = { $total ->
        [0] none found
       *[other] { COUNT($from) } to { COUNT($to) } of { COUNT($total) }
    }{ KNOWN($detailed) ->
        [yes] ; { COUNT($detailed) } are looked at in detail
       *[no] { "" }
    }
page-previous = Previous { $of ->
        [gpus] GPUs
       *[ranks] ranks
    }
page-next = Next { $of ->
        [gpus] GPUs
       *[ranks] ranks
    }
rank-typed-unknown = There is no rank { KNOWN($typed) ->
        [yes] { $typed }
       *[no] of that name
    } in this run
charts-of = Charts of
# $rank is unknown while no rank is shown.
rank-shown = Shown: rank { $rank }. Type another number
rank-on-host = { $host } · pid { $pid }

## The list of runs

runs-not-up-to-date = Not up to date: { $error }. Trying again.
runs-could-not-be-loaded = The list of runs could not be loaded
runs-going-on = { runs-counted }, { $going ->
        [0] none going on
       *[other] { $going } going on
    }
runs-which = Which runs
runs-search = Search runs
runs-search-in = Search name, host, #tag, verdict
runs-sort = Sort
runs-sorted-by = { $by ->
        [seen] Last seen
        [trouble] Trouble first
        [name] Name
        [steps] Most steps
       *[newest] Newest
    }
runs-pick-another = { $name }: pick another run to compare it with
runs-compare = Compare { $a } with { $b }
runs-clear = Clear
runs-none-like-that = No run is like that
runs-in-all = { runs-counted } in all.
run-column = Run
verdict = Verdict
run-started-column = Started
run-seen-column = Last seen
run-attempt = attempt { $attempt }
run-on-hosts = { ranks-counted } on { $hosts }
run-compare = Compare with another run
run-compare-named = Compare { $name }
run-pin = { $pinned ->
        [yes] Pinned: first in the list, and kept for good
       *[no] Pin: first in the list, and kept for good
    }
run-pin-named = Pin { $name }
run-edit = Name, tags, note, delete
runs-none = No runs yet
runs-first-steps = Add two lines to a training script, below the line that makes its DataLoader, and start it on this machine:
runs-appear = The run appears here by itself within a second or two. On another machine set <code>LOADERWATCH_SERVER</code> to this address and
    <code>LOADERWATCH_TOKEN</code> to the agent token in <code>token.json</code> of the server's data folder.

## What holds the GPU's clock down, its starvation, and the speed

slowed-title = What holds the GPU’s clock down
slowed-about = share of the time, as its driver tells; a power cap is a limit that was set, and no fault
slowed-label = Reasons for which the GPU's clock was held down, over time
slowed-none = Nothing held its clock down in this range
slowed-none-why = Neither heat nor power supply, and no power cap.
slowed-not-told = The driver does not tell why the clock is held down.
starvation-title = GPU starved for data
starvation-about = share of time in which it had nothing to do because a batch was missing; the dotted line is where the verdict speaks
starvation-label = Share of time in which the GPU starved for data, over time
speed-title = Speed
# $rank is unknown in a run with one rank and on a rank's own page.
speed-about = training steps{ KNOWN($rank) ->
        [yes] { " of rank " }{ $rank }
       *[no] { "" }
    }, and the samples that were read for them{ in-buckets }; 0 while it stands
speed-label = Steps and samples per second over time, with settings, checkpoints, evaluation and alerts

## Stacks

# $worker is unknown for the training process.
stack-name = rank { $rank }, { KNOWN($worker) ->
        [yes] worker { $worker }
       *[no] training process
    } · pid { $pid }
stack-of = Stack of { stack-name }
stack-none = No stack came back.
# Why it was taken; other words say why there is none.
stack-why = { $why ->
        [open-span] open span
        [long-step] long step
        [requested] requested
        [GPU-idle] GPU idle
        [lock-wait] lock wait
        [wait-for-an-answer] wait for an answer
        [between-two-steps] between two steps
        [reader-at-work] reader at work
        [script-s-own-work] script's own work
        [longer-step] longer step
       *[other] { $said }
    }
stack-frames-in = { $frames } frames in { $packages }
stack-your-code = your code

## Processes and slow samples

process-role = training
process-gone = pid { $pid }, gone
process-os-state = { $state ->
        [R] running
        [S] sleeping
        [D] in uninterruptible I/O
        [T] stopped
        [t] traced
        [Z] zombie
        [I] idle
       *[other] { "" }
    }
process-system-state = System state
process-cpu = CPU
process-ram = RAM
process-threads = Threads
process-batches = Batches
sample-share-of-fetch = Of its fetch
sample-when = When

## What to take along

take-link = Copy link
take-link-about = The address of exactly this: range of time, rank and alert
take-report = Report
take-report-about = This page as one file that opens without a network
take-recording = Recording
take-recording-about = The newest hour of the run, for loaderwatch analyze FILE

## The head of a run, its verdict and its tiles

records-lost = { COUNT($records) } records lost
records-lost-about = These records fell out of a full buffer before they could be sent. Charts may have gaps; totals may be low.
ranks-not-watched = { ranks-counted } not watched any more
not-watched-about = After several faults of its own loaderwatch stepped aside there; training goes on. The job's stderr names the fault.
run-is-running = started { $when }, running for { DURATION($lasted_s) }
run-was-lost = started { $when }, last heard of { $until } ({ AGO($ago_s) })
run-has-ended = ran { DURATION($lasted_s) }, ended { $until } ({ AGO($ago_s) })
# $epochs is unknown where the framework does not say how many there will be.
progress-epoch = epoch { COUNT($epoch) }{ KNOWN($epochs) ->
        [yes] { " of " }{ COUNT($epochs) }
       *[no] { "" }
    }
progress-step = global step { COUNT($step) }
# What could not be timed, and what to do.
phases-missing = { $missing ->
        [optimizer] Forward, backward and optimizer are not timed: none of PyTorch's optimizers has stepped. Pass model= and optimizer= to
            loaderwatch.attach.
        [model] Forward and backward are not timed: no model that is trained was seen being called. Pass the module that the loop calls as model= to
            loaderwatch.attach, or call it outside of a compiled function.
        [many] Forward and backward are not timed: the loop calls too many modules side by side. Call them from one module, and pass that as model=
            to loaderwatch.attach.
       *[other] { "" }
    }
# $workers and $batch_size may be unknown.
loader-facts = { $name }{ KNOWN($workers) ->
        [yes] : { $workers ->
                [0] no workers
                [one] { COUNT($workers) }{ "\u00A0" }worker
               *[other] { COUNT($workers) }{ "\u00A0" }workers
            }{ KNOWN($batch_size) ->
                [yes] , batch { $batch_size }
               *[no] { "" }
            }
       *[no] { KNOWN($batch_size) ->
                [yes] : batch { $batch_size }
               *[no] { "" }
            }
    }
verdict-recovering = Recovered, watching whether it lasts. Before: { $title }
see-the-evidence = See the evidence
# By whose clock a number is.
clock-name = { $clock ->
        [device] GPU clock
        [nvml] NVML clock
        [loop] loop clock
       *[mixed] GPU and loop clock
    }
tile-lately = last 30 s, { clock-name }
tile-inside-steps = { tile-lately }; counts steps in full, and an alert finds { PERCENT($lost_ratio) } lost inside them
tile-without-gpu = { tile-lately }; no GPU readings
tile-gpu = GPU utilization
# $starved_ratio is unknown where no CUDA events are timed.
tile-gpu-of-run = last 30 s, { KNOWN($starved_ratio) ->
        [yes] { PERCENT($starved_ratio) } starved for data
       *[no] mean of ranks
    }
# $gpu is unknown where it is not known which one the rank uses.
tile-gpu-of-rank = last 30 s, { KNOWN($gpu) ->
        [yes] GPU { $gpu } on { $host }
       *[no] { $host }
    }
tile-duty = Compute duty
tile-speed = Speed
tile-speed-of-run = steps/s, last 30 s · { COUNT($steps) } in the run{ $eval_batches ->
        [0] { "" }
       *[other] , { COUNT($eval_batches) } eval batches
    }
# $step is unknown before the first step.
tile-speed-of-rank = steps/s, last 30 s{ KNOWN($step) ->
        [yes] { " · " }step { COUNT($step) }
       *[no] { "" }
    }
tile-goodput = Goodput
tile-lost = Time lost
# $lost_ratio is unknown where nothing is lost.
tile-lost-of-run = { KNOWN($lost_ratio) ->
        [yes] { PERCENT($lost_ratio) } of the run
       *[no] the run
    }, { clock-name }
tile-epochs = Epochs
# $batches is unknown for a loader without a length.
tile-epochs-begun = begun in the run{ KNOWN($batches) ->
        [yes] , { COUNT($batches) } batches each
       *[no] { "" }
    }
tile-step-after-wait = { tile-lately }, after { DURATION($wait_s) } of wait
tile-ready = Ready batches
tile-ready-about = unread when the loop last asked
tile-at-batch = at batch { COUNT($batch) }

## Other settings of a loader

whatif-title = Other loader settings
whatif-none = Nothing is predicted yet
whatif-none-why = It takes a training DataLoader, at least eight measured batches, and a loop that waits for what its workers do.
# $loader is unknown where there is only one. $best and $today are batches per second.
whatif-in-short = { KNOWN($loader) ->
        [yes] { $loader }:{ " " }
       *[no] { "" }
    }{ $gains ->
        [yes] num_workers={ $workers } gives about { $best } batches/s, today { $today } batches/s
       *[no] no number of workers gives more than today's { $today } batches/s
    }
whatif-speed = { $rate } batches/s
whatif-rate = Batches/s
whatif-range = Range
whatif-range-of = { $least } to { $most }
whatif-saved = Time saved
whatif-memory = Memory read ahead
whatif-option = Option
whatif-basis = What it rests on
# $cpus and $free_bytes are unknown where the host does not tell.
whatif-rests-on = { $loader }, rank { $rank }: played with its last { COUNT($batches) } batches ({ DURATION($fetch_s) } to read one, { DURATION($step_s) } a step){ KNOWN($cpus) ->
        [yes] , with { THREE_DIGITS($cpus) } CPUs to share
       *[no] { "" }
    }. It holds while storage gives more readers as much as it gives today's.{ KNOWN($free_bytes) ->
        [yes] { " " }{ SIZE($free_bytes) } are free in { whatif-place }.
       *[no] { "" }
    }
whatif-too-much = more than is free in { whatif-place }
whatif-place = { $free_in ->
        [memory] memory
       *[other] { $free_in }
    }
whatif-mark = { $mark ->
        [today] Today
        [knee] As good as any
       *[full] CPUs are full
    }: { THREE_DIGITS($workers) }
whatif-today = today
whatif-as-good = as good as any
# $per_epoch_s is unknown for what acts on each batch.
whatif-saves = { $saves ->
        [nothing] nothing
        [costs] costs up to { PERCENT($cost_ratio) }
        [about] { PERCENT($most_ratio) }{ whatif-of-an-epoch }
       *[range] { PERCENT($least_ratio) } to { PERCENT($most_ratio) }{ whatif-of-an-epoch }
    }
whatif-of-an-epoch = { KNOWN($per_epoch_s) ->
        [yes] , { DURATION($per_epoch_s) } of an epoch
       *[no] { "" }
    }

## Where the time of a part goes, by samples of stacks

profile-title = { $of ->
        [fetch] Where a fetch goes
        [step] Where a step goes
        [evaluation] Where an evaluation goes
       *[boundary] Where an epoch boundary goes
    }
profile-about = Stacks are sampled at random moments, mostly while time is lost.
profile-switch = Part of the training
profile-part = { $of ->
        [fetch] Fetch
        [step] Step
        [evaluation] Evaluation
       *[boundary] Epoch boundary
    }
profile-whole = { $of ->
        [fetch] a fetch
        [step] a step
        [evaluation] an evaluation
       *[boundary] an epoch boundary
    }
# The largest line. $calls is the library's function in which it usually is.
profile-in-short = { PERCENT($share_ratio) } of { profile-whole } goes to { $line } in { $function }{ KNOWN($calls) ->
        [yes] , mostly in { $calls }
       *[no] { "" }
    }.
profile-few = { $samples ->
        [one] Only { COUNT($samples) } sample so far.
       *[other] Only { COUNT($samples) } samples so far.
    }
profile-none = No samples of stacks in this range. They are taken while a rank loses time, and about once a minute otherwise.
profile-none-read = { $unread ->
        [one] { COUNT($unread) } sample was taken, but its stack could not be read.
       *[other] { COUNT($unread) } samples were taken, but no stack could be read.
    }
# $ranks and $number as in ranks-named.
profile-basis = { $samples ->
        [one] { COUNT($samples) } sample
       *[other] { COUNT($samples) } samples
    } of stacks at random moments, { ranks-named }{ KNOWN($from) ->
        [yes] , { $from } – { $to }
       *[no] { "" }
    }.
profile-unread = { PERCENT($unread_ratio) } of all samples are missing: their stack could not be read, or is a rare one.
profile-picture = Boxes of the sampled stacks. The table has the same content. Arrow keys go from box to box.
profile-box = { $name }{ KNOWN($where) ->
        [yes] { " " }{ $where }
       *[no] { "" }
    }: { PERCENT($share_ratio) }, { $states }
thread-state = { $state ->
        [running] computes
        [runnable] waits for a CPU
        [disk] waits for disk
        [network] waits for network
        [lock] waits for a lock
        [pipe] waits for a pipe
        [child] waits for a child process
        [timer] sleeps
       *[waiting] other waiting
    }
thread-state-share = { thread-state } { PERCENT($share_ratio) }
profile-line = Line
profile-share = { $interval ->
        [yes] Share, 95{ "\u00A0" }%{ "\u00A0" }interval
       *[no] Share
    }
profile-per = { $per ->
        [sample] Per sample
        [step] Per step
        [boundary] Per boundary
       *[batch] Per batch
    }
profile-without = without it: at most { THREE_DIGITS($times) }× as fast
profile-does = What it does
profile-calls = Mostly in
profile-own-code = its own code
profile-open = Show its { COUNT($functions) } functions
profile-merge = Merge { $module }
profile-share-of = { PERCENT($share_ratio) } of { profile-whole }: { $states }.
profile-stack-samples = { COUNT($samples) } of { COUNT($all) } samples ({ PERCENT($share_ratio) })
profile-no-stack = Its stacks are not among the most frequent ones.
profile-show-all = Show all { COUNT($number) } lines
profile-show-first = Show the first { COUNT($number) }
profile-hint = Click a box or a line for its frames.
profile-rarer = { $stacks ->
        [one] { COUNT($stacks) } other stack is rarer.
       *[other] { COUNT($stacks) } other stacks are rarer.
    }
