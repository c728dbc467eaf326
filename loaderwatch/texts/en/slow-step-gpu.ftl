### What makes steps slow that is not the data loader: copies to the GPU, and the GPU itself.
### Parameters end with their unit: _s seconds, _bytes bytes, _ratio a share from 0 to 1, _hz a frequency, _c degrees
### Celsius. Others are counts and names.

## Copies of batches to the GPU

# $copy_s is how long a copy takes, $before_model_s all from a batch's arrival to the model's first call, of an iteration of $iteration_s.
# $batch_bytes and $copied_bytes_per_s are unknown where no size is known.
copies-lose-time = { who } { $who ->
        [training] loses
        [one] loses
       *[several] lose
    } up to { PERCENT($lost_ratio) } of the time to copying batches to the GPU { measured }: { KNOWN($batch_bytes) ->
        [yes] { SIZE($batch_bytes) } in { DURATION($copy_s) } ({ SIZE($copied_bytes_per_s) }/s)
       *[no] { DURATION($copy_s) } each
    }.
# $proven: whether the GPU is known to be idle meanwhile. $busy_ratio is its utilization, where that is known.
time-before-model = Of each iteration ({ DURATION($iteration_s) }), { DURATION($before_model_s) } pass between the batch's arrival and the model's
    first
    call.{ $proven ->
        [yes] { " " }In this time the GPU is idle for up to { DURATION($copy_s) }{ KNOWN($busy_ratio) ->
                [yes] ; in all, it computes { PERCENT($busy_ratio) } of the time
               *[no] { "" }
            }.
       *[no] { "" }
    }
other-work-before-model = The workers are not the cause. This time also includes other work of the loop on the batch before the model
    call.{ $proven ->
        [yes] { "" }
       *[no] { " " }There is no reading of the GPU, so the loop may also wait for the GPU's kernels.
    }
copy-now = { KNOWN($batch_bytes) ->
        [yes] each copy moves { SIZE($batch_bytes) } in { DURATION($copy_s) }, { SIZE($copied_bytes_per_s) }/s
       *[no] each copy takes { DURATION($copy_s) }
    }
# $pinned_s is how long a copy from pinned memory would take; unknown where that is hardly less.
copy-from-pinned-memory = { KNOWN($pinned_s) ->
        [yes] ; from pinned memory it would take about { DURATION($pinned_s) } (11 to 12 GB/s on PCIe 3.0 x16, rapidsai/dask-cuda#98)
       *[no] { "" }
    }
smaller-or-hidden-copies = Images sent as uint8 and converted on the GPU are a quarter of float32. Copying the next batch on a side stream (with
    record_stream) hides what is left behind the computation.

copies-at-bus-speed =
    .title = { copies-lose-time }
    .cause = { time-before-model } The copy already runs at about the speed of the bus, but the GPU computes nothing meanwhile.
        { other-work-before-model }
    .advice = Copy less data, or copy while the GPU computes ({ copy-now }). { smaller-or-hidden-copies }

# With pin_memory=True.
blocking-copies =
    .title = { copies-lose-time }
    .cause = { time-before-model } pin_memory is on. So either the loop calls .to(device) without non_blocking=True and waits for each copy, or
        the batches are not pinned (a batch class of your own needs a pin_memory() method). { other-work-before-model }
    .advice = Call .to(device, non_blocking=True), and check that batch.is_pinned() is true in the loop. Now
        { copy-now }{ copy-from-pinned-memory }. { smaller-or-hidden-copies }

copies-from-pageable-memory =
    .title = { copies-lose-time }
    .cause = { time-before-model } The batch is in pageable memory (pin_memory is off). The driver first copies it into its own pinned buffer,
        and the loop waits until that is done. { other-work-before-model }
    .advice = Set pin_memory=True in the loader and call .to(device, non_blocking=True). Now { copy-now }{ copy-from-pinned-memory }. Do not
        call .pin_memory() in the loop: it adds one more copy (PyTorch's guide to pin_memory). { smaller-or-hidden-copies }

## A GPU that computes slower than it should

# What slows a GPU down, by NVML's bits.
throttle-reason = { $reason ->
        [hardware-thermal-slowdown] hardware thermal slowdown
        [software-thermal-slowdown] software thermal slowdown
        [hardware-power-brake] hardware power brake
       *[hardware-slowdown] hardware slowdown
    }
# $reasons are what slows it down, in $held_ratio of the readings. $clock_ratio is its clock as a share of that of the other GPUs, or of its own
# best clock, by $against; unknown where no clock is known.
gpu-throttled =
    .title = The GPU{ of-rank } is throttled by { $reasons }{ KNOWN($clock_ratio) ->
            [yes] { " " }and runs at { MEGAHERTZ($clock_hz) }, { PERCENT($clock_ratio) } of { $against ->
                    [others] the other GPUs
                   *[best] its best
                }
           *[no] { "" }
        }.
    .cause = NVML gave { $reasons } as the reason in { PERCENT($held_ratio) } of the last readings under load{ KNOWN($temperature_c) ->
            [yes] , at { WHOLE($temperature_c) } °C
           *[no] { "" }
        }. The loader is not the cause.{ KNOWN($rank) ->
            [yes] { " " }All other ranks wait for this one in every step.
           *[no] { "" }
        }
    .advice = Check cooling and power of that node (nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER). If the throttling continues, drain the node and
        have it repaired.

# $times is how many times as long as elsewhere its forward pass takes.
gpu-shared =
    .title = The GPU{ of-rank } is shared with { $others ->
            [one] { $others } other process
           *[other] { $others } other processes
        }, and its forward pass takes { DECIMAL($times) } times as long as on other ranks.
    .cause = Other processes compute on the same GPU and take turns with this rank. The loader is not the cause. All other ranks wait for this one
        in every step.
    .advice = Find the owners of the other processes with nvidia-smi, and end processes of earlier jobs. Give each job its own GPUs.
