### Ranks that wait for each other and make no progress.
### $waiting are the ranks that wait in $place, $waits how many they are; $gone are those that they wait for, $leaves how many these are.
### A place is the message rank-place, except for $places.

ranks-wait-for-others = { $waits ->
        [one] rank { $waiting } waits
       *[other] ranks { $waiting } wait
    } for { $leaves ->
        [one] rank { $gone }
       *[other] ranks { $gone }
    }

## Where ranks stand

# $place: what is known of it. A "call" is a collective with the user's line that called it, at $at; of a "loader", $at is the worker's line.
rank-place = { $place ->
        [call] `{ collective-name }` at { $at }
        [collective] { $collective ->
                [buffer-sync] the forward pass's buffer sync
               *[other] { $collective }
            }
        [line] { $at }
        [loader] { loader-call }{ KNOWN($at) ->
                [yes] { " " }(worker at { $at })
               *[no] { "" }
            }
        [ended] a process that has exited
        [exit] Python's exit (waiting for threads and child processes)
        [outside] code outside the training loop
       *[phase] its { $phase }
    }
collective-name = { $collective ->
        [buffer-sync] buffer sync
       *[other] { $collective }
    }
loader-call = { $phase ->
        [iter] iter({ hang-loader })
        [teardown] the end of an epoch of { hang-loader }
       *[next] next({ hang-loader })
    }
# Where ranks stand, in a list: as rank-place, and what else is known of a rank.
place-label = { $place ->
        [crashed] crashed
        [ended] ended
        [unknown] not heard of
        [moving] goes on
        [loader] { loader-call }
       *[other] { rank-place }
    }
place-line = { $of_worker ->
        [yes] worker at { $line }
       *[no] { $line }
    }
place-with-line = { place-label } ({ $line })
# Who stands where is one of ranks-stand, or several of them joined by next-place and last-place. $at_line: whether $place is a line of code.
ranks-stand = { $at_line ->
        [yes] { hang-ranks } ({ $place })
       *[no] { hang-ranks } in { $place }
    }
next-place = { $place }, { $after }
last-place = { $place } and { $after }
more-places = { $number } more
# $number is how many ranks these are.
ranks-without-stack =
    .cause = No stack of { hang-ranks } could be taken, so { $number ->
        [one] its line
       *[other] their lines
    } of code { $number ->
        [one] is
       *[other] are
    } not known.
gpu-blocked-in-collective =
    .cause = The GPU shows { WHOLE($utilization_percent) }% utilization but draws only { WHOLE($power_w) } of { WHOLE($power_limit_w) } W: it is
        blocked in a collective, not computing.

## What the flight recorders say

# $waiting and $apart are ranks. $instead is what the latter did, unknown where they did nothing. An entry is flight-entry.
flight-recorder-names-collective =
    .cause = PyTorch's flight recorder: { $waiting } called collective { $collective } of { $group }, { $entry }; { $apart } { KNOWN($instead) ->
            [yes] called { $instead } instead
           *[no] never called it
        }.
flight-entry = { $what }{ KNOWN($at) ->
        [yes] { " " }({ $at })
       *[no] { "" }
    }
flight-recorder-is-off =
    .advice = Set { flight-recorder-switches }, so that loaderwatch can name the collective in the next hang.

## Ranks have left an epoch, and others wait for them

# $left_place is where one of those stands that have left, $at_line whether that is a line of code. $ended: its process has ended.
left-stands-there = { $at_line ->
        [yes] at { $left_place }
       *[no] in { $left_place }
    }
epoch-begun-without-others = { $leaves ->
        [one] Rank { $gone } left the loop after epoch { $left_epoch } and { $ended ->
            [yes] has exited
           *[no] is { left-stands-there }
        }
       *[other] Ranks { $gone } left the loop after epoch { $left_epoch } and { $ended ->
            [yes] have exited
           *[no] are { left-stands-there }
        }
    }; { ranks-wait-for-others } in epoch { $epoch }, in { $place }.
nobody-will-come =
    .cause = { nobody-comes }
