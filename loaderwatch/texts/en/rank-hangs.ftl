### Ranks that wait for each other and do not get on.
### $waiting are the ranks that wait in $place, $waits how many they are; $gone are those that they wait for, $leaves how many these are.
### A place is the message rank-place, except for $places.

rank-waits = { $waits ->
        [one] Rank { $waiting } waits
       *[other] Ranks { $waiting } wait
    }
gone-have = { $leaves ->
        [one] rank { $gone }, which has
       *[other] ranks { $gone }, which have
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
        [ended] its end
        [exit] the end of Python, which waits for its threads and children
        [outside] code outside the loop
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
    .cause = No stack of { hang-ranks } could be taken, so the line is not known.
gpu-blocked-in-collective =
    .cause = The GPU shows { WHOLE($utilization_percent) }% utilization but draws only { WHOLE($power_w) } of { WHOLE($power_limit_w) } W: it is
        blocked in a collective, not computing.

## What the flight recorders say

# $waiting and $apart are ranks. $instead is what the latter did, unknown where they did nothing. An entry is flight-entry.
flight-recorder-names-collective =
    .cause = PyTorch's flight recorder: collective { $collective } of { $group } is { $entry } on { $waiting }; { $apart } { KNOWN($instead) ->
            [yes] did { $instead } instead
           *[no] never came to it
        }.
flight-entry = { $what }{ KNOWN($at) ->
        [yes] { " " }({ $at })
       *[no] { "" }
    }
flight-recorder-is-off =
    .advice = So that the next hang names the collective: { flight-recorder-switches }.

## Ranks have left an epoch, and others wait for them

# $left_place is where one of those stands that have left, $at_line whether that is a line of code.
left-stands-there = { $at_line ->
        [yes] at { $left_place }
       *[no] in { $left_place }
    }
epoch-begun-without-others = { $waits ->
        [one] Rank { $waiting } has begun epoch { $epoch } and waits
       *[other] Ranks { $waiting } have begun epoch { $epoch } and wait
    } in { $place } for { gone-have } not: { $leaves ->
        [one] it left after epoch { $left_epoch } and { $ended ->
            [yes] has ended
           *[no] stands { left-stands-there }
        }
       *[other] they left after epoch { $left_epoch } and { $ended ->
            [yes] have ended
           *[no] stand { left-stands-there }
        }
    }.
nobody-will-come =
    .cause = { nobody-comes }
nobody-comes = Nobody will come until the collective times out.
# $rank is in batch $batch of $epoch and has $batches, or more where $or_more; $left_rank ended $left_epoch after $left_batches.
unequal-batches-per-rank =
    .title = Rank { $rank } has { $or_more ->
            [yes] { $batches } or more batches
           *[no] { $batches } batches
        } in epoch { $epoch }, rank { $left_rank } has { $left_batches }: { $waits ->
            [one] rank { $rank } waits
           *[other] ranks { $waiting } wait
        } in { $place } for { gone-have } left the epoch.
    .cause = Every step needs all ranks, but they do not have the same number of batches. Rank { $rank } is in batch { $batch } of epoch { $epoch };
        rank { $left_rank } ended epoch { $left_epoch } after { $left_batches } and now stands { left-stands-there }. { nobody-comes }
    .advice = Give every rank the same number of batches: DistributedSampler with drop_last=True, equal shards for an IterableDataset, or wrap the
        loop in `with torch.distributed.algorithms.join.Join([model])`. Do not skip or filter batches on one rank only.

## Ranks in different places

# $places is who stands where, unknown where that is not known of any rank.
ranks-in-different-places = The ranks wait for each other in different places{ KNOWN($places) ->
        [yes] : { $places }
       *[no] { "" }
    }, for { DURATION($age_s) }.
unequal-forward-passes =
    .cause = DistributedDataParallel copies rank 0's buffers (BatchNorm statistics) to all ranks in every forward pass that follows one with
        gradients. The ranks did not run the same number of those forward passes, which happens when validation goes through the wrapped model on
        one rank only or with unequal batches.
    .advice = In validation call model.module(x) instead of model(x), under torch.no_grad(), and on all ranks or on none. { $option } turns the
        copies off altogether.
ranks-in-different-collectives =
    .cause = { ways-differ } A batch was skipped on one rank, or a branch depends on data that only it has.
    .advice = Make such decisions on all ranks together (all_reduce a flag), and set TORCH_DISTRIBUTED_DEBUG=DETAIL to see which collective differs.
ways-differ = The ranks took different ways through the code, so their collectives do not match.
# What was seen of the causes below: "epochs" where one rank left after as many batches as the others, and these began another epoch.
ranks-part = { $seen ->
        [epochs] Until then the ranks had the same number of batches.
       *[ways] { ways-differ }
    }
rank-destroys-its-group =
    .cause = { ranks-part } One rank already takes down its process group: an error, a `return` or a `break` took it out of the loop.
    .advice = Read that rank's stderr for a traceback, and let an error end the process at once. Without an error, decide on all ranks together
        when the loop ends: all_reduce the loss.
rank-left-the-loop =
    .cause = { ranks-part } Whether the loop goes on was decided on each rank alone: by its own loss (early stopping), a limit of time, or a file.
    .advice = Decide it once for all ranks: all_reduce the loss, or broadcast rank 0's decision, before the loop ends or goes on.
checkpoint-by-one-rank =
    .cause = { ranks-part } One rank alone came to a collective in code that saves a checkpoint.
    .advice = Take that collective out of `if rank == 0`: all ranks call it, and state_dict() of a sharded model, too. Only writing the file
        belongs to one rank.
evaluation-by-one-rank =
    .cause = { ranks-part } One rank alone came to a collective in an evaluation.
    .advice = Let all ranks evaluate, or let one do so without any collective: model.module(x) instead of model(x), and metrics that are not
        synchronised.
