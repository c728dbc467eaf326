### 关于等数据的标题（waits-*.ftl 中的原因共用），以及多个 rank 的等待。

from-loader = { KNOWN($loader) ->
        [yes] { " " }{ $loader }
       *[no] { "" }
    }
# 主语后面紧跟汉字：以数字或字母结尾时空一格。
waiting-who = { who }{ $who ->
        [training] { "" }
       *[several] { " " }
    }
share-of-time = { waiting-who }{ $who ->
        [training] 有
        [one] 有
       *[several] 最多有
    } { PERCENT($share_ratio) } 的时间
waits-for-data = { share-of-time }在等数据{ from-loader }{ measured }：{ $because }。
waits-between-steps = { share-of-time }花在两步之间{ measured }：{ $because }。
lost-waiting = { waiting-who }因等数据{ from-loader }损失了 { DURATION($lost_s) }：{ $because }。

straggler-waits-for-data =
    .title = rank { $rank } 每次迭代等数据{ from-loader } { DURATION($wait_s) }，{ $waiting ->
            [1] rank { $other_rank }
           *[other] 其余 { $waiting } 个 rank
        } 在等 rank { $rank }：{ $because }。
    .cause = 所有 rank 每次迭代都用 { DURATION($iteration_s) }，但只有 rank { $rank } 的时间花在等数据上（{ PERCENT($share_ratio) }）。{ $waiting ->
            [1] rank { $other_rank }
           *[other] 其他 rank
        } { $place ->
            [forward] 在前向里
            [backward] 在反向里
            [optimizer] 在优化器步里
           *[unknown] { "" }
        }花 { DURATION($others_wait_s) }等 rank { $rank }（{ $measured ->
            [yes] 由 DDP 自身的集合通信测得
           *[no] 由各 rank 的耗时推算
        }）。{ $why }
    .advice = 解决 { $host } 上 rank { $rank } 的问题{ KNOWN($next_rank) ->
            [yes] ，rank { $next_rank } 也一并解决
           *[no] { "" }
        }。{ $do }
next-straggler =
    .cause = rank { $next_rank } 也太慢：它的 worker 准备一个批次要 { DURATION($supply_s) }，只是它在等其他 rank 时看不出来。

one-rank-reads-for-all =
    .title = { waiting-who }{ $receivers ->
            [1] 有
           *[other] 最多有
        } { PERCENT($share_ratio) } 的时间在等数据{ measured }：全部 { $world } 个 rank 的数据只由 rank { $reader } 读取。
    .cause = rank { $reader } 读取全部 { $world } 个 rank 的批次再分发出去；每个 rank 等自己的批次要 { DURATION($wait_s) }，而一步用时 { DURATION($step_s) }。{ KNOWN($workers) ->
            [yes] rank { $reader } 有 { $workers } 个 worker，其他 rank 一个也没有。
           *[no] { "" }
        }rank 越多就越慢。
    .advice = 让每个 rank 各读各的：在 Accelerate 中设 dispatch_batches=False（DataLoaderConfiguration），可迭代数据集配合 split_dataset_by_node
        使用，分片数取 { $world } 的倍数；或在每个 rank 上用 DistributedSampler。给 rank { $reader } 加 worker 解决不了问题。
