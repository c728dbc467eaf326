### 一个 epoch 结束、下一个 epoch 开始的开销；恢复训练时的重读；分片不够分。

time-lost-at-epoch-boundaries = { who }{ $who ->
        [training] { "" }
       *[other] { " " }
    }有 { PERCENT($share_ratio) } 的时间损失在{ KNOWN($loader) ->
        [yes] { " " }{ $loader } 的{ $place ->
            [making-iterators] 迭代器创建上
           *[at-boundaries] { " " }epoch 边界上
        }
       *[no] { $place ->
            [making-iterators] 创建迭代器上
           *[at-boundaries] { " " }epoch 边界上
        }
    }：{ $because }。
epoch-boundaries-have-cost =
    .cause = 目前已损失 { DURATION($lost_s) }，平均每个{ $per ->
            [iterator] 迭代器
           *[epoch] { " " }epoch
        } { DURATION($each_s) }。

iterator-per-batch =
    .because = 几乎每个批次都新建迭代器，每次 { DURATION($each_s) }
    .cause = 最近调用了 { $times } 次 iter({ $loader })，每次只取一两个批次{ KNOWN($ahead) ->
            [yes] ，每次还要预取 { $ahead } 个批次再丢掉
           *[no] { "" }
        }。在训练循环里写 next(iter(loader))，或在循环里新建 DataLoader，就会这样。
    .advice = 迭代器在循环外只建一次：`for batch in { $loader }`，或保留 `it = iter({ $loader })` 再调用 next(it)。
        不要用 itertools.cycle：它会把所有批次留在内存里。

of-samples = { KNOWN($samples) ->
        [yes] （共 { COUNT($samples) } 个样本）
       *[no] { "" }
    }
slow-shuffle =
    .because = 采样器要花 { DURATION($drawing_s) }生成采样顺序{ of-samples }
    .cause = 每个 epoch 的第一个批次之前，采样器都要在训练线程上生成整个索引列表{ of-samples }，每个 rank 都是如此。
    .advice = { KNOWN($used) ->
            [yes] 只抽一个 epoch 用得到的数量，这里是 { COUNT($used) }（num_samples）。
           *[no] { "" }
        }分段生成顺序，或用公式生成（打乱分片、replacement=True、分块 shuffle）；也可以在当前 epoch 训练时，用另一个线程生成下个 epoch 的列表。

slow-worker-shutdown =
    .because = epoch 收尾要 { DURATION($teardown_s) }，因为{ $workers ->
            [1] 它的 worker
           *[other] { " " }{ $workers } 个 worker
        } 还在忙
    .cause = epoch 结束时，加载器逐个停止 worker，并等每个 worker 读完手头的数据。{ KNOWN($joins) ->
            [yes] DataLoader 对每个 worker 最多等 5 秒；{ DURATION($teardown_s) }说明有 { $joins } 次等到了这个上限。
           *[no] { "" }
        }
    .advice = 设 persistent_workers=True，让 worker 不被停掉。或者避免在 epoch 结尾有耗时的取数：用采样器而不是 break 结束 epoch，并缩短单次读取。

read-ahead-thrown-away =
    .because = iter({ $loader }) 要花 { DURATION($start_s) }丢弃已预取的批次
    .cause = 上一个 epoch 被提前退出（break）。当时常驻 worker 最多还有 prefetch_factor { $prefetch_factor } × { $workers } 个 worker 的批次要读。
        现在 iter() 要等它们读完{ KNOWN($drained) ->
            [yes] { " " }{ $drained } 个批次
           *[no] 这些批次
        }，再全部丢掉。
    .advice = 让采样器来结束 epoch，不要用 break（RandomSampler(num_samples=…)、Subset）；或一直用同一个无限迭代器；
        或调小 prefetch_factor（现为 { $prefetch_factor }）。

first-batch-takes = 第一个批次每次都要 { DURATION($first_s) }
first-batch-advice = 把 epoch 变长（在采样器里重复数据集），或让每个 epoch 开头的样本读起来快一些。
shuffle-buffer-refilled =
    .because = { first-batch-takes }
    .cause = worker 在运行，但每个 epoch 的第一个批次要等 { DURATION($first_s) }：可迭代数据集要先打开分片、填满 shuffle 缓冲区。
    .advice = 起始用小缓冲区（webdataset：shuffle(size, initial=small)），{ $persist ->
            [yes] 设 persistent_workers=True，
           *[no] { "" }
        }并把数据当作无限流，每个 epoch 取固定步数。
