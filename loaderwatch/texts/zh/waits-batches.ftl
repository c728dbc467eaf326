### 循环为什么等：读取样本之外对批次做的事，以及没有加载器的脚本在两步之间做的事。

workers = { $workers } 个 worker
slow-collate =
    .because = worker 取一个批次需要 { DURATION($fetch_s) }，其中 collate_fn 占 { DURATION($collate_s) }
    .cause = 读取{ KNOWN($samples) ->
            [yes] { " " }{ RATE($samples) } 个样本
           *[no] 样本
        }要 { DURATION($read_s) }，在 collate_fn 里拼批（collate）要 { DURATION($collate_s) }（占一次取数的 { PERCENT($collate_ratio) }）。它在 { workers } 里执行，所以训练进程里看不到。
    .advice = 让 collate_fn 变轻：批次内存一次分配好再拷入（形状相同时用 torch.stack），不要用 Python 循环逐元素处理，填充到少数几个长度分桶，提前分词或一次处理整个批次（__getitems__）。增加 worker 只是分摊开销，加大批次反而更糟。{ other-programs }
garbage-collector-in-workers =
    .because = worker 取一个批次需要 { DURATION($fetch_s) }，其中 Python 的垃圾回收占 { DURATION($collected_s) }
    .cause = { workers } 有 { PERCENT($collected_ratio) } 的工作是垃圾回收：每次完整回收都要遍历 worker 持有的所有容器，包括数据集的元数据。
    .advice = { collector-advice }
garbage-collector-pause =
    .because = Python 的垃圾回收在处理批次途中让 { one-worker } 停了 { DURATION($collected_s) }
    .cause = 最长的一次等待是在等 { one-worker }，它取这个批次用了 { DURATION($fetch_s) }，其中 { DURATION($collected_s) }在垃圾回收：每次完整回收都要遍历 worker 持有的所有容器，包括数据集的元数据。与具体样本无关。
    .advice = { collector-advice }
collector-advice = 在 worker_init_fn 里调用 gc.collect() 和 gc.freeze()，这样数据集持有的对象不会再被遍历；如果样本不产生循环引用，也可以用 gc.disable()。去掉 __getitem__ 和 collate_fn 里的 gc.collect()；元数据用 NumPy 或 Arrow 存放，不要用列表和字典。增加 worker 没有用。
one-worker = { KNOWN($worker) ->
        [yes] worker { $worker }
       *[no] 某个 worker
    }
garbage-collector-in-loop =
    .because = 每步之前等待的 { DURATION($wait_s) }里，Python 的垃圾回收占了 { DURATION($collected_s) }{ KNOWN($line) ->
            [yes] ，见于 { $line }
           *[no] { "" }
        }
    .cause = 垃圾回收占等待时间的 { PERCENT($collected_ratio) }。每次完整回收都要遍历进程持有的所有容器，包括由 Python 对象组成的回放缓冲区。
    .advice = 把 gc.collect() 移出循环，或准备完成后调用一次 gc.freeze()，之后每几百步 gc.collect(1)。不断增长的数据用数组或张量保存，不要用 Python 对象。
slow-sampler =
    .because = 采样器为一个批次选样本需要 { DURATION($choosing_s) }，读取它们需要 { DURATION($read_s) }
    .cause = 采样器在给出下一批索引之前先要计算，占等待时间的 { PERCENT($choosing_ratio) }。读取和拼批都在这之后。
    .advice = { choose-at-once }
slow-sampler-beside-workers =
    .because = 批次已就绪，但采样器每个批次要占用训练线程 { DURATION($wait_s) }
    .cause = { workers-are-ahead }，但每次 next() 仍要 { DURATION($wait_s) }，其中 { PERCENT($cpu_ratio) } 是训练线程的 CPU 时间。每次 next() 里训练线程还要运行采样器，由它为后面的批次选样本。
    .advice = { choose-at-once }
