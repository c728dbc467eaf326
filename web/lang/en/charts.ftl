### What is written on charts: names of lines and bars, labels of axes, and what is read under the pointer.
### Parameters end with their unit: _s seconds, _ratio shares from 0 to 1. $value is a number that the chart library fills in.

## What a step consists of

step-part = { $part ->
        [data_wait_s] data wait
        [hidden_s] waiting while the GPU works
        [h2d_s] H2D copy
        [forward_s] forward
        [backward_s] backward
        [optimizer_s] optimizer
        [others_wait_s] waiting for other ranks
        [whole] step
       *[other_s] other
    }
chart-ms-read = { $value } ms

## Speed, and what happened

chart-steps-per-s = steps/s
chart-samples-per-s = samples/s
chart-steps-per-s-read = { $value } steps/s
chart-samples-per-s-read = { $value } samples/s
event-kind = { $kind ->
        [alert] alert
        [attempt] attempt
        [config] settings
        [checkpoint] checkpoint
       *[evaluation] evaluation
    }
# The same where there is little room.
event-kind-short = { $kind ->
        [alert] alert
        [attempt] start
        [config] set
        [checkpoint] save
       *[evaluation] eval
    }
# $number is how many ranks the event is of; none: it is of the run.
event-read = { event-kind }: { $text }{ $number ->
        [0] { "" }
        [one] { " " }(rank { $rank })
       *[other] { " " }({ $number } ranks)
    }

## GPU

chart-utilization = utilization
chart-compute-duty = compute duty
chart-power = power
chart-percent-read = { $value } %
chart-queued = queued on the GPU
chart-batches-ready = batches ready
chart-starved = starved
# $per_step_s may be unknown.
chart-starved-read = { PERCENT($starved_ratio) }{ KNOWN($per_step_s) ->
        [yes] , { DURATION($per_step_s) } per step
       *[no] { "" }
    }
# What holds the GPU's clock down; a reason that is not known here is as the API has it, $said.
slowed-by = { $reason ->
        [hardware-slowdown] hardware slowdown
        [hardware-thermal-slowdown] hardware thermal slowdown
        [software-thermal-slowdown] software thermal slowdown
        [hardware-power-brake] hardware power brake
        [power-cap] power cap
       *[other] { $said }
    }
slowed-by-short = { $reason ->
        [hardware-slowdown] hardware
        [hardware-thermal-slowdown] hw heat
        [software-thermal-slowdown] heat
        [hardware-power-brake] brake
       *[power-cap] cap
    }

## The heat map

heat-metric = { $metric ->
        [data_wait_ratio] Data wait
        [gpu_starved_ratio] GPU without data
        [gpu_utilization_ratio] GPU utilization
        [gpu_temperature_c] GPU temperature
        [steps_per_s] Steps per second
        [iteration_s] Time of an iteration
        [fetch_s] Time of a fetch
        [ready_batches] Ready batches
        [host_cpu_ratio] Host CPU
       *[worker_rss_bytes] Worker memory
    }
heat-host-worst = { $host }, worst: rank { $rank }

## Worker lanes

lane-fetch = fetch
lane-collate = collate
lane-slow-sample = slow sample
lane-open-fetch = open fetch
lane-late-fetch = late fetch
# $took is a duration in words.
lane-fetch-read = worker { $worker } · { $took }
lane-sample-read = slowest sample { $sample }: { $took }
lane-collate-read = collate { $took }
lane-fetching-read = worker { $worker } · fetching for { DURATION($age_s) }
lane-open-sample-read = sample { $sample } for { DURATION($age_s) }

## Ready batches

chart-ready = ready
chart-out-of-order = out of order
chart-batches-read = { $value } batches

## Small charts

counter-host-cpu = Host CPU
counter-host-cpu-about = busy share of all CPUs
counter-process-cpu = Training process CPU
counter-process-cpu-about = of one core
counter-worker-cpu = Worker CPU
counter-worker-cpu-about = mean of one core per worker
counter-host-throttled = CPU throttled
counter-host-throttled-about = share of cgroup periods cut short
counter-host-psi-cpu = Pressure: CPU
counter-host-psi-cpu-about = time some task waited for a CPU
counter-host-psi-io = Pressure: I/O
counter-host-psi-io-about = time some task waited for storage
counter-host-psi-memory = Pressure: memory
counter-host-psi-memory-about = time some task waited for memory
counter-host-shm-used = /dev/shm used
counter-host-shm-used-about = where workers hand batches over
counter-host-disk-read = Disk read
counter-host-disk-read-about = all devices of the host
counter-host-memory-available = Memory available
counter-host-memory-available-about = on the host
counter-worker-rss = Worker memory
counter-worker-rss-about = resident, mean per worker
counter-process-rss = Training process memory
counter-process-rss-about = resident
counter-gpu-memory = GPU memory
counter-gpu-memory-about = used, by all processes on it
counter-gpu-process-memory = Memory of this process
counter-gpu-process-memory-about = on the GPU
counter-gpu-process-sm = Computing for this process
counter-gpu-process-sm-about = share of time; the rest is idle or others'
counter-gpu-sm-clock = SM clock
counter-gpu-sm-clock-about = falls when the GPU idles or is throttled
counter-gpu-temperature = Temperature
counter-gpu-temperature-about = of the GPU
counter-gpu-pcie-rx = PCIe to the GPU
counter-gpu-pcie-rx-about = batches are copied this way
counter-gpu-pcie-tx = PCIe from the GPU
counter-gpu-pcie-tx-about = results, checkpoints
counter-gpu-throttled = Throttled
counter-gpu-throttled-about = time slowed down by heat or power supply
