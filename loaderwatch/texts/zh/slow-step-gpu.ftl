### 什么让训练步变慢，而原因不在数据加载器：批次到 GPU 的拷贝，以及 GPU 本身。

copies-lose-time = { who }{ $who ->
        [training] { "" }
       *[other] { " " }
    }最多有 { PERCENT($lost_ratio) } 的时间花在把批次拷到 GPU 上{ measured }：{ KNOWN($batch_bytes) ->
        [yes] { SIZE($batch_bytes) } 用时 { DURATION($copy_s) }（{ SIZE($copied_bytes_per_s) }/s）
       *[no] 每次 { DURATION($copy_s) }
    }。
time-before-model = 每次迭代 { DURATION($iteration_s) }，其中从批次到达到模型第一次调用占 { DURATION($before_model_s) }。{ $proven ->
        [yes] 这段时间里 GPU 最多空闲 { DURATION($copy_s) }{ KNOWN($busy_ratio) ->
                [yes] ；总体上它有 { PERCENT($busy_ratio) } 的时间在计算
               *[no] { "" }
            }。
       *[no] { "" }
    }
other-work-before-model = 原因不在 worker。循环在调用模型之前对批次做的其他工作也算在这段时间里。{ $proven ->
        [yes] { "" }
       *[no] 没有 GPU 读数，所以循环也可能是在等 GPU 的 kernel。
    }
copy-now = { KNOWN($batch_bytes) ->
        [yes] 目前每次拷贝 { SIZE($batch_bytes) } 用 { DURATION($copy_s) }，即 { SIZE($copied_bytes_per_s) }/s
       *[no] 目前每次拷贝用 { DURATION($copy_s) }
    }
copy-from-pinned-memory = { KNOWN($pinned_s) ->
        [yes] ；从锁页内存拷贝约需 { DURATION($pinned_s) }（PCIe 3.0 x16 上为 11 到 12 GB/s，rapidsai/dask-cuda#98）
       *[no] { "" }
    }
smaller-or-hidden-copies = 图像以 uint8 传输、到 GPU 上再转换，数据量只有 float32 的四分之一。在另一条 stream 上拷贝下一个批次（配合 record_stream），剩下的时间可以被计算掩盖。

copies-at-bus-speed =
    .title = { copies-lose-time }
    .cause = { time-before-model }拷贝已接近总线的速度，但这期间 GPU 没有计算。{ other-work-before-model }
    .advice = 少拷一些数据，或在 GPU 计算的同时拷贝（{ copy-now }）。{ smaller-or-hidden-copies }

blocking-copies =
    .title = { copies-lose-time }
    .cause = { time-before-model }pin_memory 已开。所以要么循环调用 .to(device) 时没带 non_blocking=True，每次都等拷贝完成；要么这些批次没有锁页（自定义的批次类需要实现 pin_memory() 方法）。{ other-work-before-model }
    .advice = 调用 .to(device, non_blocking=True)，并确认循环里 batch.is_pinned() 为 True。{ copy-now }{ copy-from-pinned-memory }。{ smaller-or-hidden-copies }

copies-from-pageable-memory =
    .title = { copies-lose-time }
    .cause = { time-before-model }批次在可分页内存里（pin_memory 未开）。驱动要先把它拷进自己的锁页缓冲区，循环一直等到拷完。{ other-work-before-model }
    .advice = 在加载器上设 pin_memory=True，并调用 .to(device, non_blocking=True)。{ copy-now }{ copy-from-pinned-memory }。不要在循环里调用 .pin_memory()：那会多一次拷贝（见 PyTorch 的 pin_memory 指南）。{ smaller-or-hidden-copies }

throttle-reason = { $reason ->
        [hardware-thermal-slowdown] 硬件温度降频
        [software-thermal-slowdown] 软件温度降频
        [hardware-power-brake] 硬件功率制动
       *[hardware-slowdown] 硬件降频
    }
gpu-throttled =
    .title = { of-rank } GPU 被降频（{ $reasons }）{ KNOWN($clock_ratio) ->
            [yes] ，当前运行在 { MEGAHERTZ($clock_hz) }，是{ $against ->
                    [others] 其他 GPU{ " " }
                   *[best] 自身最高值
                }的 { PERCENT($clock_ratio) }
           *[no] { "" }
        }。
    .cause = 最近有负载的读数中，NVML 有 { PERCENT($held_ratio) } 给出的原因是{ $reasons }{ KNOWN($temperature_c) ->
            [yes] ，温度 { WHOLE($temperature_c) } °C
           *[no] { "" }
        }。原因不在加载器。{ KNOWN($rank) ->
            [yes] 其他所有 rank 每一步都在等这个 rank。
           *[no] { "" }
        }
    .advice = 检查该节点的散热和供电（nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER）。如果降频持续，把节点下线送修。

gpu-shared =
    .title = { of-rank } GPU 还被 { $others } 个其他进程共用，前向耗时是其他 rank 的 { DECIMAL($times) } 倍。
    .cause = 有其他进程在同一块 GPU 上计算，与这个 rank 轮流执行。原因不在加载器。其他所有 rank 每步都在等它。
    .advice = 用 nvidia-smi 查出这些进程的所有者，结束之前任务的残留进程。让每个任务独占自己的 GPU。
