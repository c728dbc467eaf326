### Titles about data waits, which the causes of the waits-*.ftl files share, and waits of several ranks.

# The loader's name is known only where the loop takes batches from several.
from-loader = { KNOWN($loader) ->
        [yes] { " from " }{ $loader }
       *[no] { "" }
    }
# The share of the time over which it was measured.
loses-of-its-time = { $who ->
        [training] { PERCENT($share_ratio) }
        [one] { PERCENT($share_ratio) }
       *[several] up to { PERCENT($share_ratio) }
    } of { ROUGHLY($elapsed_s) }
waits-or-wait = { $who ->
        [training] waits
        [one] waits
       *[several] wait
    }
waits-for-data = { who } { waits-or-wait } for data{ from-loader } ({ loses-of-its-time }): { $because }.
waits-between-steps = { who } { $who ->
        [training] spends
        [one] spends
       *[several] spend
    } { loses-of-its-time } between two steps: { $because }.
lost-waiting = { who } lost { DURATION($lost_s) } waiting for data{ from-loader }: { $because }.

# One rank waits for data, and the others for it. $because, $why and $do are those of the rank's own wait.
straggler-waits-for-data =
    .title = Rank { $rank } waits { DURATION($wait_s) } per iteration for data{ from-loader }, and { $waiting ->
            [1] rank { $other_rank } waits
           *[other] { $waiting } other ranks wait
        } for rank { $rank }: { $because }.
    .cause = An iteration takes { DURATION($iteration_s) } on all ranks, but only rank { $rank } waits for data: { PERCENT($share_ratio) } of that time.
        { $waiting ->
            [1] Rank { $other_rank } waits
           *[other] The other ranks wait
        } for rank { $rank }{ $place ->
            [unknown] { "" }
           *[other] { " in " }{ $place }
        }, { DURATION($others_wait_s) } per iteration ({ $measured ->
            [yes] measured in DDP's collectives
           *[no] computed from the durations of all ranks
        }). { $why }
    .advice = Fix rank { $rank } on { $host }{ KNOWN($next_rank) ->
            [yes] , and rank { $next_rank } as well
           *[no] { "" }
        }. { $do }
# $supply_s is how long the workers of $next_rank need for a batch, all together.
next-straggler =
    .cause = Rank { $next_rank } is too slow as well: its workers need { DURATION($supply_s) } per batch. This does not show while rank { $next_rank }
        waits for another rank.

# $receivers is how many waits of the other ranks there are: one for each loader that they wait for.
one-rank-reads-for-all =
    .title = { who } { $receivers ->
            [1] waits for data ({ PERCENT($share_ratio) }
           *[other] wait for data (up to { PERCENT($share_ratio) }
        } of { ROUGHLY($elapsed_s) }): rank { $reader } alone reads for all { $world } ranks.
    .cause = Rank { $reader } reads the batches of all { $world } ranks and sends them to the others. Each rank waits { DURATION($wait_s) } for its batch, and
        a step takes { DURATION($step_s) }.{ KNOWN($workers) ->
            [yes] { " " }Rank { $reader } has { $workers ->
                    [one] { $workers } worker
                   *[other] { $workers } workers
                }; the other ranks have none.
           *[no] { "" }
        } Every additional rank makes this slower.
    .advice = Let each rank read its own part. In Accelerate set dispatch_batches=False (DataLoaderConfiguration). Split an iterable dataset with
        split_dataset_by_node, into a number of shards that is a multiple of { $world }. Or use a DistributedSampler on every rank. More workers on
        rank { $reader } do not solve this.
