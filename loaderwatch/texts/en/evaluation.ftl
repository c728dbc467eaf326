### Evaluation that waits for its data or takes much of the run, and samples that took longer than sample_timeout.
### $loader is the loader's name.

# $rank is unknown in a run with one rank.
evaluation-of = { KNOWN($rank) ->
        [yes] Rank { $rank }: evaluation
       *[no] Evaluation
    }

# $because, $cause and $advice are those of what keeps the loader waiting, a cause that a training loader may have as well.
evaluation-waits =
    .title = { evaluation-of } waits for data { PERCENT($wait_ratio) } of its time, { PERCENT($run_ratio) } of the run ({ $loader }):
        { $because }.
    .cause = { $passes ->
            [one] { $passes } evaluation
           *[other] { $passes } evaluations
        } took { DURATION($evaluating_s) } so far; the loop waited { DURATION($lost_s) } of that for { $loader }. Training stops
        during an evaluation; the training loader is diagnosed separately. { $cause }
    .advice = Change the evaluation loader { $loader }: { PER_BATCH($advice) }

evaluation-workers-restart =
    .because = each evaluation restarts { workers-of-evaluation } and waits { DURATION($each_s) } for the first batch
    .cause = { PERCENT($start_ratio) } of the wait is iter(loader) and the first batch of each evaluation. Its
        { workers-of-evaluation } start, import the dataset's modules, and end with the evaluation.
    .advice = Set persistent_workers=True, and keep the DataLoader instead of building it for every evaluation. If an evaluation has
        only a few batches, use fewer workers: they start faster.
workers-of-evaluation = { $workers ->
        [one] { $workers } worker
       *[other] { $workers } workers
    }

evaluation-computes =
    .title = { evaluation-of } takes { PERCENT($run_ratio) } of the run ({ $loader }): { $passes ->
            [one] { $passes } evaluation of { DURATION($each_s) }
           *[other] { $passes } evaluations of { DURATION($each_s) } each
        }.
    .cause = Evaluation waits for data { PERCENT($wait_ratio) } of that time; the rest is computation. Training stops during an evaluation.
    .advice = Evaluate less often, on fewer samples, or on a checkpoint in another process, if this time is not intended. If the evaluation
        generates text, limit its length, keep the key-value cache, and check that generation stops at the end token.

## Samples that took too long

# $rank is unknown in a run with one rank, $loader that of a loader without a name. $readers are the workers that read the samples,
# $timeout is sample_timeout as code has it, $skipped are those of the $samples that were left out of their batches.
sample-timeout =
    .title = { KNOWN($rank) ->
            [yes] Rank { $rank }:{ " " }
           *[no] { "" }
        }{ KNOWN($loader) ->
            [yes] { $loader }
           *[no] a loader
        } { $outcome ->
            [left-out] left out
           *[gave-up] gave up
        } { $samples ->
            [one] { $samples } sample
           *[other] { $samples } samples
        } that took longer than { DURATION($limit_s) }{ KNOWN($which) ->
            [yes] : { $which }
           *[no] { "" }
        }.
    .cause = attach(sample_timeout={ $timeout }) interrupted them; they were read{ $reading ->
            [one] { " by worker " }{ $readers }
            [several] { " by workers " }{ $readers }
           *[loop] { "" }
        }. { $outcome ->
            [left-out] Their batches were delivered without them, so the model has not seen them.
           *[gave-up] { $skipped ->
                [one] { $skipped } sample was
               *[other] { $skipped } samples were
            } left out, the others raised SampleTimeout.
        }
    .advice = Look in the job's log for the line of each slow sample. Read such a sample alone, and repair or remove it. If it only
        needs more time, raise sample_timeout.
sample-seen = { $sample } ({ $times } times)
and-more = { $number } more
# A list that is longer than others: $others is what follows the first.
longer-list = { $first }, { $others }
