### Parts of sentences that several messages share.

# $rank is unknown in a run with one rank.
on-rank = { KNOWN($rank) ->
        [yes] { " on rank " }{ $rank }
       *[no] { "" }
    }
of-rank = { KNOWN($rank) ->
        [yes] { " of rank " }{ $rank }
       *[no] { "" }
    }

# Who a sentence is about, as its subject; the verb that follows chooses its form by $who as well.
who = { $who ->
        [training] Training
        [one] Rank { $ranks }
        [both] Both ranks
        [all] All { $world } ranks
       *[several] Ranks { $ranks }
    }
# Over what time a share was measured, as an aside.
measured = (over { ROUGHLY($elapsed_s) })
# A sample's name: its index in a dataset, or in a stream its place in what its worker read.
sample-name = { $stream ->
        [yes] stream sample { $sample }
       *[no] dataset[{ $sample }]
    }


# The class of the dataset; unknown where nothing is known of it.
dataset-name = { KNOWN($dataset) ->
        [yes] { $dataset }
       *[no] the dataset
    }
# A sentence for advice that raises a loader's workers, see detect/iterable_datasets.py. $copies is how often each row comes today.
split-first = { $split ->
        [unknown] { " " }First check that __iter__ splits the data by torch.utils.data.get_worker_info(). Without a split each worker of an
            IterableDataset reads all samples, and every sample comes once per worker.
        [missing] { " " }First split the samples by torch.utils.data.get_worker_info() in __iter__. Nothing in { dataset-name } does this, so { $copies ->
                [1] every sample would come once per worker
               *[other] every sample already comes { $copies } times, and the steps count all copies
            }.
       *[not-needed] { "" }
    }
# The environment variables that make PyTorch write dumps when a NCCL collective times out.
flight-recorder-switches = TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE=/some/folder/rank_ in the job's environment
    (TORCH_NCCL_TRACE_BUFFER_SIZE and TORCH_NCCL_DEBUG_INFO_TEMP_FILE in older versions of PyTorch)
# A line of code, as stacks name it.
code-line = { $file }:{ $line } in { $function }
# What a process waits for that another process or machine gives.
awaited = { $awaited ->
        [child] a child process
        [pipe] a pipe
        [network] the network
       *[answer] an answer
    }
# What to do about waits for another process or machine, within a step or between two.
need-no-answer = Move this call to a background thread, make it less often, or send many items per call. Logs, metrics and uploads need no
    answer before the next step. Keep connections open and give each a timeout. If a step needs the answer (an environment, a service),
    request the next answer before you use this one.
# $worker is unknown where the training thread reads.
found-at-work =
    .cause = { KNOWN($worker) ->
            [yes] Worker { $worker }
           *[no] The training thread
        } was running { $line } (see its stack).
# What to do about a thread that holds the interpreter.
work-in-another-process = Move that work to another process (ProcessPoolExecutor, multiprocessing), or use code that releases the GIL
    (NumPy, PyTorch, a compiled library). Doing the work less often also helps; more threads do not.
# What a process does, as loaderwatch names it.
phase-name = { $phase }

## What the profile adds: the line with most samples ($at), and the library function that it calls. $state is what the thread does there most often.

sampled-line =
    .cause = { PERCENT($share_ratio) } of { sampled-part } is at { $at }{ KNOWN($calls) ->
            [yes] , in { $calls }
           *[no] { "" }
        }: { PERCENT($state_ratio) } { sampled-state } ({ $samples } samples).
sampled-part = { $part ->
        [fetch] the fetch time
        [evaluation] the evaluation's own time
        [boundary] the time between epochs
       *[step] the loop's own time
    }
sampled-state = { $state ->
        [running] running
        [runnable] waiting for a CPU
        [disk] waiting for a disk
        [network] waiting for a socket
        [lock] waiting for a lock
        [pipe] waiting for a pipe
        [child] waiting for a child process
        [timer] sleeping
       *[waiting] waiting
    }
# $meaning and $advice are a known cost's, see known-costs.ftl.
sampled-known-cost =
    .cause = { $meaning } It takes { PERCENT($share_ratio) } of { sampled-part }.
    .advice = { $advice }
