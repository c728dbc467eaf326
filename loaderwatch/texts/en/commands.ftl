### The help of the command line. A command's message is what the list of commands says of it; its part "about" is the description,
### and its other parts are the help of its arguments, by their names.

usage = usage:
options = options
positional-arguments = positional arguments

# Arguments that several commands have.
command-arguments =
    .help = show this help message and exit
    .version = show program's version number and exit
    .which = a run's id, a run's name (its newest run), a .duckdb file or an .lwrec file
    .data-dir = where runs are kept (default LOADERWATCH_DIR)
    .module = the target is a module's name
    .arguments = the script's own
    .timeout = how long the script may take to come to its training loader (default 120)

command =
    .about = Live diagnosis of PyTorch input-pipeline stalls.
command-serve = show the page and take in what training jobs send
    .about = loaderwatch serve: the server of the page.
    .host = address to listen on (default 127.0.0.1: this machine only)
    .port = port (default { $default_port }, or a free one when that is taken; 0: any free one)
    .token = a token that may do everything, beside the three in DIR/token.json (default LOADERWATCH_TOKEN)
    .no-auth = let everyone in who can reach the port: only behind your own gate
    .allow-host = another name people or trainers use for this server; may repeat
    .public-url = address to write into alerts, when people reach the page by another one than this machine's
    .ssl-certfile = serve over TLS with this certificate (PEM, with the chain up to a CA after it)
    .ssl-keyfile = its private key (PEM, not encrypted)
    .notify = send the alerts of all runs there (an Apprise URL: Slack, e-mail, webhook, …); may repeat (default LOADERWATCH_NOTIFY,
        else the notify key of DIR/config.toml; other users see this option in ps)
    .store = keep runs in ClickHouse, clickhouse://user@host:8123/database (clickhouses:// for TLS), password from
        { $password_variable } or ?password_file=PATH (default: DuckDB files in DIR)
    .advertise = address other servers use for this server
    .retain-days = delete runs that nobody has sent to for N days (default: keep)
    .hang-after = the least time without any progress that counts as a hang (default 30)
    .resume = go on as the server of this directory that was killed was asked to (a training job that misses its server does so);
        the other options count when there was none
    .idle-hours = leave when no run has reported and nobody has looked for N hours (default: stay; a server that a run starts:
        LOADERWATCH_IDLE_HOURS, or { PLAIN($idle_hours) }); 0: stay
command-stop = end the server that shows the page
    .about = Ends the server of this machine's data directory, whoever started it, and waits until it is gone. What was recorded stays;
        the next run, or loaderwatch serve, starts a server again, with the same tokens.
    .force = even while a run is reporting, which will start another server within a minute
# $acts are the names of the demo's acts.
command-demo = a guided demo on this machine, no GPU needed
    .about = Train a small CNN on two ranks, let it go wrong in six ways, and watch the page say why. Takes about three minutes; no GPU
        needed.
    .fast = shorter acts, about a minute
    .acts = only these: { $acts }
    .port = the page's port (default { $default_port }, or a free one)
    .data-dir = keep images, logs and the run there (default: LOADERWATCH_DIR/demo, else a folder that is removed at the end)
    .open = open the page in the browser
    .keep = leave the page up after the training until Ctrl-C
    .exit = the same as --no-keep
command-run = run a script with every DataLoader attached, without changing it
    .about = Runs a script, module or command with every DataLoader attached from its first iteration on, as loaderwatch.attach() does.
        A command (after --) may be any launcher: torchrun, accelerate, srun, a shell script. The exit code is the script's own.
    .name = the run's name (LOADERWATCH_RUN)
    .redact = replace paths, arguments and messages before anything leaves this host (LOADERWATCH_REDACT)
    .on-alert = a shell command for each alert, which it gets as JSON on its standard input
    .restart-on-hang = end a job that hangs, and start the same command again, N times at most
    .after = how long a hang must last for that: 30s, 10m (default), 2h
    .restart-pause = the pause before the first restart (default 10s); it doubles each time, up to 10m
    .keep-output = show the last 20 lines of stdout and stderr with a crash, where they go to a file
    .cached-batches = read N batches, then train with those again and again: the speed with a perfect loader
command-runs = list the runs that are known here
    .about = loaderwatch runs: the runs that are known here.
    .json = print JSON instead of a table
    .server = only which server is up, and until when (with --json: null if none is)
command-analyze = print what the detectors find in a run
    .about = loaderwatch analyze: what the detectors find in a run, live or over.
    .attempt = of a run that was started again under its name, the Nth time; the newest if not given
    .hang-after = judge a stored run or a recording anew, by this limit (see serve); a server judges by its own
    .redact = as for export; of a run that a server serves, its last hour
    .what-if = also say what other settings of its loaders would give, played with what was measured last
    .json = print the findings as the API gives them; with --what-if the settings instead
