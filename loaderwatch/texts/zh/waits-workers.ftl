### 循环为什么等：没有 worker、worker 太少或太慢，或者其中一个分到的数据特别重。

workers-deliver = { workers } 每秒提供 { RATE_OF($iteration_s) } 个批次，模型能处理 { RATE_OF($step_s) } 个
worker-and-model = 一个 worker 准备一个批次要 { DURATION($fetch_s) }，模型算一步要 { DURATION($step_s) }
waits-in-a-comb = { KNOWN($comb) ->
        [yes] 每 { $comb } 个批次出现一次长等待，因为各 worker 同时完成。
       *[no] { "" }
    }
cheaper-samples = 降低读一个样本的开销：{ ways-to-cheaper-samples }
ways-to-cheaper-samples = 提前一次性缩放并解码数据集，换更快的解码库，在 GPU 上做增强，缓存解码后的样本。
before-more-workers = { split-first }{ KNOWN($asleep_ratio) ->
        [yes] 先用 `loaderwatch tune` 比较不同的 worker 数：每个 worker 有 { PERCENT($asleep_ratio) } 的时间在定时睡眠，而不是在读取。如果是在等锁或受请求限额约束，增加 worker 没有用。
       *[no] { "" }
    }

no-dataloader =
    .because = { $loader } 每秒交付 { RATE_OF($iteration_s) } 个批次，模型能处理 { RATE_OF($step_s) } 个
    .cause = { $loader }（{ $class }）交付一个批次要 { DURATION($wait_s) }，训练循环只能等它。一步用时 { DURATION($step_s) }。
    .advice = 提前准备批次：放到 DataLoader 的 worker 里，{ $has_threads ->
            [yes] 或放到多个线程里。
           *[no] 或放到后台线程里填充队列。
        }
data-in-memory =
    .because = 数据就在内存中，而一个批次的样本是逐个取出的（{ DURATION($batch_s) }）
    .cause = 一个样本花费 { DURATION($sample_cpu_s) }的 CPU 时间，没有任何内容从存储读取。时间花在逐个处理样本上：每个批次要索引并拼接 { RATE($samples) } 个样本。
    .advice = 一次取出整个批次：用一个排列索引张量（data[order[i:i + batch_size]]），为数据集实现 __getitems__(indices)，或将 BatchSampler 作为 sampler 并设置 batch_size=None。{ $has_workers ->
            [yes] 这样 num_workers=0 就够了。
           *[no] { "" }
        }更多进程只会复制数据。
no-workers =
    .because = num_workers=0，每个批次都由{ who-reads }读取，每个 { DURATION($read_s) }
    .cause = { KNOWN($reader) ->
            [yes] num_workers=0 时，{ who-reads }逐个读取并拼接每个批次（每个 { DURATION($read_s) }），一步用时 { DURATION($step_s) }。
           *[no] num_workers=0 时，训练线程自己读取并拼接每个批次（{ DURATION($read_s) }），然后计算（{ DURATION($step_s) }），两者没有任何重叠。
        }
    .advice = { $then ->
            [no-second-worker] { cheaper-samples }不要加 worker：CPU 只容得下一个{ room-for-workers }，而一个 worker 不会比{ who-reads }更快。
            [workers] 设置 num_workers={ $workers }{ room-for-workers }，并设 persistent_workers=True：模型计算的同时读取批次，约每秒 { RATE_OF($after_s) } 步，现在是每秒 { RATE_OF($iteration_s) } 步。
            [workers-in-part] 设置 num_workers={ $workers } 和 persistent_workers=True，最多每秒 { RATE_OF($after_s) } 步，现在是每秒 { RATE_OF($iteration_s) } 步，因为训练和读取{ keep-cpus-busy }。想再快，就降低读一个样本的开销：{ ways-to-cheaper-samples }
           *[cheaper-samples] { cheaper-samples }只加 worker 几乎没用，因为训练和读取{ keep-cpus-busy }。
        }{ other-programs }{ $fork_failed ->
            [yes] 如果当初是因为 CUDA fork 报错才关掉 worker，请改为让数据集返回 CPU 张量。
           *[no] { "" }
        }{ split-first }
who-reads = { KNOWN($reader) ->
        [yes] 线程 { $reader }{ " " }
       *[no] 训练线程
    }
room-for-workers = { KNOWN($usable_cpus) ->
        [yes] （{ $ranks ->
            [1] { "" }
           *[other] { $ranks } 个 rank 共用
        }{ CPUS($usable_cpus, noun: "可用 CPU") }）
       *[no] { "" }
    }
