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
            [one] { $passes } evaluation pass
           *[other] { $passes } evaluation passes
        } took { DURATION($evaluating_s) } so far; { DURATION($lost_s) } of that { $loader } kept the loop waiting. Training stands
        still meanwhile, and its own loader is judged apart. { $cause }
    .advice = For { $loader }, the evaluation loader: { PER_BATCH($advice) }

evaluation-workers-restart =
    .because = each pass starts { workers-of-evaluation } anew and waits { DURATION($each_s) } for the first batch
    .cause = { PERCENT($start_ratio) } of the waiting is in iter(loader) and for the first batch of a pass: its
        { workers-of-evaluation } are started, import what the dataset needs, and end with the pass.
    .advice = Set persistent_workers=True, and keep the DataLoader instead of building it for every evaluation. Where a pass has
        few batches, fewer workers start sooner.
workers-of-evaluation = { $workers ->
        [one] { $workers } worker
       *[other] { $workers } workers
    }

evaluation-computes =
    .title = { evaluation-of } takes { PERCENT($run_ratio) } of the run ({ $loader }): { DURATION($each_s) } in each of { $passes ->
            [one] { $passes } pass
           *[other] { $passes } passes
        }.
    .cause = It waits for data { PERCENT($wait_ratio) } of that time; the rest is its own work, in which training stands still.
    .advice = If so much is not meant: evaluate less often or on fewer samples, or on a checkpoint in a process of its own. Where it
        generates text, bound the length, keep the cache of keys and values, and see that it ends at its end token.

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
            [left-out] Their batches came without them, so the model has not seen them.
           *[gave-up] { $skipped ->
                [one] { $skipped } sample was
               *[other] { $skipped } samples were
            } left out, the others raised SampleTimeout.
        }
    .advice = The job's log names the line at which each stood. Read such a sample alone, and repair or remove it; if it only
        needs longer, raise sample_timeout.
sample-seen = { $sample } ({ $times } times)
and-more = { $number } more
# A list that is longer than others: $others is what follows the first.
longer-list = { $first }, { $others }