nobody-comes = No other rank will join this collective, so the ranks wait until it times out.
# $rank is in batch $batch of $epoch and has $batches, or more where $or_more; $left_rank ended $left_epoch after $left_batches.
unequal-batches-per-rank =
    .title = Rank { $rank } has { $or_more ->
            [yes] { $batches } or more batches
           *[no] { $batches } batches
        } in epoch { $epoch }, rank { $left_rank } only { $left_batches }: { ranks-wait-for-others } in { $place }.
    .cause = Every step needs all ranks, but the ranks have different numbers of batches. Rank { $rank } is in batch { $batch } of epoch
        { $epoch }; rank { $left_rank } ended epoch { $left_epoch } after { $left_batches } batches and { $ended ->
            [yes] has exited
           *[no] is now { left-stands-there }
        }. { nobody-comes }
    .advice = Give every rank the same number of batches: DistributedSampler with drop_last=True, or equal shards for an IterableDataset. Or wrap
        the loop in `with torch.distributed.algorithms.join.Join([model])`. Do not skip or filter batches on one rank only.

## Ranks in different places

# $places is who stands where, unknown where that is not known of any rank.
ranks-in-different-places = For { DURATION($age_s) } the ranks have waited for each other in different places{ KNOWN($places) ->
        [yes] : { $places }
       *[no] { "" }
    }.
unequal-forward-passes =
    .cause = The ranks ran different numbers of forward passes. DistributedDataParallel copies rank 0's buffers (BatchNorm statistics) to all ranks
        in every forward pass that follows one with gradients. The usual reason is validation through the wrapped model on one rank only, or
        with unequal batches.
    .advice = Call model.module(x) instead of model(x) in validation, under torch.no_grad(), on all ranks or on none. { $option } disables
        these copies.
ranks-in-different-collectives =
    .cause = { ways-differ } Usual reasons: one rank skipped a batch, or a branch depends on data of one rank.
    .advice = Decide such branches on all ranks together (all_reduce a flag). Set TORCH_DISTRIBUTED_DEBUG=DETAIL to see which collective differs.
ways-differ = The ranks ran different branches of the code, so their collectives do not match.
# What was seen of the causes below: "epochs" where one rank left after as many batches as the others, and these began another epoch.
ranks-part = { $seen ->
        [epochs] Before that, all ranks had the same number of batches.
       *[ways] { ways-differ }
    }
rank-destroys-its-group =
    .cause = { ranks-part } One rank is already in destroy_process_group: it left the loop by an error, a `return` or a `break`.
    .advice = Read that rank's stderr for a traceback, and let an error end the process immediately. If there is no error, decide on all ranks
        together when the loop ends: all_reduce the loss.
rank-left-the-loop =
    .cause = { ranks-part } Each rank decided alone when to leave the loop: by its own loss (early stopping), a time limit or a file.
    .advice = Decide it once for all ranks: all_reduce the loss, or broadcast rank 0's decision, before the loop ends or goes on.
checkpoint-by-one-rank =
    .cause = { ranks-part } Only one rank called a collective while it saved a checkpoint.
    .advice = Move that collective out of `if rank == 0`: all ranks must call it, and also state_dict() of a sharded model. Only the file is written
        by one rank.
evaluation-by-one-rank =
    .cause = { ranks-part } Only one rank called a collective during an evaluation.
    .advice = Evaluate on all ranks, or on one rank without any collective: model.module(x) instead of model(x), and metrics that are not
        synchronised.
data-preparation-by-one-rank =
    .cause = { ranks-part } Only one rank called a collective in code that prepares data.
    .advice = Build the data on one rank before a barrier that all ranks call: `if rank == 0: build()`, then dist.barrier(), then all ranks read the
        data.
report-by-one-rank =
    .cause = { ranks-part } Only one rank called a collective in code that reports results.
    .advice = Reduce metrics on all ranks, and write the result on one rank only.
collective-by-one-rank =
    .cause = { ranks-part } Only one rank called this collective: some ranks skip a branch of the loop.
    .advice = Call that collective on all ranks or on none. Move it out of `if rank == 0`, or out of the branch that depends on local data.
        If the ranks must decide, all_reduce a flag first.
model-branches-differ =
    .cause = { ranks-part } The ranks ran different branches of the model, so the collectives of their forward and backward passes do not match.
    .advice = { same-layers-everywhere }
same-layers-everywhere = Use the same layers on all ranks in each step. If that is not possible, set find_unused_parameters=True in
    DistributedDataParallel. TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters without a gradient.

## All ranks in one place

ranks-stand-still = { who } have made no progress in { $place } for { DURATION($age_s) }.
collective-never-completes =
    .cause = { never-completes }
    .advice = Check the network between the ranks. Read the logs of all ranks for a lost connection or a dead process. With NCCL, set NCCL_DEBUG=INFO
        for the next run: each rank then logs its connections and their errors.
