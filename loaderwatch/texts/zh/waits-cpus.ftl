### 循环为什么等：加载器本身合理，但 worker 或训练线程缺 CPU。

other-programs = { KNOWN($others_cpus) ->
        [yes] 这台主机上的其他程序占着 { CPUS($others_cpus) }：先把它们移走。
       *[no] { "" }
    }

cpu-quota =
    .because = 容器的配额是 { CPUS($quota_cpus) }，{ PERCENT($throttled_ratio) } 的周期里所有线程被限停
    .cause = 容器（cgroup）可用 { CPUS($quota_cpus) }{ KNOWN($machine_cpus) ->
            [yes] （本机显示有 { $machine_cpus } 个）
           *[no] { "" }
        }。在 { PERCENT($throttled_ratio) } 的调度周期里配额被用完，所有线程都停到下一个周期。{ KNOWN($cpu_s) ->
            [yes] 一个批次需要 { DURATION($cpu_s) }的 CPU 时间，实际用了 { DURATION($fetch_s) }。
           *[no] { "" }
        }
    .advice = 把 CPU 上限提高{ KNOWN($about_cpus) ->
            [yes] 到约 { $about_cpus } 个 CPU
           *[no] { "" }
        }（Kubernetes limits.cpu、docker --cpus），或降低读取样本的开销。{ KNOWN($fitting_workers) ->
            [yes] 在此之前 num_workers={ $fitting_workers } 就够了（现在是 { $workers_now }）：再多也只是轮流用 CPU。
           *[no] { "" }
        }os.cpu_count() 和 PyTorch 自带的 worker 数提示都看不到配额。

workers-pinned-to-few-cpus =
    .because = { few-cpus-because }，而{ training-has-more-cpus }
    .cause = { few-cpus-hold }，而{ training-has-more-cpus }{ few-cpus-turns }
    .advice = 在 worker_init_fn 里调用 os.sched_setaffinity(0, cpus)，cpus 用训练进程的 CPU（在训练进程里由 os.sched_getaffinity(0) 取得）；然后查是什么缩小了掩码：OMP_PLACES、OMP_PROC_BIND、KMP_AFFINITY、GOMP_CPU_AFFINITY、某个会绑定线程的库，或你自己的 worker_init_fn。{ few-cpus-advice }
job-pinned-to-few-cpus =
    .because = { few-cpus-because }，而{ machine-has-more-cpus }
    .cause = { few-cpus-hold }，而{ machine-has-more-cpus }{ few-cpus-turns }
    .advice = 申请更多 CPU：Slurm --cpus-per-task={ $ask_cpus }（或 srun --cpu-bind=none）、docker --cpuset-cpus；如果是 OpenMP 运行时在 import 时缩小了掩码，就取消设置 OMP_PLACES 和 KMP_AFFINITY。{ few-cpus-advice }
few-cpus-because = 它的 { $workers_now } 个 worker 只能用 { CPUS($mask_cpus) }
few-cpus-hold = { $workers_now } 个 worker 的亲和性掩码只含 { CPUS($mask_cpus) }
few-cpus-turns = ：它们轮流运行，每个只用到一个 CPU 的 { PERCENT($each_ratio) }。一个批次需要 { DURATION($cpu_s) }的 CPU 时间，实际用了 { DURATION($fetch_s) }。
few-cpus-advice = 只要还共用{ $shared_cpus ->
        [1] 这个 CPU
       *[other] 这些 CPU
    }，增加 worker 就没有用。
training-has-more-cpus = 训练进程可用 { CPUS($training_cpus) }
machine-has-more-cpus = 这台机器有 { $machine_cpus } 个 CPU

