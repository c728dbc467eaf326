### What makes steps slow that is not the data loader: what the loop does besides the model's work.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1. Others are counts and names.

# $line is the line of the script that it was found at, where that is known.
loop-lately-at = { KNOWN($line) ->
        [yes] , seen at { $line }
       *[no] { "" }
    }

## In each step the loop waits for another process or machine

# $looks are looks at the training process, of which $lost_ratio found it waiting, in $steps different steps.
# $lost_s is how long it waits in an iteration, which takes $iteration_s.
answers-awaited-in-steps =
    .title = { who } waits for { awaited } { PERCENT($lost_ratio) } of the time { measured }{ KNOWN($line) ->
            [yes] , at { $line }
           *[no] , in its own code
        }: { DURATION($lost_s) } of each { DURATION($iteration_s) } iteration; not the data loader.
    .cause = In { PERCENT($lost_ratio) } of { $looks } stack checks ({ $steps } different steps) the training process already had its batch and
        waited for another
        process or machine.
    .advice = { need-no-answer }

## In each step the script does work of its own

# $script_s is how long the script works so in a step, which takes $step_s.
data-made-in-loop =
    .title = { who } loses { PERCENT($lost_ratio) } of the time { measured } to making data in the training loop{ loop-lately-at }:
        { DURATION($script_s) } of each { DURATION($step_s) } step.
    .cause = This line makes the model's input. Meanwhile neither the model nor the optimizer works, and no worker prepares data.
    .advice = Move that code into a Dataset and iterate a DataLoader with num_workers, or fill a queue from a background process. The data is then
        made while
        the model works.

script-work-in-steps =
    .title = { who } loses { PERCENT($lost_ratio) } of the time { measured } to script code{ loop-lately-at }: { DURATION($script_s) } of each
        { DURATION($step_s) } step; not the data loader.
    .cause = This code is neither in the model nor in the optimizer, and it runs in every step. Its stacks end in the script.
    .advice = Do this work with tensors, on part of the batch, every few steps, or in the workers. Ignore this if the work belongs to the loss.

# What may well be the loss.
code-beside-model =
    .title = { who } spends { PERCENT($lost_ratio) } of the time { measured } outside the model (such as in a loss){ loop-lately-at }:
        { DURATION($script_s) } of each { DURATION($step_s) } step; not the data loader.
    .cause = This code is neither in the model nor in the optimizer. Most stacks end in PyTorch functions or in a sleep, which is typical of a loss.
    .advice = Ignore this if the code is the loss. Otherwise run it on part of the batch or every few steps.

## The optimizer

# A step of the optimizer took $quick_s, $since_s ago, and takes $optimizer_s now; a whole step takes $step_s.
optimizer-slowed-down =
    .title = { who } loses { PERCENT($lost_ratio) } of the time to a slower optimizer: { DURATION($quick_s) } → { DURATION($optimizer_s) } per
        step in { DURATION($since_s) }{ loop-lately-at }; not the data loader.
    .cause = A step takes { DURATION($step_s) } now; the model's pass has hardly become slower. The optimizer's time depends on its
        parameters, not on the batch. It grows with more parameters, or, on a CPU, with numbers very close to zero (denormals), which are
        slow to compute.
    .advice = Call torch.set_flush_denormal(True) at the start of the script. Averages of parameters without a gradient (such as unused
        embedding rows) shrink to denormals. Otherwise look for parameters that are added again and again.