command-compare = print what changed from one run to another
    .about = Compares run B with run A over the whole of each but its beginning: what changed in the configuration, and what in speed,
        waits and epoch boundaries, each with a 95 % interval and whether that is more than noise. Measures: { $measures }.
    .a = { command-arguments.which }
    .b = { command-arguments.which }
    .fail-if = exit with 1 when it holds: 'data_wait_ratio > 0.1' of B, 'steps_per_s.change < -5%' of B against A (only where that is more
        than noise); may be repeated, and what is not known fails
    .json = print the comparison as the API gives it
command-stacks = take the stacks of a run's processes now, or show in which lines its lost time goes
    .about = Asks the streamers of a run for stacks now, waits until they have come, and prints those of each training process and
        DataLoader worker, the most recent call first. Training is not stopped. A server of another machine does this for the owner's
        token (LOADERWATCH_PAGE_TOKEN). With --profile, prints in which lines the lost time goes, from stacks that were sampled during
        the run.
    .which = a run's id, or a run's name (its newest run); with --profile also a .duckdb or .lwrec file
    .rank = only this rank's processes
    .within = how long to wait for a process to answer (default 10)
    .profile = show the lines with the most samples, what they wait for, and the time per sample or batch
    .of = the part of the training for --profile (default: the one that lost the most time)
    .format = write the profile's stacks for flame graphs instead: collapsed (flamegraph.pl) or speedscope (www.speedscope.app)
    .output = write them to this file instead of standard output
    .json = print the profile as the API gives it
command-export = write the newest part of a run to a file
    .about = loaderwatch export: the newest part of a run as one small file, to show it to somebody else. loaderwatch analyze FILE reads
        it. It holds what the page shows: script, arguments, paths, host names and stacks; with --redact these are replaced, and what
        stays are numbers, line numbers, and names of functions and classes.
    .file = what to write, e.g. stalled.lwrec
    .redact = replace paths, arguments, messages, and the names of hosts and of the run
    .last = how much of its end (default 600; of a run that a server serves, 3600 at most)
    .whole = all of a run that is over, to move it: loaderwatch import
command-import = bring recorded runs into the store
    .about = loaderwatch import: recorded runs, each as a whole, into the store of the server that is up, or into the data directory. It
        takes what loaderwatch export and the page's download of a recording write (.lwrec), and the .duckdb files that a server without
        --store keeps. A run that is there already is left as it is.
    .files = an .lwrec or .duckdb file, a folder of such files, or a pattern such as 'runs/*.duckdb'
command-doctor = audit the configuration of a script before it trains, or of a run
    .about = Audits a configuration. Of a SCRIPT: runs it, without training, up to the first batch of its training loader, reads a few
        samples as a worker would, and says what will cost time, fail or hang. Of a RUN (its id or name): the same from what is known of
        it. Exit code 0: nothing to change; 1: a warning or worse, or the script failed; 2: wrong usage.
    .ranks = run the script as N ranks on this machine, with torchrun's environment
    .json = print the advice as JSON
command-tune = try out settings of a script's loader, without training
    .about = Runs SCRIPT, without training, up to the first batch of its training loader. Reads that loader with several numbers of
        workers and prefetch factors, and prints the smallest setting that keeps the device fed, with its memory. Ctrl-C prints what is
        known so far. Exit code 0: a setting was found; 1: none; 2: wrong usage.
    .seconds = about how long it may take, of which half at least is for trials (default 60)
    .step-ms = what a training step takes; without it the fastest setting is sought, which may be more than is needed
    .apply-env = let the next loaderwatch run of the same script start with the setting that was found, once
    .json = print trials and advice as JSON
command-notify = try out the addresses that are told of alerts
    .about = loaderwatch notify test: sends one message to each address that would be told of alerts.
command-notify-test = send one message to each address
    .about = Sends one message to each address: those given here, else those of LOADERWATCH_NOTIFY, else those of the notify key in
        DIR/config.toml. Quiet hours and severities do not count. Exit code: 0 if all were delivered, 1 if one was not, 2 if an address
        or the file cannot be used, or there is none.
    .addresses = an Apprise URL (other users see it in ps; the variable and the file they do not)
command-config = show each setting and where its value comes from
    .about = loaderwatch config: the value of each setting, and where the value comes from.
    .json = print JSON instead of a table
command-rules = list every cause that a finding can name
    .about = loaderwatch rules: every cause that a finding can name. With a RULE also its thresholds, and the findings that it explains.
    .rules = a rule ("too-few-workers"), a family ("input-bound") or a scenario ("S02")
    .thresholds = print every threshold of the detectors with its unit and source, also those of no single rule
    .json = print JSON with thresholds and explanations
command-token = the tokens of a server
    .about = loaderwatch token rotate: new tokens for the server of a data directory.
command-token-rotate = write new tokens; a server that runs takes them up and refuses the old ones at once
    .about = Write new tokens. A server that runs takes them up and refuses the old ones: every browser has to be signed in anew. Training
        jobs on this machine go on by themselves; others need the new agent token.
