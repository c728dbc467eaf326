### 两次运行的对比：A，以及改了设置的 B。

speed-not-known = 这两次运行的速度数据太少，无法比较。
speed-hardly-measured = 测量数据太少，无法比较速度：{ speeds }。
speed-is-the-same = 速度差异未超出噪声：{ speeds }（{ speed-interval }）。
speed-rose = B 比 A 快 { PERCENT($by_ratio) }：{ speeds }（{ speed-interval }）。
speed-fell = B 比 A 慢 { PERCENT($by_ratio) }：{ speeds }（{ speed-interval }）。
speeds = { $unit ->
        [samples] 每秒样本数
       *[steps] 每秒步数
    } { THREE_DIGITS($a_per_s) } → { THREE_DIGITS($b_per_s) }
speed-interval = 95% 区间 { SIGNED($low_ratio) } 到 { SIGNED($high_ratio) }

compared-samples-differ = 每步的样本数：A 为{ KNOWN($a_samples) ->
        [yes] { " " }{ $a_samples }
       *[no] 未知
    }，B 为{ KNOWN($b_samples) ->
        [yes] { " " }{ $b_samples }
       *[no] 未知
    }。请比较每秒样本数，不要比较步数。
compared-ranks-differ = rank 数：A 为 { $a_ranks }，B 为 { $b_ranks }。
compared-run-is-short = { $run } 只测量了 { WHOLE($measured_s) } 秒。
compared-run-goes-on = { $run } 还在运行，数字会继续变化。

compared-measure = { $measure ->
        [steps_per_s] 每秒步数
        [samples_per_s] 每秒样本数（所有 rank）
        [data_wait_ratio] 数据等待
        [worst_rank_data_wait_ratio] 数据等待（每个时刻最差的 rank）
        [gpu_starved_ratio] GPU 缺数据
        [gpu_utilization_ratio] GPU 利用率
        [iteration_s] 一次迭代
        [data_wait_s] 每步的数据等待
        [step_s] 单步耗时
        [fetch_s] 一个批次的取数（在 worker 内）
        [startup_s] 运行的第一个批次
        [epoch_start_s] 之后每个 epoch 的第一个批次
        [epoch_gap_s] epoch 之间的间隔
        [teardown_s] worker 的关闭
       *[other] { $measure }
    }
comparison-judged = { $judgement ->
        [better] 超出噪声：变好
        [worse] 超出噪声：变差
        [changed] 超出噪声
        [noise] 未超出噪声
       *[unknown] 测量数据太少，无法判断
    }
advice-followed = 已照做：{ speeds }{ KNOWN($promised_per_s) ->
        [yes] ，承诺最多 { THREE_DIGITS($promised_per_s) }
       *[no] { "" }
    }{ $judgement ->
        [noise] ；{ comparison-judged }
       *[other] { "" }
    }