backward-never-completes =
    .cause = { never-completes } Another possible reason: the ranks ran different branches of the model, so their collectives do not match.
    .advice = { same-layers-everywhere }
never-completes = All ranks are in the collective, but it does not complete. Possible reasons are the network between the ranks or a dead process.
# $at is a line of code, unknown where none is known.
all-ranks-send =
    .title = { all-on-one-side }: none of them receives.
    .cause = { took-the-same-side }
    .advice = { pair-sends }
all-ranks-receive =
    .title = { all-on-one-side }: none of them sends.
    .cause = { took-the-same-side }
    .advice = { pair-sends }
all-on-one-side = { who } have made no progress in { $place } for { DURATION($age_s) }{ KNOWN($at) ->
        [yes] , at { $at }
       *[no] { "" }
    }
took-the-same-side = A send returns when its partner receives, and a recv returns when its partner sends. Here all ranks do the same. Typically
    each rank decides by itself who sends and who receives.
pair-sends = Decide on one rank who sends, and broadcast the decision. Or decide by the rank number, if both ranks could send.
    torch.distributed.batch_isend_irecv pairs sends and receives in both directions.

## A rank that is gone

# $how is how its process ended, unknown where that is.
crashed-title = Rank { $gone } crashed{ KNOWN($how) ->
        [yes] { " " }({ $how })
       *[no] { "" }
    }; { ranks-wait-for-others } in { $place }.
crashed-cause = Rank { $gone } has died; the other ranks wait for it in a collective until the collective times out.
others-wait-for-crashed-rank =
    .title = { crashed-title }
    .cause = { crashed-cause }
    .advice = Stop the job: it cannot continue. Then find out why rank { $gone } on { $host } died; its last steps are on its page.
rank-crashed-on-unused-parameters =
    .title = { crashed-title }
    .cause = { crashed-cause }
    .advice = { same-layers-everywhere }
others-wait-for-ended-rank =
    .title = { $leaves ->
            [one] Rank { $gone } has
           *[other] Ranks { $gone } have
        } exited; { ranks-wait-for-others } in { $place }.
    .cause = { $leaves ->
            [one] Rank { $gone } has
           *[other] Ranks { $gone } have
        } exited without an error. The other ranks wait in a collective until it times out.
    .advice = Call the same collectives on all ranks up to the end of the script. Call dist.barrier() and then dist.destroy_process_group() on every
        rank, so that no rank exits before the others.

## One rank is elsewhere

# $gone is that rank, and $odd_place where it is; $stuck: whether it does not get on; $seen: whether a stack shows where it is.
# $because is why, unknown where nobody knows.
others-wait-for-one = Rank { $gone } has been { $stuck ->
        [yes] { "stuck " }
       *[no] { "" }
    }{ $seen ->
        [yes] at
       *[no] in
    } { $odd_place } for { DURATION($age_s) }{ KNOWN($because) ->
        [yes] , { $because }
       *[no] { "" }
    }; { ranks-wait-for-others } in { $place }.
one-rank-does-other-things =
    .cause = Rank { $rank } runs other code than the other ranks, which wait for it in a collective.{ $moves ->
            [nothing] { " " }Rank { $rank } uses no CPU and makes no progress.
            [polls] { " " }Rank { $rank } hardly uses any CPU: it sleeps or polls.
           *[unknown] { "" }
        }
save-of-one-rank-hangs =
    .advice = { save-where-it-answers }
# $polls: whether it hardly uses any CPU, and so may wait for something itself.
bound-that-wait = { $polls ->
        [yes] Give the wait of this rank a timeout that raises an error, in case it waits for a file, a server or another job that never comes.{ " " }
       *[no] { "" }
    }
others-wait-for-checkpoint =
    .advice = { bound-that-wait }Write the checkpoint on one rank while the other ranks continue: use torch.distributed.checkpoint.async_save, or copy
        the state to host memory and write it in a thread.
others-wait-for-evaluation =
    .advice = { bound-that-wait }Split the evaluation over all ranks (DistributedSampler), or evaluate saved checkpoints in a separate job.
others-wait-for-data-preparation =
    .advice = { bound-that-wait }Prepare the data in a separate job before training, so that no rank waits. A longer timeout of
        init_process_group only prevents the abort: the other ranks still wait.
others-wait-for-long-work =
    .advice = { bound-that-wait }Do long work of a single rank before training or in another process, so that the other ranks do not wait. A longer
        timeout of init_process_group only prevents the abort: the other ranks still wait.
