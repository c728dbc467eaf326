### Why the loop waits: too little CPU for a reasonable loader, in its workers or in the training thread.
### Parameters end with their unit: _s seconds, _ratio a share from 0 to 1, _cpus a number of CPUs, _per_s a rate. Others are counts and names.

## Shared clauses

# $others_cpus is how many CPUs other programs keep busy, unknown where that does not matter.
other-programs = { KNOWN($others_cpus) ->
        [yes] { " " }Other programs on this host keep { CPUS($others_cpus) } busy: move them away first.
       *[no] { "" }
    }

## A quota

# $machine_cpus, $about_cpus (what the limit should be) and $fitting_workers (fewer than there are) may be unknown.
# $cpu_s is the CPU time for a batch, $fetch_s what it takes; both are unknown or none is.
cpu-quota =
    .because = the container's quota of { CPUS($quota_cpus) } stops all threads in { PERCENT($throttled_ratio) } of the periods
    .cause = The container (cgroup) may use { CPUS($quota_cpus) }{ KNOWN($machine_cpus) ->
            [yes] { " of the " }{ $machine_cpus } that this machine shows
           *[no] { "" }
        }. In { PERCENT($throttled_ratio) } of the scheduler periods the quota was used up, and all threads stopped until the next period.{
        KNOWN($cpu_s) ->
            [yes] { " " }A batch needs { DURATION($cpu_s) } of CPU time but takes { DURATION($fetch_s) }.
           *[no] { "" }
        }
    .advice = Raise the CPU limit{ KNOWN($about_cpus) ->
            [yes] { " to about " }{ $about_cpus } CPUs
           *[no] { "" }
        } (Kubernetes limits.cpu, docker --cpus), or make reading a sample cheaper.{ KNOWN($fitting_workers) ->
            [yes] { " " }Until then num_workers={ $fitting_workers } is enough ({ $workers_now } now): more workers only take turns.
           *[no] { "" }
        } os.cpu_count() and PyTorch's own hint about workers do not see the quota.

## An affinity mask

# $mask_cpus is how many CPUs the workers may use, $shared_cpus the same as a whole number.
workers-pinned-to-few-cpus =
    .because = { few-cpus-because }, while { training-has-more-cpus }
    .cause = { few-cpus-hold }, while { training-has-more-cpus }{ few-cpus-turns }
    .advice = Call os.sched_setaffinity(0, cpus) in worker_init_fn, with cpus = os.sched_getaffinity(0) of the training process. Then find what shrinks
        the mask: OMP_PLACES, OMP_PROC_BIND, KMP_AFFINITY, GOMP_CPU_AFFINITY, a library that pins its threads, or your own
        worker_init_fn. { few-cpus-advice }
# $ask_cpus is how many CPUs to ask for.
job-pinned-to-few-cpus =
    .because = { few-cpus-because }, while { machine-has-more-cpus }
    .cause = { few-cpus-hold }, while { machine-has-more-cpus }{ few-cpus-turns }
    .advice = Ask for more CPUs: Slurm --cpus-per-task={ $ask_cpus } (or srun --cpu-bind=none), docker --cpuset-cpus; or unset OMP_PLACES and
        KMP_AFFINITY if an OpenMP runtime shrank the mask at import. { few-cpus-advice }
few-cpus-because = its { $workers_now } workers may use only { CPUS($mask_cpus) }
few-cpus-hold = The affinity mask of the { $workers_now } workers holds { CPUS($mask_cpus) }
few-cpus-turns = . The workers take turns: each gets { PERCENT($each_ratio) } of a CPU. A batch needs { DURATION($cpu_s) } of CPU time but takes
    { DURATION($fetch_s) }.
few-cpus-advice = More workers do not help as long as they share { $shared_cpus ->
        [1] one CPU
       *[other] these CPUs
    }.
training-has-more-cpus = the training process may use { CPUS($training_cpus) }
machine-has-more-cpus = this machine has { $machine_cpus }

## Threads inside the workers