data-preparation-by-one-rank =
    .cause = { ranks-part } One rank alone came to a collective in code that prepares data.
    .advice = Let one rank build it before a barrier that all ranks call: `if rank == 0: build()`, then dist.barrier(), and then all ranks read it.
report-by-one-rank =
    .cause = { ranks-part } One rank alone came to a collective in code that reports.
    .advice = Reduce metrics on all ranks, and let one rank only write the result.
collective-by-one-rank =
    .cause = { ranks-part } One rank alone came to this collective: a branch of the loop is taken on some ranks only.
    .advice = Let all ranks come to that collective, or none: take it out of `if rank == 0`, or of the branch that depends on local data. Where
        ranks must decide, all_reduce a flag first.
model-branches-differ =
    .cause = { ranks-part } The ranks took different branches of the model, so the collectives in their passes do not match.
    .advice = { same-layers-everywhere }
same-layers-everywhere = Use the same layers on all ranks in each step. Where that cannot be, set find_unused_parameters=True in
    DistributedDataParallel; TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters that got no gradient.

## All ranks in one place

ranks-stand-still = { who } have stood still in { $place } for { DURATION($age_s) }.
collective-never-completes =
    .cause = { never-completes }
    .advice = Look at the network between the ranks, and read the logs of all ranks: one may tell of a lost connection or a dead process. With NCCL,
        set NCCL_DEBUG=INFO for the next run: each rank then logs its connections and their errors.
backward-never-completes =
    .cause = { never-completes } Or: the ranks took different branches of the model, so the collectives in their passes do not match.
    .advice = { same-layers-everywhere }
never-completes = A collective does not complete although all ranks are in it: the network between them, or a partner that died.
# $at is a line of code, unknown where none is known.
all-ranks-send =
    .title = { all-on-one-side }: none of them receives.
    .cause = { took-the-same-side }
    .advice = { pair-sends }
all-ranks-receive =
    .title = { all-on-one-side }: none of them sends.
    .cause = { took-the-same-side }
    .advice = { pair-sends }
all-on-one-side = { who } have stood still in { $place } for { DURATION($age_s) }{ KNOWN($at) ->
        [yes] , at { $at }
       *[no] { "" }
    }
took-the-same-side = A send returns when its partner receives, and a recv when its partner sends. Here all ranks took the same side, as where each
    decides by itself who gives and who takes.
pair-sends = Decide it on one rank and broadcast it, or by the number of the rank where both could do the same (as in a tie);
    torch.distributed.batch_isend_irecv pairs exchanges in both directions.

## A rank that is gone

# $how is how its process ended, unknown where that is.
crashed-title = { rank-waits } in { $place } for rank { $gone }, which crashed{ KNOWN($how) ->
        [yes] { " " }({ $how })
       *[no] { "" }
    }.
crashed-cause = Rank { $gone } is gone; the others sit in a collective with it until that times out.
others-wait-for-crashed-rank =
    .title = { crashed-title }
    .cause = { crashed-cause }
    .advice = Find out why rank { $gone } on { $host } died; its last steps are on its page. Stop the job: it cannot go on.
rank-crashed-on-unused-parameters =
    .title = { crashed-title }
    .cause = { crashed-cause }
    .advice = { same-layers-everywhere }
others-wait-for-ended-rank =
    .title = { rank-waits } in { $place } for { gone-have } ended.
    .cause = { $leaves ->
            [one] Rank { $gone } has
           *[other] Ranks { $gone } have
        } ended without an error and will not come; the others sit in a collective until that times out.
    .advice = Let all ranks take part in the same collectives up to the last, and let no rank leave before the others: dist.barrier(), then
        dist.destroy_process_group(), on every rank.

## One rank is elsewhere

# $gone is that rank, and $odd_place where it is; $stuck: whether it does not get on; $seen: whether a stack shows where it is.
# $because is why, unknown where nobody knows.
others-wait-for-one = { rank-waits } in { $place } for rank { $gone }, which has { $stuck ->
        [yes] been stuck
       *[no] been
    } { $seen ->
        [yes] at
       *[no] in
    } { $odd_place } for { DURATION($age_s) }{ KNOWN($because) ->
        [yes] , { $because }
       *[no] { "" }
    }.
one-rank-does-other-things =
    .cause = Rank { $rank } does something the others do not, while they wait for it in a collective.{ $moves ->
            [nothing] { " " }It uses no CPU and nothing of it moves.
            [polls] { " " }It hardly uses any CPU: it sleeps or polls there.
           *[unknown] { "" }
        }
save-of-one-rank-hangs =
    .advice = { save-where-it-answers }
# $polls: whether it hardly uses any CPU, and so may wait for something itself.
bound-that-wait = { $polls ->
        [yes] If it waits there for what may never come (a file, a server, another job), give that wait a limit and let it end with an error.{ " " }
       *[no] { "" }
    }
others-wait-for-checkpoint =
    .advice = { bound-that-wait }Let one rank write the checkpoint while the others train on: torch.distributed.checkpoint.async_save, or a copy in
        host memory that a thread writes.
others-wait-for-evaluation =
    .advice = { bound-that-wait }Split the evaluation among all ranks (DistributedSampler), or evaluate saved checkpoints in a job of its own.
others-wait-for-data-preparation =
    .advice = { bound-that-wait }Build it in a job of its own before training, so that no rank waits for it. A longer timeout of
        init_process_group only keeps the job alive meanwhile.
others-wait-for-long-work =
    .advice = { bound-that-wait }Do long work of a single rank before training or in another process, and let the others not wait for it: a longer
        timeout of init_process_group only keeps the job alive meanwhile.