threads-inside-workers =
    .because = 每个 worker 用 { $threads } 个线程计算，共 { $fighting } 个，挤在 { CPUS($usable_cpus) } 上
    .cause = 一个 worker 有 { $all_threads } 个线程，其 CPU 时间的 { PERCENT($helpers_ratio) } 用在库的线程上（BLAS、OpenMP 或 OpenCV 的线程池），其余用在读样本的线程上。{ $fighting } 个计算线程争用 { CPUS($usable_cpus, noun: "可用 CPU") }。PyTorch 在 worker 内只限制自己的线程。
    .advice = 在 Python 启动前设置 OMP_NUM_THREADS=1、OPENBLAS_NUM_THREADS=1、MKL_NUM_THREADS=1 和 NUMEXPR_NUM_THREADS=1（或在 worker_init_fn 里调用 threadpoolctl.threadpool_limits(1) 和 cv2.setNumThreads(0)）。训练进程里的 torch.set_num_threads() 对 worker 不起作用。

too-many-workers =
    .because = { all-workers }共用 { CPUS($usable_cpus, noun: "可用 CPU") }，所以每次取数要 { DURATION($fetch_s) }，而不是 { DURATION($cpu_s) }
    .cause = { all-workers }在 { CPUS($usable_cpus, noun: "可用 CPU") } 上计算。一个批次需要 { DURATION($cpu_s) }的 CPU 时间，但因为 worker 轮流运行，实际用了 { DURATION($fetch_s) }。{ KNOWN($delay_ratio) ->
            [yes] 可运行的 worker 有 { PERCENT($delay_ratio) } 的时间在等 CPU。
           *[no] { "" }
        }再加 worker 只会让每个 worker 更慢，还抢训练线程的 CPU 时间。
    .advice = { KNOWN($target) ->
            [yes] 把 num_workers 从 { $each } 降到 { $target }：每个 CPU 大约一个忙碌的 worker 就够了（{ CPUS($usable_cpus) }{ $ranks ->
                [1] { "" }
               *[other] ，供 { $ranks } 个 rank 共用
            }），开了持久 worker 的验证加载器也要算进去。
           *[no] 把所有带持久 worker 的加载器都算上，包括验证的，并减少常驻的 worker。
        }worker 少了，也更省内存和 CPU 时间。要想更快，就得降低读取样本的 CPU 开销{ KNOWN($sample_cpu_s) ->
            [yes] （目前 { DURATION($sample_cpu_s) }：{ CPUS($usable_cpus) } 上最多 { RATE($samples_per_s) } 样本/秒）
           *[no] { "" }
        }。
all-workers = { $alone ->
        [yes] { workers }{ " " }
       *[no] { $workers } 个 worker（每个 rank 每个加载器 { $each } 个，{ $ranks } 个 rank）
    }

interpreter-held =
    .because = 批次已就绪，但另一个线程在 { $at }处占着 GIL（每个批次 { DURATION($wait_s) }）
    .cause = 平均有 { RATE($ready) } 个批次已就绪，反序列化几乎不耗 CPU 时间，next() 却要 { DURATION($wait_s) }。在最近 { DURATION($looked_s) }里，训练线程有 { DURATION($blocked_s) }既没有运行，也没有在等 CPU。它每秒 { WHOLE($woken_per_s) } 次索要解释器锁（GIL）。
    .advice = { work-in-another-process }
cpus-held-by-others =
    .because = 批次已就绪，但其他程序占着 CPU（每个批次 { DURATION($wait_s) }）
    .cause = { training-thread-kept }{ other-programs }
    .advice = { training-thread-advice }
training-thread-without-cpu =
    .because = 批次已就绪，但训练线程抢不到 CPU（每个批次 { DURATION($wait_s) }）
    .cause = { training-thread-kept }
    .advice = { training-thread-advice }
training-thread-kept = 平均有 { RATE($ready) } 个就绪的批次，反序列化也几乎不耗 CPU 时间，但 next() 仍要 { DURATION($wait_s) }：本进程的其他线程或其他进程让训练线程得不到运行。
training-thread-advice = 查训练进程里忙碌的 Python 线程（日志、进度条、进程内预取），以及占用这些核的其他程序。增加 worker 只会更糟。
