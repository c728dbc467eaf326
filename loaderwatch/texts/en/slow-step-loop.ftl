### What makes steps slow that is not the data loader: what the loop does besides the model's work.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1. Others are counts and names.

# $line is the line of the script that it was found at lately, where that is known.
loop-lately-at = { KNOWN($line) ->
        [yes] , lately at { $line }
       *[no] { "" }
    }

## In each step the loop waits for another process or machine

# $looks are looks at the training process, of which $lost_ratio found it waiting, in $steps different steps.
# $lost_s is how long it waits in an iteration, which takes $iteration_s.
answers-awaited-in-steps =
    .title = { who } loses { PERCENT($lost_ratio) } of its time { measured } to waiting for { awaited }{ KNOWN($line) ->
            [yes] , at { $line }
           *[no] , in its own code
        }: about { DURATION($lost_s) } of the { DURATION($iteration_s) } of an iteration; the data loader is not the cause.
    .cause = In { PERCENT($lost_ratio) } of { $looks } looks the training process had its batch and stood still until another process or machine
        answered, in { $steps } different steps.
    .advice = { need-no-answer }

## In each step the script does work of its own

# $script_s is how long the script works so in a step, which takes $step_s.
data-made-in-loop =
    .title = { who } loses { PERCENT($lost_ratio) } of its time { measured } to making data in the training loop{ loop-lately-at }:
        { DURATION($script_s) } of { DURATION($step_s) }.
    .cause = The line makes what the model is called with. Meanwhile the loop is neither in the model nor in the optimizer, and no worker makes
        the data ahead.
    .advice = Let others make the data while the model works: move that code into a Dataset and iterate a DataLoader with num_workers, or fill a
        queue from a background process.

script-work-in-steps =
    .title = { who } loses { PERCENT($lost_ratio) } of its time { measured } to work of the script's own in every step{ loop-lately-at }:
        { DURATION($script_s) } of { DURATION($step_s) }; the data loader is not the cause.
    .cause = That part of a step is neither in the model nor in the optimizer, and its stacks end in the script's own code.
    .advice = Do it with tensors, on part of the batch, every few steps, or in the workers. If it is part of the loss, it is the model's.

# What may well be the loss.
code-beside-model =
    .title = { who } spends { PERCENT($lost_ratio) } of its time { measured } in its own code beside the model, as in a loss{ loop-lately-at }:
        { DURATION($script_s) } of { DURATION($step_s) }; the data loader is not the cause.
    .cause = That part of a step is neither in the model nor in the optimizer. Most of its stacks end in PyTorch's functions or in a sleep, as
        those of a loss do.
    .advice = A loss is part of the training's work. If it is none, do it on part of the batch or every few steps.

## The optimizer

# A step of the optimizer took $quick_s, $since_s ago, and takes $optimizer_s now; a whole step takes $step_s.
optimizer-slowed-down =
    .title = { who } loses { PERCENT($lost_ratio) } of its time to an optimizer whose step takes longer than it did{ loop-lately-at }:
        { DURATION($quick_s) } { DURATION($since_s) } ago, { DURATION($optimizer_s) } now, while the model's pass hardly does; the data loader is
        not the cause.
    .cause = A step takes { DURATION($step_s) } now. What the optimizer's part of it costs follows from its parameters, whatever the batch: it
        takes longer for more of them, or on a CPU for numbers so near to zero that it computes them slowly (denormals).
    .advice = Call torch.set_flush_denormal(True) at the start of the script: averages of parameters that get no gradient any more, such as rows
        of an embedding, fade into denormals. Otherwise look for parameters that are added again and again.
