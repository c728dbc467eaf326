### 多条消息共用的短语。

on-rank = { KNOWN($rank) ->
        [yes] { " " }rank { $rank } 上
       *[no] { "" }
    }
of-rank = { KNOWN($rank) ->
        [yes] { "rank " }{ $rank } 的
       *[no] { "" }
    }
who = { $who ->
        [training] 训练
        [one] rank { $ranks }
        [both] 两个 rank
        [all] 全部 { $world } 个 rank
       *[several] rank { $ranks }
    }
measured = （测量时长 { ROUGHLY($elapsed_s) }）
sample-name = { $stream ->
        [yes] 其数据流中的第 { $sample } 个样本
       *[no] dataset[{ $sample }]
    }

joined = { $before }{ $because }。
