### 批次已就绪，GPU 却在步内空闲：它在等什么。

gpu-idles-in-steps = { KNOWN($rank) ->
        [yes] rank { $rank } 的{ " " }
       *[no] { "" }
    }GPU 有 { PERCENT($share_ratio) } 的时间在步内空闲{ measured }，尽管批次已就绪{ KNOWN($because) ->
        [yes] ：{ $because }
       *[no] { "" }
    }（{ KNOWN($period_s) ->
        [yes] 利用率每 { DURATION($period_s) }在 { PERCENT($low_ratio) } 和 { PERCENT($high_ratio) } 之间摆动一次
       *[no] 总共空闲 { PERCENT($idle_ratio) }
    }）。
gpu-idle-unexplained =
    .cause = 每个批次都已就绪，GPU 却在步内空闲，尚不清楚为什么。原因不在加载器。
    .advice = 用 torch.profiler 录制一步：它会显示 kernel 之间的空隙。用 loaderwatch.phase(name) 包住步内的各段，可以看到它们的耗时。

part-of-iteration = 一次迭代 { DURATION($iteration_s) }中占 { DURATION($part_s) }{ part-seen }
part-seen = { KNOWN($phase) ->
        [yes] （阶段“{ $phase }”{ KNOWN($line) ->
                [yes] ，{ part-line }
               *[no] { "" }
            }）
       *[no] { KNOWN($line) ->
                [yes] （{ part-line }）
               *[no] { "" }
            }
    }
part-line = { $line }{ KNOWN($age_s) ->
        [yes] ，{ DURATION($age_s) }前
       *[no] { "" }
    }
on-average = { $now_and_then ->
        [yes] ，按所有步平均
       *[no] { "" }
    }

gpu-waits-for-checkpoint =
    .because = 它在等检查点写完
    .cause = 每个批次都已就绪，GPU 等的是检查点写完。这在{ part-of-iteration }{ on-average }。原因不在加载器。
    .advice = 先把状态拷到主机内存，再在另一个线程里写（torch.distributed.checkpoint.async_save 两者都做）。或者降低保存频率，或换更快的磁盘。

gpu-waits-for-loop =
    .because = 它在等循环自身的工作
    .cause = 每个批次都已就绪，GPU 等的是训练循环的其他工作（日志、指标、画图、从 GPU 拷回数据）。这些工作在{ part-of-iteration }{ on-average }。原因不在加载器。
    .advice = 降低这项工作的频率，或放到另一个线程。loss 和指标留在 GPU 上，每隔几步再写日志。不要每步都用 .item()、.cpu() 和 print(loss)。用 loaderwatch.phase(name) 包住步内的各段，可以看到它们的耗时。

gpu-waits-for-batch-copy =
    .because = 它在等模型调用之前对批次的处理
    .cause = 每个批次都已就绪，GPU 等的是循环在调用模型之前的工作，例如拷贝批次。这些工作在{ part-of-iteration }。原因不在加载器。
    .advice = 设 pin_memory=True 并调用 .to(device, non_blocking=True)，或在另一条 stream 上拷贝下一个批次。批次的转换移到 worker 里或 GPU 上。

gpu-waits-for-optimizer =
    .because = 它在等 optimizer.step()
    .cause = 每个批次都已就绪，GPU 等的是 CPU 上的 optimizer.step()：{ part-of-iteration }。原因不在加载器。
    .advice = 使用 fused 优化器（fused=True），优化器状态和梯度留在 GPU 上。

gpu-synchronised-each-step =
    .because = 循环每步都要等 GPU，之后才下发新的工作
    .cause = 循环每步要等 GPU { DURATION($blocked_s) }，通常在 .item()、.cpu()、print(loss) 或 synchronize() 里。等完之后循环才下发下一步，GPU 因此空闲 { DURATION($idle_s) }。原因不在加载器。
    .advice = loss 留在 GPU 上，大约每 50 步读一次；拷贝用 non_blocking=True。这样循环的下发就能领先于 GPU，批次来晚了也不会立刻让 GPU 停下。

launch-bound =
    .because = 训练线程下发工作太慢
    .cause = 这一步受限于 kernel 下发（launch-bound）：训练线程有 { PERCENT($cpu_ratio) } 的时间在下发模型的 kernel（每步 { DURATION($launching_s) }），而 GPU 总是在下一个 kernel 到来之前就做完了。原因不在加载器。
    .advice = 让 GPU 每次下发得到更多工作：增大批次，用 torch.compile 或 CUDA graph（mode='reduce-overhead'），用 fused 优化器。torch.profiler 能看出对张量的 Python 循环。

model-on-the-cpu =
    .because = 它在等{ model-pass }过程
    .cause = 每个批次都已就绪，GPU 等的是 CPU 上的{ model-pass }过程：{ part-of-iteration }。原因不在加载器。
    .advice = 找出模型里在 CPU 上计算的部分（torch.profiler 能显示空隙）：用 .item() 或 .cpu() 拷回数据，对张量的 Python 循环，没有 GPU kernel 的算子。
model-pass = { $part ->
        [forward] 前向
       *[backward] 反向
    }
