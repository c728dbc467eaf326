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
measured = (measured over { ROUGHLY($elapsed_s) })
# A sample's name: its index in a dataset, or in a stream its place in what its worker read.
sample-name = { $stream ->
        [yes] sample { $sample } of its stream
       *[no] dataset[{ $sample }]
    }


# The class of the dataset; unknown where nothing is known of it.
dataset-name = { KNOWN($dataset) ->
        [yes] { $dataset }
       *[no] the dataset
    }
# A sentence for advice that raises a loader's workers, see detect/iterable_datasets.py. $copies is how often each row comes today.
split-first = { $split ->
        [unknown] { " " }Each worker of an IterableDataset reads all of it unless __iter__ splits it by torch.utils.data.get_worker_info(): without
            that every row would come once per worker.
        [missing] { " " }First split the rows by torch.utils.data.get_worker_info() in __iter__: nothing in { dataset-name } does that, so { $copies ->
                [1] every row would come once per worker
               *[other] every row comes { $copies } times already, and the steps count all of them
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
need-no-answer = Do it on a background thread, less often, or many at once: logs, metrics and uploads need no answer before the next step. Keep
    connections open and give each a timeout. Of environments or services that a step needs, ask for the next answer before this one is used.
# $worker is unknown where the training thread reads.
found-at-work =
    .cause = { KNOWN($worker) ->
            [yes] Worker { $worker }
           *[no] The training thread
        } was found at work at { $line }, see its stack.
# What to do about a thread that holds the interpreter.
work-in-another-process = Do that work in a process of its own (ProcessPoolExecutor, multiprocessing), or with code that lets go of the interpreter
    (NumPy, PyTorch, a compiled library). Fewer or shorter runs of it help as well; more threads do not.
# What a process does, as loaderwatch names it.
phase-name = { $phase }
