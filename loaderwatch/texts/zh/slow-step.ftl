### 什么让训练步变慢，而原因不在数据加载器。

# 主语后面紧跟汉字：以数字结尾时空一格。
slow-step-who = { who }{ $who ->
        [one] { " " }
       *[other] { "" }
    }

interpreter-held-in-steps =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间{ measured }损失在另一个线程上，它在 { $at } 处占着 GIL；原因不在数据加载器。
    .cause = 那个线程在同一个进程里用 Python 计算。训练线程有 { DURATION($blocked_s) }既没有运行也不在等 CPU，每秒 { WHOLE($woken_per_s) } 次索要解释器锁（GIL）。PyTorch 的每个算子都要重新拿到这把锁，每次最多可能等 5 毫秒。
    .advice = { work-in-another-process }

recompiles-most-steps =
    .title = { slow-step-who }约有 { PERCENT($compiling_ratio) } 的时间花在编译上：在训练步中检查调用栈 { $looks } 次，其中 { $compiling } 次显示编译器在工作。
    .cause = 几乎每一步都重新编译，编译出来的代码几乎没用上。每遇到新的输入形状，或它所守护的 Python 值改变时，torch.compile 都会重新编译。原因不在加载器。{ KNOWN($at) ->
            [yes] 编译器由 { $at } 调用。
           *[no] { "" }
        }
    .advice = 保持形状不变：设 drop_last=True，或填充到少数几档长度。尺寸多变时用 torch._dynamo.mark_dynamic，或在 torch.compile 里设 dynamic=True。TORCH_LOGS=recompiles 会指出是哪个 guard 失效。

rank-works-longer =
    .title = rank { $rank } 每次迭代需要 { DURATION($own_s) }，其他 rank 只需 { DURATION($usual_s) }：rank { $others } 每次等 rank { $rank } { DURATION($wait_s) }。
    .cause = 所有 rank 每次迭代都是 { DURATION($iteration_s) }。其中 { PERCENT($lost_ratio) } 是其他 rank 在 DDP 的集合通信里等 rank { $rank }，而 rank { $rank } 不等任何 rank。原因不在加载器。{ KNOWN($larger) ->
            [yes] rank { $rank } 的批次平均是其他 rank 的 { RATE($larger) } 倍大。
           *[no] { "" }
        }{ KNOWN($at) ->
            [yes] rank { $rank } 当时在执行脚本代码，位于 { $at }（见其调用栈）。
           *[no] { "" }
        }
    .advice = { KNOWN($larger) ->
            [yes] 把长样本分给所有 rank：每个批次（或每个长度相近的分桶）为所有 rank 一起选出，再让每个 rank 取其中一份。
           *[no] 把 { $host } 上的 rank { $rank } 与其他 rank 比较：GPU 频率、GPU 或 CPU 上的其他进程、CPU 亲和性。也检查样本是否更长，以及是否有只在这个 rank 上运行的代码。
        }
