### Titles about data waits, which the causes of the waits-*.ftl files share, and waits of several ranks.

# The loader's name is known only where the loop takes batches from several.
from-loader = { KNOWN($loader) ->
        [yes] { " from " }{ $loader }
       *[no] { "" }
    }
loses-of-its-time = { $who ->
        [training] loses { PERCENT($share_ratio) } of its
        [one] loses { PERCENT($share_ratio) } of its
       *[several] lose up to { PERCENT($share_ratio) } of their
    } time
waits-for-data = { who } { loses-of-its-time } waiting for data{ from-loader } { measured }: { $because }.
waits-between-steps = { who } { loses-of-its-time } between two steps { measured }: { $because }.
lost-waiting = { who } lost { DURATION($lost_s) } waiting for data{ from-loader }: { $because }.

# One rank waits for data, and the others for it. $because, $why and $do are those of the rank's own wait.
straggler-waits-for-data =
    .title = Rank { $rank } waits { DURATION($wait_s) } for data{ from-loader } in each iteration, and { $waiting ->
            [1] rank { $other_rank } waits
           *[other] the other { $waiting } ranks wait
        } for rank { $rank }: { $because }.
    .cause = All ranks take { DURATION($iteration_s) } per iteration, but only rank { $rank } spends it waiting for data ({ PERCENT($share_ratio) }).
        { $waiting ->
            [1] Rank { $other_rank } spends
           *[other] The others spend
        } { DURATION($others_wait_s) } of it{ $place ->
            [unknown] { "" }
           *[other] { " in " }{ $place }
        } waiting for rank { $rank } ({ $measured ->
            [yes] measured in DDP's own collectives
           *[no] by the durations of all ranks
        }). { $why }
    .advice = Mend rank { $rank } on { $host }{ KNOWN($next_rank) ->
            [yes] , and rank { $next_rank } with it
           *[no] { "" }
        }. { $do }
# $supply_s is how long the workers of $next_rank need for a batch, all together.
next-straggler =
    .cause = Behind it, rank { $next_rank } is too slow as well, which does not show while it waits: its workers need { DURATION($supply_s) } per batch.

# $receivers is how many waits of the other ranks there are: one for each loader that they wait for.
one-rank-reads-for-all =
    .title = { who } { $receivers ->
            [1] loses { PERCENT($share_ratio) } of its
           *[other] lose up to { PERCENT($share_ratio) } of their
        } time waiting for data { measured }: rank { $reader } alone reads for all { $world } ranks.
    .cause = Rank { $reader } reads the batches of all { $world } ranks and sends them around; each rank waits { DURATION($wait_s) } for its own, where a step
        takes { DURATION($step_s) }.{ KNOWN($workers) ->
            [yes] { " " }It has { $workers ->
                    [one] { $workers } worker
                   *[other] { $workers } workers
                }; the other ranks have none.
           *[no] { "" }
        } This gets slower with every rank added.
    .advice = Let each rank read its own part: dispatch_batches=False in Accelerate (DataLoaderConfiguration), with split_dataset_by_node for an iterable
        dataset and a number of shards that is a multiple of { $world }; or a DistributedSampler on every rank. More workers on rank { $reader } only move
        the limit.
