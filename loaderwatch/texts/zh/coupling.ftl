### 为什么无法判断哪个 rank 在等哪个。

coupling-of-one-rank = 这次运行只有一个 rank
coupling-of-few-ranks = 正在运行的 rank 不足两个
coupling-of-few-steps = { who } 最近不足 { $least } 步
coupling-of-other-batches = 各 rank 最近训练的不是相同的批次
ranks-out-of-step = 各 rank 步调不一致：rank { $quick } 每次迭代 { DURATION($quick_s) }，rank { $slow } 为 { DURATION($slow_s) }
waits-not-mirrored = 没有哪个 rank 的步因为另一个 rank 等数据而相应变长