# $threads are those of a worker that compute, $all_threads all that it has, $fighting those that compute in all workers together.
threads-inside-workers =
    .because = each worker computes with { $threads } threads, { $fighting } in all on { CPUS($usable_cpus) }
    .cause = A worker has { $all_threads } threads. Library threads (BLAS, OpenMP or OpenCV pools) use { PERCENT($helpers_ratio) } of its CPU time; the
        rest goes to the thread that reads samples. { $fighting } computing threads compete for { CPUS($usable_cpus, noun: "usable CPU") }.
        PyTorch limits only its own threads inside a worker.
    .advice = Set OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1, MKL_NUM_THREADS=1 and NUMEXPR_NUM_THREADS=1 before Python starts (or call
        threadpoolctl.threadpool_limits(1) and cv2.setNumThreads(0) in worker_init_fn). torch.set_num_threads() in the training process does not
        reach workers.

## More workers than CPUs

# $workers are those of all ranks and loaders on this host, $each of them those of one loader; $alone whether there is only that one.
# $target is a number of workers, unknown where fewer are no cure; $delay_ratio may be unknown as well.
too-many-workers =
    .because = { all-workers } share { CPUS($usable_cpus, noun: "usable CPU") }, so each fetch takes { DURATION($fetch_s) } instead of
        { DURATION($cpu_s) }
    .cause = { all-workers } compute on { CPUS($usable_cpus, noun: "usable CPU") }. A batch needs { DURATION($cpu_s) } of CPU time but takes
        { DURATION($fetch_s) }, because the workers take turns.{ KNOWN($delay_ratio) ->
            [yes] { " " }A worker that is ready to run waits for a CPU { PERCENT($delay_ratio) } of the time.
           *[no] { "" }
        } More workers would slow down each worker and take CPU time from the training thread.
    .advice = { KNOWN($target) ->
            [yes] Lower num_workers { $each } → { $target }: about one busy worker per CPU is enough ({ CPUS($usable_cpus) }{ $ranks ->
                [1] { "" }
               *[other] { " for " }{ $ranks } ranks
            }), persistent workers of validation loaders included.
           *[no] Count all loaders with persistent workers, validation included, and keep fewer of them alive.
        } Fewer workers also use less memory and less CPU time. For more speed, reading a sample must need less CPU time{
        KNOWN($sample_cpu_s) ->
            [yes] { " " }({ DURATION($sample_cpu_s) } now: at most { RATE($samples_per_s) } samples/s on { CPUS($usable_cpus) })
           *[no] { "" }
        }.
all-workers = { $alone ->
        [yes] { workers }
       *[no] { $workers } workers ({ $each } per rank and loader, { $ranks ->
            [one] { $ranks } rank
           *[other] { $ranks } ranks
        })
    }

## A training thread that cannot take its batches

# $at is the line where the other thread computes; $blocked_s is how long, of the last $looked_s, the training thread neither ran nor lacked a CPU.
interpreter-held =
    .because = batches are ready, but another thread holds the GIL at { $at } ({ DURATION($wait_s) } per batch)
    .cause = { RATE($ready) } batches are ready on average and unpickling needs little CPU time, yet next() takes { DURATION($wait_s) }.
        For { DURATION($blocked_s) } of the last { DURATION($looked_s) } the training thread neither ran nor waited for a CPU. It asked for the
        interpreter's lock (GIL) { WHOLE($woken_per_s) } times a second.
    .advice = { work-in-another-process }
cpus-held-by-others =
    .because = batches are ready, but other programs use the CPUs ({ DURATION($wait_s) } per batch)
    .cause = { training-thread-kept }{ other-programs }
    .advice = { training-thread-advice }
training-thread-without-cpu =
    .because = batches are ready, but the training thread gets no CPU ({ DURATION($wait_s) } per batch)
    .cause = { training-thread-kept }
    .advice = { training-thread-advice }
training-thread-kept = { RATE($ready) } batches are ready on average and unpickling needs little CPU time, yet next() takes { DURATION($wait_s) }. Other
    threads of this process, or other processes, keep the training thread from running.
training-thread-advice = Look for busy Python threads in the training process (loggers, progress bars, in-process prefetchers) and for other programs
    on these cores. More workers would make it worse.