choose-at-once = 一次为许多批次选好样本，或在线程里选下一个 epoch 的。加 worker 没用：采样器总是在训练进程里运行。
workers-are-ahead = 批次已就绪（平均 { RATE($ready) } 个）
dataset-snapshots =
    .because = 它的 { $loader } { how-often }就传一次数据集状态，训练线程每个批次要花 { DURATION($wait_s) }反序列化（unpickle）
    .cause = 每个 worker { how-often }就 pickle 一次数据集和采样器的状态（snapshot_every_n_steps{ KNOWN($every) ->
            [yes] { " " }{ $every }
           *[no] （未设置时为 1）
        }），由训练线程反序列化（unpickle）。批次已就绪，但每次 next() 仍要 { DURATION($wait_s) }，其中 { PERCENT($cpu_ratio) } 是 CPU 时间。
    .advice = 把 snapshot_every_n_steps{ KNOWN($every) ->
            [yes] （现为 { $every }）
           *[no] { " " }
        }改为两次检查点之间的步数：只有那时才需要 state_dict()。不要把 shuffle 缓冲区和缓存放进数据集的 state_dict()。增加 worker 或加大预取都没有用。
how-often = { $often ->
        [yes] 每个批次
       *[no] 每 { $every } 个批次
    }
slow-unpacking =
    .because = 批次已就绪，但训练线程反序列化（unpickle）每个批次要 { DURATION($wait_s) }
    .cause = { workers-are-ahead }，但每次 next() 仍要 { DURATION($wait_s) }，其中 { PERCENT($cpu_ratio) } 是训练线程的 CPU 时间：它在反序列化（unpickle）批次。批次里有大量小张量、字符串、NumPy 数组或 Python 对象时就会这样。
    .advice = 每个批次只返回少数几个大的 torch 张量：在 collate_fn 里 stack，用 torch.from_numpy 把 NumPy 数组转成张量，字符串编码成 uint8 张量，去掉元数据。增加 worker 或加大预取都没有用。
slow-pinning =
    .because = 有 { RATE($ready) } 个就绪的批次，但锁页内存（pin memory）线程每 { DURATION($iteration_s) }才交出一个
    .cause = { workers-are-ahead }，next() 几乎不耗 CPU 时间，却要 { DURATION($wait_s) }。所有批次都由一个线程反序列化并拷入锁页内存，这个线程太慢。它用了一个 CPU 的 { PERCENT($cpu_ratio) }。
    .advice = 每个批次返回更少、更大的张量（一个扁平张量只需一次调用即可锁页），给批次实现自己的 pin_memory()，传 uint8 而不是 float32，验证时关闭 pin_memory。增加 worker 没有用。
slow-reader-thread =
    .because = { $loader } 的预取线程（{ $reader }）每 { DURATION($iteration_s) }才交出一个批次
    .cause = 训练循环等线程 { $reader } 的一个批次要等 { DURATION($wait_s) }，尽管{ $has_workers ->
            [yes] 它来取时平均有 { RATE($ready) } 个批次就绪
           *[no] 读取一个批次只要 { DURATION($fetch_s) }
        }。所以慢的是该线程自己对每个批次的处理。一步用时 { DURATION($step_s) }。
    .advice = 把 { $reader } 对批次做的处理挪到 dataset 或 collate_fn 里，由 DataLoader 的 worker 并行完成，或改用多个线程来做。加载器更快、worker 更多、队列更深都没有用。
between-steps-speed = 每秒 { RATE_OF($iteration_s) } 次迭代，而模型可以处理 { RATE_OF($step_s) } 次{ KNOWN($line) ->
        [yes] ；见于 { $line }
       *[no] { "" }
    }
between-steps-cause = 没有遍历任何 DataLoader。从优化器的一步到下一次调用模型，脚本要花 { DURATION($wait_s) }，模型只能等待。一步要 { DURATION($step_s) }。
queue-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause }脚本在等一个队列，而队列填得太慢。
    .advice = 用多个进程填充队列，或降低生成每个条目的开销。增加线程没有用：它们共用 GIL，只能轮流计算。
save-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause }
    .advice = 少保存几次，或异步保存：先复制状态，再在另一个线程里写。
answer-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause }脚本在等{ awaited }。
    .advice = { need-no-answer }
script-between-steps =
    .because = { between-steps-speed }
    .cause = { between-steps-cause }
    .advice = 把准备批次的代码移进 Dataset，用带 num_workers 的 DataLoader 遍历，或由后台进程填充队列。如果脚本在两步之间写日志或保存，就少做几次，或放到后台去做。
