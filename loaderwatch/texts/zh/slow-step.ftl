### 什么让训练步变慢，而原因不在数据加载器。

# 主语后面紧跟汉字：以数字结尾时空一格。
slow-step-who = { who }{ $who ->
        [one] { " " }
       *[other] { "" }
    }

interpreter-held-in-steps =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间{ measured }损失在本进程的另一个线程上，它在 { $at } 处用 Python 计算，占着解释器；数据加载器不是原因。
    .cause = 训练线程有 { DURATION($blocked_s) }既没有运行也不缺 CPU，每秒 { WHOLE($woken_per_s) } 次索要解释器锁：PyTorch 的每个算子都要重新拿到它，每次最多 5 毫秒。
    .advice = { work-in-another-process }

recompiles-most-steps =
    .title = { slow-step-who }约 { PERCENT($compiling_ratio) } 的时间花在编译上：查看训练步 { $looks } 次，其中 { $compiling } 次看到编译器在工作。
    .cause = 几乎每一步都重新编译，编译出来的几乎没用上。输入形状每变一次，torch.compile 就重新编译一次；它所守护的 Python 值改变时也一样。原因不在加载器。{ KNOWN($at) ->
            [yes] 它由 { $at } 调用。
           *[no] { "" }
        }
    .advice = 让形状保持不变：drop_last=True、填充到少数几个分桶长度、用 torch._dynamo.mark_dynamic 标出变化的维度、torch.compile 设 dynamic=True。TORCH_LOGS=recompiles 会说出是哪个 guard 失败。

rank-works-longer =
    .title = rank { $rank } 每次迭代自身工作 { DURATION($own_s) }，其他 rank 只要 { DURATION($usual_s) }：rank { $others } 每次等它 { DURATION($wait_s) }。
    .cause = 所有 rank 每次迭代都是 { DURATION($iteration_s) }。其中 { PERCENT($lost_ratio) } 是其他 rank 在 DDP 的集合通信里等 rank { $rank }，而它谁也不等。原因不在加载器。{ KNOWN($larger) ->
            [yes] 它的批次平均是其他 rank 的 { RATE($larger) } 倍大。
           *[no] { "" }
        }{ KNOWN($at) ->
            [yes] 发现它在执行脚本自身的工作，位于 { $at }，见其调用栈。
           *[no] { "" }
        }
    .advice = { KNOWN($larger) ->
            [yes] 把长样本分给所有 rank：每个批次（或每个长度相近的分桶）为所有 rank 一起选出，再让每个 rank 取其中一份。
           *[no] 把 { $host } 上的 rank { $rank } 与其他 rank 比较：GPU 或 CPU 的频率和上面的其他进程、CPU 亲和性、每批工作量更大（样本更长），或只有这个 rank 才运行的代码。
        }