keep-cpus-busy = 已占用 { CPUS($usable_cpus, noun: "可用 CPU") } 中的 { RATE($own_cpus) } 个

heavy-share =
    .because = { heavy-ones } 每个批次要 { DURATION($heavy_s) }，其他 worker 最多 { DURATION($light_s) }
    .cause = { $loader } 读的是可迭代数据集，每个 worker 各有一份数据。各 worker 轮流交付批次，所以 { heavy-ones } 拖慢了全部 { $workers } 个 worker。要跟上模型，每个 worker 必须每 { DURATION($turn_s) }交付一个批次。其他 worker 预取的批次只能等着。
    .advice = 把重的样本分散开：分片数比 worker 数多、每片更小，随机分配或重新采样；或降低 { heavy-ones } 的读取开销。加大 prefetch_factor 或加 worker 都没有用：那份数据还是在同一个 worker 上。
heavy-ones = worker { LISTING($heavy, limit: 8) }
fetches-keep-growing =
    .because = { workers-deliver }，而且读取一个批次的时间越来越长
    .cause = { worker-and-model }。读取的{ $of_cpu ->
            [yes] { " " }CPU 时间
           *[no] 时间
        }一直在上升，{ DURATION($span_s) }内从 { DURATION($first_s) }升到 { DURATION($last_s) }。{ $kept_up ->
            [yes] 起初 { workers } 跟得上。
           *[no] { "" }
        }
    .advice = 找出数据集里随每个样本增长的东西：被遍历查找的列表、总是从头读的文件、逐渐变差的缓存或连接。如果没有，就检查其他程序是否越来越多地占用存储或 CPU。增加 worker 只是推迟问题。
no-cpu-for-more-workers =
    .because = { workers-deliver }；没有空闲的 CPU
    .cause = { worker-and-model }。{ waits-in-a-comb }worker 读取时有 { PERCENT($computing_ratio) } 的时间在计算或等 CPU，可用 CPU 已占满。{ other-programs }{ KNOWN($samples_per_s) ->
            [yes] 读一个样本要 { DURATION($sample_cpu_s) }的 CPU 时间，所以无论 num_workers 设多少，{ CPUS($usable_cpus) } 上{ $ranks ->
                    [1] { "" }
                   *[other] 每个 rank{ " " }
                }每秒最多处理 { RATE($samples_per_s) } 个样本。
           *[no] { "" }
        }
    .advice = { cheaper-samples }在这台机器上加 worker 没有用。
slow-storage =
    .because = { workers-deliver }；worker 在等存储或网络
    .cause = { worker-and-model }。{ waits-in-a-comb }worker 读取时只有 { PERCENT($computing_ratio) } 的时间在计算。其余时间在等存储或网络，样本一个接一个。{ KNOWN($faults_per_s) ->
            [yes] worker 每秒有 { RATE($faults_per_s) } 次在等内存映射文件（或被换出的内存）的一页：这种读取又小又是一个接一个。
           *[no] { "" }
        }
    .advice = 每次多读一些：把样本打包成分片（WebDataset、LMDB、MDS），或把数据拷到本地磁盘。也可以在 worker 里一次读多个样本（用线程池实现 __getitems__）。这里 worker 数超过 CPU 数也有帮助：试试 num_workers={ $try_workers }。{ KNOWN($faults_per_s) ->
            [yes] 从内存映射文件（np.memmap、LMDB、Arrow）读取时，用 madvise(MADV_WILLNEED) 提前读入整个样本，或改用 read()。
           *[no] { "" }
        }{ before-more-workers }
too-few-workers =
    .because = { workers-deliver }
    .cause = { worker-and-model }{ $short ->
            [yes] ，所以 { workers } 跟不上
           *[no] ：{ workers } 平均跟得上，但没有余量应付更慢的批次
        }。{ waits-in-a-comb }
    .advice = 把 num_workers 从 { $workers } 提高到 { $target }：每次取数 { DURATION($fetch_s) }，每步 { DURATION($step_s) }。{ $room ->
            [free] { RATE($usable_cpus) } 个可用 CPU 中有 { RATE($free_cpus) } 个空闲
            [little-used] worker 读取时每个只用一个 CPU 的 { PERCENT($computing_ratio) }，还放得下更多
           *[unknown] 不知道 CPU 是否空闲
        }。prefetch_factor 不会提高吞吐。{ before-more-workers }