first-batch-not-read-ahead =
    .because = { first-batch-takes }
    .cause = worker 在运行，但每个 epoch 开始时才着手读它的第一个批次：{ DURATION($first_s) }。预取不会跨越 epoch 的结尾。
    .advice = { first-batch-advice }
first-batch-without-workers =
    .because = { first-batch-takes }
    .cause = 没有 worker 时，每个 epoch 的第一个批次由循环自己读，要 { DURATION($first_s) }。
    .advice = { first-batch-advice }

by-method = { KNOWN($method) ->
        [yes] （{ $method }）
       *[no] { "" }
    }
until-first-batch = 要等 { DURATION($until_s) }才有第一个批次
workers-started-cost = { $workers } 个 worker 进程{ KNOWN($method) ->
        [yes] （{ $method }，其中 iter() 内 { DURATION($start_s) }）
       *[no] （其中 iter() 内 { DURATION($start_s) }）
    }，再等 { DURATION($first_s) }才有第一个批次；结束它们用了 { DURATION($teardown_s) }。{ $pickles ->
        [yes] 用 { $method } 启动时，每个 worker 都是全新的 Python，要重新导入脚本、反序列化数据集，所以数据集要轻（路径存进 NumPy 数组）。
       *[no] { "" }
    }
workers-restarted-each-epoch =
    .because = 每个 epoch 都重新启动 { $workers } 个 worker{ by-method }，{ until-first-batch }
    .cause = 每个 epoch 启动 { workers-started-cost }
    .advice = 设 persistent_workers=True：worker 就会跨 epoch 一直保留。
dataloader-made-each-epoch =
    .because = 每个 epoch 都新建 DataLoader 并启动 { $workers } 个 worker{ by-method }，{ until-first-batch }
    .cause = 每个 epoch 都新建 DataLoader，启动 { workers-started-cost }
    .advice = { $persistent ->
            [yes] 在 epoch 循环之外只建一次 DataLoader：persistent_workers 已开，但每个 epoch 都新建 DataLoader 时不起作用。
           *[no] 在 epoch 循环之外只建一次 DataLoader，并设 persistent_workers=True：worker 就会一直保留到训练结束。两处都要改。
        }

resume-reads-again =
    .title = 训练{ $over ->
            [yes] 曾快进
           *[no] 正在快进
        } { $loader }：在任何训练步之前已读取并丢弃 { COUNT($batches) } 个批次（{ RATE($batches_per_s) }/秒）{ KNOWN($eta_s) ->
            [yes] ；到 epoch 结束最多还要 { DURATION($eta_s) }
           *[no] { "" }
        }。
    .cause = 循环取走批次，却不用它们训练。恢复训练时靠重读来跳过上次运行的批次，通常就会这样。这是在推进，不是卡死。
    .advice = 在 sampler 中跳过，这样不会读取任何样本：map 式数据集用 accelerate 的 skip_first_batches，或使用 StatefulDataLoader。
        在 transformers 中设置 ignore_data_skip=True（会从头开始该 epoch）。

exhausted-workers = worker { LISTING($exhausted, limit: 8) }
workers-out-of-shards =
    .title = { of-rank }{ $workers } 个 worker 中只有 { $reading } 个还在读（{ exhausted-workers } 已没有数据）；循环有 { PERCENT($share_ratio) } 的时间在等数据{ measured }。
    .cause = { $loader } 读的是可迭代数据集，它的分片每个 epoch 只给 worker 分一次。各 worker { $lately ->
            [yes] 最近
           *[no] { "" }
        }依次交付了 { LISTING($delivered, limit: 16) } 个批次；{ exhausted-workers } 已空闲 { DURATION($idle_s) }，
        其余 worker 只能交付 { RATE($batches_per_s) } 批次/秒。
    .advice = 让每个 worker 分到的数据一样多：{ $world ->
            [1] 至少 { $shards } 个大小相等的分片
           *[other] { $shards } 的整数倍个大小相等的分片（{ $workers } 个 worker × { $world } 个 rank）
        }，或对分片重采样。datasets 5.0 的 shuffle() 可能把所有数据都留给 worker 0：之后检查 num_shards。再加 worker 也只会闲着。
